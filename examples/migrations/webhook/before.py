"""A webhook of a payment provider, on an HTTP API. The provider signs each event."""

import hashlib
import hmac
import os
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.migrations.outside import call

app = APIGatewayHttpResolver()
layer = DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"])
config = IdempotencyConfig(event_key_jmespath="id", expires_after_seconds=4 * 24 * 60 * 60)


@idempotent_function(data_keyword_argument="notice", config=config, persistence_store=layer)
def ship(notice: dict[str, Any]) -> None:
    """Ship what was paid."""
    call(f"ship {notice['order']}")


@app.post("/webhook")
def webhook() -> Response[str]:
    """Take one event."""
    body = app.current_event.decoded_body or ""
    sent = app.current_event.headers.get("x-signature", "")
    expected = hmac.new(os.environ["WEBHOOK_SECRET"].encode(), body.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(sent, expected):
        return Response(401)
    ship(notice=app.current_event.json_body)
    return Response(204)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    config.register_lambda_context(context)
    return app.resolve(event, context)
