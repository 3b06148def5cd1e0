"""A ledger whose shards or windows change: no id counts twice, no sum is lost, and ids are forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger import Ledger, layout
from lambda_once.patterns.ledger import ledger as ledger_module
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.testing import FakeClock
from tests.kit.faulty import FaultyClient, every_second_answer_lost
from tests.patterns.conftest import Ground
from tests.patterns.ledger.test_faults import until_answered

DAY = timedelta(days=1)
IDS = [f"m{n}" for n in range(12)]


# -- another number of shards


def counted(ground: Ground, table: str, ids: list[str], **shards: Any) -> set[type]:
    """Add one for each of *ids* by a ledger of these *shards*, on a line that loses answers."""
    client = FaultyClient(ground.client, every_second_answer_lost())
    points = Ledger(table, client, window=14 * DAY, clock=FakeClock(), **shards)
    return {type(until_answered(lambda name=name: points.add("home", {"n": 1}, id=name))) for name in ids}  # type: ignore[misc]


def balance(ground: Ground, table: str, **shards: Any) -> Any:
    """Return the sum, as a ledger of these *shards* reads it."""
    return Ledger(table, ground.client, window=14 * DAY, **shards).get("home")


CHANGES = [(1, 4), (4, 7), (7, 4), (4, 1), (1, 2)]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_by_two_deployments_no_id_counts_again(ground: Ground, old: int, new: int) -> None:
    """
    Redeliveries of each step meet the ids of all before, whichever version of the function they reach.

    While a deployment runs, both versions run: that of the old number and of the step before the change,
    then of that and of the new number.
    """
    table, (first, second, third, fourth) = ground.table(), (IDS[:3], IDS[3:6], IDS[6:9], IDS[9:])
    before, after = {"shards": old, "shards_next": new}, {"shards": new, "shards_before": old}
    counted(ground, table, first, shards=old)
    assert counted(ground, table, first, **before) == {Duplicate}
    counted(ground, table, second, **before)
    assert counted(ground, table, first + second, shards=old) == {Duplicate}
    assert counted(ground, table, first + second, **after) == {Duplicate}
    counted(ground, table, third, **after)
    assert counted(ground, table, first + second + third, **before) == {Duplicate}
    counted(ground, table, fourth, **before)
    assert counted(ground, table, IDS, **after) == {Duplicate}
    assert balance(ground, table, **before) == balance(ground, table, **after) == {"n": len(IDS)}


@pytest.mark.parametrize(("old", "new"), [(1, 4), (4, 7), (1, 2)])
def test_more_shards_keep_the_sum(ground: Ground, old: int, new: int) -> None:
    """Even of a change at once: what was counted before is read, the item without a number included."""
    table = ground.table()
    counted(ground, table, IDS, shards=old)
    counted(ground, table, ["new"], shards=new)
    assert balance(ground, table, shards=new)["n"] > len(IDS)


def test_changed_at_once_an_id_counts_again(ground: Ground) -> None:
    """Negative twin: without the step between, redeliveries are added once more."""
    table = ground.table()
    counted(ground, table, IDS, shards=1)
    counted(ground, table, IDS, shards=4)
    assert balance(ground, table, shards=4)["n"] > len(IDS)


def test_ids_of_shard_0_are_searched_in_both_its_items(ground: Ground) -> None:
    """In the item without a number, too, where a ledger of one shard keeps them."""
    table, zero = ground.table(), [each for each in IDS if layout.shard_of(layout.id_digest(each), 4) == 0]
    assert zero != []
    counted(ground, table, zero, shards=1)
    assert counted(ground, table, zero, shards=4) == {Duplicate}


def test_by_one_item_of_shard_0_sum_and_ids_are_lost(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: of home#0 alone nothing of the time of one shard is known."""
    zero = [each for each in IDS if layout.shard_of(layout.id_digest(each), 4) == 0]
    table = ground.table()
    counted(ground, table, zero, shards=1)
    homes = layout.homes
    monkeypatch.setattr(layout, "homes", lambda *given: homes(*given)[:1])
    monkeypatch.setattr(
        layout,
        "all_homes",
        lambda table, key, shards: [layout.key_item(table, key, shard) for shard in range(shards)],
    )
    assert balance(ground, table, shards=4) is None
    counted(ground, table, zero, shards=4)
    assert balance(ground, table, shards=4) == {"n": len(zero)}


def test_while_shards_change_a_key_has_no_one_item(ground: Ground) -> None:
    """What needs one item is refused, as with several shards; and there is one change at a time."""
    for options in ({"shards_next": 4}, {"shards_before": 4}):
        points = Ledger(ground.table(), ground.client, window=DAY, **options)  # type: ignore[arg-type]
        with pytest.raises(Misconfigured, match="4 shards"):
            points.update("c", {"a": 1}, expected={"a": None})
        with pytest.raises(Misconfigured, match="4 shards"):
            points.add("c", {"n": -1}, id="m", floor={"n": 0})
    with pytest.raises(Misconfigured, match="one change"):
        Ledger("points", window=DAY, shards=2, shards_next=3, shards_before=1)
    with pytest.raises(Misconfigured, match="1 to 1,000 shards"):
        Ledger("points", window=DAY, shards_next=0)


# -- two windows on one table


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


def test_only_relayout_narrows(ground: Ground) -> None:
    """Writes of a shorter window leave the longer one; `relayout` forgets what is older, and nothing else."""
    table, clock = ground.table(), FakeClock()
    short, long = (Ledger(table, ground.client, window=each, clock=clock) for each in (DAY, 10 * DAY))
    long.add("c", {"n": 1}, id="old")
    clock.advance(5 * 86_400)
    short.add("c", {"n": 1}, id="new")
    assert isinstance(short.add("c", {"n": 1}, id="old"), Duplicate)
    short.relayout("c")
    short.relayout("c")
    assert isinstance(short.add("c", {"n": 1}, id="new"), Duplicate)
    assert isinstance(short.add("c", {"n": 1}, id="old"), Applied)
    clock.advance(3 * 86_400)
    assert isinstance(short.add("c", {"n": 1}, id="new"), Applied)
    assert short.get("c") == {"n": 4}
    short.relayout("absent")


def test_relayout_loses_no_id_that_comes_in_meanwhile(ground: Ground) -> None:
    """Written to between its read and its write, it reads again."""
    table, clock = ground.table(), FakeClock()
    long = Ledger(table, ground.client, window=10 * DAY, clock=clock)
    long.add("c", {"n": 1}, id="m1")
    meanwhile = iter(["m2"])

    class Between:
        def __getattr__(self, operation: str) -> Any:
            def request(**arguments: Any) -> Any:
                if operation == "update_item" and (name := next(meanwhile, "")):
                    long.add("c", {"n": 1}, id=name)
                return getattr(ground.client, operation)(**arguments)

            return request

    Ledger(table, Between(), window=DAY, clock=clock).relayout("c")
    short = Ledger(table, ground.client, window=DAY, clock=clock)
    assert all(short.has("c", name) for name in ("m1", "m2"))
    assert ledger_module.FORMS > 1
