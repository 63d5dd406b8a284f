# Every host, both kinds of topic, and everything that a deployment may choose.

provider "aws" {
  region = var.region
}

variable "region" {
  description = "Where to deploy."
  type        = string
  default     = "eu-west-1"
}

variable "account_id" {
  description = "The account that the provider deploys to."
  type        = string
}

resource "aws_sns_topic" "operators" {
  name = "shop-operators"
}

resource "aws_iam_policy" "archive" {
  name = "shop-archive"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = ["s3:PutObject"], Resource = ["arn:aws:s3:::shop-archive/*"] },
    ]
  })
}

module "towpath" {
  source = "../.."

  manifest_path = "${path.module}/manifest.json"
  region        = var.region
  account_id    = var.account_id

  artifacts = {
    "documents.convert" = { image_uri = "${var.account_id}.dkr.ecr.${var.region}.amazonaws.com/convert@sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b" }
    "orders.apply" = {
      s3_bucket = "shop-zips"
      s3_key    = "orders.apply/6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b.zip"
      sha256    = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    }
    "orders.report" = {
      s3_bucket = "shop-zips"
      s3_key    = "orders.report/d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35.zip"
      sha256    = "d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35"
    }
  }

  create_kms_key = true

  alarm_actions = [aws_sns_topic.operators.arn]
  ok_actions    = [aws_sns_topic.operators.arn]
  alarm_overrides = {
    "orders.apply" = { age = { threshold = 300 } }
    "orders.report" = {
      age = { actions_enabled = false }
    }
  }

  vpc = {
    subnet_ids         = ["subnet-0a1b2c3d4e5f60001", "subnet-0a1b2c3d4e5f60002"]
    security_group_ids = ["sg-0a1b2c3d4e5f60001"]
  }
  permissions_boundary = "arn:aws:iam::${var.account_id}:policy/shop-boundary"
  extra_policies       = { "orders.report" = { archive = aws_iam_policy.archive.arn } }
  function_environment = { "orders.report" = { ARCHIVE = "s3://shop-archive" } }
  reserved_concurrency = { "documents.convert" = 25 }
  log_retention_days   = 90
  tags                 = { team = "shop" }
}

# Whoever publishes takes a role with all of these policies.
resource "aws_iam_policy" "publisher" {
  for_each = module.towpath.publisher_policy_json

  name   = each.key
  policy = each.value
}

output "bindings" {
  description = "terraform output -json bindings > bindings.json"
  value       = module.towpath.bindings
}

output "external_subscriptions" {
  description = "What to tell the partner."
  value       = module.towpath.external_subscriptions
}

output "dashboard_url" {
  description = "Where to look."
  value       = module.towpath.dashboard_url
}
