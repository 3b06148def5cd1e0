"""
The orders API: four routes of one Powertools Event Handler, three of them protected.

A client that got no answer sends its request again with the same ``Idempotency-Key`` and gets the
answer of the first, marked ``Idempotent-Replayed: true``.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambda_once import HOLD, Once

from .effects import EFFECTS
from .gateway import GATEWAY, CardDeclined, GatewayTimeout

logger = Logger()
app = APIGatewayHttpResolver()
once = Once(logger=logger)


# A customer without credit stays without: the 409 is stored. A 422 is not, for nothing was done and
# the client may correct its order. Without Idempotency-Key, two equal orders within five minutes are one.
@app.post("/orders", middlewares=[once.route(store_status={HTTPStatus.CONFLICT})])
def create_order() -> Response[str]:
    """Create an order: ``{"orderId": ..., "customer": ..., "items": [...]}``."""
    order = app.current_event.json_body
    if not order.get("items"):
        return answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": "an order has at least one item"})
    if order["customer"] == "cust_blocked":
        return answer(HTTPStatus.CONFLICT, {"error": "this customer has no credit"})
    EFFECTS.add("created", order["orderId"])
    logger.info("created", extra={"order_id": order["orderId"]})
    return answer(HTTPStatus.CREATED, {"orderId": order["orderId"], "status": "new"})


# A payment without a key is refused: two clicks on "pay" must not be told apart by luck.
@app.post(
    "/orders/<order_id>/pay",
    middlewares=[
        once.route(
            without_key="reject",
            store_status={HTTPStatus.PAYMENT_REQUIRED},
            on_error={GatewayTimeout: HOLD},
        )
    ],
)
def pay_order(order_id: str) -> Response[str]:
    """Pay an order: ``{"card": ..., "amount": <cents>}``."""
    payment = app.current_event.json_body
    key = once.current().downstream_key("charge")
    try:
        receipt = GATEWAY.charge(order_id, payment["card"], payment["amount"], idempotency_key=key)
    except CardDeclined as error:
        return answer(HTTPStatus.PAYMENT_REQUIRED, {"error": str(error)})
    logger.info("paid", extra={"order_id": order_id, "charge_id": receipt.charge_id})
    return answer(HTTPStatus.OK, {"orderId": order_id, "chargeId": receipt.charge_id})


# Behind the authorizer (template.yaml): whom it names is part of the token, so customers with the same key
# never meet. `caller=` says that it is a person, so one whose session was renewed gets the stored answer.
by_customer = once.route(caller="requestContext.authorizer.lambda.principalId")


@app.post("/orders/<order_id>/cancel", middlewares=[by_customer])
def cancel_order(order_id: str) -> Response[str]:
    """Cancel an order."""
    customer = app.current_event["requestContext"]["authorizer"]["lambda"]["principalId"]
    EFFECTS.add("cancelled", order_id)
    return answer(HTTPStatus.OK, {"orderId": order_id, "status": "cancelled", "customer": customer})


@app.get("/orders/<order_id>")
def get_order(order_id: str) -> Response[str]:
    """Tell how an order stands. Reading has no effect, so nothing guards it."""
    if not EFFECTS.count("created", order_id):
        return answer(HTTPStatus.NOT_FOUND, {"error": "no such order"})
    status = "paid" if EFFECTS.count("charged", order_id) else "new"
    return answer(HTTPStatus.OK, {"orderId": order_id, "status": status})


# Only after the token was held: the route's middleware sees the exception first.
@app.exception_handler(GatewayTimeout)  # type: ignore[untyped-decorator]  # Powertools leaves it untyped
def not_answered(error: GatewayTimeout) -> Response[str]:
    """Tell the client that nobody knows yet; asking again with the same key does not pay twice."""
    return answer(HTTPStatus.GATEWAY_TIMEOUT, {"error": str(error)})


def answer(status: HTTPStatus, body: dict[str, object]) -> Response[str]:
    """Build a JSON response."""
    return Response(status.value, content_type="application/json", body=json.dumps(body))


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request of the HTTP API."""
    with once.invocation(context):  # tells the routes how much time remains
        return app.resolve(event, context)
