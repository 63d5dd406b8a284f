# A manifest that was edited by hand is refused with a sentence, before anything is made of it.

mock_provider "aws" {}

variables {
  manifest_path = "tests/manifests/single.json"
  region        = "eu-west-1"
  account_id    = "123456789012"
  artifacts     = { "documents.convert" = { image_uri = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/single:1" } }
}

run "a_rendered_manifest_is_accepted" {
  command = plan

  assert {
    condition     = keys(aws_sqs_queue.queue) == ["documents.convert", "documents.index"]
    error_message = "Resources are known by the names of the manifest."
  }
}

run "a_missing_file_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/missing.json"
  }
  expect_failures = [var.manifest_path]
}

run "another_file_is_refused" {
  command = plan
  variables {
    manifest_path = "versions.tf"
  }
  expect_failures = [var.manifest_path]
}

run "a_manifest_of_another_version_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/of-version-2.json"
  }
  expect_failures = [var.manifest_path]
}

run "an_ordered_subscription_on_aws_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/ordered-on-aws.json"
  }
  expect_failures = [output.bindings]
}

run "an_exclusive_subscription_of_a_standard_topic_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/exclusive-on-standard.json"
  }
  expect_failures = [output.bindings]
}

run "two_resources_of_one_name_are_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/named-twice.json"
  }
  expect_failures = [output.bindings]
}

run "a_manifest_that_lacks_something_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/incomplete.json"
  }
  expect_failures = [var.manifest_path]
}

run "a_manifest_with_a_text_for_a_number_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/of-another-kind.json"
  }
  expect_failures = [var.manifest_path]
}

run "topics_without_policies_are_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/without-policies.json"
  }
  expect_failures = [var.manifest_path]
}

run "a_subscription_without_queues_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/without-queues.json"
  }
  expect_failures = [var.manifest_path]
}

run "a_function_without_mapping_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/without-mapping.json"
  }
  expect_failures = [var.manifest_path]
}

run "a_subscription_of_no_topic_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/without-topic.json"
  }
  expect_failures = [var.manifest_path]
}

run "messages_within_an_envelope_are_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/enveloped.json"
  }
  expect_failures = [var.manifest_path]
}

run "a_topology_on_a_database_makes_nothing" {
  command = plan
  variables {
    manifest_path  = "tests/manifests/database.json"
    artifacts      = {}
    create_kms_key = true
  }

  assert {
    condition = sum([
      for made in [
        aws_sns_topic.topic, aws_sqs_queue.queue, aws_lambda_function.function, aws_cloudwatch_metric_alarm.alarm, aws_iam_role.function
      ] : length(made)
    ]) + length(aws_cloudwatch_dashboard.dashboard) + length(aws_kms_key.key) == 0
    error_message = "Nothing is on AWS."
  }
  assert {
    condition     = length(output.bindings.topics) + length(output.publisher_policy_json) == 0 && output.dashboard_url == null
    error_message = "There is nothing to bind, to allow or to see."
  }
}

run "a_region_must_be_one" {
  command = plan
  variables {
    region = "Ireland"
  }
  expect_failures = [var.region]
}

run "an_account_must_be_twelve_digits" {
  command = plan
  variables {
    account_id = "1234-5678-9012"
  }
  expect_failures = [var.account_id]
}

run "a_partition_must_be_one" {
  command = plan
  variables {
    partition = "azure"
  }
  expect_failures = [var.partition]
}
