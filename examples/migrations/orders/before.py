"""An order API on a REST API. Clients send an Idempotency-Key."""

import json
import os
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyKeyError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.migrations.outside import call

app = APIGatewayRestResolver()
layer = DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"])
config = IdempotencyConfig(
    event_key_jmespath='headers."Idempotency-Key"',
    payload_validation_jmespath="body",
    raise_on_no_idempotency_key=True,
    expires_after_seconds=24 * 60 * 60,
)


@app.post("/orders")
def create_order() -> Any:
    """Place an order: ``{"customer": ..., "items": [...]}``."""
    order = app.current_event.json_body
    if not order.get("items"):
        return {"error": "an order has an item"}, 422
    number = call(f"order of {order['customer']}")
    return {"order": number}, 201


@idempotent(config=config, persistence_store=layer)
def resolve(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer a request whose key is new."""
    return app.resolve(event, context)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    try:
        return resolve(event, context)
    except IdempotencyKeyError:
        return {"statusCode": 400, "body": json.dumps({"error": "send an Idempotency-Key"})}
    except IdempotencyValidationError:
        return {"statusCode": 422, "body": json.dumps({"error": "this key was used for another order"})}
    except IdempotencyAlreadyInProgressError:
        return {"statusCode": 409, "body": json.dumps({"error": "this order is in progress"})}
