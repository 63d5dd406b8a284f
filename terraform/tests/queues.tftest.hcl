# Topics, queues and subscriptions have the manifest's names and numbers.

mock_provider "aws" {}

variables {
  manifest_path = "tests/manifests/shop.json"
  region        = "eu-west-1"
  account_id    = "123456789012"
  artifacts = {
    for name in ["documents.convert", "documents.paused", "documents.disabled", "orders.apply", "orders.log"] :
    name => { s3_bucket = "zips", s3_key = "shop/1.zip", sha256 = sha256("shop") }
  }
}

run "topics_queues_and_subscriptions" {
  command = plan

  assert {
    condition     = { for name, topic in aws_sns_topic.topic : name => topic.name } == { documents = "shop-test-documents", orders = "shop-test-orders.fifo" }
    error_message = "Topics on AWS have the manifest's names, and those on a database are not there."
  }
  assert {
    condition     = aws_sns_topic.topic["orders"].fifo_topic && aws_sns_topic.topic["orders"].fifo_throughput_scope == "MessageGroup" && !aws_sns_topic.topic["documents"].fifo_topic
    error_message = "A topic with an exclusive subscription is FIFO, in high-throughput mode."
  }
  assert {
    condition     = aws_sns_topic.topic["documents"].kms_master_key_id == null
    error_message = "Without a key nothing is said of one."
  }
  assert {
    condition = jsondecode(aws_sns_topic.topic["documents"].policy).Statement == [
      {
        Sid       = "PublishFromOwnAccount"
        Effect    = "Allow"
        Principal = { AWS = ["arn:aws:iam::123456789012:root"] }
        Action    = ["sns:Publish"]
        Resource  = ["arn:aws:sns:eu-west-1:123456789012:shop-test-documents"]
      },
      {
        Sid       = "RefuseWithoutTls"
        Effect    = "Deny"
        Principal = { AWS = ["*"] }
        Action    = ["sns:Publish"]
        Resource  = ["arn:aws:sns:eu-west-1:123456789012:shop-test-documents"]
        Condition = { Bool = { "aws:SecureTransport" = ["false"] } }
      },
    ]
    error_message = "The own account publishes, over TLS."
  }
  assert {
    condition     = aws_sqs_queue.queue["documents.convert"].name == "shop-test-documents-convert" && aws_sqs_queue.dead_letter_queue["documents.convert"].name == "shop-test-documents-convert-dlq" && aws_sqs_queue.delivery_failure_queue["documents.convert"].name == "shop-test-documents-convert-failed"
    error_message = "A subscription has three queues."
  }
  assert {
    condition     = aws_sqs_queue.queue["documents.convert"].visibility_timeout_seconds == 365 && aws_sqs_queue.queue["documents.index"].visibility_timeout_seconds == 60
    error_message = "Six times the function's timeout and its batch window; a worker's lease."
  }
  assert {
    condition     = aws_sqs_queue.queue["orders.apply"].message_retention_seconds == 345600 && aws_sqs_queue.dead_letter_queue["orders.apply"].message_retention_seconds == 604800
    error_message = "Retention is the topic's, and of dead letters the subscription's."
  }
  assert {
    condition = alltrue([
      for queue in concat(values(aws_sqs_queue.queue), values(aws_sqs_queue.dead_letter_queue), values(aws_sqs_queue.delivery_failure_queue)) :
      queue.max_message_size == 262144 && queue.receive_wait_time_seconds == 20 && queue.sqs_managed_sse_enabled && queue.kms_master_key_id == null
    ])
    error_message = "The size limit, long polling and encryption are said of every queue."
  }
  assert {
    condition     = jsondecode(aws_sqs_queue.queue["documents.convert"].redrive_policy) == { deadLetterTargetArn = "arn:aws:sqs:eu-west-1:123456789012:shop-test-documents-convert-dlq", maxReceiveCount = 9 }
    error_message = "SQS dead-letters five receives after Towpath does."
  }
  assert {
    condition     = jsondecode(aws_sqs_queue.queue["documents.partner"].redrive_policy).maxReceiveCount == 3
    error_message = "For a consumer that is not ours only SQS counts."
  }
  assert {
    condition     = jsondecode(aws_sqs_queue.dead_letter_queue["documents.convert"].redrive_allow_policy) == { redrivePermission = "byQueue", sourceQueueArns = ["arn:aws:sqs:eu-west-1:123456789012:shop-test-documents-convert"] }
    error_message = "Only its own queue moves messages to a dead-letter queue."
  }
  assert {
    condition     = aws_sqs_queue.queue["orders.apply"].fifo_queue && aws_sqs_queue.queue["orders.apply"].deduplication_scope == "messageGroup" && aws_sqs_queue.queue["orders.apply"].fifo_throughput_limit == "perMessageGroupId"
    error_message = "An exclusive subscription has a FIFO queue in high-throughput mode."
  }
  assert {
    condition     = !aws_sqs_queue.queue["orders.log"].fifo_queue && aws_sqs_queue.delivery_failure_queue["orders.log"].fifo_queue
    error_message = "A subscription without keys has a standard queue; its failed deliveries are of the topic's kind."
  }

  assert {
    condition = jsondecode(aws_sqs_queue.queue["documents.convert"].policy).Statement == [
      {
        Sid       = "ReceiveFromTopic"
        Effect    = "Allow"
        Principal = { Service = ["sns.amazonaws.com"] }
        Action    = ["sqs:SendMessage"]
        Resource  = ["arn:aws:sqs:eu-west-1:123456789012:shop-test-documents-convert"]
        Condition = {
          ArnEquals    = { "aws:SourceArn" = ["arn:aws:sns:eu-west-1:123456789012:shop-test-documents"] }
          StringEquals = { "aws:SourceAccount" = ["123456789012"] }
        }
      },
      {
        Sid       = "RefuseWithoutTls"
        Effect    = "Deny"
        Principal = { AWS = ["*"] }
        Action    = ["sqs:*"]
        Resource  = ["arn:aws:sqs:eu-west-1:123456789012:shop-test-documents-convert"]
        Condition = { Bool = { "aws:SecureTransport" = ["false"] } }
      },
    ]
    error_message = "The own topic sends, of the own account, and everybody over TLS."
  }
  assert {
    condition     = [for statement in jsondecode(aws_sqs_queue.dead_letter_queue["documents.convert"].policy).Statement : statement.Sid] == ["RefuseWithoutTls"]
    error_message = "Nobody is let into a dead-letter queue by its policy."
  }

  assert {
    condition = alltrue([
      for name, subscription in aws_sns_topic_subscription.subscription :
      subscription.protocol == "sqs" && subscription.raw_message_delivery && subscription.topic_arn == (startswith(name, "documents.") ? "arn:aws:sns:eu-west-1:123456789012:shop-test-documents" : "arn:aws:sns:eu-west-1:123456789012:shop-test-orders.fifo")
    ])
    error_message = "Each is of its topic, and raw."
  }
  assert {
    condition     = aws_sns_topic_subscription.subscription["documents.convert"].filter_policy == "{\"kind\":[\"pdf\",{\"prefix\":\"image/\"}]}" && aws_sns_topic_subscription.subscription["documents.convert"].filter_policy_scope == "MessageAttributes"
    error_message = "The filter is the manifest's text."
  }
  assert {
    condition     = aws_sns_topic_subscription.subscription["documents.index"].filter_policy == null
    error_message = "Who wants everything has no filter."
  }
  assert {
    condition     = aws_sns_topic_subscription.subscription["documents.disabled"].filter_policy == "{\"towpath-disabled\":[{\"exists\":true}]}"
    error_message = "A disabled subscription gets nothing."
  }
  assert {
    condition     = jsondecode(aws_sns_topic_subscription.subscription["orders.apply"].redrive_policy).deadLetterTargetArn == "arn:aws:sqs:eu-west-1:123456789012:shop-test-orders-apply-failed.fifo"
    error_message = "What SNS cannot deliver is kept."
  }

  assert {
    condition     = { for name, table in aws_dynamodb_table.deduplication : name => table.name } == { orders = "shop-test-orders-dedup" }
    error_message = "A topic that takes deduplication keys has a table, and no other."
  }
  assert {
    condition     = aws_dynamodb_table.deduplication["orders"].hash_key == "deduplication_key" && aws_dynamodb_table.deduplication["orders"].billing_mode == "PAY_PER_REQUEST" && one(aws_dynamodb_table.deduplication["orders"].ttl).attribute_name == "expires_at" && !one(aws_dynamodb_table.deduplication["orders"].point_in_time_recovery).enabled
    error_message = "The table is as the manifest says."
  }
}

run "tags" {
  command = plan
  variables {
    tags = { team = "documents", "towpath:topology" = "other" }
  }

  assert {
    condition     = aws_sns_topic.topic["documents"].tags == tomap({ team = "documents", "towpath:topology" = "shop", "towpath:environment" = "test", "towpath:topic" = "documents" })
    error_message = "More tags come beside the manifest's, which stay."
  }
  assert {
    condition     = aws_sqs_queue.queue["orders.log"].tags == tomap({ team = "documents", "towpath:topology" = "shop", "towpath:environment" = "test", "towpath:subscription" = "orders.log" })
    error_message = "A subscription's resources say whose they are."
  }
}

run "the_partition_is_in_every_arn" {
  command = plan
  variables {
    region    = "cn-north-1"
    partition = "aws-cn"
  }

  assert {
    condition = alltrue([
      for text in concat(
        [for topic in values(aws_sns_topic.topic) : topic.policy],
        [for queue in values(aws_sqs_queue.queue) : "${queue.policy}${queue.redrive_policy}"],
        [for policy in values(aws_iam_role_policy.function) : policy.policy],
        values(output.publisher_policy_json), values(output.operator_policy_json),
      ) : strcontains(text, "arn:aws-cn:") && !strcontains(text, "arn:aws:") && !strcontains(text, "$${")
    ])
    error_message = "Every placeholder is replaced."
  }
  assert {
    condition     = output.dashboard_url == "https://cn-north-1.console.amazonaws.cn/cloudwatch/home?region=cn-north-1#dashboards/dashboard/shop-test"
    error_message = "Each partition has a console of its own."
  }
}
