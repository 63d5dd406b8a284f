variable "region" {
  description = "Where to deploy."
  type        = string
  default     = "eu-west-1"
}

variable "account_id" {
  description = "The account to deploy to; without it that of the credentials."
  type        = string
  default     = null
}
