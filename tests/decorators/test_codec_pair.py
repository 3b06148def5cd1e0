"""`codec=`: a pair of functions of the developer's writes and reads results."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest

from lambda_once import MemoryStore, Misconfigured, Once, ResultUnavailable
from tests.decorators.rig import Rig, in_memory


@dataclass(frozen=True)
class Money:
    """No annotation of a function below names it."""

    cents: int


def to_json(money: Money) -> dict[str, int]:
    """Return what JSON can write."""
    return {"c": money.cents}


def from_json(data: dict[str, int]) -> Money:
    """Return what `to_json` was given."""
    return Money(data["c"])


def test_the_pair_writes_and_reads(rig: Rig) -> None:
    """Every caller, the first included, gets what the pair reads; the row has what it wrote."""
    runs: list[int] = []

    @rig.once.function(key="order", codec=(to_json, from_json))
    def charge(order: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
        runs.append(order)
        return Money(4990)

    assert [charge(5), charge(5), charge(order=5)] == [Money(4990)] * 3
    assert runs == [5]
    assert json.loads(rig.row().stored.data) == {"c": 4990}  # type: ignore[union-attr]


@in_memory
def test_it_serves_events_blocks_and_coroutines(rig: Rig) -> None:
    """`once.event`, `once.begin` and async functions take it, too."""

    @rig.once.event(key="id", codec=(to_json, from_json))
    def handler(event: dict[str, Any]) -> Any:
        return Money(1)

    @rig.once.function(key="n", codec=(to_json, from_json))
    async def work(n: int) -> Any:
        return Money(n)

    assert [handler({"id": 1}, rig.context()) for _ in range(2)] == [Money(1)] * 2
    assert [asyncio.run(work(2)) for _ in range(2)] == [Money(2)] * 2
    with rig.once.begin("k", name="work", codec=(to_json, from_json)) as first:
        assert first.complete(Money(3)) == Money(3)
    with rig.once.begin("k", name="work", codec=(to_json, from_json)) as second:
        assert second.result == Money(3)


@in_memory
def test_none_never_reaches_the_pair(rig: Rig) -> None:
    """None is stored as None, as in Powertools."""

    @rig.once.function(key="n", codec=(to_json, from_json))
    def work(n: int) -> Any:
        return None

    assert [work(1), work(1)] == [None, None]


@in_memory
@pytest.mark.parametrize("broken", [(lambda _: object(), from_json), (to_json, lambda _: 1 / 0)])
def test_what_the_pair_cannot_store_is_done_all_the_same(rig: Rig, broken: Any) -> None:
    """The work is not repeated (guarantee 5): duplicates get `ResultUnavailable`."""
    runs: list[int] = []

    @rig.once.function(key="n", codec=broken)
    def work(n: int) -> Any:
        runs.append(n)
        return Money(n)

    assert work(1) == Money(1)
    with pytest.raises(ResultUnavailable):
        work(1)
    assert runs == [1]


async def _awaited(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("codec", "problem"),
    [
        (to_json, "give a pair of functions"),
        ((to_json,), "give a pair of functions"),
        ((to_json, 5), "give a pair of functions"),
        ((to_json, _awaited), "async ones would not be awaited"),
        ((to_json, lambda: None), "both functions must accept one argument"),
    ],
)
def test_mistakes_are_found_when_decorated(codec: Any, problem: str) -> None:
    """Nothing waits for the first result."""
    with pytest.raises(Misconfigured, match=f"codec=.*{problem}"):
        Once(store=MemoryStore()).function(key="n", codec=codec)


def test_it_is_not_given_with_returns() -> None:
    """Two ways to read one result are a mistake."""
    with pytest.raises(Misconfigured, match="it replaces returns="):
        Once(store=MemoryStore()).function(key="n", codec=(to_json, from_json), returns=Money)
