#!/usr/bin/env bash
# Package: aws-lambda-powertools 3.37.0
# Behaviour: process_partial_response with an `async def` record handler runs nothing and reports every record as done, so Lambda deletes
#   the messages. Python only warns.
# Expected: an error, or a report of failures: async_process_partial_response is the one that awaits.
# Source: read in aws_lambda_powertools.utilities.batch.base.BatchProcessor._process_record, which takes the coroutine for the result.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check aws-lambda-powertools==3.37.0
venv/bin/python -W ignore - <<'PYTHON' | tee seen
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

ran = []

async def work(record):
    ran.append(record.message_id)
    raise ValueError

RECORD = {"messageId": "m-1", "receiptHandle": "r", "body": "{}", "attributes": {}, "messageAttributes": {}, "md5OfBody": "-",
          "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:orders", "awsRegion": "eu-west-1"}
print(process_partial_response({"Records": [RECORD]}, work, BatchProcessor(event_type=EventType.SQS)), ran)
PYTHON
diff seen - <<'SEEN'
{'batchItemFailures': []} []
SEEN
