"""Takes orders over HTTP, each once."""

import json
import uuid
from typing import Any

from lambda_once import Once

once = Once()


def save(order_id: str, customer: str, items: list[str]) -> None:
    """Write to your database here."""
    print(f"order {order_id}: {customer} ordered {items}")


@once.api_gateway(without_key="reject")  # the caller, in every token, is the JWT's iss and sub
def create(event: dict[str, Any]) -> dict[str, Any]:
    """Create an order: ``{"items": [...]}``."""
    order_id = str(uuid.uuid4())
    customer = event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
    save(order_id, customer, json.loads(event["body"])["items"])
    return {"statusCode": 201, "body": json.dumps({"orderId": order_id})}
