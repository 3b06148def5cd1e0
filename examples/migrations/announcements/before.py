"""Mails for announcements of a topic."""

import json
import os
import time
from typing import Any

import boto3
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from examples.migrations.outside import call

processed = boto3.resource("dynamodb").Table(os.environ["PROCESSED_TABLE"])


def mail(message: dict[str, Any]) -> None:
    """Mail one announcement."""
    call(f"mail {message['text']}")


def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Process the messages of one event."""
    for record in event["Records"]:
        message_id = record["Sns"]["MessageId"]
        try:
            processed.put_item(
                Item={"message_id": message_id, "expires": int(time.time()) + 24 * 60 * 60},
                ConditionExpression="attribute_not_exists(message_id)",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                continue
            raise
        try:
            mail(json.loads(record["Sns"]["Message"]))
        except Exception:
            processed.delete_item(Key={"message_id": message_id})
            raise
