locals {
  # Of the artifacts in S3 and the zips: Lambda takes the base64 form of what 'towpath bundle' prints in hexadecimal,
  # three digits of which, twelve bits, are two letters. The 64 digits and two zeros are 44 letters, the last is padding.
  base64_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
  zips           = { for name, artifact in var.artifacts : name => try(coalesce(artifact.filename, artifact.path), null) if artifact.s3_bucket == null && artifact.image_uri == null }
  sha256         = { for name, artifact in var.artifacts : name => try(filesha256(local.zips[name]), artifact.sha256) if artifact.image_uri == null }
  code_hashes = {
    for name, digits in local.sha256 : name => "${substr(join("", flatten([
      for place in range(0, 66, 3) : [
        for bits in [parseint(substr("${digits}00", place, 3), 16)] :
        [substr(local.base64_letters, floor(bits / 64), 1), substr(local.base64_letters, bits % 64, 1)]
      ]
    ])), 0, 43)}=" if digits != null
  }
}

resource "aws_cloudwatch_log_group" "function" {
  # checkov:skip=CKV_AWS_158: CloudWatch Logs encrypts by itself; the runtime never logs a payload.
  for_each = local.functions

  name              = each.value.log_group_name
  retention_in_days = coalesce(var.log_retention_days, each.value.log_retention_days)
  tags              = local.tags_of_subscription[each.key]
}

resource "aws_lambda_function" "function" {
  # checkov:skip=CKV_AWS_116: A dead-letter queue of the function is for asynchronous calls; SQS redelivers, and its queue has one.
  # checkov:skip=CKV_AWS_272: Code signing is the account's to set up; the zip is known by its SHA-256.
  # checkov:skip=CKV_AWS_173: The variables are settings and queue URLs; secrets do not belong there.
  # checkov:skip=CKV_AWS_50: Tracing costs by the message and is the handler's choice.
  for_each = local.functions

  function_name                  = each.value.name
  role                           = local.role_arns[each.key]
  package_type                   = try(var.artifacts[each.key].image_uri, null) == null ? "Zip" : "Image"
  image_uri                      = var.artifacts[each.key].image_uri
  s3_bucket                      = var.artifacts[each.key].s3_bucket
  s3_key                         = var.artifacts[each.key].s3_bucket == null ? null : var.artifacts[each.key].s3_key
  filename                       = try(local.zips[each.key], null)
  source_code_hash               = try(local.code_hashes[each.key], null)
  handler                        = var.artifacts[each.key].image_uri == null ? each.value.handler : null
  runtime                        = var.artifacts[each.key].image_uri == null ? each.value.runtime : null
  architectures                  = [each.value.architecture]
  memory_size                    = each.value.memory_mb
  timeout                        = each.value.timeout_seconds
  reserved_concurrent_executions = lookup(var.reserved_concurrency, each.key, -1)
  publish                        = true # the alias leads to a version
  tags                           = local.tags_of_subscription[each.key]

  environment {
    variables = merge(
      lookup(var.function_environment, each.key, {}),
      each.value.environment,
      { for variable, role in each.value.queue_url_environment : variable => local.queue_urls[each.key][role] },
    )
  }

  logging_config {
    log_format = "Text" # as the runtime writes it, which is JSON already
    log_group  = each.value.log_group_name
  }

  dynamic "image_config" {
    for_each = var.artifacts[each.key].image_uri == null ? [] : [each.value.handler]
    content {
      command = [image_config.value]
    }
  }

  dynamic "vpc_config" {
    for_each = var.vpc == null ? [] : [var.vpc]
    content {
      subnet_ids         = vpc_config.value.subnet_ids
      security_group_ids = vpc_config.value.security_group_ids
    }
  }

  depends_on = [
    aws_cloudwatch_log_group.function,
    aws_iam_role.function,
    aws_iam_role_policy.function,
    aws_iam_role_policy_attachment.extra,
  ]

  lifecycle {
    precondition {
      condition     = contains(keys(var.artifacts), each.key)
      error_message = "The subscription ${each.key} is hosted by Lambda and has no artifact: bundle it with 'towpath bundle ${each.key}' and name the zip in artifacts."
    }
    precondition {
      condition     = !can(local.zips[each.key]) || can(filesha256(local.zips[each.key]))
      error_message = "The artifact of the subscription ${each.key}, ${try(local.zips[each.key], "")}, cannot be read; make it with 'towpath bundle ${each.key}'."
    }
    precondition {
      condition     = try(var.artifacts[each.key].sha256, null) == null || try(local.sha256[each.key] == var.artifacts[each.key].sha256, true)
      error_message = "The artifact of the subscription ${each.key} is not the zip that its sha256 says; bundle it again, or give the file alone."
    }
  }
}

resource "aws_lambda_alias" "live" {
  for_each = local.functions

  name             = each.value.alias
  function_name    = aws_lambda_function.function[each.key].function_name
  function_version = aws_lambda_function.function[each.key].version
}

resource "aws_lambda_event_source_mapping" "mapping" {
  for_each = local.mappings

  event_source_arn                   = local.queue_arns[each.key].queue
  function_name                      = local.alias_arns[each.key]
  batch_size                         = each.value.batch_size
  maximum_batching_window_in_seconds = each.value.batch_window_seconds
  function_response_types            = each.value.function_response_types
  enabled                            = each.value.enabled
  tags                               = local.tags_of_subscription[each.key]

  dynamic "scaling_config" {
    for_each = each.value.maximum_concurrency == null ? [] : [each.value.maximum_concurrency]
    content {
      maximum_concurrency = scaling_config.value
    }
  }

  depends_on = [aws_lambda_alias.live, aws_sqs_queue.queue]
}
