variable "name" {
  description = "Name of the table, and the beginning of the watchdog's."
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

variable "status_index" {
  description = "Index of unfinished work. Without it new work costs half as much, and there is no watchdog."
  type        = bool
  default     = true
}

variable "status_shards" {
  description = "LAMBDA_ONCE_STATUS_SHARDS of the functions. May only grow."
  type        = number
  default     = 1
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

variable "layer_arn" {
  description = "Layer version with lambda-once, for the watchdog. Without it overdue and held tokens are not reported."
  type        = string
  default     = null
}

variable "runtime" {
  description = "Python of that layer."
  type        = string
  default     = "python3.14"
}

variable "architecture" {
  description = "Instruction set of that layer."
  type        = string
  default     = "arm64"
}

variable "metrics_namespace" {
  description = "POWERTOOLS_METRICS_NAMESPACE of the functions."
  type        = string
}

variable "watchdog_release" {
  description = "Functions whose overdue tokens the watchdog releases: names with commas, * and ? allowed. Leave out those whose work must not run twice."
  type        = string
  default     = ""
}
