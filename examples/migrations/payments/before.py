"""Payments from a queue, in batches."""

import os
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.migrations.outside import call

processor = BatchProcessor(event_type=EventType.SQS)
layer = DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"])
config = IdempotencyConfig(
    event_key_jmespath="powertools_json(body).paymentId",
    payload_validation_jmespath="powertools_json(body).amount",
    expires_after_seconds=14 * 24 * 60 * 60,
)


@idempotent_function(data_keyword_argument="record", config=config, persistence_store=layer)
def charge(record: SQSRecord) -> dict[str, Any]:
    """Charge one card."""
    payment = record.json_body
    return {"receipt": call(f"charge {payment['amount']} for {payment['paymentId']}")}


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Work a batch, and return the messages that failed."""
    config.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=charge, processor=processor, context=context)
