"""An order API on a REST API. Clients send an Idempotency-Key."""

import os
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.migrations.outside import call
from lambda_once import Once

app = APIGatewayRestResolver()
once = Once(table=os.environ["TOKEN_TABLE"], service="shop")


@app.post("/orders", middlewares=[once.route(name="order", without_key="reject")])
def create_order() -> Any:
    """Place an order: ``{"customer": ..., "items": [...]}``."""
    order = app.current_event.json_body
    if not order.get("items"):
        return {"error": "an order has an item"}, 422
    number = call(f"order of {order['customer']}")
    return {"order": number}, 201


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return app.resolve(event, context)
