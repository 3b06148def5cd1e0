"""Payments from a queue, in batches."""

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.migrations.outside import call

processor = BatchProcessor(event_type=EventType.SQS)


def charge(record: SQSRecord) -> dict[str, Any]:
    """Charge one card."""
    payment = record.json_body
    return {"receipt": call(f"charge {payment['amount']} for {payment['paymentId']}")}


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Work a batch, and return the messages that failed."""
    return process_partial_response(event=event, record_handler=charge, processor=processor, context=context)
