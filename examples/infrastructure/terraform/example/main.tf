# Three functions, behind a queue, an HTTP API and a rule, with the token table of the module. Copy it with the module, and
# function/ and layer.zip two folders above: docs/deploying.md.

terraform {
  required_version = ">= 1.3"
  required_providers {
    archive = { source = "hashicorp/archive", version = ">= 2.0" }
    aws     = { source = "hashicorp/aws", version = ">= 6.20" }
  }
}

variable "region" {
  type    = string
  default = "eu-central-1"
}

variable "runtime" { # of the functions, and of layer.zip
  type    = string
  default = "python3.14"
}

variable "architecture" { # of them, too
  type    = string
  default = "arm64"
}

variable "issuer" { # who signs the JWTs of the API's callers
  type = string
}

variable "audience" { # whom these JWTs are for (aud or client_id)
  type = string
}

provider "aws" {
  region = var.region
}

data "aws_partition" "current" {}

resource "aws_lambda_layer_version" "lambda_once" {
  layer_name       = "lambda-once"
  filename         = "${path.module}/../../layer.zip"
  source_code_hash = filebase64sha256("${path.module}/../../layer.zip")
}

module "tokens" {
  source   = "../" # where you copied the module
  services = ["shop"]
  watchdog = {
    layer_arn         = aws_lambda_layer_version.lambda_once.arn
    runtime           = var.runtime
    architecture      = var.architecture
    metrics_namespace = "Shop"
  }
}

# --- the functions --------------------------------------------------------------------------------

locals {
  handlers = {
    payments  = "payments.charge"
    orders    = "orders.create"
    shipments = "shipments.ship"
  }
}

data "archive_file" "function" {
  type        = "zip"
  source_dir  = "${path.module}/../../function"
  output_path = "${path.module}/.function.zip"
}

resource "aws_lambda_function" "shop" {
  for_each         = local.handlers
  function_name    = each.key
  handler          = each.value
  role             = aws_iam_role.shop[each.key].arn
  filename         = data.archive_file.function.output_path
  source_code_hash = data.archive_file.function.output_base64sha256
  runtime          = var.runtime
  architectures    = [var.architecture]
  layers           = [aws_lambda_layer_version.lambda_once.arn]
  memory_size      = 512
  timeout          = 29 # an HTTP API gives up after 30

  logging_config {
    log_format = "Text" # Powertools' lines are JSON already
    log_group  = aws_cloudwatch_log_group.shop.name
  }

  environment {
    variables = {
      LAMBDA_ONCE_TABLE            = module.tokens.table
      LAMBDA_ONCE_LISTING          = "stream"
      POWERTOOLS_SERVICE_NAME      = "shop"
      POWERTOOLS_METRICS_NAMESPACE = "Shop"
    }
  }
}

resource "aws_cloudwatch_log_group" "shop" {
  name              = "shop"
  retention_in_days = 30
}

resource "aws_iam_role" "shop" {
  for_each = local.handlers
  name     = "shop-${each.key}"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "lambda.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

resource "aws_iam_role_policy" "tokens" {
  for_each = local.handlers
  role     = aws_iam_role.shop[each.key].name
  policy   = module.tokens.access["shop"]
}

resource "aws_iam_role_policy_attachment" "logs" {
  for_each   = local.handlers
  role       = aws_iam_role.shop[each.key].name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
}

# --- a queue --------------------------------------------------------------------------------------

resource "aws_lambda_event_source_mapping" "payments" {
  event_source_arn        = aws_sqs_queue.payments.arn
  function_name           = aws_lambda_function.shop["payments"].arn
  function_response_types = ["ReportBatchItemFailures"]
  depends_on              = [aws_iam_role_policy.payments]

  scaling_config {
    maximum_concurrency = 10
  }
}

resource "aws_sqs_queue" "payments" {
  name                       = "payments"
  visibility_timeout_seconds = 180 # at least six times the function's timeout
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    maxReceiveCount     = 5
  })
}

resource "aws_sqs_queue" "dead_letters" {
  name                      = "payments-dead-letters"
  message_retention_seconds = 1209600
}

resource "aws_iam_role_policy" "payments" {
  role = aws_iam_role.shop["payments"].name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
      Resource = aws_sqs_queue.payments.arn
    }]
  })
}

# --- an HTTP API ----------------------------------------------------------------------------------

resource "aws_apigatewayv2_api" "orders" {
  name          = "orders"
  protocol_type = "HTTP"
}

resource "aws_apigatewayv2_authorizer" "jwt" {
  api_id           = aws_apigatewayv2_api.orders.id
  name             = "jwt"
  authorizer_type  = "JWT"
  identity_sources = ["$request.header.Authorization"]

  jwt_configuration {
    issuer   = var.issuer
    audience = [var.audience]
  }
}

resource "aws_apigatewayv2_integration" "orders" {
  api_id                 = aws_apigatewayv2_api.orders.id
  integration_type       = "AWS_PROXY"
  integration_uri        = aws_lambda_function.shop["orders"].invoke_arn
  payload_format_version = "2.0"
}

resource "aws_apigatewayv2_route" "orders" {
  api_id             = aws_apigatewayv2_api.orders.id
  route_key          = "POST /orders"
  authorization_type = "JWT"
  authorizer_id      = aws_apigatewayv2_authorizer.jwt.id
  target             = "integrations/${aws_apigatewayv2_integration.orders.id}"
}

resource "aws_apigatewayv2_stage" "orders" {
  api_id      = aws_apigatewayv2_api.orders.id
  name        = "$default"
  auto_deploy = true

  default_route_settings {
    throttling_burst_limit = 100
    throttling_rate_limit  = 50
  }
}

resource "aws_lambda_permission" "orders" {
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.shop["orders"].function_name
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.orders.execution_arn}/*/POST/orders"
}

# --- a rule of EventBridge ------------------------------------------------------------------------
# What the function fails on, and what the rule couldn't deliver, go to one queue.

resource "aws_cloudwatch_event_rule" "paid" {
  name          = "shop-order-paid"
  event_pattern = jsonencode({ source = ["shop.orders"], detail-type = ["OrderPaid"] })
}

resource "aws_cloudwatch_event_target" "shipments" {
  rule = aws_cloudwatch_event_rule.paid.name
  arn  = aws_lambda_function.shop["shipments"].arn

  dead_letter_config {
    arn = aws_sqs_queue.failed_shipments.arn
  }
}

resource "aws_lambda_permission" "shipments" {
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.shop["shipments"].function_name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.paid.arn
}

resource "aws_lambda_function_event_invoke_config" "shipments" {
  function_name = aws_lambda_function.shop["shipments"].function_name
  depends_on    = [aws_iam_role_policy.shipments]

  destination_config {
    on_failure {
      destination = aws_sqs_queue.failed_shipments.arn
    }
  }
}

resource "aws_iam_role_policy" "shipments" {
  role = aws_iam_role.shop["shipments"].name
  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sqs:SendMessage", Resource = aws_sqs_queue.failed_shipments.arn }]
  })
}

resource "aws_sqs_queue" "failed_shipments" {
  name                      = "failed-shipments"
  message_retention_seconds = 1209600
}

resource "aws_sqs_queue_policy" "failed_shipments" {
  queue_url = aws_sqs_queue.failed_shipments.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "events.amazonaws.com" }
      Action    = "sqs:SendMessage"
      Resource  = aws_sqs_queue.failed_shipments.arn
      Condition = { ArnEquals = { "aws:SourceArn" = aws_cloudwatch_event_rule.paid.arn } }
    }]
  })
}

output "payments_queue_url" {
  value = aws_sqs_queue.payments.id
}

output "orders_url" {
  value = "${aws_apigatewayv2_api.orders.api_endpoint}/orders"
}

output "failed_shipments_url" {
  value = aws_sqs_queue.failed_shipments.id
}
