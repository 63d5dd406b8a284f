# Policies are part of their queues: no queue is there without its policy for a moment.

resource "aws_sqs_queue" "queue" {
  for_each = local.subscriptions

  name                              = each.value.queue.name
  fifo_queue                        = each.value.queue.fifo
  content_based_deduplication       = each.value.queue.fifo ? each.value.queue.content_based_deduplication : null
  deduplication_scope               = each.value.queue.deduplication_scope
  fifo_throughput_limit             = each.value.queue.fifo_throughput_limit
  visibility_timeout_seconds        = each.value.queue.visibility_timeout_seconds
  message_retention_seconds         = each.value.queue.message_retention_seconds
  max_message_size                  = each.value.queue.maximum_message_size
  receive_wait_time_seconds         = each.value.queue.receive_wait_time_seconds
  sqs_managed_sse_enabled           = local.encrypted ? null : each.value.queue.sqs_managed_sse
  kms_master_key_id                 = local.key_arn
  kms_data_key_reuse_period_seconds = local.encrypted ? local.deployment.encryption.data_key_reuse_seconds : null
  redrive_policy = jsonencode({
    deadLetterTargetArn = local.queue_arns[each.key].dead_letter_queue
    maxReceiveCount     = each.value.queue.max_receive_count
  })
  policy = replace(
    replace(local.resource_policies.queue_policy, "$${queue_arn}", local.queue_arns[each.key].queue),
    "$${topic_arn}", local.topic_arns[local.topic_of[each.key]],
  )
  tags = local.tags_of_subscription[each.key]

  depends_on = [aws_sqs_queue.dead_letter_queue]
}

resource "aws_sqs_queue" "dead_letter_queue" {
  for_each = local.subscriptions

  name                              = each.value.dead_letter_queue.name
  fifo_queue                        = each.value.dead_letter_queue.fifo
  content_based_deduplication       = each.value.dead_letter_queue.fifo ? each.value.dead_letter_queue.content_based_deduplication : null
  deduplication_scope               = each.value.dead_letter_queue.deduplication_scope
  fifo_throughput_limit             = each.value.dead_letter_queue.fifo_throughput_limit
  visibility_timeout_seconds        = each.value.dead_letter_queue.visibility_timeout_seconds
  message_retention_seconds         = each.value.dead_letter_queue.message_retention_seconds
  max_message_size                  = each.value.dead_letter_queue.maximum_message_size
  receive_wait_time_seconds         = each.value.dead_letter_queue.receive_wait_time_seconds
  sqs_managed_sse_enabled           = local.encrypted ? null : each.value.dead_letter_queue.sqs_managed_sse
  kms_master_key_id                 = local.key_arn
  kms_data_key_reuse_period_seconds = local.encrypted ? local.deployment.encryption.data_key_reuse_seconds : null
  redrive_allow_policy = jsonencode({
    redrivePermission = each.value.dead_letter_queue.redrive_allow
    sourceQueueArns   = [local.queue_arns[each.key].queue]
  })
  policy = replace(local.resource_policies.dead_letter_queue_policy, "$${queue_arn}", local.queue_arns[each.key].dead_letter_queue)
  tags   = local.tags_of_subscription[each.key]
}

resource "aws_sqs_queue" "delivery_failure_queue" {
  for_each = local.subscriptions

  name                              = each.value.delivery_failure_queue.name
  fifo_queue                        = each.value.delivery_failure_queue.fifo
  content_based_deduplication       = each.value.delivery_failure_queue.fifo ? each.value.delivery_failure_queue.content_based_deduplication : null
  deduplication_scope               = each.value.delivery_failure_queue.deduplication_scope
  fifo_throughput_limit             = each.value.delivery_failure_queue.fifo_throughput_limit
  visibility_timeout_seconds        = each.value.delivery_failure_queue.visibility_timeout_seconds
  message_retention_seconds         = each.value.delivery_failure_queue.message_retention_seconds
  max_message_size                  = each.value.delivery_failure_queue.maximum_message_size
  receive_wait_time_seconds         = each.value.delivery_failure_queue.receive_wait_time_seconds
  sqs_managed_sse_enabled           = local.encrypted ? null : each.value.delivery_failure_queue.sqs_managed_sse
  kms_master_key_id                 = local.key_arn
  kms_data_key_reuse_period_seconds = local.encrypted ? local.deployment.encryption.data_key_reuse_seconds : null
  policy = replace(
    replace(local.resource_policies.queue_policy, "$${queue_arn}", local.queue_arns[each.key].delivery_failure_queue),
    "$${topic_arn}", local.topic_arns[local.topic_of[each.key]],
  )
  tags = local.tags_of_subscription[each.key]
}
