# Functions, their artifacts, their mappings, and everything that is optional about them.

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

run "functions_mappings_and_artifacts_in_s3" {
  command = plan

  assert {
    condition     = { for name, function in aws_lambda_function.function : name => function.function_name }["documents.convert"] == "shop-test-documents-convert" && length(aws_lambda_function.function) == 5
    error_message = "Whom Lambda hosts has a function, and nobody else."
  }
  assert {
    condition     = aws_lambda_function.function["documents.convert"].memory_size == 1024 && aws_lambda_function.function["documents.convert"].timeout == 60 && aws_lambda_function.function["documents.convert"].architectures == tolist(["x86_64"]) && aws_lambda_function.function["documents.convert"].runtime == "python3.13" && aws_lambda_function.function["documents.convert"].handler == "lambda_runtime.entry.handler"
    error_message = "A function is as the manifest says."
  }
  assert {
    condition     = aws_lambda_function.function["documents.convert"].role == "arn:aws:iam::123456789012:role/shop-test-documents-convert" && aws_lambda_function.function["documents.convert"].publish && aws_lambda_alias.live["documents.convert"].name == "live"
    error_message = "It has a role of its own, versions, and an alias that leads to one."
  }
  assert {
    condition     = one(aws_lambda_function.function["documents.convert"].logging_config).log_group == "/aws/lambda/shop-test-documents-convert" && aws_cloudwatch_log_group.function["documents.convert"].name == "/aws/lambda/shop-test-documents-convert" && aws_cloudwatch_log_group.function["documents.convert"].retention_in_days == 30
    error_message = "It has a log group of its own, which is kept for 30 days."
  }
  assert {
    condition     = aws_lambda_function.function["documents.convert"].reserved_concurrent_executions == -1 && length(aws_lambda_function.function["documents.convert"].vpc_config) == 0 && aws_iam_role.function["documents.convert"].permissions_boundary == null && length(aws_iam_role_policy_attachment.extra) == 0
    error_message = "What is not asked for is not there."
  }

  assert {
    condition     = aws_lambda_event_source_mapping.mapping["documents.convert"].event_source_arn == "arn:aws:sqs:eu-west-1:123456789012:shop-test-documents-convert" && aws_lambda_event_source_mapping.mapping["documents.convert"].function_name == "arn:aws:lambda:eu-west-1:123456789012:function:shop-test-documents-convert:live"
    error_message = "The mapping leads from the queue to the alias."
  }
  assert {
    condition     = aws_lambda_event_source_mapping.mapping["documents.convert"].batch_size == 50 && aws_lambda_event_source_mapping.mapping["documents.convert"].maximum_batching_window_in_seconds == 5 && one(aws_lambda_event_source_mapping.mapping["documents.convert"].scaling_config).maximum_concurrency == 20
    error_message = "Its numbers are the manifest's."
  }
  assert {
    condition     = aws_lambda_event_source_mapping.mapping["orders.apply"].batch_size == 1 && length(aws_lambda_event_source_mapping.mapping["orders.apply"].scaling_config) == 0
    error_message = "A mapping of a FIFO queue takes one message, and has no bound when there is none."
  }
  assert {
    condition     = alltrue([for mapping in values(aws_lambda_event_source_mapping.mapping) : mapping.function_response_types == toset(["ReportBatchItemFailures"])])
    error_message = "Functions answer message by message."
  }
  assert {
    condition     = { for name, mapping in aws_lambda_event_source_mapping.mapping : name => mapping.enabled } == { "documents.convert" = true, "documents.disabled" = false, "documents.paused" = false, "orders.apply" = true, "orders.log" = true }
    error_message = "Lambda polls for active subscriptions, and for no others."
  }

  assert {
    condition     = aws_lambda_function.function["orders.log"].s3_bucket == "zips" && aws_lambda_function.function["orders.log"].s3_key == "shop/1.zip" && aws_lambda_function.function["orders.log"].filename == null && aws_lambda_function.function["orders.log"].package_type == "Zip"
    error_message = "The code is where the artifact says."
  }
  assert {
    condition     = aws_lambda_function.function["orders.log"].source_code_hash == base64sha256("shop")
    error_message = "The hexadecimal digits become the letters that Lambda takes."
  }
}

run "an_artifact_in_a_file" {
  command = plan
  variables {
    artifacts = {
      "documents.convert"  = { filename = "versions.tf" }
      "documents.paused"   = { path = "versions.tf", s3_key = "shop/1.zip", sha256 = filesha256("versions.tf") }
      "documents.disabled" = { filename = "versions.tf" }
      "orders.apply"       = { filename = "versions.tf" }
      "orders.log"         = { filename = "versions.tf" }
    }
  }

  assert {
    condition     = aws_lambda_function.function["documents.convert"].filename == "versions.tf" && aws_lambda_function.function["documents.convert"].source_code_hash == filebase64sha256("versions.tf") && aws_lambda_function.function["documents.convert"].s3_key == null
    error_message = "The code is in the file."
  }
  assert {
    condition     = aws_lambda_function.function["documents.paused"].filename == "versions.tf" && aws_lambda_function.function["documents.paused"].s3_key == null
    error_message = "What 'towpath bundle' prints is taken as it is."
  }
}

run "an_artifact_in_an_image" {
  command = plan
  variables {
    manifest_path = "tests/manifests/single.json"
    artifacts     = { "documents.convert" = { image_uri = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/single:1" } }
  }

  assert {
    condition     = aws_lambda_function.function["documents.convert"].package_type == "Image" && aws_lambda_function.function["documents.convert"].image_uri == "123456789012.dkr.ecr.eu-west-1.amazonaws.com/single:1"
    error_message = "The code is in the image."
  }
  assert {
    condition     = one(aws_lambda_function.function["documents.convert"].image_config).command == tolist(["lambda_runtime.entry.handler"]) && aws_lambda_function.function["documents.convert"].handler == null && aws_lambda_function.function["documents.convert"].runtime == null
    error_message = "An image is told its handler as its command, and has its own runtime."
  }
}

run "a_subscription_without_artifact_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/single.json"
    artifacts     = {}
  }
  expect_failures = [aws_lambda_function.function]
}

run "an_artifact_that_is_not_there_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/single.json"
    artifacts     = { "documents.convert" = { filename = "dist/missing.zip" } }
  }
  expect_failures = [aws_lambda_function.function]
}

run "an_artifact_that_was_changed_is_refused" {
  command = plan
  variables {
    manifest_path = "tests/manifests/single.json"
    artifacts     = { "documents.convert" = { filename = "versions.tf", sha256 = sha256("something else") } }
  }
  expect_failures = [aws_lambda_function.function]
}

run "an_artifact_in_two_places_is_refused" {
  command = plan
  variables {
    artifacts = { "documents.convert" = { filename = "versions.tf", image_uri = "single:1" } }
  }
  expect_failures = [var.artifacts]
}

run "an_artifact_in_s3_without_its_hash_is_refused" {
  command = plan
  variables {
    artifacts = { "documents.convert" = { s3_bucket = "zips", s3_key = "shop/1.zip" } }
  }
  expect_failures = [var.artifacts]
}

run "a_hash_in_base64_is_refused" {
  command = plan
  variables {
    artifacts = { "documents.convert" = { s3_bucket = "zips", s3_key = "shop/1.zip", sha256 = base64sha256("shop") } }
  }
  expect_failures = [var.artifacts]
}

run "what_a_deployment_may_choose" {
  command = plan
  variables {
    permissions_boundary = "arn:aws:iam::123456789012:policy/bound"
    log_retention_days   = 365
    vpc                  = { subnet_ids = ["subnet-1", "subnet-2"], security_group_ids = ["sg-1"] }
    extra_policies       = { "orders.log" = { archive = "arn:aws:iam::123456789012:policy/archive" } }
    reserved_concurrency = { "documents.convert" = 25 }
    function_environment = { "orders.log" = { ARCHIVE = "s3://archive" } }
  }

  assert {
    condition     = alltrue([for role in values(aws_iam_role.function) : role.permissions_boundary == "arn:aws:iam::123456789012:policy/bound"])
    error_message = "Every role is bounded."
  }
  assert {
    condition     = alltrue([for group in values(aws_cloudwatch_log_group.function) : group.retention_in_days == 365])
    error_message = "Logs are kept as long as the deployment says."
  }
  assert {
    condition     = alltrue([for function in values(aws_lambda_function.function) : one(function.vpc_config).subnet_ids == toset(["subnet-1", "subnet-2"]) && one(function.vpc_config).security_group_ids == toset(["sg-1"])])
    error_message = "Functions run in the VPC."
  }
  assert {
    condition     = alltrue([for policy in values(aws_iam_role_policy.function) : contains([for statement in jsondecode(policy.policy).Statement : statement.Sid], "ManageNetworkInterfaces")])
    error_message = "Roles allow what Lambda needs in a VPC."
  }
  assert {
    condition     = { for name, attachment in aws_iam_role_policy_attachment.extra : name => attachment.policy_arn } == { "orders.log/archive" = "arn:aws:iam::123456789012:policy/archive" }
    error_message = "One role has more policies."
  }
  assert {
    condition     = aws_lambda_function.function["documents.convert"].reserved_concurrent_executions == 25 && aws_lambda_function.function["orders.log"].reserved_concurrent_executions == -1
    error_message = "One function has concurrency of its own."
  }
}

run "a_name_that_is_no_function_is_refused" {
  command = plan
  variables {
    extra_policies = { "documents.index" = { archive = "arn:aws:iam::123456789012:policy/archive" } }
  }
  expect_failures = [output.bindings]
}

run "concurrency_below_the_mapping_s_is_refused" {
  command = plan
  variables {
    reserved_concurrency = { "documents.convert" = 19 }
  }
  expect_failures = [output.bindings]
}

run "no_concurrency_is_refused" {
  command = plan
  variables {
    reserved_concurrency = { "documents.convert" = 0 }
  }
  expect_failures = [var.reserved_concurrency]
}

run "a_variable_of_the_manifest_cannot_be_set" {
  command = plan
  variables {
    function_environment = { "orders.log" = { TOWPATH_QUEUE_URL = "https://example.com" } }
  }
  expect_failures = [output.bindings]
}
