# Everything is copied from the manifest. The module computes nothing: it puts in where it deploys, and the ARNs that
# follow from that, so that a plan shows policies in full.

locals {
  manifest   = jsondecode(file(var.manifest_path))
  deployment = local.manifest.aws # null when every topic is on a database: then there is nothing to make

  topics        = { for name, topic in local.manifest.topics : name => topic.aws if topic.aws != null }
  subscriptions = { for name, subscription in local.manifest.subscriptions : name => subscription.aws if subscription.aws != null }
  topic_of      = { for name, subscription in local.manifest.subscriptions : name => subscription.topic if subscription.aws != null }
  functions     = { for name, subscription in local.subscriptions : name => subscription.function if subscription.function != null }
  mappings      = { for name, subscription in local.subscriptions : name => subscription.event_source_mapping if subscription.event_source_mapping != null }
  tables        = { for name, topic in local.topics : name => topic.deduplication_table if topic.deduplication_table != null }

  here       = "${var.region}:${var.account_id}"
  topic_arns = { for name, topic in local.topics : name => "arn:${var.partition}:sns:${local.here}:${topic.topic_name}" }
  queue_arns = { for name, subscription in local.subscriptions : name => {
    for role in ["queue", "dead_letter_queue", "delivery_failure_queue"] : role => "arn:${var.partition}:sqs:${local.here}:${subscription[role].name}"
  } }
  role_arns  = { for name, function in local.functions : name => "arn:${var.partition}:iam::${var.account_id}:role/${function.role_name}" }
  alias_arns = { for name, function in local.functions : name => "arn:${var.partition}:lambda:${local.here}:function:${function.name}:${function.alias}" }

  tags_of_topic        = { for name, topic in local.topics : name => merge(var.tags, topic.tags) }
  tags_of_subscription = { for name, subscription in local.subscriptions : name => merge(var.tags, subscription.tags) }
}

# What the preconditions of the output `bindings` look at: the manifest's rules, for one that was edited by hand, and
# inputs that speak of what is not there.
locals {
  ordered = [
    for name, subscription in local.manifest.subscriptions : name
    if subscription.transport == "aws" && subscription.partition_mode == "ordered"
  ]
  exclusive_on_standard = [
    for name, subscription in local.manifest.subscriptions : name
    if subscription.aws != null && subscription.partition_mode == "exclusive" && !try(local.topics[subscription.topic].fifo, false)
  ]
  named = concat(
    [for topic in values(local.topics) : "the SNS topic ${topic.topic_name}"],
    [for table in values(local.tables) : "the DynamoDB table ${table.name}"],
    flatten([for arns in values(local.queue_arns) : [for arn in values(arns) : "the SQS queue ${element(split(":", arn), 5)}"]]),
    [for function in values(local.functions) : "the Lambda function ${function.name}"],
    [for function in values(local.functions) : "the IAM role ${function.role_name}"],
    [for alarm in values(local.alarms) : "the CloudWatch alarm ${alarm.name}"],
  )
  named_twice = [for one in distinct(local.named) : one if length([for other in local.named : other if other == one]) > 1]

  without_artifact = [for name in keys(local.functions) : name if !contains(keys(var.artifacts), name)]
  no_functions = setsubtract(
    concat(keys(var.extra_policies), keys(var.reserved_concurrency), keys(var.function_environment)),
    keys(local.functions),
  )
  no_alarms = setsubtract(
    flatten([for name, overrides in var.alarm_overrides : [for watches in keys(overrides) : "${name}/${watches}"]]),
    keys(local.alarms),
  )
  throttled = [
    for name, count in var.reserved_concurrency : name
    if count < try(coalesce(local.mappings[name].maximum_concurrency, 0), 0)
  ]
  overwritten = flatten([
    for name, variables in var.function_environment : [
      for variable in keys(variables) : "${name}/${variable}"
      if contains(try(concat(keys(local.functions[name].environment), keys(local.functions[name].queue_url_environment)), []), variable)
    ]
  ])
}
