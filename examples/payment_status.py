"""``GET /orders/{id}/payment``: what became of a charge, for its customer, without running anything."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from pydantic import BaseModel

from lambda_once import STORE, Once, Outcome, ResultUnavailable, StoredError

once = Once(service="shop")
app = APIGatewayHttpResolver()

ORDERS = {"o-1": {"customer": "alice"}, "o-2": {"customer": "alice"}}
MOST = 6


class Receipt(BaseModel):
    """What the customer gets."""

    order: str
    total: int


class Declined(Exception):
    """The card was declined."""


@once.function(name="charge", key="order_id", on_error={Declined: STORE})
def charge(order_id: str, total: int) -> Receipt:
    """Charge the order; elsewhere, such as in a function on a queue."""
    if total > MOST:
        raise Declined("no funds")
    return Receipt(order=order_id, total=total)


def receipt_of(outcome: Outcome[Receipt]) -> dict[str, Any]:
    """Return the receipt; an operator may have completed the charge without one, or erased it."""
    with suppress(ResultUnavailable):
        receipt: Receipt | None = outcome.result
        return {} if receipt is None else {"receipt": receipt.model_dump()}
    return {}


def why(error: StoredError | None) -> dict[str, str]:
    """Return the message of the application's own error; an operator's reason is of another kind."""
    return {"why": str(error)} if error is not None and error.kind == Declined.__name__ else {}


@app.get("/orders/<order_id>/payment")
def payment(order_id: str) -> dict[str, Any]:
    """Return what became of the charge. Ids are guessable, so ask first whose order it is."""
    authorizer: Any = app.current_event.request_context.authorizer
    if ORDERS.get(order_id, {}).get("customer") != authorizer.jwt_claim["sub"]:
        raise NotFoundError(order_id)
    outcome = once.outcome(order_id, name="charge", returns=Receipt)
    match outcome.state:
        case "complete":
            return {"payment": "paid"} | receipt_of(outcome)
        case "failed":
            return {"payment": "declined"} | why(outcome.error)
        case "unknown" | "released":
            return {"payment": "open"}
        case _:  # in progress, or its outcome is not known yet
            return {"payment": "pending"}


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer a request."""
    with once.invocation(context):
        return app.resolve(event, context)
