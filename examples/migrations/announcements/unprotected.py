"""Mails for announcements of a topic."""

import json
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.migrations.outside import call


def mail(message: dict[str, Any]) -> None:
    """Mail one announcement."""
    call(f"mail {message['text']}")


def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Process the messages of one event."""
    for record in event["Records"]:
        mail(json.loads(record["Sns"]["Message"]))
