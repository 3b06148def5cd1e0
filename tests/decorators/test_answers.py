"""
What comes back: each form of a result at each door, to the first caller, a duplicate, the log and outcome.

One table for guarantee 14; what single forms do in detail is tested in test_what_comes_back.py.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NamedTuple, TypedDict
from uuid import UUID

import pytest
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller
from pydantic import BaseModel, SecretStr

from lambda_once import ResultUnavailable
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig
from tests.sources.samples import http

Price = namedtuple("Price", "total currency")  # noqa: PYI024  (without annotations on purpose)


@dataclass
class Receipt:
    """A result of a class of its own."""

    total: Decimal


class Login(BaseModel):
    """A model that masks a field when it is written."""

    password: SecretStr


class Totals(TypedDict):
    """A dict with declared names."""

    total: Decimal


class Colour(Enum):
    """A leaf that JSON lacks."""

    RED = "red"


def lazily() -> Iterator[int]:
    """Yield what would run after the token is complete."""
    yield 1


class Form(NamedTuple):
    """A form of a result, and what becomes of it."""

    make: Callable[[], Any]
    annotation: Any = None
    """The declared type of a function's result; None: none is declared."""
    again: Any = None
    """What a function's duplicate gets; None: a value equal to the first's."""
    line: str | None = None
    """The log line of a function's result."""
    written: str | None = None
    """What a handler's callers get, as Lambda writes it; None: Lambda can't write it."""
    of_handler: str | None = None
    """The log line of a handler's result."""


CHANGED, UNAVAILABLE, LAZY = "once.result_changed", "once.result_unavailable", "once.lazy_result"


FORMS: Final = {
    "JSON": Form(lambda: {"n": [1, 0.5, None, "e"]}, written='{"n": [1, 0.5, null, "e"]}'),
    "a Decimal": Form(lambda: {"t": Decimal("19.90")}, written='{"t": 19.90}'),
    "a tuple": Form(lambda: {"t": (1, 2)}, again={"t": [1, 2]}, line=CHANGED, written='{"t": [1, 2]}'),
    "a named tuple": Form(
        lambda: {"p": Price(1, "EUR")},
        again={"p": [1, "EUR"]},
        line=CHANGED,
        written='{"p": {"total": 1, "currency": "EUR"}}',
    ),
    "bytes inside": Form(lambda: {"r": b"r-1"}, again={"r": "ci0x"}, line=CHANGED, written='{"r": "r-1"}'),
    "a dataclass": Form(
        lambda: Receipt(Decimal("19.90")),
        again={"total": Decimal("19.90")},
        line=CHANGED,
        written='{"total": 19.90}',
    ),
    "a declared dataclass": Form(lambda: Receipt(Decimal("19.90")), Receipt, written='{"total": 19.90}'),
    "a declared TypedDict, or None": Form(
        lambda: {"total": Decimal("19.90")}, Totals | None, written='{"total": 19.90}'
    ),
    "a date": Form(
        lambda: {"on": date(2026, 11, 20)},
        again={"on": "2026-11-20"},
        line=CHANGED,
        written='{"on": "2026-11-20"}',
    ),
    "a UUID, a set, an Enum": Form(
        lambda: [UUID(int=1), {1}, Colour.RED],
        again=[str(UUID(int=1)), [1], "red"],
        line=CHANGED,
        written=f'["{UUID(int=1)}", [1], "red"]',
    ),
    "a masked field": Form(
        lambda: Login(password=SecretStr("s3cr3t")),
        Login,
        UNAVAILABLE,
        UNAVAILABLE,
        of_handler=UNAVAILABLE,
    ),
    "an object without a form": Form(object, again=UNAVAILABLE, line=UNAVAILABLE, of_handler=UNAVAILABLE),
    "an iterator": Form(lazily, again=UNAVAILABLE, line=LAZY, of_handler=LAZY),
    "an iterator inside": Form(lambda: {"rows": lazily()}, again=UNAVAILABLE, line=LAZY, of_handler=LAZY),
}
LINES: Final = {CHANGED, UNAVAILABLE, LAZY, "once.result_not_stored"}

every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def answered(call: Callable[[], Any]) -> Any:
    """Return what *call* returns, or `UNAVAILABLE`."""
    try:
        return call()
    except ResultUnavailable:
        return UNAVAILABLE


def lines(rig: Rig) -> list[str]:
    """Return what was logged of results."""
    return [event for event in rig.events() if event in LINES]


def outcome(rig: Rig) -> Any:
    """Return the result that `once.outcome` has of the work."""
    found = rig.once.outcome("5", name="work")
    assert found.state == "complete"
    return answered(lambda: found.result)


def written(value: Any) -> str | None:
    """Return *value* as Lambda's runtime writes it; None if it refuses."""
    try:
        text: str = LambdaMarshaller().marshal_response(value)[0]
    except Exception:  # noqa: BLE001  (its own error, whatever that is)
        return None
    return text


@every_form
def test_of_a_function(rig: Rig, form: Form) -> None:
    """The first caller gets the object; a duplicate an equal value, JSON's form, or `ResultUnavailable`."""
    made: list[Any] = []

    def work(key: str) -> Any:
        made.append(form.make())
        return made[0]

    if form.annotation is not None:
        work.__annotations__["return"] = form.annotation
    protected = rig.once.function(key="key", name="work")(work)
    assert protected("5") is made[0]
    wanted = made[0] if form.again is None else form.again
    again = answered(lambda: protected("5"))
    assert (type(again), repr(again)) == (type(wanted), repr(wanted))
    assert len(made) == 1
    assert lines(rig) == ([] if form.line is None else [form.line])


@every_form
def test_of_a_handler(rig: Rig, form: Form) -> None:
    """What the runtime can write goes to it untouched; everybody gets the same JSON."""
    made: list[Any] = []

    @rig.once.event(key="id", name="work")
    def handler(event: Any, context: Any) -> Any:
        made.append(form.make())
        return made[0]

    first = handler({"id": "5"}, rig.context())
    again = answered(lambda: handler({"id": "5"}, rig.context()))
    if form.written is None:
        assert (first is made[0], again) == (True, UNAVAILABLE)
    else:
        assert (written(first), written(again)) == (form.written, form.written)
        assert written(made[0]) in (None, form.written)
        assert (first is made[0]) is (written(made[0]) is not None)
    assert lines(rig) == ([] if form.of_handler is None else [form.of_handler])


@every_form
def test_of_a_handler_of_requests(rig: Rig, form: Form) -> None:
    """A shorthand's body is what the runtime writes; what can't be kept is 409 for each retry."""
    made: list[Any] = []

    @rig.once.api_gateway(name="work")
    def handler(event: Any, context: Any) -> Any:
        made.append(form.make())
        return made[0]

    request = http(headers={"idempotency-key": "5"})
    first, again = handler(request, rig.context()), handler(request, rig.context())
    assert len(made) == 1
    if form.written is None:
        assert first is made[0]
        assert (again["statusCode"], json.loads(again["body"])["type"]) == (
            409,
            "urn:lambda-once:result-unavailable",
        )
    else:
        assert written(first) == form.written
        assert (again["statusCode"], again["body"]) == (200, form.written)


@every_form
def test_of_a_record(rig: Rig, form: Form) -> None:
    """Nobody gets it; `once.outcome` has JSON's form."""

    @rig.once.sqs(key="id", name="work")
    def handler(record: Any) -> Any:
        return form.make()

    for _ in range(2):
        assert handler(sqs_event({"id": "5"}), rig.context()) == {"batchItemFailures": []}
    assert lines(rig) in ([], ["once.result_not_stored"], [LAZY])
