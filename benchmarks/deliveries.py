"""The events that all sides get: orders of a few hundred bytes."""

from __future__ import annotations

import base64
import itertools
import os
import random
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
