output "table" {
  description = "Name of the table: LAMBDA_ONCE_TABLE of every protected function."
  value       = aws_dynamodb_table.tokens.name
}

output "table_arn" {
  description = "For policies of operators."
  value       = aws_dynamodb_table.tokens.arn
}

output "access" {
  description = "Policy document for the functions' roles, by service."
  value       = { for service, document in data.aws_iam_policy_document.access : service => document.json }
}

output "watchdog" {
  description = "Name of the watchdog function, for alarms; null if there is none."
  value       = one(aws_lambda_function.watchdog[*].function_name)
}
