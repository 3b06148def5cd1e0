"""A webhook of a payment provider, on an HTTP API. The provider signs each event."""

import hashlib
import hmac
import os
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.migrations.outside import call
from lambda_once import Once

app = APIGatewayHttpResolver()
once = Once(table=os.environ["TOKEN_TABLE"], service="shop")


@once.function(name="ship", key="notice.id", fingerprint=False, keep=timedelta(days=4))
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
    with once.invocation(context):
        return app.resolve(event, context)
