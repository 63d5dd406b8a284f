locals {
  queue_urls = {
    for name in keys(local.subscriptions) : name => {
      queue                  = aws_sqs_queue.queue[name].url
      dead_letter_queue      = aws_sqs_queue.dead_letter_queue[name].url
      delivery_failure_queue = aws_sqs_queue.delivery_failure_queue[name].url
    }
  }
  consoles = { aws = "console.aws.amazon.com", aws-cn = "console.amazonaws.cn", aws-us-gov = "console.amazonaws-us-gov.com" }
}

output "bindings" {
  description = "What Towpath's AWS transport reads: `terraform output -json bindings > bindings.json`."
  value = {
    topics = { for name, topic in local.topics : name => { arn = aws_sns_topic.topic[name].arn, fifo = topic.fifo } }
    subscriptions = {
      for name in keys(local.subscriptions) : name => {
        queue_url                  = local.queue_urls[name].queue
        queue_arn                  = aws_sqs_queue.queue[name].arn
        dead_letter_queue_url      = local.queue_urls[name].dead_letter_queue
        delivery_failure_queue_url = local.queue_urls[name].delivery_failure_queue
        function_arn               = contains(keys(local.functions), name) ? aws_lambda_alias.live[name].arn : null
      }
    }
  }

  precondition {
    condition     = length(local.ordered) == 0
    error_message = "The manifest puts ${join(", ", local.ordered)} on AWS in partition mode ordered, which AWS cannot keep; put the topic on a database."
  }
  precondition {
    condition     = length(local.exclusive_on_standard) == 0
    error_message = "The manifest has ${join(", ", local.exclusive_on_standard)} in partition mode exclusive on a standard topic, and SNS delivers in order from FIFO topics only; render it again from its topology."
  }
  precondition {
    condition     = length(local.named_twice) == 0
    error_message = "The manifest names ${join(", ", local.named_twice)} more than once, and no two resources can share a name; rename one of the topics or subscriptions and render it again."
  }
  precondition {
    condition     = !(var.create_kms_key && var.kms_key_arn != null)
    error_message = "Both kms_key_arn and create_kms_key are given; leave out one, as topics and queues have one key."
  }
  precondition {
    condition     = var.kms_key_arn == null || var.kms_key_policy_confirmed
    error_message = "The policy of the key ${coalesce(var.kms_key_arn, "-")} must let SNS deliver to the queues: give it the manifest's aws.encryption.key_policy, then set kms_key_policy_confirmed."
  }
  precondition {
    condition     = length(local.no_functions) == 0
    error_message = "There is no function for ${join(", ", local.no_functions)}, named in extra_policies, reserved_concurrency or function_environment; name subscriptions that Lambda hosts: ${join(", ", keys(local.functions))}."
  }
  precondition {
    condition     = length(local.no_alarms) == 0
    error_message = "There is no alarm ${join(", ", local.no_alarms)}, named in alarm_overrides; take the names of subscriptions and alarms from the manifest."
  }
  precondition {
    condition     = length(local.throttled) == 0
    error_message = "The reserved_concurrency of ${join(", ", local.throttled)} is below its maximum_concurrency, so that Lambda would throttle messages towards the dead-letter queue; raise the one or lower the other."
  }
  precondition {
    condition     = length(local.overwritten) == 0
    error_message = "The function_environment sets ${join(", ", local.overwritten)}, which the manifest sets; leave it out."
  }
}

output "publisher_policy_json" {
  description = "What whoever publishes needs: policy documents by their names, all for the one role."
  value       = { for policy in try(local.deployment.access.publisher, []) : policy.name => local.identity_documents["publisher/${policy.name}"] }
}

output "worker_policy_json" {
  description = "What a worker needs that handles all subscriptions with host `worker`: policy documents by their names."
  value       = { for policy in try(local.deployment.access.worker, []) : policy.name => local.identity_documents["worker/${policy.name}"] }
}

output "operator_policy_json" {
  description = "What an operator needs to look after dead letters: policy documents by their names."
  value       = { for policy in try(local.deployment.access.operator, []) : policy.name => local.identity_documents["operator/${policy.name}"] }
}

output "consumer_policy_json" {
  description = "What a worker needs that handles one subscription alone, by subscription."
  value       = { for name in keys(local.consumers) : name => local.identity_documents["consumer/${name}"] }
}

output "external_subscriptions" {
  description = "The subscriptions whose consumers are not ours: their queues, and the policy that a consumer needs."
  value = {
    for name, subscription in local.subscriptions : name => {
      queue_url             = local.queue_urls[name].queue
      queue_arn             = aws_sqs_queue.queue[name].arn
      dead_letter_queue_url = local.queue_urls[name].dead_letter_queue
      policy_json           = local.identity_documents["consumer/${name}"]
    } if local.manifest.subscriptions[name].host == "external"
  }
}

output "function_arns" {
  description = "The functions, by subscription."
  value       = { for name in keys(local.functions) : name => aws_lambda_function.function[name].arn }
}

output "alias_arns" {
  description = "The aliases that event source mappings invoke, by subscription."
  value       = { for name in keys(local.functions) : name => aws_lambda_alias.live[name].arn }
}

output "dashboard_url" {
  description = "The dashboard in the CloudWatch console."
  value       = try("https://${var.region}.${local.consoles[var.partition]}/cloudwatch/home?region=${var.region}#dashboards/dashboard/${aws_cloudwatch_dashboard.dashboard[0].dashboard_name}", null)
}

output "kms_key_arn" {
  description = "The key that encrypts topics and queues; null with SSE-SQS."
  value       = local.key_arn
}
