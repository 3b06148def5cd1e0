"""Mails for announcements of a topic."""

import json
import os
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord

from examples.migrations.outside import call
from lambda_once import Once

once = Once(table=os.environ["TOKEN_TABLE"], service="shop")


def mail(message: dict[str, Any]) -> None:
    """Mail one announcement."""
    call(f"mail {message['text']}")


@once.sns(name="mail", key=lambda record: record.sns.message_id)
def handler(record: SNSEventRecord) -> None:
    """Process one message."""
    mail(json.loads(record.sns.message))
