variable "name" {
  description = "Name of the table, and the service under which the watchdog reports."
  type        = string
  default     = "tokens"
}

variable "services" {
  description = "POWERTOOLS_SERVICE_NAME of the functions that use the table: each gets a policy of its own."
  type        = set(string)
  validation {
    condition     = alltrue([for each in var.services : can(regex("^[A-Za-z0-9_.-]{1,64}$", each))])
    error_message = "Use letters, digits and _ . - alone, at most 64."
  }
}

variable "deletion_protection" {
  description = "Whether the table is kept when it leaves the configuration. Without its tokens every duplicate runs again."
  type        = bool
  default     = true
}

variable "kms_key_arn" {
  description = "Key of yours that encrypts the table; docs/deploying.md has its policy. null: the key aws/dynamodb."
  type        = string
  default     = null
}

# An object, for Terraform must know whether there is one before its layer has an ARN.
variable "watchdog" {
  description = "The watchdog; null: none, and nothing reports overdue and held tokens; list at once then."
  type = object({
    layer_arn         = string                         # a layer version with lambda-once
    runtime           = optional(string, "python3.14") # Python of that layer
    architecture      = optional(string, "arm64")      # of that layer, too
    metrics_namespace = string                         # POWERTOOLS_METRICS_NAMESPACE of the functions
    release           = optional(string, "")           # functions whose overdue tokens it releases: names with commas, * and ?
  })
  default = null
}
