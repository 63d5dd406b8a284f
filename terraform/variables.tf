variable "manifest_path" {
  description = "The manifest, `manifest.json`, that `towpath manifest render` wrote: the only description of the topology."
  type        = string

  validation {
    condition     = can(jsondecode(file(var.manifest_path)).manifest_version)
    error_message = "The manifest ${var.manifest_path} is no file that 'towpath manifest render' wrote; render it and name it here."
  }

  validation {
    condition     = try(jsondecode(file(var.manifest_path)).manifest_version == 1, true)
    error_message = "The manifest ${var.manifest_path} is of version ${try(jsonencode(jsondecode(file(var.manifest_path)).manifest_version), "unknown")}, and this module reads version 1; use the module that belongs to the Towpath that wrote it, or render it again."
  }

  validation {
    condition = try(jsondecode(file(var.manifest_path)).manifest_version != 1, true) || can([
      for manifest in [jsondecode(file(var.manifest_path))] : [
        [manifest.name, manifest.environment],
        [for aws in [manifest.aws] : [
          aws.topic_policy, aws.queue_policy, aws.dead_letter_queue_policy, aws.encryption.key_policy, aws.vpc_statements,
          aws.access.publisher, aws.access.worker, aws.access.operator, aws.dashboard.widgets, aws.tags,
        ] if aws != null],
        [for topic in values(manifest.topics) : [
          topic.transport,
          [for aws in [topic.aws] : [aws.topic_name, aws.fifo, aws.deduplication_table, aws.tags] if aws != null],
        ]],
        [for subscription in values(manifest.subscriptions) : [
          [subscription.topic, subscription.transport, subscription.host, subscription.partition_mode],
          [for aws in [subscription.aws] : [
            [for queue in [aws.queue, aws.dead_letter_queue, aws.delivery_failure_queue] : [
              queue.name, queue.fifo, queue.sqs_managed_sse, queue.max_receive_count, queue.redrive_allow,
              [for key in ["visibility_timeout_seconds", "message_retention_seconds", "maximum_message_size"] : tonumber(queue[key])],
            ]],
            [aws.sns_subscription.filter_policy, aws.sns_subscription.redrive_target, aws.consumer_policy, aws.tags],
            [for function in [aws.function] : [function.name, function.role_name, function.policy.statements] if function != null],
            [for mapping in [aws.event_source_mapping] : [mapping.batch_size, mapping.enabled] if mapping != null],
            [for alarm in values(aws.alarms) : alarm.name],
          ] if aws != null],
        ]],
      ]
    ])
    error_message = "The manifest ${var.manifest_path} was edited by hand: it lacks something, or has something else in its place ('towpath manifest diff' of it with itself says what); render it again from its topology."
  }

  validation {
    condition = try(jsondecode(file(var.manifest_path)).manifest_version != 1, true) || try(alltrue(flatten([
      for manifest in [jsondecode(file(var.manifest_path))] : [
        (manifest.aws != null) == anytrue([for topic in values(manifest.topics) : topic.transport == "aws"]),
        [for topic in values(manifest.topics) : (topic.aws != null) == (topic.transport == "aws")],
        [for subscription in values(manifest.subscriptions) : [
          (subscription.aws != null) == (subscription.transport == "aws"),
          subscription.transport == try(manifest.topics[subscription.topic].transport, "none"),
          [for aws in [subscription.aws] : [
            (aws.function != null) == (subscription.host == "lambda"),
            (aws.event_source_mapping != null) == (subscription.host == "lambda"),
            aws.sns_subscription.raw_message_delivery == true,
            aws.sns_subscription.redrive_target == "delivery_failure_queue",
            aws.queue.visibility_timeout_seconds >= try(aws.function.timeout_seconds, 0),
            [for queue in [aws.queue, aws.dead_letter_queue, aws.delivery_failure_queue] : queue.fifo == endswith(queue.name, ".fifo")],
          ] if aws != null],
        ]],
      ]
    ])), true)
    error_message = "The manifest ${var.manifest_path} was edited by hand into what does not go together, a subscription without its queues, topic, function or mapping for instance ('towpath manifest diff' of it with itself says what); render it again from its topology."
  }
}

variable "region" {
  description = "The region that the provider deploys to; what `$${region}` in the manifest stands for."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "The region must look like eu-west-1, not ${var.region}."
  }
}

variable "account_id" {
  description = "The account that the provider deploys to; what `$${account}` in the manifest stands for."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "The account must be given as its 12 digits, not ${var.account_id}."
  }
}

variable "partition" {
  description = "The partition of the account, the second part of its ARNs; what `$${partition}` in the manifest stands for."
  type        = string
  default     = "aws"

  validation {
    condition     = contains(["aws", "aws-cn", "aws-us-gov"], var.partition)
    error_message = "The partition must be aws, aws-cn or aws-us-gov, not ${var.partition}."
  }
}

variable "artifacts" {
  description = "The code of each subscription that Lambda hosts, by the subscription's name: `{ s3_bucket, s3_key, sha256 }`, `{ image_uri }` or `{ filename }`. What `towpath bundle --json` prints is taken as it is: its upload, or without one the zip at its `path`. `sha256` is hexadecimal, as printed there."
  type = map(object({
    s3_bucket = optional(string)
    s3_key    = optional(string)
    sha256    = optional(string)
    image_uri = optional(string)
    filename  = optional(string)
    path      = optional(string)
  }))
  default = {}

  validation {
    condition = alltrue([
      for artifact in values(var.artifacts) :
      length([for place in [artifact.s3_bucket, artifact.image_uri, artifact.filename] : place if place != null]) + (
        alltrue([for place in [artifact.s3_bucket, artifact.image_uri, artifact.filename] : place == null]) && artifact.path != null ? 1 : 0
      ) == 1
    ])
    error_message = "An artifact must have exactly one of s3_bucket, image_uri and filename (or what 'towpath bundle --json' prints)."
  }

  validation {
    condition = alltrue([
      for artifact in values(var.artifacts) : artifact.s3_bucket == null || (artifact.s3_key != null && artifact.sha256 != null)
    ])
    error_message = "An artifact in S3 must have s3_key and sha256 beside s3_bucket, or a new build would not be noticed."
  }

  validation {
    condition = alltrue([
      for artifact in values(var.artifacts) : artifact.sha256 == null || can(regex("^[0-9a-f]{64}$", artifact.sha256))
    ])
    error_message = "The sha256 of an artifact must be 64 hexadecimal digits, as 'towpath bundle' prints it."
  }
}

variable "kms_key_arn" {
  description = "The KMS key that encrypts topics and queues. Without one SQS encrypts by itself (SSE-SQS)."
  type        = string
  default     = null
}

variable "kms_key_policy_confirmed" {
  description = "That the policy of `kms_key_arn` allows what the manifest's `aws.encryption.key_policy` says. Without it SNS cannot deliver to the queues, and nobody is told."
  type        = bool
  default     = false
}

variable "create_kms_key" {
  description = "Make a KMS key for topics and queues, with the manifest's policy."
  type        = bool
  default     = false
}

variable "alarm_actions" {
  description = "ARNs of what is told when an alarm goes off, such as an SNS topic of your operators."
  type        = list(string)
  default     = []
}

variable "ok_actions" {
  description = "ARNs of what is told when an alarm is over."
  type        = list(string)
  default     = []
}

variable "alarm_overrides" {
  description = "Other numbers than the manifest's, by subscription and by what the alarm watches (`dead-letters`, `age`, ...). `actions_enabled = false` keeps an alarm silent."
  type = map(map(object({
    threshold          = optional(number)
    period_seconds     = optional(number)
    evaluation_periods = optional(number)
    actions_enabled    = optional(bool, true)
  })))
  default = {}
}

variable "tags" {
  description = "More tags of every resource. The manifest's own, `towpath:...`, cannot be replaced."
  type        = map(string)
  default     = {}
}

variable "permissions_boundary" {
  description = "ARN of the policy that bounds the functions' roles."
  type        = string
  default     = null
}

variable "log_retention_days" {
  description = "How long the functions' logs are kept. The manifest says 30 days."
  type        = number
  default     = null
}

variable "vpc" {
  description = "The subnets and security groups that the functions run in. Without it they run outside a VPC."
  type = object({
    subnet_ids         = list(string)
    security_group_ids = list(string)
  })
  default = null
}

variable "extra_policies" {
  description = "What the handlers need besides: by subscription, ARNs of policies under names of your choice, attached to the function's role."
  type        = map(map(string))
  default     = {}
}

variable "reserved_concurrency" {
  description = "Concurrency kept for a function and its upper bound, by subscription. `lambda.maximum_concurrency` in the topology is nearly always the better bound."
  type        = map(number)
  default     = {}

  validation {
    condition     = alltrue([for count in values(var.reserved_concurrency) : count >= 1 && floor(count) == count])
    error_message = "Reserved concurrency must be a whole number from 1; to stop a function, pause its subscription in the topology."
  }
}

variable "function_environment" {
  description = "Variables for the handlers, by subscription."
  type        = map(map(string))
  default     = {}
}
