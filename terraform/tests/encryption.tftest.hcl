# SQS encrypts by itself, or a key does: one that the module makes, or one that is there.

mock_provider "aws" {}

variables {
  manifest_path = "tests/manifests/single.json"
  region        = "eu-west-1"
  account_id    = "123456789012"
  artifacts     = { "documents.convert" = { image_uri = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/single:1" } }
}

run "without_a_key" {
  command = plan

  assert {
    condition     = length(aws_kms_key.key) == 0 && length(aws_kms_alias.key) == 0 && output.kms_key_arn == null
    error_message = "There is no key."
  }
  assert {
    condition     = aws_sqs_queue.queue["documents.convert"].sqs_managed_sse_enabled && aws_sns_topic.topic["documents"].kms_master_key_id == null
    error_message = "SQS encrypts by itself."
  }
  assert {
    condition     = !strcontains(join("", concat([for policy in values(aws_iam_role_policy.function) : policy.policy], values(output.publisher_policy_json))), "kms:")
    error_message = "Nobody is allowed to use a key."
  }
}

run "with_a_key_that_is_there" {
  command = plan
  variables {
    kms_key_arn              = "arn:aws:kms:eu-west-1:123456789012:key/1234"
    kms_key_policy_confirmed = true
  }

  assert {
    condition     = length(aws_kms_key.key) == 0 && output.kms_key_arn == "arn:aws:kms:eu-west-1:123456789012:key/1234"
    error_message = "No other key is made."
  }
  assert {
    condition = alltrue([
      for queue in concat(values(aws_sqs_queue.queue), values(aws_sqs_queue.dead_letter_queue), values(aws_sqs_queue.delivery_failure_queue)) :
      queue.kms_master_key_id == "arn:aws:kms:eu-west-1:123456789012:key/1234" && queue.kms_data_key_reuse_period_seconds == 300
    ]) && aws_sns_topic.topic["documents"].kms_master_key_id == "arn:aws:kms:eu-west-1:123456789012:key/1234"
    error_message = "The key encrypts every topic and queue."
  }
  assert {
    condition = alltrue([
      for document in concat([for policy in values(aws_iam_role_policy.function) : policy.policy], values(output.publisher_policy_json), values(output.worker_policy_json), values(output.operator_policy_json), values(output.consumer_policy_json)) :
      [for statement in jsondecode(document).Statement : statement.Resource if statement.Sid == "UseKey"] == [["arn:aws:kms:eu-west-1:123456789012:key/1234"]]
    ])
    error_message = "Everybody may use this key, and no other."
  }
}

run "a_key_whose_policy_nobody_looked_at_is_refused" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:key/1234"
  }
  expect_failures = [output.bindings]
}

run "two_keys_are_refused" {
  command = plan
  variables {
    kms_key_arn              = "arn:aws:kms:eu-west-1:123456789012:key/1234"
    kms_key_policy_confirmed = true
    create_kms_key           = true
  }
  expect_failures = [output.bindings]
}

run "with_a_key_of_its_own" {
  command = plan
  variables {
    create_kms_key = true
  }

  assert {
    condition     = aws_kms_key.key[0].enable_key_rotation && aws_kms_key.key[0].deletion_window_in_days == 30 && aws_kms_alias.key[0].name == "alias/single-test"
    error_message = "The key is as the manifest says."
  }
  assert {
    condition = jsondecode(aws_kms_key.key[0].policy).Statement == [
      {
        Sid       = "AdministerByOwnAccount"
        Effect    = "Allow"
        Principal = { AWS = ["arn:aws:iam::123456789012:root"] }
        Action    = ["kms:*"]
        Resource  = ["*"]
      },
      {
        Sid       = "DeliverFromTopics"
        Effect    = "Allow"
        Principal = { Service = ["sns.amazonaws.com"] }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey*"]
        Resource  = ["*"]
        Condition = {
          ArnLike      = { "aws:SourceArn" = ["arn:aws:sns:eu-west-1:123456789012:single-test-*"] }
          StringEquals = { "aws:SourceAccount" = ["123456789012"] }
        }
      },
    ]
    error_message = "SNS uses the key for the topics of this account alone."
  }
}
