# Roles, and the policies of people and programs outside the functions.

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

run "roles_and_policies" {
  command = plan

  assert {
    condition     = aws_iam_role.function["orders.log"].name == "shop-test-orders-log" && jsondecode(aws_iam_role.function["orders.log"].assume_role_policy).Statement == [{ Effect = "Allow", Principal = { Service = "lambda.amazonaws.com" }, Action = "sts:AssumeRole" }]
    error_message = "Lambda alone takes a function's role."
  }
  assert {
    condition = jsondecode(aws_iam_role_policy.function["orders.log"].policy) == {
      Version = "2012-10-17"
      Statement = [
        {
          Sid      = "Consume"
          Effect   = "Allow"
          Action   = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
          Resource = ["arn:aws:sqs:eu-west-1:123456789012:shop-test-orders-log"]
        },
        {
          Sid      = "SetAside"
          Effect   = "Allow"
          Action   = ["sqs:SendMessage"]
          Resource = ["arn:aws:sqs:eu-west-1:123456789012:shop-test-orders-log-dlq"]
        },
        {
          Sid      = "WriteLogs"
          Effect   = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = ["arn:aws:logs:eu-west-1:123456789012:log-group:/aws/lambda/shop-test-orders-log:*"]
        },
      ]
    }
    error_message = "A function has its own queue, its own dead letters and its own log, and nothing else."
  }

  assert {
    condition     = keys(output.publisher_policy_json) == ["shop-test-publisher-1"] && keys(output.worker_policy_json) == ["shop-test-worker-1"] && keys(output.operator_policy_json) == ["shop-test-operator-1"]
    error_message = "Policies have the manifest's names."
  }
  assert {
    condition     = [for statement in jsondecode(output.publisher_policy_json["shop-test-publisher-1"]).Statement : statement.Action] == [["sns:Publish"], ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]]
    error_message = "Publishers publish and use the ledger."
  }
  assert {
    condition     = keys(output.consumer_policy_json) == ["documents.index", "documents.partner"]
    error_message = "A consumer outside Lambda has a policy of its own."
  }
  assert {
    condition     = jsondecode(output.consumer_policy_json["documents.partner"]).Statement[0].Resource == ["arn:aws:sqs:eu-west-1:123456789012:shop-test-documents-partner"] && length(jsondecode(output.consumer_policy_json["documents.partner"]).Statement) == 1
    error_message = "Who is not ours gets at its queue alone."
  }
  assert {
    condition     = keys(output.external_subscriptions) == ["documents.partner"]
    error_message = "Whose consumer is not ours is listed."
  }
}
