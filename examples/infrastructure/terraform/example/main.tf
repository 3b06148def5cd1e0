# A function that charges each order of a queue once. Copy this file beside function/ (examples/minimal) and layer.zip,
# made for the Python and the architecture below (make layer).

variable "runtime" {
  type    = string
  default = "python3.14"
}

resource "aws_lambda_layer_version" "lambda_once" {
  layer_name       = "lambda-once"
  filename         = "layer.zip"
  source_code_hash = filebase64sha256("layer.zip")
}

module "tokens" {
  source   = "../" # where you copied the module
  services = ["shop"]
  watchdog = {
    layer_arn         = aws_lambda_layer_version.lambda_once.arn
    runtime           = var.runtime
    metrics_namespace = "Shop"
  }
}

data "archive_file" "payments" {
  type        = "zip"
  source_dir  = "function"
  output_path = "payments.zip"
}

resource "aws_lambda_function" "payments" {
  function_name    = "payments"
  role             = aws_iam_role.payments.arn
  filename         = data.archive_file.payments.output_path
  source_code_hash = data.archive_file.payments.output_base64sha256
  handler          = "payments.charge"
  runtime          = var.runtime
  architectures    = ["arm64"]
  layers           = [aws_lambda_layer_version.lambda_once.arn]
  memory_size      = 512
  timeout          = 30

  environment {
    variables = {
      LAMBDA_ONCE_TABLE            = module.tokens.table
      LAMBDA_ONCE_LISTING          = "stream"
      POWERTOOLS_SERVICE_NAME      = "shop"
      POWERTOOLS_METRICS_NAMESPACE = "Shop"
    }
  }
}

resource "aws_lambda_event_source_mapping" "payments" {
  event_source_arn        = aws_sqs_queue.payments.arn
  function_name           = aws_lambda_function.payments.arn
  function_response_types = ["ReportBatchItemFailures"]
  depends_on              = [aws_iam_role_policy.payments_queue]

  scaling_config {
    maximum_concurrency = 10
  }
}

resource "aws_sqs_queue" "payments" {
  name                       = "payments"
  visibility_timeout_seconds = 180 # six times the function's timeout
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    maxReceiveCount     = 5
  })
}

resource "aws_sqs_queue" "dead_letters" {
  name                      = "payments-dead-letters"
  message_retention_seconds = 1209600
}

resource "aws_iam_role" "payments" {
  name = "payments"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "lambda.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

resource "aws_iam_role_policy" "payments_tokens" {
  role   = aws_iam_role.payments.name
  policy = module.tokens.access["shop"]
}

resource "aws_iam_role_policy" "payments_queue" {
  role = aws_iam_role.payments.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
      Resource = aws_sqs_queue.payments.arn
    }]
  })
}

resource "aws_iam_role_policy_attachment" "payments_logs" {
  role       = aws_iam_role.payments.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
}
