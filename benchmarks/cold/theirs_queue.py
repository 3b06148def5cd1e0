"""A queue function with Powertools' batch and idempotency utilities, Logger and Metrics."""

import os
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

logger = Logger()
metrics = Metrics()
processor = BatchProcessor(event_type=EventType.SQS)
layer = DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"])
config = IdempotencyConfig()


@idempotent_function(data_keyword_argument="order", persistence_store=layer, config=config)  # type: ignore[untyped-decorator]
def charge(order: Any) -> None:
    pass


def charge_record(record: SQSRecord) -> None:
    charge(order=record.json_body)


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Any) -> Any:
    config.register_lambda_context(context)
    return process_partial_response(
        event=event, record_handler=charge_record, processor=processor, context=context
    )
