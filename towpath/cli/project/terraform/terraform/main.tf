# Everything comes from the manifest, aws.json; towpath/ is the module of the Towpath version that made this project.

provider "aws" {
  region = var.region
}

data "aws_caller_identity" "current" {
  count = var.account_id == null ? 1 : 0
}

module "towpath" {
  source = "./towpath"

  manifest_path = "${path.module}/../aws.json"
  region        = var.region
  account_id    = coalesce(var.account_id, one(data.aws_caller_identity.current[*].account_id))

  artifacts = {
    "orders.ship" = { filename = "${path.module}/../dist/orders.ship.zip" } # what make package has made
  }
}

output "bindings" {
  description = "What publishers, workers and operators read, as bindings.json."
  value       = module.towpath.bindings
}
