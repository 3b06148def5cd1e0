"""Guarantee 14: what comes back is what went in, or nothing does; and looking costs little."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from inspect import signature
from math import inf, nan
from typing import Any, ClassVar, Protocol
from uuid import UUID

import pytest
import typing_extensions
from pydantic import BaseModel, Field, SecretStr, field_validator

from lambda_once import MemoryStore, Once, ResultUnavailable
from lambda_once.core import canonical, codec, differences, lazy
from lambda_once.core.codec import Codec
from lambda_once.core.lazy import MOST_PARTS
from lambda_once.observability.reporter import Details
from lambda_once.testing import FakeClock, lambda_context, using

NOTHING = object()


class Answers:
    """Calls one protected function twice with one key, and keeps what it got and what was logged."""

    def __init__(self, make: Callable[..., Any], annotation: Any = NOTHING, **options: Any) -> None:
        self.clock = FakeClock()
        self.lines: list[Details] = []

        def work(key: str) -> Any:
            return self.returned

        del work.__annotations__["return"]
        if annotation is not NOTHING:
            work.__annotations__["return"] = annotation
        once = Once(service="answers", store=MemoryStore(), hooks=[self.lines.append])
        with using(once, clock=self.clock), once.invocation(lambda_context(remaining_ms=30_000)):
            self.returned = make(self.clock) if signature(make).parameters else make()
            protected = once.function(key="key", name="work", **options)(work)
            self.first = protected("k")
            try:
                self.again = protected("k")
            except ResultUnavailable as unavailable:
                self.again = unavailable

    @property
    def is_kept(self) -> bool:
        """Whether a duplicate gets a result."""
        return not isinstance(self.again, ResultUnavailable)

    def reasons(self, event: str) -> list[str]:
        """Return why *event* was logged, each time."""
        return [str(line.reason) for line in self.lines if line.event.value == event]


@dataclass
class Receipt:
    total: Decimal


class Bill(BaseModel):
    total: Decimal
    more: Any = None


class Login(BaseModel):
    password: SecretStr


class Job(BaseModel):
    id: int
    lock: str | None = Field(None, exclude=True)


class Totals(typing.TypedDict):
    total: Decimal


class LaterTotals(typing_extensions.TypedDict):
    total: Decimal


class HasTotal(Protocol):
    total: Decimal


class Cart(dict[str, int]):
    """Pydantic makes no adapter of it."""


@dataclass
class Order:
    cart: Cart
    receipt: Receipt


@dataclass
class Priced:
    totals: Totals


LOGIN = Login(password=SecretStr("hunter2"))
TOTAL = {"total": Decimal("19.90")}
ORDER = Order(Cart(tea=1), Receipt(Decimal("19.90")))

# -- the first caller


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Login, LOGIN),
        (Iterable[Login], [LOGIN]),
        (list[Login], [LOGIN]),
        (Job, Job(id=1, lock="held")),
        (Order, ORDER),
        (NOTHING, {"x": object()}),
        (NOTHING, ["x" * 5_000_000] * 3),
        (NOTHING, (1, Decimal("4.50"))),
        (NOTHING, iter([1])),
    ],
)
def test_a_first_caller_gets_the_object(annotation: Any, value: Any) -> None:
    """Itself, whatever becomes of storing it."""
    assert Answers(lambda: value, annotation).first is value


# -- of a declared type


@pytest.mark.parametrize("declared", [Totals, LaterTotals])
@pytest.mark.parametrize("around", ["", "optional", "list", "values", "union"])
def test_typed_dicts_replay(declared: Any, around: str) -> None:
    """Those of both modules, wherever they are declared: a Decimal in them keeps its digits."""
    annotation, value = {
        "": (declared, TOTAL),
        "optional": (declared | None, TOTAL),
        "list": (list[declared | None], [TOTAL, None]),
        "values": (dict[str, declared | None], {"a": TOTAL}),
        "union": (declared | list[declared], TOTAL),
    }[around]
    assert repr(Answers(lambda: value, annotation).again) == repr(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Cart, Cart(tea=1)),
        (bytearray, bytearray(b"\xff")),
        (HasTotal | None, Receipt(Decimal("19.90"))),
        (Order, ORDER),
        (list[Order | None], [ORDER]),
        (dict[str, Cart], {"a": Cart(tea=1)}),
        (Login, LOGIN),
        (Job, Job(id=1, lock="held")),
        (datetime, datetime(2026, 10, 25, 2, 30, fold=1)),  # noqa: DTZ001  (a naive one)
    ],
)
def test_what_does_not_come_back_is_unavailable(annotation: Any, value: Any) -> None:
    """An instance of a class without an adapter, a mask, a field that isn't written; one line says where."""
    answers = Answers(lambda: value, annotation)
    assert not answers.is_kept
    assert len(answers.reasons("once.result_unavailable")) == 1


@pytest.mark.parametrize(
    ("annotation", "value"), [(Cart, {"tea": 1}), (Order, {"cart": {}, "receipt": None})]
)
def test_a_dict_in_place_of_an_instance_replays(annotation: Any, value: Any) -> None:
    """Nothing of it is lost."""
    assert Answers(lambda: value, annotation).again == value


def test_a_dataclass_with_a_typed_dict() -> None:
    """Of typing's pydantic makes no adapter before Python 3.12: then it is unavailable, never a dict."""
    answers = Answers(lambda: Priced(Totals(total=Decimal("19.90"))), Priced)
    assert answers.again == answers.first if answers.is_kept else answers.reasons("once.result_unavailable")


@pytest.mark.parametrize("value", [nan, [inf, None], {"a": -inf}])
def test_a_float_without_a_type_in_a_model_is_not_lost(value: Any) -> None:
    """Pydantic writes null for it."""
    again = Answers(lambda: Bill(total=Decimal("1.0"), more=value), Bill).again
    assert repr(again) == repr(Bill(total=Decimal("1.0"), more=value))


# -- of none


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (Receipt(Decimal("19.90")), TOTAL),
        ([Receipt(Decimal("5.00"))], [{"total": Decimal("5.00")}]),
        ({"paid": (Receipt(Decimal("1E+2")), 1)}, {"paid": [{"total": Decimal("1E+2")}, 1]}),
        (Bill(total=Decimal("19.90"), more={"x": nan}), {**TOTAL, "more": {"x": nan}}),
        ({Decimal("19.90")}, [Decimal("19.90")]),
        ([frozenset({(Decimal("19.90"), 1)})], [[[Decimal("19.90"), 1]]]),
        ({Decimal("19.90"): [{Decimal("5.00"): 1}]}, {"19.90": [{"5.00": 1}]}),
        (
            Bill(total=Decimal("1.0"), more={Decimal("5.00"): 1}),
            {"total": Decimal("1.0"), "more": {"5.00": 1}},
        ),
        ({UUID(int=1): Receipt(Decimal("19.90"))}, {str(UUID(int=1)): TOTAL}),
    ],
)
def test_a_decimal_keeps_its_digits(value: Any, form: Any) -> None:
    """19.90 as a float is 19.9: printed, signed or compared as text, it is another amount."""
    assert repr(Answers(lambda: value).again) == repr(form)
    pair = (lambda value: {"wrapped": value}, lambda form: form["wrapped"])
    assert repr(Answers(lambda: value, codec=pair).again) == repr(form)


class Blob(BaseModel):
    raw: bytes
    amounts: Any


def test_a_decimal_beside_bytes_keeps_its_digits() -> None:
    """Where pydantic's Python mode is written, as JSON has no such bytes."""
    blob = Blob(raw=b"\xff", amounts=[Decimal("19.90")])
    assert repr(Answers(lambda: blob, Blob).again) == repr(blob)


# -- when it is looked at


def test_a_change_is_looked_for_when_the_token_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only until one is found: nothing depends on it but a line in the log."""
    looks: list[Any] = []
    right = Codec.difference

    def counted(self: Codec, returned: Any, loaded: Any, *late: Any, untyped: bool = False) -> Any:
        if untyped:
            looks.append(returned)
        return right(self, returned, loaded, *late, untyped=untyped)

    monkeypatch.setattr(Codec, "difference", counted)
    events: list[str] = []
    once = Once(service="answers", store=MemoryStore(), hooks=[lambda line: events.append(line.event.value)])
    with using(once):
        protected = once.function(name="work")(lambda number: [number, (number,)] if number else number)
        for number in range(5):
            assert protected(number) == ([number, (number,)] if number else number)
    assert len(looks) == 2
    assert events.count("once.result_changed") == 1
    assert events.index("once.result_changed") == events.index("once.completed", 4) + 1


def test_what_that_comparison_raises_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is complete, and a duplicate gets JSON's form."""

    def raising(*_: Any, **__: Any) -> Any:
        raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr(codec, "difference", raising)
    answers = Answers(lambda: [(1,)])
    assert answers.first is answers.returned
    assert answers.again == [[1]]
    assert answers.reasons("once.result_changed") == []


class Meeting(BaseModel):
    at: datetime

    @field_validator("at", mode="before")
    @classmethod
    def _read(cls, text: Any) -> datetime:
        return datetime.fromisoformat(text)  # of a datetime a TypeError


class Unprinted(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("annotation", "value", "options"),
    [
        (NOTHING, {"at": datetime(2026, 11, 20)}, {"returns": Meeting}),  # noqa: DTZ001
        (dict[str, Login], {Unprinted("a"): LOGIN}, {}),
    ],
)
def test_what_comparing_raises_is_not_raised(annotation: Any, value: Any, options: dict[str, Any]) -> None:
    """The work is done: its caller gets what it returned."""
    answers = Answers(lambda: value, annotation, **options)
    assert answers.first is answers.returned
    assert not answers.is_kept


def test_a_result_of_many_parts_is_unavailable() -> None:
    """Its token waits for the comparison, so that has a limit, and the line says so."""
    answers = Answers(lambda: [Receipt(Decimal(1))] * MOST_PARTS, list[Receipt])
    assert answers.first is answers.returned
    assert not answers.is_kept
    assert answers.reasons("once.result_unavailable")[0].startswith("the result has more than 50,000 parts")


@pytest.mark.parametrize(
    ("annotation", "options"),
    [(NOTHING, {}), (list, {}), (list[Any], {}), (list[Receipt], {"codec": (list, list)})],
)
def test_what_has_no_type_has_no_limit(annotation: Any, options: dict[str, Any]) -> None:
    """Nothing waits for that comparison, and a ``codec=`` isn't compared."""
    value = [Decimal(number) for number in range(MOST_PARTS + 1)]
    assert Answers(lambda: value, annotation, **options).again == value


@dataclass
class Slow:
    """Each reading of its value takes a tenth of a second."""

    value: int
    clock: ClassVar[FakeClock]

    def __getattribute__(self, name: str) -> Any:
        if name == "value":
            Slow.clock.advance(0.1)
        return object.__getattribute__(self, name)


def slow(count: int) -> Callable[[FakeClock], list[Slow]]:
    """Return what makes *count* of them, on a clock."""

    def make(clock: FakeClock) -> list[Slow]:
        Slow.clock = clock
        return [Slow(number) for number in range(count)]

    return make


def test_a_comparison_ends_at_the_deadline() -> None:
    """Of 30 s; each thousand parts it looks, so that a short one is always made."""
    answers = Answers(slow(600), list[Slow])
    assert not answers.is_kept
    (reason,) = answers.reasons("once.result_unavailable")
    assert "could not be compared in time" in reason
    assert Answers(slow(400), list[Slow]).is_kept


def test_twin_without_a_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda would have killed it, with the token in progress."""
    monkeypatch.setattr(differences, "_BETWEEN_LOOKS", MOST_PARTS)
    assert Answers(slow(600), list[Slow]).is_kept


def test_twin_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is compared, however long that takes."""
    monkeypatch.setattr(lazy, "MOST_PARTS", inf)
    assert Answers(lambda: [Receipt(Decimal(1))] * MOST_PARTS, list[Receipt]).is_kept


# -- twins


def test_twin_without_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """A duplicate gets a dict in place of an order, and a mask in place of a password."""
    monkeypatch.setattr(Codec, "difference", lambda *_, **__: None)
    assert Answers(lambda: ORDER, Order).again == {"cart": {"tea": 1}, "receipt": TOTAL}
    assert Answers(lambda: LOGIN, Login).again == Login(password=SecretStr("**********"))


def test_twin_that_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first caller's rows are gone."""
    monkeypatch.setattr(codec, "check_not_lazy", lambda *_, **__: None)
    monkeypatch.setattr(codec, "check_parts", lambda _: False)
    answers = Answers(lambda: Bill.model_construct(total=Decimal(1), more=iter([1, 2])), Bill)
    assert [*answers.first.more] == []


def test_twin_that_loses_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The amount is a float."""
    monkeypatch.setattr(codec, "plain", lambda value, *_: canonical.plain(value))
    assert Answers(lambda: Receipt(Decimal("19.90"))).again == {"total": 19.9}


def test_twin_that_trusts_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decimals and datetimes are equal that show something else."""
    monkeypatch.setattr(differences, "_EXACT", {})
    assert Answers(lambda: datetime(2026, 10, 25, 2, 30, fold=1), datetime).is_kept  # noqa: DTZ001
