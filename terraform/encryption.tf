# Only topics and queues use the key: what stands still in them is the messages. Without one SQS encrypts by itself.

locals {
  encrypted = var.create_kms_key || var.kms_key_arn != null
  key_arn   = var.create_kms_key ? one(aws_kms_key.key[*].arn) : var.kms_key_arn
}

resource "aws_kms_key" "key" {
  count = var.create_kms_key && local.deployment != null ? 1 : 0

  description             = "Topics and queues of ${local.manifest.name}, ${local.manifest.environment}"
  enable_key_rotation     = local.deployment.encryption.key_rotation
  deletion_window_in_days = local.deployment.encryption.deletion_window_days
  policy                  = local.resource_policies.key_policy
  tags                    = merge(var.tags, local.deployment.tags)
}

resource "aws_kms_alias" "key" {
  count = length(aws_kms_key.key)

  name          = local.deployment.encryption.key_alias
  target_key_id = aws_kms_key.key[0].key_id
}
