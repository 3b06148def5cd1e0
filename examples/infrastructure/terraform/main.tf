# The token table of lambda-once, the policies of the functions that use it, and its watchdog.

terraform {
  required_version = ">= 1.3"
  required_providers {
    archive = { source = "hashicorp/archive", version = ">= 2.0" }
    aws     = { source = "hashicorp/aws", version = ">= 6.20" } # the first that knows python3.14
  }
}

resource "aws_dynamodb_table" "tokens" {
  name                        = var.name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "lockToken"
  deletion_protection_enabled = var.deletion_protection

  attribute {
    name = "lockToken"
    type = "S"
  }

  attribute {
    name = "listed"
    type = "S"
  }

  attribute {
    name = "expectedCompletion"
    type = "S"
  }

  # Sparse: a finished token is not listed. What is listed here is in progress, overdue or held.
  global_secondary_index {
    name               = "byStatus"
    hash_key           = "listed"
    range_key          = "expectedCompletion"
    projection_type    = "INCLUDE"
    non_key_attributes = ["lockedBy", "created", "attempt"]
  }

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }

  # The watchdog reads it, and lists what was left open: new work takes two write units in place of four.
  stream_enabled   = true
  stream_view_type = "KEYS_ONLY"

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = var.kms_key_arn
  }
}

# For the role of every protected function of a service: its tokens, and no delete of one.
data "aws_iam_policy_document" "access" {
  for_each = var.services

  statement {
    actions   = ["dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:BatchGetItem", "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate"]
    resources = [aws_dynamodb_table.tokens.arn]
    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = ["${each.value}/*"]
    }
    condition {
      test     = "Null"
      variable = "dynamodb:LeadingKeys"
      values   = ["false"]
    }
  }

  # The parts of large results, and no token.
  statement {
    actions   = ["dynamodb:BatchWriteItem"]
    resources = [aws_dynamodb_table.tokens.arn]
    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = ["${each.value}/*#*#*"]
    }
    condition {
      test     = "Null"
      variable = "dynamodb:LeadingKeys"
      values   = ["false"]
    }
  }
}

# The watchdog reports overdue and held tokens.
locals {
  watchdogs = var.watchdog != null ? 1 : 0
}

data "archive_file" "watchdog" {
  count       = local.watchdogs
  type        = "zip"
  output_path = "${path.module}/.watchdog.zip"
  source {
    filename = "README"
    content  = "The code is in the layer."
  }
}

resource "aws_lambda_function" "watchdog" {
  count            = local.watchdogs
  function_name    = "${var.name}-watchdog"
  role             = aws_iam_role.watchdog[0].arn
  filename         = data.archive_file.watchdog[0].output_path
  source_code_hash = data.archive_file.watchdog[0].output_base64sha256
  handler          = "lambda_once.operations.watchdog.handler"
  runtime          = var.watchdog.runtime
  architectures    = [var.watchdog.architecture]
  layers           = [var.watchdog.layer_arn]
  memory_size      = 512
  timeout          = 60

  logging_config {
    log_format = "Text" # its lines are JSON already
    log_group  = aws_cloudwatch_log_group.watchdog[0].name
  }

  environment {
    variables = {
      LAMBDA_ONCE_TABLE            = aws_dynamodb_table.tokens.name
      LAMBDA_ONCE_LISTING          = "stream"
      LAMBDA_ONCE_WATCHDOG_RELEASE = var.watchdog.release
      POWERTOOLS_SERVICE_NAME      = var.name
      POWERTOOLS_METRICS_NAMESPACE = var.watchdog.metrics_namespace
    }
  }
}

resource "aws_cloudwatch_log_group" "watchdog" {
  count             = local.watchdogs
  name              = "/aws/lambda/${var.name}-watchdog"
  retention_in_days = 30
}

resource "aws_lambda_function_event_invoke_config" "watchdog" {
  count                  = local.watchdogs
  function_name          = aws_lambda_function.watchdog[0].function_name
  maximum_retry_attempts = 0 # the next run is the retry
}

resource "aws_cloudwatch_event_rule" "watchdog" {
  count               = local.watchdogs
  name                = "${var.name}-watchdog"
  schedule_expression = "rate(5 minutes)"
}

resource "aws_cloudwatch_event_target" "watchdog" {
  count = local.watchdogs
  rule  = aws_cloudwatch_event_rule.watchdog[0].name
  arn   = aws_lambda_function.watchdog[0].arn
}

resource "aws_lambda_permission" "watchdog" {
  count         = local.watchdogs
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.watchdog[0].function_name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.watchdog[0].arn
}

data "aws_partition" "current" {}

data "aws_iam_policy_document" "lambda" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["lambda.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "watchdog" {
  statement {
    actions   = ["dynamodb:Query"]
    resources = ["${aws_dynamodb_table.tokens.arn}/index/byStatus"]
  }
  statement {
    actions   = ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:UpdateItem", "dynamodb:DescribeTable", "dynamodb:Scan"]
    resources = [aws_dynamodb_table.tokens.arn]
  }
  statement {
    actions   = ["dynamodb:DescribeStream", "dynamodb:GetShardIterator", "dynamodb:GetRecords"]
    resources = ["${aws_dynamodb_table.tokens.arn}/stream/*"]
  }
}

resource "aws_iam_role" "watchdog" {
  count              = local.watchdogs
  name               = "${var.name}-watchdog"
  assume_role_policy = data.aws_iam_policy_document.lambda.json
}

resource "aws_iam_role_policy" "watchdog" {
  count  = local.watchdogs
  role   = aws_iam_role.watchdog[0].name
  policy = data.aws_iam_policy_document.watchdog.json
}

resource "aws_iam_role_policy_attachment" "watchdog_logs" {
  count      = local.watchdogs
  role       = aws_iam_role.watchdog[0].name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
}
