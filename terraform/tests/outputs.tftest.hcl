# What a deployment says of itself.

mock_provider "aws" {
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-west-1:123456789012:single-test-documents" }
  }
  mock_resource "aws_lambda_alias" {
    defaults = { arn = "arn:aws:lambda:eu-west-1:123456789012:function:single-test-documents-convert:live" }
  }
  mock_resource "aws_lambda_function" {
    defaults = { arn = "arn:aws:lambda:eu-west-1:123456789012:function:single-test-documents-convert" }
  }
}

variables {
  manifest_path = "tests/manifests/single.json"
  region        = "eu-west-1"
  account_id    = "123456789012"
  artifacts     = { "documents.convert" = { image_uri = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/single:1" } }
}

run "bindings" {
  assert {
    condition     = output.bindings.topics == { documents = { arn = "arn:aws:sns:eu-west-1:123456789012:single-test-documents", fifo = false } }
    error_message = "Every topic has a binding."
  }
  assert {
    condition = output.bindings.subscriptions["documents.convert"] == {
      queue_url                  = aws_sqs_queue.queue["documents.convert"].url
      queue_arn                  = aws_sqs_queue.queue["documents.convert"].arn
      dead_letter_queue_url      = aws_sqs_queue.dead_letter_queue["documents.convert"].url
      delivery_failure_queue_url = aws_sqs_queue.delivery_failure_queue["documents.convert"].url
      function_arn               = "arn:aws:lambda:eu-west-1:123456789012:function:single-test-documents-convert:live"
    }
    error_message = "Every subscription has a binding, with the alias as its function."
  }
  assert {
    condition     = output.bindings.subscriptions["documents.index"].function_arn == null
    error_message = "A worker's subscription has no function."
  }
  assert {
    condition = aws_lambda_function.function["documents.convert"].environment[0].variables["TOWPATH_QUEUE_URL"] == aws_sqs_queue.queue["documents.convert"].url && (
      aws_lambda_function.function["documents.convert"].environment[0].variables["TOWPATH_DEAD_LETTER_QUEUE_URL"] == aws_sqs_queue.dead_letter_queue["documents.convert"].url
    ) && can(jsondecode(aws_lambda_function.function["documents.convert"].environment[0].variables["TOWPATH_SUBSCRIPTION"]))
    error_message = "The function knows its settings and its queues."
  }
}

run "the_rest" {
  assert {
    condition     = output.function_arns == { "documents.convert" = "arn:aws:lambda:eu-west-1:123456789012:function:single-test-documents-convert" } && output.alias_arns == { "documents.convert" = "arn:aws:lambda:eu-west-1:123456789012:function:single-test-documents-convert:live" }
    error_message = "Functions and aliases are known by their subscriptions."
  }
  assert {
    condition     = output.dashboard_url == "https://eu-west-1.console.aws.amazon.com/cloudwatch/home?region=eu-west-1#dashboards/dashboard/single-test"
    error_message = "The dashboard has an address."
  }
  assert {
    condition     = length(output.external_subscriptions) == 0
    error_message = "All consumers are ours."
  }
}

run "a_topic_elsewhere_is_noticed" {
  command = plan
  variables {
    account_id = "210987654321"
  }
  expect_failures = [aws_sns_topic.topic]
}
