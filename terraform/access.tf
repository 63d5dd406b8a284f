# The manifest's statements as policy documents. Placeholders are replaced in the text: nothing else of it changes.

locals {
  # Policies of resources. What of them only one topic or queue has, `${topic_arn}` and `${queue_arn}`, is put in there.
  resource_statements = {
    topic_policy             = try(local.deployment.topic_policy, [])
    queue_policy             = try(local.deployment.queue_policy, [])
    dead_letter_queue_policy = try(local.deployment.dead_letter_queue_policy, [])
    key_policy               = try(local.deployment.encryption.key_policy, [])
  }
  resource_documents = {
    for of, statements in local.resource_statements : of => jsonencode({
      Version = "2012-10-17"
      Statement = [
        for statement in statements : {
          for key, value in {
            Sid       = statement.sid
            Effect    = statement.effect
            Principal = statement.principals
            Action    = statement.actions
            Resource  = statement.resources
            Condition = statement.conditions
          } : key => value if key != "Condition" || length(statement.conditions) > 0
        }
      ]
    })
  }
  resource_policies = { for of, document in local.resource_documents : of => replace(replace(replace(document,
    "$${partition}", var.partition), "$${region}", var.region), "$${account}", var.account_id)
  }

  # Policies of identities: of each function's role, and of whoever publishes, works or operates.
  consumers = { for name, subscription in local.subscriptions : name => subscription.consumer_policy if subscription.consumer_policy != null }
  identity_policies = merge(
    { for name, function in local.functions : "function/${name}" => function.policy },
    { for name, policy in local.consumers : "consumer/${name}" => policy },
    { for policy in try(local.deployment.access.publisher, []) : "publisher/${policy.name}" => policy },
    { for policy in try(local.deployment.access.worker, []) : "worker/${policy.name}" => policy },
    { for policy in try(local.deployment.access.operator, []) : "operator/${policy.name}" => policy },
  )
  identity_statements = {
    for key, policy in local.identity_policies : key => concat(
      policy.statements,
      [for statement in policy.key_statements : statement if local.encrypted],
      [for statement in try(local.deployment.vpc_statements, []) : statement if var.vpc != null && startswith(key, "function/")],
    )
  }
  identity_documents = {
    for key, statements in local.identity_statements : key => replace(replace(replace(replace(
      jsonencode({
        Version = "2012-10-17"
        Statement = [
          for statement in statements : {
            Sid      = statement.sid
            Effect   = "Allow"
            Action   = statement.actions
            Resource = statement.resources
          }
        ]
      }),
      "$${partition}", var.partition), "$${region}", var.region), "$${account}", var.account_id),
    "$${key_arn}", local.encrypted ? local.key_arn : "")
  }
}

resource "aws_iam_role" "function" {
  for_each = local.functions

  name                 = each.value.role_name
  permissions_boundary = var.permissions_boundary
  tags                 = local.tags_of_subscription[each.key]
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { Service = "lambda.amazonaws.com" }
        Action    = "sts:AssumeRole"
      },
    ]
  })
}

resource "aws_iam_role_policy" "function" {
  for_each = local.functions

  name   = each.value.policy.name
  role   = aws_iam_role.function[each.key].name
  policy = local.identity_documents["function/${each.key}"]
}

resource "aws_iam_role_policy_attachment" "extra" {
  for_each = merge([
    for name, policies in var.extra_policies : {
      for policy, arn in policies : "${name}/${policy}" => { subscription = name, arn = arn } if contains(keys(local.functions), name)
    }
  ]...)

  role       = aws_iam_role.function[each.value.subscription].name
  policy_arn = each.value.arn
}
