resource "aws_sns_topic" "topic" {
  for_each = local.topics

  name                        = each.value.topic_name
  fifo_topic                  = each.value.fifo
  content_based_deduplication = each.value.fifo ? each.value.content_based_deduplication : null
  fifo_throughput_scope       = each.value.fifo_throughput_scope
  kms_master_key_id           = local.key_arn
  policy                      = replace(local.resource_policies.topic_policy, "$${topic_arn}", local.topic_arns[each.key])
  tags                        = local.tags_of_topic[each.key]

  lifecycle {
    postcondition {
      condition     = self.arn == local.topic_arns[each.key]
      error_message = "The topic became ${self.arn}, not ${local.topic_arns[each.key]}; region, account_id and partition must be those that the provider deploys to."
    }
  }
}

resource "aws_sns_topic_subscription" "subscription" {
  for_each = local.subscriptions

  topic_arn            = local.topic_arns[local.topic_of[each.key]]
  protocol             = each.value.sns_subscription.protocol
  endpoint             = local.queue_arns[each.key].queue
  raw_message_delivery = each.value.sns_subscription.raw_message_delivery
  filter_policy        = each.value.sns_subscription.filter_policy
  filter_policy_scope  = each.value.sns_subscription.filter_policy == null ? null : each.value.sns_subscription.filter_policy_scope
  redrive_policy       = jsonencode({ deadLetterTargetArn = local.queue_arns[each.key][each.value.sns_subscription.redrive_target] })

  depends_on = [aws_sns_topic.topic, aws_sqs_queue.queue, aws_sqs_queue.delivery_failure_queue]
}

resource "aws_dynamodb_table" "deduplication" {
  # checkov:skip=CKV_AWS_119: DynamoDB encrypts with a key of its own; the key of topics and queues is for messages, of which the ledger has none.
  # checkov:skip=CKV_AWS_28: An old ledger would suppress what it should let through, so there is nothing to restore.
  # checkov:skip=CKV2_AWS_16: It is paid by request and has no capacity to scale.
  for_each = local.tables

  name         = each.value.name
  billing_mode = each.value.billing_mode
  hash_key     = each.value.partition_key
  tags         = local.tags_of_topic[each.key]

  attribute {
    name = each.value.partition_key
    type = each.value.partition_key_type
  }

  ttl {
    attribute_name = each.value.ttl_attribute
    enabled        = true
  }

  point_in_time_recovery {
    enabled = each.value.point_in_time_recovery
  }
}
