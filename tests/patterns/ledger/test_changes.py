"""Ledgers with different windows on one item: no id counts twice, and ids are forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lambda_once.patterns.ledger import Ledger, layout
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground

DAY = timedelta(days=1)


def ids_of(ground: Ground, table: str) -> int:
    """Return how many ids the item holds."""
    stored = ground.client.get_item(TableName=table, Key={"pk": {"S": "c"}}, ConsistentRead=True)["Item"]
    return sum(len(each["BS"]) for each in stored.values() if "BS" in each)


def in_turns(ground: Ground, *options: dict[str, Any], rounds: int = 60) -> list[int]:
    """Let ledgers of these *options* take turns at one item, 16 hours apart; return how many ids it held."""
    table, clock, held = ground.table(), FakeClock(), []
    ledgers = [Ledger(table, ground.client, clock=clock, **each) for each in options]
    for n in range(rounds):
        assert isinstance(ledgers[n % len(ledgers)].add("c", {"n": 1}, id=f"m{n}"), Applied)
        assert isinstance(ledgers[(n + 1) % len(ledgers)].add("c", {"n": 1}, id=f"m{n}"), Duplicate)
        clock.advance(16 * 3600)
        held.append(ids_of(ground, table))
    return held


TURNS = {
    "two windows": [{"window": 14 * DAY}, {"window": 15 * DAY}],
    "a short one and a long one": [{"window": DAY}, {"window": 15 * DAY}],
    "one window, two numbers of buckets": [{"window": 15 * DAY}, {"window": 15 * DAY, "buckets": 17}],
    "three": [{"window": 14 * DAY, "buckets": 8}, {"window": 15 * DAY}, {"window": timedelta(hours=2)}],
}


@pytest.mark.engine
@pytest.mark.parametrize("options", TURNS.values(), ids=TURNS.keys())
def test_windows_in_turns_hold_no_more_ids_than_one(engine: Ground, options: list[dict[str, Any]]) -> None:
    """Over 40 days the item holds what one ledger of the longest window holds, but for a bucket's worth."""
    alone = in_turns(engine, {"window": 15 * DAY, "buckets": 17})
    turns = in_turns(engine, *options)
    assert max(turns) <= max(alone) + 1
    assert turns[-1] < 30


@pytest.mark.engine
def test_windows_in_turns_over_months(engine: Ground) -> None:
    """Ids die as they do with one window, for as long as the turns go on."""
    turns = in_turns(engine, {"window": 14 * DAY}, {"window": 15 * DAY}, rounds=300)
    assert max(turns) == max(turns[60:]) <= 24


@pytest.mark.engine
def test_without_the_longer_layout_ids_never_die(engine: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: where each arranges the ids in its own layout, they get younger each time, and stay."""
    for module in (ledger_requests, layout):
        monkeypatch.setattr(module, "in_use", lambda _, ours: ours)
    two = [{"window": 14 * DAY, "buckets": 3}, {"window": 15 * DAY, "buckets": 3}]
    assert in_turns(engine, *two)[-1] == 60


def test_the_longer_window_holds(ground: Ground) -> None:
    """An id is remembered for the longest window that writes to its item, by any writer."""
    table, clock = ground.table(), FakeClock()
    short, long = (Ledger(table, ground.client, window=each, clock=clock) for each in (DAY, 10 * DAY))
    assert isinstance(long.add("c", {"n": 1}, id="long"), Applied)
    assert isinstance(short.add("c", {"n": 1}, id="short"), Applied)
    clock.advance(10 * 86_400 - 60)
    assert isinstance(short.add("c", {"n": 1}, id="m"), Applied)
    again = [each.add("c", {"n": 1}, id=name) for each in (short, long) for name in ("short", "long")]
    assert [type(each) for each in again] == [Duplicate] * 4
    clock.advance(86_400)
    assert isinstance(short.add("c", {"n": 1}, id="short"), Applied)
