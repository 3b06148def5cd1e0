"""What the first caller and a duplicate get, by the type of the result and the door that it goes through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from lambda_once import ResultUnavailable
from lambda_once.core.codec import Codec
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
def test_one_line_for_each_function(rig: Rig) -> None:
    """However many of its results change."""

    @rig.once.function
    def work(order: int) -> Any:
        return (order,)

    for order in range(3):
        assert work(order) == (order,)
    assert rig.events().count("once.result_changed") == 1


@in_memory
def test_returns_converts_for_everyone(rig: Rig) -> None:
    """A dict for a dataclass: the first caller gets the dataclass, too."""
    call = function(rig, Any, {"id": "o-1", "cents": 5}, returns=Paid)
    assert call() == call() == Paid("o-1", 5)
    other = function(rig, Any, Refunded("o-1", 5), returns=Paid | Refunded, key="order", name="other")
    assert other() == Refunded("o-1", 5)
    with pytest.raises(ResultUnavailable):
        other()


@in_memory
def test_an_iterator_is_read_once(rig: Rig) -> None:
    """Storing it drains it, so the first caller gets what was stored."""
    call = function(rig, Iterable[int], iter([1, 2]))
    assert [*call()] == [*call()] == [1, 2]


@in_memory
def test_a_type_without_an_adapter_says_so(rig: Rig) -> None:
    """Its results are plain JSON, and a line names the type."""

    class Foreign:
        pass

    call = function(rig, Foreign | dict[str, int], {"a": 1})
    assert call() == call() == {"a": 1}
    (line,) = [each for each in rig.reported if each.event.value == "once.result_changed"]
    assert "Foreign" in str(line.reason)


@in_memory
def test_a_type_without_an_adapter_says_so_once(rig: Rig) -> None:
    """Also where each call makes its codec anew, as `once.run` does."""

    class Foreign:
        pass

    def work() -> Any:
        return {"a": 1}

    work.__annotations__["return"] = Foreign | dict[str, int]
    for key in range(3):
        rig.once.run("work", key, work)
    assert rig.events().count("once.result_changed") == 1


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


# ---------------------------------------------------------------- records


@on_every_store
def test_nobody_reads_the_result_of_a_record(rig: Rig) -> None:
    """It is stored as unavailable: one line, no error, and a redelivery is acknowledged."""

    @rig.once.sqs(name="charge", key="id")
    def charge(record: Any) -> object:
        return object()

    for number in (1, 2, 1):
        assert charge(sqs_event({"id": number}), rig.context()) == {"batchItemFailures": []}
    assert rig.events().count("once.result_not_stored") == 1
    assert {"once.result_unavailable", "once.refused", "once.result_changed"}.isdisjoint(rig.events())


@in_memory
def test_who_asks_for_a_records_result_is_told(rig: Rig) -> None:
    """A function of the same name, and `once.outcome`: it is no answer, and null would be one."""

    @rig.once.sqs(name="charge", key="id")
    def charge(record: Any) -> object:
        return object()

    @rig.once.function(name=charge, key="id")
    def ask(id: int) -> None:  # noqa: A002  (the key's name)
        raise AssertionError

    charge(sqs_event({"id": 1}), rig.context())
    with pytest.raises(ResultUnavailable):
        ask(1)
    with pytest.raises(ResultUnavailable):
        _ = rig.once.outcome(1, name="charge").result


# ---------------------------------------------------------------- twins


@in_memory
def test_twin_without_the_comparison(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A duplicate is told that a refund was a payment."""
    monkeypatch.setattr(Codec, "difference", lambda *_: None)
    call = function(rig, Paid | Refunded, Refunded("o-1", 5))
    assert call() == Refunded("o-1", 5)
    assert call() == Paid("o-1", 5)
