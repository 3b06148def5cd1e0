"""
Announces contracts to their parties: a function on the stream of the contracts' table.

A record has the same eventID at every delivery, so each change is announced once, and those of a contract in
their order. From the first failed record on they are delivered again, until Lambda gives that one up and puts
its place in the stream into the queue of failed events.
"""

from __future__ import annotations

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord

from lambda_once import Once

from .effects import EFFECTS

logger = Logger()
once = Once(logger=logger)


@once.dynamodb_stream(report_failures=True)
def announce(record: DynamoDBRecord) -> None:
    """Announce one version that was written."""
    assert record.dynamodb is not None
    contract = record.dynamodb.keys["pk"]
    EFFECTS.add("announced", contract)
    logger.info("announced", extra={"contract": contract})
