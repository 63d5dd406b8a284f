# One topic and one function. The manifest: towpath manifest render topology.toml --environment test

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

module "towpath" {
  source = "../.."

  manifest_path = "${path.module}/manifest.json"
  region        = var.region
  account_id    = var.account_id

  artifacts = {
    # What towpath bundle --upload s3://documents-zips --json printed
    "documents.convert" = jsondecode(file("${path.module}/artifacts/documents.convert.json"))
  }
}

output "bindings" {
  description = "terraform output -json bindings > bindings.json"
  value       = module.towpath.bindings
}
