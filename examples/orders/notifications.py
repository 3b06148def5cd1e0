"""
Mails customers: an SNS function.

Without ``key=`` the message itself is the key: two equal notices within ``keep`` are one mail. What SNS puts
around it (timestamp, signature) changes with each delivery and counts for nothing.
"""

from __future__ import annotations

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord

from lambda_once import Once

from .effects import EFFECTS

logger = Logger()
once = Once(logger=logger)


@once.sns
def notify(record: SNSEventRecord) -> None:
    """Mail one notice to its customer."""
    EFFECTS.add("mailed", record.sns.message_id)
    logger.info("mailed", extra={"subject": record.sns.subject})
