"""An API function with Powertools' idempotency utility, Logger and Metrics."""

import os
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)

logger = Logger()
metrics = Metrics()
layer = DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"])
config = IdempotencyConfig(event_key_jmespath='headers."idempotency-key"')


@logger.inject_lambda_context
@idempotent(persistence_store=layer, config=config)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return {"statusCode": 201, "body": "{}"}
