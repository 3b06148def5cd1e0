"""The events that all sides get: orders of a few hundred bytes."""

from __future__ import annotations

import base64
import itertools
import os
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lambda_once.testing import api_event, sqs_event

if TYPE_CHECKING:
    from collections.abc import Sequence

_numbers = itertools.count()
_run = os.urandom(6).hex()


def order() -> dict[str, Any]:
    """Return an order that no other is equal to."""
    number = next(_numbers)
    return {
        "orderId": f"{_run}-{number}",
        "customer": {"id": f"c-{number % 97}", "name": "A. Customer", "city": "Hamburg", "zip": "20095"},
        "lines": [
            {"sku": f"sku-{position:05}", "quantity": position % 7 + 1, "price": f"{position % 90 + 9}.90"}
            for position in range(2)
        ],
        "total": 118.8,
        "currency": "EUR",
    }


def batch(count: int, groups: Sequence[str] | str | None = None) -> dict[str, Any]:
    """Return an SQS event of *count* new orders; with *groups* of a FIFO queue."""
    return sqs_event(*(order() for _ in range(count)), fifo_groups=groups)


def request() -> dict[str, Any]:
    """Return a POST with a key of its own, as an HTTP API hands it to a function."""
    body = order()
    return api_event("POST", "/orders", body, {"Idempotency-Key": body["orderId"]})


def mixed(seen: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the records of both events, by turns."""
    pairs = zip(seen["Records"], new["Records"], strict=True)
    return {"Records": [record for pair in pairs for record in pair]}


def redelivered(event: dict[str, Any]) -> dict[str, Any]:
    """Return the records of *event* as the queue hands them out for the second time."""
    again = {"ApproximateReceiveCount": "2"}
    return {"Records": [{**each, "attributes": each["attributes"] | again} for each in event["Records"]]}


def answer() -> dict[str, Any]:
    """Return what the API's handler answers."""
    return {
        "statusCode": 201,
        "headers": {"Content-Type": "application/json"},
        "body": '{"orderId": "12345", "state": "accepted", "total": 118.8}',
    }


def result(size: int) -> str:
    """Return text of *size* bytes that does not compress well: base64 of noise, the same every time."""
    return base64.b64encode(random.Random(size).randbytes(size * 3 // 4 + 3)).decode()[:size]  # noqa: S311  (noise, no secret)


@dataclass(frozen=True)
class Line:
    """A line of a receipt."""

    sku: str
    quantity: int
    price: Decimal


@dataclass(frozen=True)
class Receipt:
    """What a function returns that has a type."""

    number: str
    customer: str
    lines: list[Line]
    total: Decimal
    paid: datetime
    coupon: str | None = None


def receipt() -> Receipt:
    """Return the receipt of an order."""
    lines = [Line(f"sku-{position:05}", position + 1, Decimal("19.90")) for position in range(2)]
    return Receipt("r-12345", "c-17", lines, Decimal("59.70"), datetime(2026, 11, 20, 10, 12, tzinfo=UTC))


def receipt_as_dict() -> dict[str, Any]:
    """Return the same in JSON types."""
    lines = [
        {"sku": f"sku-{position:05}", "quantity": position + 1, "price": "19.90"} for position in range(2)
    ]
    paid = "2026-11-20T10:12:00Z"
    return {
        "number": "r-12345",
        "customer": "c-17",
        "lines": lines,
        "total": 59.7,
        "paid": paid,
        "coupon": None,
    }
