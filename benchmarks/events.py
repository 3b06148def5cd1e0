"""The events that all sides get: orders of a few hundred bytes; and what handlers return."""

from __future__ import annotations

import base64
import itertools
import os
import random
from functools import cache
from typing import Any

from lambda_once.testing import api_event, sqs_event

_numbers = itertools.count()
_run = os.urandom(6).hex()


def order(**more: object) -> dict[str, Any]:
    """Return an order that no other is equal to, with *more* in it."""
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
        **more,
    }


def batch(count: int) -> dict[str, Any]:
    """Return an SQS event of *count* new orders."""
    return sqs_event(*(order() for _ in range(count)))


def request() -> dict[str, Any]:
    """Return a POST with a key of its own, as an HTTP API hands it to a function."""
    body = order()
    return api_event("POST", "/orders", body, {"Idempotency-Key": body["orderId"]})


def answer() -> dict[str, Any]:
    """Return what the API's handler answers."""
    return {
        "statusCode": 201,
        "headers": {"Content-Type": "application/json"},
        "body": '{"orderId": "12345", "state": "accepted", "total": 118.8}',
    }


@cache
def result(size: int) -> str:
    """Return text of *size* bytes that does not compress well: base64 of noise, the same every time."""
    return base64.b64encode(random.Random(size).randbytes(size * 3 // 4 + 3)).decode()[:size]  # noqa: S311  (noise, no secret)
