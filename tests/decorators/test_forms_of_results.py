"""
Each form of a result, returned by each kind of work: a table, with a test for each of its cells.

A cell says what becomes of the result: for its first caller, for a duplicate, in the log, and for whoever
asks for the outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum, auto
from typing import Any, Final, NamedTuple
from uuid import UUID

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

from lambda_once import ResultUnavailable
from lambda_once.core.codec import JSON
from lambda_once.integrations.event_handler import revived
from lambda_once.testing import lambda_context, sqs_event
from tests.decorators.rig import Rig, in_memory
from tests.kit.runtime import marshalled
from tests.sources.samples import http


class Price(NamedTuple):
    total: Decimal
    currency: str


@dataclass
class Receipt:
    total: Decimal
    raw: bytes


class Becomes(Enum):
    """What becomes of a result."""

    SAME = auto()
    """The first caller gets the object, and everyone an equal value or the same JSON. No line."""
    CHANGED = auto()
    """As above, but that others get JSON's form of it: a line says so."""
    FORMED = auto()
    """Everyone gets its form, the first caller too. No line."""
    UNAVAILABLE = auto()
    """The first caller gets the object, and others an error: a line says so."""
    LAZY = auto()
    """As above, with a line of its own."""


SAME, CHANGED, FORMED, UNAVAILABLE, LAZY = Becomes
FORMS: Final[dict[str, Callable[[], Any]]] = {
    "None": lambda: None,
    "JSON": lambda: {"id": 5, "name": "é", "parts": [1.5, True, None]},
    "Decimals": lambda: [Decimal("19.90"), Decimal("1E+2")],
    "a named tuple": lambda: {"price": Price(Decimal("1.50"), "EUR")},
    "a tuple": lambda: {"pair": (1, 2)},
    "bytes inside": lambda: {"raw": b"r"},
    "numbers as names": lambda: {1: "a", 2.5: "b"},
    "equal names": lambda: {1: "a", "1": "b"},
    "a date": lambda: {"on": date(2026, 11, 20)},
    "a UUID": lambda: {"id": UUID(int=1)},
    "a dataclass": lambda: {"receipt": Receipt(Decimal("19.90"), b"r")},
    "a set": lambda: {"ids": {2, 1}},
    "bytes that are no UTF-8": lambda: {"raw": b"\x89PNG"},
    "an object": lambda: {"of": object()},
    "an iterator": lambda: iter([1]),
    "an iterator inside": lambda: {"rows": iter([1])},
}
WORKS: Final = ("function", "handler", "route", "record")
TABLE: Final[dict[str, tuple[Becomes, ...]]] = {
    "None": (SAME, SAME, SAME, SAME),
    "JSON": (SAME, SAME, SAME, SAME),
    "Decimals": (SAME, SAME, SAME, SAME),
    "a named tuple": (CHANGED, SAME, SAME, SAME),
    "a tuple": (CHANGED, SAME, SAME, SAME),
    "bytes inside": (CHANGED, SAME, FORMED, SAME),
    "numbers as names": (CHANGED, SAME, SAME, SAME),
    "equal names": (CHANGED, UNAVAILABLE, UNAVAILABLE, SAME),
    "a date": (CHANGED, FORMED, FORMED, SAME),
    "a UUID": (CHANGED, FORMED, FORMED, SAME),
    "a dataclass": (CHANGED, FORMED, FORMED, SAME),
    "a set": (CHANGED, FORMED, FORMED, SAME),
    "bytes that are no UTF-8": (CHANGED, UNAVAILABLE, UNAVAILABLE, SAME),
    "an object": (UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, UNAVAILABLE),
    "an iterator": (LAZY, LAZY, LAZY, LAZY),
    "an iterator inside": (LAZY, LAZY, LAZY, LAZY),
}
EVENTS: Final = {
    CHANGED: ["once.result_changed"],
    UNAVAILABLE: ["once.result_unavailable"],
    LAZY: ["once.lazy_result"],
}


def call_of(rig: Rig, work: str, result: Any) -> Callable[[], Any]:
    """Return what delivers one piece of *work*, which returns *result*."""
    if work == "route":
        return resolving(result, middlewares=[rig.once.route(name="w", key=lambda _: 5)])
    if work == "function":
        function = rig.once.function(key="order", name="w")(lambda order: (order, result)[1])
        return lambda: function(5)
    decorate, event = (
        (rig.once.sqs, sqs_event({"id": 5})) if work == "record" else (rig.once.event, {"id": 5})
    )
    handler: Any = decorate(key="id", name="w")(lambda _: result)
    return lambda: handler(event, rig.context())


def resolving(result: Any, **options: Any) -> Callable[[], Any]:
    """Return what resolves one request of a route that returns *result*."""
    app = APIGatewayHttpResolver()

    @app.post("/orders/<order>/pay", **options)
    def pay(order: str) -> Any:
        return result

    return lambda: app.resolve(http(), lambda_context())


def answer(call: Callable[[], Any]) -> Any:
    """Return what *call* returns, without the mark of a replay, or its error."""
    try:
        answered = call()
    except (ResultUnavailable, TypeError) as error:  # TypeError: no resolver can write it
        return type(error)
    if isinstance(answered, dict) and "headers" in answered:
        answered["headers"].pop("Idempotent-Replayed", None)
    return answered


def check_function(first: Any, again: Any, asked: Any, result: Any, becomes: Becomes) -> None:
    """Its caller gets the object, and others the value or JSON's form of it."""
    assert first is result
    if becomes in {SAME, CHANGED}:
        assert (repr(again) == repr(result)) is (becomes is SAME)
        assert again == asked == JSON.round_trip(result)
    else:
        assert again is asked is ResultUnavailable


def check_handler(first: Any, again: Any, asked: Any, result: Any, becomes: Becomes) -> None:
    """The runtime writes the same JSON."""
    assert (first is result) is (becomes is not FORMED)
    if becomes in {SAME, FORMED}:
        assert marshalled(first) == marshalled(again) == marshalled(asked)
    else:
        assert again is asked is ResultUnavailable


def check_route(first: Any, again: Any, asked: Any, result: Any, becomes: Becomes) -> None:
    """The first response is as without us, unless the resolver refuses it."""
    assert (first == answer(resolving(result))) is (becomes is not FORMED)
    if becomes in {SAME, FORMED}:
        assert first == again == answer(resolving(revived(asked)))
    else:
        assert again["statusCode"] == 409
        assert asked is ResultUnavailable


def check_record(first: Any, again: Any, asked: Any, result: Any, becomes: Becomes) -> None:
    """It is acknowledged whatever it returns; only the outcome has that."""
    assert first == again == {"batchItemFailures": []}
    assert asked == (JSON.round_trip(result) if becomes is SAME else ResultUnavailable)


CHECKS: Final = dict(zip(WORKS, (check_function, check_handler, check_route, check_record), strict=True))


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("form", FORMS)
@in_memory
def test_a_cell(rig: Rig, form: str, work: str) -> None:
    """First caller, duplicate, log and outcome agree on what becomes of the result."""
    result, becomes = FORMS[form](), TABLE[form][WORKS.index(work)]
    call = call_of(rig, work, result)
    first, again = answer(call), answer(call)
    scope = ["POST", "/orders/5/pay"] if work == "route" else None
    outcome: Any = rig.once.outcome(5, name="w", scope=scope)
    assert outcome.state == "complete"
    CHECKS[work](first, again, answer(lambda: outcome.result), result, becomes)
    events = [event.replace("not_stored", "unavailable") for event in rig.events() if "result" in event]
    assert events == EVENTS.get(becomes, [])


def test_each_form_is_in_the_table() -> None:
    """For each kind of work."""
    assert {form: len(cells) for form, cells in TABLE.items()} == dict.fromkeys(FORMS, len(WORKS))
