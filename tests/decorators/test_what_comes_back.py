"""What the first caller and a duplicate get, by the type of the result and the door that it goes through."""

from __future__ import annotations

import asyncio
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NewType, TypedDict, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr, field_serializer
from typing_extensions import TypeAliasType as Alias

from lambda_once import Misconfigured, ResultUnavailable
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig, in_memory, on_every_store
from tests.decorators.test_seal import pair

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LARGE = "".join(f"{number:x}" for number in range(30_000))
"""Beyond what the row holds: it is stored in parts."""


@dataclass
class Paid:
    id: str
    cents: int


@dataclass
class Refunded:
    id: str
    cents: int


class ApiKey(BaseModel):
    secret: SecretStr


class Totals(TypedDict):
    total: Decimal


Item = TypeVar("Item")
Yielding = Alias("Yielding", Iterator[Item], type_params=(Item,))
Several = Alias("Several", Iterable[Item], type_params=(Item,))

Door = Callable[[Rig, Any, Any], Callable[[], Any]]


def function(rig: Rig, annotation: Any, result: Any, **options: Any) -> Callable[[], Any]:
    """A protected function."""

    def work(order: str) -> Any:
        return result

    work.__annotations__["return"] = annotation
    protected = rig.once.function(**{"name": "work"} | options)(work)
    return lambda: protected("o-1")


def async_function(rig: Rig, annotation: Any, result: Any) -> Callable[[], Any]:
    """A protected coroutine function."""

    async def work(order: str) -> Any:
        return result

    work.__annotations__["return"] = annotation
    protected = rig.once.function(name="work")(work)
    return lambda: asyncio.run(protected("o-1"))


def called(rig: Rig, annotation: Any, result: Any) -> Callable[[], Any]:
    """`once.run`."""

    def work() -> Any:
        return result

    work.__annotations__["return"] = annotation
    return lambda: rig.once.run("work", "o-1", work)


def sealed(rig: Rig, annotation: Any, result: Any) -> Callable[[], Any]:
    """A function whose results are sealed."""
    return function(rig, annotation, result, seal=pair())


def remembered(rig: Rig, annotation: Any, result: Any) -> Callable[[], Any]:
    """A function whose duplicates are answered from memory."""
    return function(rig, annotation, result, cache=10)


CALLERS = [function, async_function, called, sealed, remembered]
"""Doors whose first caller gets what was returned."""


@pytest.mark.parametrize("door", CALLERS)
@pytest.mark.parametrize(
    ("annotation", "result"),
    [
        (Paid | Refunded, Paid("o-1", 5)),
        (list[Paid], [Paid("o-1", 5)] * 3),
        (Any, {"total": Decimal("4.50"), "many": [Decimal(10**40 + 1)]}),
        (Totals | None, {"total": Decimal("19.90")}),
        (Any, {"text": LARGE}),
        (Paid, Paid(LARGE, 5)),
        (Any, 0),
        (Any, ""),
        (Any, None),
    ],
)
@on_every_store
def test_a_duplicate_gets_an_equal_value(rig: Rig, door: Door, annotation: Any, result: Any) -> None:
    """The first caller gets the object itself; nothing is logged of it."""
    call = door(rig, annotation, result)
    assert call() is result
    again = call()
    assert (type(again), again) == (type(result), result)
    assert {"once.result_changed", "once.result_unavailable"}.isdisjoint(rig.events())


@pytest.mark.parametrize("door", CALLERS)
@pytest.mark.parametrize(
    ("annotation", "result", "path"),
    [
        (Paid | Refunded, Refunded("o-1", 5), "the result: "),
        (ApiKey, ApiKey(secret=SecretStr("s3cr3t")), "secret: "),
        (dict[str, Paid | Refunded], {"a": Refunded("o-1", 5)}, "a: "),
    ],
    ids=["union", "secret", "nested"],
)
@on_every_store
def test_what_would_come_back_different_is_not_replayed(
    rig: Rig, door: Door, annotation: Any, result: Any, path: str
) -> None:
    """The first caller gets what was returned, duplicates an error; one line has the path and the cure."""
    call = door(rig, annotation, result)
    assert call() is result
    for _ in range(2):
        with pytest.raises(ResultUnavailable):
            call()
    (line,) = [each for each in rig.reported if each.event.value == "once.result_unavailable"]
    assert path in str(line.reason)
    assert "codec=" in str(line.reason)
    assert "s3cr3t" not in str(line.reason)


@pytest.mark.parametrize("door", CALLERS)
@in_memory
def test_json_s_form_of_an_untyped_result(rig: Rig, door: Door) -> None:
    """It is what duplicates get; the first time there is a line, with the place and both types."""
    call = door(rig, Any, {"lines": [{"at": NOON}], "pair": (1, 2)})
    assert call() == {"lines": [{"at": NOON}], "pair": (1, 2)}
    assert call() == {"lines": [{"at": NOON.isoformat()}], "pair": [1, 2]}
    (line,) = [each for each in rig.reported if each.event.value == "once.result_changed"]
    assert "lines.0.at: datetime.datetime to str" in str(line.reason)


@in_memory
def test_returns_converts_for_everyone(rig: Rig) -> None:
    """A dict for a dataclass: the first caller gets the dataclass, too."""
    call = function(rig, Any, {"id": "o-1", "cents": 5}, returns=Paid)
    assert call() == call() == Paid("o-1", 5)
    other = function(rig, Any, Refunded("o-1", 5), returns=Paid | Refunded, key="order", name="other")
    assert other() == Refunded("o-1", 5)
    with pytest.raises(ResultUnavailable):
        other()


def of_event(rig: Rig, annotation: Any, result: Any) -> Callable[[], Any]:
    """A handler, whose answer Lambda serialises."""

    def handler(event: Any, context: Any) -> Any:
        return result

    handler.__annotations__["return"] = annotation
    protected = rig.once.event(key="id", name="work")(handler)
    return lambda: protected({"id": 1}, rig.context())


def numbers() -> Iterator[int]:
    """Yield two."""
    yield from (1, 2)


async def later_numbers() -> AsyncIterator[int]:
    """Yield two, later."""
    for number in (1, 2):
        yield number


LAZY: dict[str, tuple[Any, Callable[[], Any]]] = {
    "generator": (Any, numbers),
    "map": (Any, lambda: map(str, (1, 2))),
    "async generator": (Any, later_numbers),
    "declared as an iterable": (Iterable[int], numbers),
    "declared as a list": (list[Paid], numbers),
    "too long": (Iterable[str], lambda: iter(["x" * 100_000] * 120)),
    "not serialisable": (Iterable[int], lambda: iter([object()])),
}


def left_in(lazy: Any) -> int:
    """Return how many values *lazy* has still to yield."""
    if not hasattr(lazy, "__anext__"):
        return len([*lazy])

    async def drained() -> int:
        return len([each async for each in lazy])

    return asyncio.run(drained())


@pytest.mark.parametrize("door", [*CALLERS, of_event])
@pytest.mark.parametrize(("annotation", "make"), LAZY.values(), ids=LAZY)
@in_memory
def test_a_lazy_result_is_not_drained(rig: Rig, door: Door, annotation: Any, make: Callable[[], Any]) -> None:
    """The first caller gets it whole; that what it yields runs unprotected is said."""
    returned = make()
    call = door(rig, annotation, returned)
    assert call() is returned
    with pytest.raises(ResultUnavailable):
        call()
    assert left_in(returned) == left_in(make())
    (line,) = [each for each in rig.reported if each.event.value == "once.lazy_result"]
    assert "Return a list" in str(line.reason)
    assert "once.result_unavailable" not in rig.events()


@dataclass
class Rows:
    number: int
    rows: Any


class Listing(BaseModel):
    model_config = ConfigDict(extra="allow")
    rows: Iterable[int]
    more: Any = None


def listing(**parts: Any) -> Listing:
    """Return one as no validation makes it, which would wrap what it has."""
    return Listing.model_construct(**parts)


INSIDE: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "dataclass": (Any, lambda lazy: Rows(1, lazy)),
    "dict": (dict[str, Any], lambda lazy: {"rows": lazy}),
    "tuple": (Any, lambda lazy: [(1, lazy)]),
    "model": (Any, lambda lazy: listing(rows=lazy)),
    "typed dataclass": (Rows, lambda lazy: Rows(1, lazy)),
    "typed model": (Listing, lambda lazy: listing(rows=lazy)),
    "typed model's Any": (Listing, lambda lazy: listing(rows=[1], more={"a": lazy})),
    "typed model's extra": (Listing, lambda lazy: listing(rows=[1], other=[lazy])),
    "typed list": (list[Rows], lambda lazy: [Rows(1, []), Rows(1, {"a": lazy})]),
    "set": (Any, lambda lazy: {lazy}),
}


@pytest.mark.parametrize("door", [*CALLERS, of_event])
@pytest.mark.parametrize(("annotation", "around"), INSIDE.values(), ids=INSIDE)
@in_memory
def test_a_lazy_part_is_not_drained(
    rig: Rig, door: Door, annotation: Any, around: Callable[[Any], Any]
) -> None:
    """The whole result is unavailable, and its first caller gets it as it was."""
    lazy = numbers()
    returned = around(lazy)
    call = door(rig, annotation, returned)
    assert call() is returned
    with pytest.raises(ResultUnavailable):
        call()
    assert [*lazy] == [1, 2]
    assert rig.events().count("once.lazy_result") == 1


class Cursor:
    """No `Iterator`, as it has no ``__iter__``; pydantic takes it for one all the same."""

    def __init__(self) -> None:
        self.rows = [1, 2]

    def __next__(self) -> int:
        if not self.rows:
            raise StopIteration
        return self.rows.pop()


@pytest.mark.parametrize(("annotation", "around"), INSIDE.values(), ids=INSIDE)
@in_memory
def test_a_part_that_only_has_next_is_not_drained(
    rig: Rig, annotation: Any, around: Callable[[Any], Any]
) -> None:
    """Whatever has a next value is lazy."""
    cursor = Cursor()
    returned = around(cursor)
    call = function(rig, annotation, returned)
    assert call() is returned
    with pytest.raises(ResultUnavailable):
        call()
    assert cursor.rows == [1, 2]
    assert rig.events().count("once.lazy_result") == 1


class Day(Enum):
    MONDAY = "mo"
    TUESDAY = "tu"

    def __next__(self) -> Day:
        return Day.TUESDAY


@dataclass
class Node:
    value: datetime
    following: Node | None = None

    def __next__(self) -> Node | None:
        return self.following


class Page(BaseModel):
    numbers: list[int]
    day: Day = Day.TUESDAY

    def __next__(self) -> Page:
        return Page(numbers=[])


@dataclass
class Paged:
    pages: list[Page]
    last: Node


@pytest.mark.parametrize(
    "returned",
    [Day.MONDAY, Node(NOON, Node(NOON)), Page(numbers=[1]), Paged([Page(numbers=[1])], Node(NOON))],
    ids=["enum", "dataclass", "model", "inside"],
)
@pytest.mark.parametrize("door", CALLERS)
@in_memory
def test_what_has_fields_and_a_next_one_comes_back(rig: Rig, door: Door, returned: Any) -> None:
    """A node of a list isn't lazy: pydantic writes its fields, and asks it for nothing."""
    call = door(rig, type(returned), returned)
    assert call() is returned
    assert call() == returned
    assert "once.lazy_result" not in rig.events()


@dataclass
class Drawn:
    """An iterator that is a dataclass."""

    left: int

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        raise StopIteration


@in_memory
def test_a_dataclass_that_iterates_is_lazy(rig: Rig) -> None:
    """By an ``__iter__`` of its own."""
    with pytest.raises(Misconfigured, match="return a list"):
        function(rig, Drawn, None)
    call = function(rig, list[Any], [Drawn(1)])
    call()
    with pytest.raises(ResultUnavailable):
        call()
    assert rig.events().count("once.lazy_result") == 1


class Listed(BaseModel):
    rows: Any

    @field_serializer("rows")
    def _list(self, rows: Any) -> list[Any]:
        return [*rows]


@pytest.mark.parametrize("door", CALLERS)
@pytest.mark.parametrize(
    "around",
    [
        lambda lazy: Listed(rows=lazy),
        lambda lazy: [Listed(rows=lazy)],
        lambda lazy: {(1, 2): Listed(rows=lazy)},
    ],
    ids=["whole", "in a list", "beside a name that is no text"],
)
@in_memory
def test_a_serialiser_drains_nothing(rig: Rig, door: Door, around: Callable[[Any], Any]) -> None:
    """A model of the user's is not asked for the form of what is lazy in it."""
    lazy = numbers()
    returned = around(lazy)
    call = door(rig, Any, returned)
    assert call() is returned
    with pytest.raises(ResultUnavailable):
        call()
    assert [*lazy] == [1, 2]


@in_memory
def test_a_codec_drains_nothing(rig: Rig) -> None:
    """It isn't asked, as it could do nothing else."""
    for number, returned in enumerate((numbers(), Rows(1, numbers()))):
        call = function(rig, Any, returned, codec=(lambda _: [*numbers()], list), name=f"work-{number}")
        assert call() is returned
        with pytest.raises(ResultUnavailable):
            call()


@pytest.mark.parametrize(("value", "level"), [(numbers, "ERROR"), (lambda: [numbers()], "WARNING")])
@in_memory
def test_lazy_results_are_logged_once_a_function(
    rig: Rig, value: Any, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And all are counted, for the alarm on results that duplicates do not get."""
    with caplog.at_level("DEBUG"):
        protected = rig.once.function(name="work")(lambda key: (key, value())[1])
        for key in range(3):
            protected(key)
    lines = [each.levelname for each in caplog.records if each.getMessage() == "once.lazy_result"]
    assert lines == [level]


@in_memory
def test_a_lazy_result_of_a_record(rig: Rig) -> None:
    """Nobody reads it, and so nothing in it ever runs; the message is acknowledged."""
    charge = rig.once.sqs(name="charge", key="id")(lambda _: numbers())
    for _ in range(2):
        assert charge(sqs_event({"id": 1}), rig.context()) == {"batchItemFailures": []}
    assert rig.events().count("once.lazy_result") == 1
    with pytest.raises(ResultUnavailable):
        _ = rig.once.outcome(1, name="charge").result


@pytest.mark.parametrize(
    "annotation",
    [
        *(Iterator[int], Generator[int, None, None], AsyncIterator[int], AsyncGenerator[int, None]),
        *(typing.Iterator[int], typing.Generator[int, None, None], typing.AsyncIterator[int]),
        *(Iterator, typing.AsyncGenerator, type(iter([])), NewType("Rows", Iterator[int]), Cursor),
        *(Iterator[int] | None, typing.Union[list[int], Generator[int, None, None]]),  # noqa: UP007
        *(Annotated[Iterator[int], "rows"], Awaitable[Iterator[int]], Coroutine[Any, Any, Iterator[int]]),
        Annotated[Awaitable[AsyncIterator[int] | None], "rows"],
        *(Alias("Rows", Iterator[int]), Yielding[int]),
    ],
    ids=str,
)
@pytest.mark.parametrize("door", [function, async_function, called, of_event])
@in_memory
def test_a_lazy_annotation_is_misconfigured(rig: Rig, door: Door, annotation: Any) -> None:
    """Before anything runs, and with what to do."""
    with pytest.raises(Misconfigured, match="return a list"):
        door(rig, annotation, [1])()
    assert rig.events() == []


@in_memory
def test_a_lazy_annotation_elsewhere(rig: Rig) -> None:
    """Also of a record's handler, beside codec=, in returns= and of a block."""

    def work(key: Any) -> Iterator[int]:
        return numbers()

    for decorate in (
        lambda: rig.once.sqs(name="a")(work),
        lambda: rig.once.function(name="b", codec=(list, iter))(work),
        lambda: rig.once.function(name="c", returns=list[int])(work),
        lambda: rig.once.function(name="d", returns=Iterator[int])(len),
    ):
        with pytest.raises(Misconfigured, match="return a list"):
            decorate()
    with pytest.raises(Misconfigured, match="return a list"), rig.once.begin("k", name="e", returns=Iterator):
        raise AssertionError


@pytest.mark.parametrize(
    "annotation",
    [
        *(Iterable[int], typing.Iterable[int], AsyncIterable[int], list[int], Alias("Rows", Iterable[int])),
        *(Several[int], Several[int] | None, Alias("Rows", Iterable[int] | None)),
    ],
    ids=str,
)
@in_memory
def test_an_iterable_is_no_lazy_annotation(rig: Rig, annotation: Any) -> None:
    """A list is one."""
    call = function(rig, annotation, [1, 2])
    assert call() == call() == [1, 2]


@in_memory
def test_a_type_without_an_adapter_says_so_once(rig: Rig) -> None:
    """Its results are plain JSON, and a line names it, though each `once.run` makes its codec anew."""

    class Foreign:
        pass

    def work() -> Any:
        return {"a": 1}

    work.__annotations__["return"] = Foreign | dict[str, int]
    for key in (1, 2, 1):
        assert rig.once.run("work", key, work) == {"a": 1}
    (line,) = [each for each in rig.reported if each.event.value == "once.result_changed"]
    assert "Foreign" in str(line.reason)


@in_memory
def test_a_name_in_the_log_is_bounded(rig: Rig) -> None:
    """The path has names of the result, which may be anyone's text."""
    assert function(rig, Any, {"x" * 5_000 + "\n": (1,)})()
    (line,) = [each for each in rig.reported if each.event.value == "once.result_changed"]
    assert len(str(line.reason)) < 500
    assert "\n" not in str(line.reason)


@in_memory
def test_complete_and_transact_return_what_was_stored(rig: Rig) -> None:
    """They complete the token with a value of their own: everyone gets it as it is read back."""

    @rig.once.function(name="complete")
    def complete(order: str) -> Any:
        return rig.once.current().complete((1, 2))

    @rig.once.function(name="transact")
    def transact(order: str) -> Any:
        rig.once.current().transact([], (3, 4))
        return "something else"

    assert complete("o-1") == complete("o-1") == [1, 2]
    assert transact("o-1") == transact("o-1") == [3, 4]


@in_memory
def test_a_block(rig: Rig) -> None:
    """By its ``returns=``: what would come back different is not replayed to another block."""
    for key, result in (("paid", Paid("o-1", 5)), ("refunded", Refunded("o-1", 5))):
        with rig.once.begin(key, name="block", returns=Paid | Refunded) as attempt:
            assert attempt.complete(result) == result
    with rig.once.begin("paid", name="block", returns=Paid | Refunded) as replayed:
        assert replayed.result == Paid("o-1", 5)
    with pytest.raises(ResultUnavailable), rig.once.begin("refunded", name="block", returns=Paid | Refunded):
        raise AssertionError


@in_memory
def test_who_asks_for_a_records_result_is_told(rig: Rig) -> None:
    """By a function of its name, or `once.outcome`; else nobody reads it: one line, and no error."""

    @rig.once.sqs(name="charge", key="id")
    def charge(record: Any) -> object:
        return object()

    @rig.once.function(name=charge, key="id")
    def ask(id: int) -> None:  # noqa: A002  (the key's name)
        raise AssertionError

    for number in (1, 2, 1):
        assert charge(sqs_event({"id": number}), rig.context()) == {"batchItemFailures": []}
    assert rig.events().count("once.result_not_stored") == 1
    assert {"once.result_unavailable", "once.refused", "once.result_changed"}.isdisjoint(rig.events())
    with pytest.raises(ResultUnavailable):
        ask(1)
    with pytest.raises(ResultUnavailable):
        _ = rig.once.outcome(1, name="charge").result
