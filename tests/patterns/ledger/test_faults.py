"""A ledger on a bad line, with clocks apart: no id counts twice within its window, and none is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest

from lambda_once.errors import StoreUnavailable
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger import layout as ledger_layout
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.patterns.ledger.layout import NAMES, SKEW, layout_for
from lambda_once.patterns.results import Applied, Conflict, Duplicate, Refused
from lambda_once.testing import FakeClock
from tests.kit import tables
from tests.kit.faulty import Fate, FaultyClient, by_seed, every_second_answer_lost
from tests.patterns.conftest import Ground

WINDOW = timedelta(seconds=60)


@dataclass
class Skewed:
    """A clock that goes by another one, and is apart from it."""

    true: FakeClock
    apart: timedelta = timedelta(0)

    def now(self) -> datetime:
        return self.true.now() + self.apart

    def sleep(self, seconds: float) -> None:
        """Do not wait: time is the schedule's."""


# -- 200 threads


Added = Applied | Duplicate | Refused
R = TypeVar("R")


def hurried(ground: Ground, threads: int, updates: int, shards: int) -> tuple[int, list[Added]]:
    """
    Let *threads* add 1 for *updates* ids each, every id twice, while every second answer is lost.

    Return the balance, and the results.
    """
    with closing(tables.client(endpoint_of(ground), max_pool_connections=threads)) as client:
        return _hurried(ground.table(), client, threads, updates, shards)


def endpoint_of(ground: Ground) -> str | None:
    """Return where the engine is; None for the strict one."""
    endpoint: str = ground.client.meta.endpoint_url
    return None if "amazonaws" in endpoint else endpoint


def _hurried(table: str, sound: Any, threads: int, updates: int, shards: int) -> tuple[int, list[Added]]:
    client = FaultyClient(sound, every_second_answer_lost())
    clock = FakeClock()
    points = Ledger(table, client, window=timedelta(days=14), shards=shards, clock=clock)

    def add_once(name: str) -> Added:
        return until_answered(lambda: points.add("c", {"balance": 1}, id=name))

    def add(thread: int) -> list[Added]:
        ids = [f"thread-{thread}-update-{n}" for n in range(updates)] * 2
        return [add_once(each) for each in ids]

    with ThreadPoolExecutor(threads) as pool:
        results_of_all = [entry for entries in pool.map(add, range(threads)) for entry in entries]
    values = Ledger(table, sound, window=WINDOW, shards=shards).get("c")
    assert values is not None
    return values["balance"], results_of_all


def until_answered(call: Callable[[], R]) -> R:
    """Call again, as a queue delivers again, while there is no answer."""
    while True:
        with suppress(StoreUnavailable):
            return call()


@pytest.mark.engine
def test_two_hundred_threads_add_exactly(engine: Ground) -> None:
    """200 threads × 10 updates, every second answer lost and every id sent twice: the sum is 2,000."""
    balance, results_of_all = hurried(engine, threads=200, updates=10, shards=100)
    assert balance == 2_000
    assert len(results_of_all) == 4_000


@pytest.mark.engine
def test_threads_without_the_condition_add_too_much(engine: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ids that are remembered and not asked for, repeated ids and lost answers count again."""
    monkeypatch.setattr(ledger_requests, "id_is_new", lambda *_: "")
    balance, _ = hurried(engine, threads=20, updates=10, shards=1)
    assert balance > 2 * 20 * 10


def test_an_item_under_faults_adds_exactly(ground: Ground) -> None:
    """The same one after the other, where the engine takes one request at a time."""
    balance, results_of_all = hurried(ground, threads=1, updates=15, shards=1)
    assert balance == 15
    assert len(results_of_all) == 30


# -- bursts


def burst(points: Any, planned: int) -> list[Added]:
    """Add ten times the *planned* ids, then all of them again."""
    ids = [f"m{n}" for n in range(10 * planned)]
    return [points.add("c", {"balance": 1}, id=each) for each in ids * 2]


class LastIds:
    """The twin: an item that remembers the last *most* ids, however old they are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: list[str] = []
        self.balance = 0

    def add(self, _key: str, amounts: dict[str, int], *, id: str) -> Added:  # noqa: A002  (as a ledger's)
        if id in self._ids:
            return Duplicate()
        self._ids = [*self._ids, id][-self._most :]
        self.balance += amounts["balance"]
        return Applied()


def test_a_burst_is_remembered(ground: Ground) -> None:
    """Ten times the planned ids within the window, and each is still known."""
    points = Ledger(ground.table(), ground.client, window=WINDOW, buckets=5, clock=FakeClock())
    results_of_all = burst(points, planned=3)
    assert [type(each) for each in results_of_all] == [Applied] * 30 + [Duplicate] * 30
    assert points.get("c") == {"balance": 30}


def test_a_list_of_the_last_ids_forgets_a_burst() -> None:
    """One that keeps twice the planned ids counts the whole burst again."""
    last = LastIds(6)
    burst(last, planned=3)
    assert last.balance == 60


# -- schedules


@dataclass
class Schedule:
    """
    A run of writers whose clocks are apart, with ids old and new, and the times at which they counted.

    ``wrong`` says what no ledger may do.
    """

    ground: Ground
    seed: int
    buckets: int
    idle: bool
    """Whether the item lies idle at times, for many windows."""
    wrong: list[str] = field(default_factory=list)
    counted: dict[str, datetime] = field(default_factory=dict)
    applied: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.true = FakeClock()
        table = self.ground.table()
        half = SKEW / 2
        clocks = [Skewed(self.true, apart) for apart in (-half, timedelta(0), half)]
        self.writers = [
            Ledger(table, self.ground.client, window=WINDOW, buckets=self.buckets, clock=clock)
            for clock in clocks
        ]
        layout = layout_for(WINDOW, self.buckets)
        self.longest = timedelta(milliseconds=layout.width * layout.buckets) + SKEW

    def run(self, steps: int) -> Schedule:
        for step in range(steps):
            self.true.advance(self.dice.choice((0, 0.4, 3, 10, 31, 61)))
            if self.idle and self.dice.random() < 0.05:
                self.true.advance(self.dice.choice((5, 50, 500)) * WINDOW.total_seconds())
            known = list(self.counted)
            old = known and self.dice.random() < 0.6
            self.send(self.dice.choice(known[-12:]) if old else f"m{step}")
        if (self.writers[0].get("c") or {}).get("balance", 0) != self.applied:
            self.wrong.append("the balance is not what was applied")
        return self

    def send(self, name: str) -> None:
        now, before = self.true.now(), self.counted.get(name)
        entry = self.dice.choice(self.writers).add("c", {"balance": 1}, id=name)
        age = None if before is None else now - before
        if isinstance(entry, Applied):
            if age is not None and age <= WINDOW:
                self.wrong.append(f"{name} counted again after {age}")
            self.counted[name] = now
            self.applied += 1
        elif age is None or (age > self.longest and not self.idle):
            self.wrong.append(f"{name} was refused after {age}")


@pytest.mark.engine
@pytest.mark.parametrize("buckets", [2, 3, 8])
def test_ids_are_kept_for_the_window_and_no_longer_than_said(engine: Ground, buckets: int) -> None:
    """By clocks 2 s apart, no id counts again within the window, and each does when its bucket is gone."""
    schedule = Schedule(engine, seed=buckets, buckets=buckets, idle=False).run(800)
    assert schedule.wrong == []
    assert schedule.applied > len(schedule.counted)


@pytest.mark.engine
@pytest.mark.parametrize("buckets", [2, 3, 8, 32])
def test_idle_items_keep_ids_for_the_window(engine: Ground, buckets: int) -> None:
    """After idle times of many rounds of names, no id counts again within the window, and new ones count."""
    schedule = Schedule(engine, seed=buckets, buckets=buckets, idle=True).run(800)
    assert schedule.wrong == []
    assert schedule.applied > len(schedule.counted)


def test_ids_are_kept_for_the_window_in_short(strict: Ground) -> None:
    """A short run of the same, where no engine is at hand."""
    assert Schedule(strict, seed=1, buckets=3, idle=True).run(60).wrong == []


@pytest.mark.engine
@pytest.mark.parametrize("guard", ["id_is_new", "in_step"])
def test_schedules_see_a_missing_condition(
    engine: Ground, guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without asking for the id, or for the item's time, some id counts twice within its window."""
    monkeypatch.setattr(ledger_requests, guard, lambda *_: "")
    assert any("counted again" in each for each in Schedule(engine, 8, buckets=8, idle=True).run(800).wrong)


@pytest.mark.engine
@pytest.mark.parametrize("allowed", [True, False])
def test_clocks_that_are_apart_have_an_allowance(
    engine: Ground, monkeypatch: pytest.MonkeyPatch, *, allowed: bool
) -> None:
    """An id of a clock 1 s behind is known to one 1 s ahead up to the window's end; not without the 2 s."""
    if not allowed:
        monkeypatch.setattr(ledger_layout, "SKEW", timedelta(0))
    true, table = FakeClock(), engine.table()
    slow, fast = (
        Ledger(table, engine.client, window=WINDOW, buckets=4, clock=Skewed(true, timedelta(seconds=apart)))
        for apart in (-1, 1)
    )
    again = []
    for key in map(str, range(21)):
        slow.add(key, {"balance": 1}, id="m1")
        true.advance(WINDOW.total_seconds() - 0.1)
        again.append(fast.add(key, {"balance": 1}, id="m1"))
        true.advance(1)
    assert all(isinstance(each, Duplicate) for each in again) is allowed


def test_a_slow_writer_joins_the_time_of_the_item(ground: Ground) -> None:
    """A clock hours behind removes no live id and misses none: the item's time does not go back."""
    table, true = ground.table(), FakeClock()
    fast = Ledger(table, ground.client, window=WINDOW, buckets=4, clock=Skewed(true))
    slow = Ledger(table, ground.client, window=WINDOW, buckets=4, clock=Skewed(true, -timedelta(hours=3)))
    for n in range(4):
        assert isinstance(fast.add("c", {"balance": 1}, id=f"m{n}"), Applied)
        assert isinstance(slow.add("c", {"balance": 1}, id=f"m{n}"), Duplicate)
        assert isinstance(slow.add("c", {"balance": 1}, id=f"slow{n}"), Applied)
        true.advance(15)
    assert all(fast.has("c", f"{who}{n}") for n in range(4) for who in ("m", "slow"))
    assert fast.get("c") == {"balance": 8}


def test_a_name_that_comes_round_is_empty(ground: Ground) -> None:
    """Writes exactly one round of names apart meet their own name each time, and it never grows."""
    table, clock = ground.table(), FakeClock()
    layout = layout_for(WINDOW, 4)
    points = Ledger(table, ground.client, window=WINDOW, buckets=4, clock=clock)
    for n in range(5):
        assert isinstance(points.add("c", {"balance": 1}, id=f"m{n}"), Applied)
        clock.advance(layout.width / 1000 * NAMES)
    stored = ground.client.get_item(TableName=table, Key={"pk": {"S": "c"}})["Item"]
    assert [len(each["BS"]) for each in stored.values() if "BS" in each] == [1]


def test_a_name_that_comes_round_with_ids_is_rearranged(ground: Ground) -> None:
    """The oldest live bucket of an idle item has the name that is written to next."""
    clock = FakeClock()
    points = Ledger(ground.table(), ground.client, window=WINDOW, buckets=2, clock=clock)
    width = layout_for(WINDOW, 2).width / 1_000
    for name, buckets in (("m1", 0), ("m2", 1), ("m3", NAMES - 1)):
        clock.advance(buckets * width)
        assert points.add("c", {"n": 1}, id=name) != Duplicate({"n": 1})
    assert points.get("c") == {"n": 3}


def test_an_id_may_come_again_after_an_idle_time(ground: Ground) -> None:
    """An item whose buckets are all stale takes an old id as a new one, whatever name its bucket has."""
    clock = FakeClock()
    points = Ledger(ground.table(), ground.client, window=WINDOW, buckets=4, clock=clock)
    points.add("c", {"balance": 1}, id="m1")
    clock.advance(layout_for(WINDOW, 4).width / 1000 * (NAMES + 1))
    assert isinstance(points.add("c", {"balance": 1}, id="m1"), Applied)


# -- another window


def test_another_window_keeps_what_is_remembered(ground: Ground) -> None:
    """Ids of a live bucket stay refused when the window is changed, to a longer or a shorter one."""
    table, clock = ground.table(), FakeClock()

    def with_window(seconds: float) -> Ledger:
        return Ledger(table, ground.client, window=timedelta(seconds=seconds), buckets=4, clock=Skewed(clock))

    with_window(60).add("c", {"balance": 1}, id="m1")
    clock.advance(30)
    with_window(60).add("c", {"balance": 1}, id="m2")
    for seconds in (3600, 20, 86400, 20, 60):
        assert isinstance(with_window(seconds).add("c", {"balance": 1}, id="m2"), Duplicate)
        with_window(seconds).add("c", {"balance": 1}, id=f"w{seconds}")
        clock.advance(2)
    clock.advance(24 * 3600 * 2)
    assert isinstance(with_window(60).add("c", {"balance": 1}, id="m2"), Applied)


@pytest.mark.parametrize("guarded", [True, False])
def test_a_new_arrangement_loses_no_id(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, *, guarded: bool
) -> None:
    """An id that comes in while others are carried over is carried too; without the condition it is lost."""
    table, clock = ground.table(), FakeClock()
    old = Ledger(table, ground.client, window=WINDOW, buckets=4, clock=clock)
    old.add("c", {"balance": 1}, id="m1")
    if not guarded:
        monkeypatch.setattr(ledger_requests, "as_seen", lambda *_: "attribute_exists(pk)")
    meanwhile = iter(["", "m2"])

    class Between:
        def update_item(self, **request: Any) -> Any:
            name = next(meanwhile, "")
            if name:
                old.add("c", {"balance": 1}, id=name)
            return ground.client.update_item(**request)

    new = Ledger(table, Between(), window=10 * WINDOW, buckets=4, clock=clock)
    assert isinstance(new.add("c", {"balance": 1}, id="m3"), Applied)
    late = Ledger(table, ground.client, window=10 * WINDOW, buckets=4, clock=clock)
    assert late.has("c", "m2") is guarded


# -- late copies


@pytest.mark.parametrize("guarded", [True, False])
def test_a_late_copy_of_a_request_counts_nothing(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, *, guarded: bool
) -> None:
    """However late the network delivers it: the item's time is past. Without that condition it counts."""
    if not guarded:
        monkeypatch.setattr(ledger_requests, "in_step", lambda *_: "")
    client = FaultyClient(ground.client, lambda: Fate.LATE_COPY)
    clock = FakeClock()
    points = Ledger(ground.table(), client, window=WINDOW, buckets=4, clock=clock)
    for n in range(12):
        points.add("c", {"balance": 1}, id=f"m{n}")
        clock.advance(20)
    client.deliver()
    assert (points.get("c") == {"balance": 12}) is guarded


@pytest.mark.engine
@pytest.mark.parametrize("seed", range(4))
def test_all_faults_together(engine: Ground, seed: int) -> None:
    """Lost requests and answers, late copies, several writers, a floor: the sum is what it must be."""
    dice = random.Random(seed)
    client = FaultyClient(engine.client, by_seed(seed))
    true, table = FakeClock(), engine.table()
    writers = [
        Ledger(table, client, window=WINDOW, buckets=4, clock=Skewed(true, timedelta(seconds=apart)))
        for apart in (-1, 0, 1)
    ]
    booked: dict[str, int] = {}

    def deliver(name: str, amount: int) -> None:
        """Deliver a message until there is an answer; it may be delivered again after that."""
        writer = dice.choice(writers)
        result = until_answered(lambda: writer.add("c", {"balance": amount}, id=name, floor={"balance": 0}))
        if not isinstance(result, Refused):
            booked[name] = amount

    for step in range(400):
        true.advance(dice.choice((0, 1, 5)))
        amount = dice.choice((5, 3, -4, -7))
        for _ in range(dice.choice((1, 1, 2, 3))):
            deliver(f"m{step}", amount)
        if dice.random() < 0.1:
            client.deliver(3)
        balance = Ledger(table, engine.client, window=WINDOW).get("c")
        assert (balance or {"balance": 0})["balance"] == sum(booked.values()) >= 0
    client.deliver()
    assert Ledger(table, engine.client, window=WINDOW).get("c") == {"balance": sum(booked.values())}


# -- the other conditions, taken away


def test_without_its_condition_a_floor_does_not_hold(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter falls below it."""
    monkeypatch.setattr(ledger_requests, "floor_holds", lambda *_: "")
    points = Ledger(ground.table(), ground.client, window=WINDOW, buckets=4, clock=FakeClock())
    points.add("c", {"balance": -5}, id="m1", floor={"balance": 0})
    assert points.get("c") == {"balance": -5}


@pytest.mark.engine
def test_takings_race_for_what_is_there(engine: Ground) -> None:
    """Of 40 threads that take 1 of 25, 25 get it."""
    points = Ledger(engine.table(), engine.client, window=WINDOW, clock=FakeClock())
    points.add("c", {"balance": 25}, id="m")

    def take(n: int) -> bool:
        return isinstance(points.add("c", {"balance": -1}, id=f"m{n}", floor={"balance": 0}), Applied)

    with ThreadPoolExecutor(40) as pool:
        assert sum(pool.map(take, range(40))) == 25
    assert points.get("c") == {"balance": 0}


@pytest.mark.engine
def test_changes_race_and_none_is_lost(engine: Ground) -> None:
    """12 threads count to 60 by reading and writing, while every second answer is lost."""
    client = FaultyClient(engine.client, every_second_answer_lost())
    numbers = Ledger(engine.table(), client, window=WINDOW, clock=FakeClock())

    def count(thread: int) -> None:
        for n in range(5):
            answered = False
            while not answered:
                with suppress(Conflict, StoreUnavailable):
                    numbers.change("c", lambda values: {"n": values.get("n", 0) + 1}, id=f"{thread}-{n}")
                    answered = True

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(count, range(12)))
    assert numbers.get("c") == {"n": 60}


def test_changes_without_their_condition_lose_one(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came between reading and writing is overwritten."""
    monkeypatch.setattr(ledger_requests, "as_seen", lambda *_: "attribute_exists(pk)")
    numbers = Ledger(ground.table(), ground.client, window=WINDOW, buckets=4, clock=FakeClock())

    def count(values: dict[str, Any]) -> dict[str, object]:
        numbers.add("c", {"n": 1}, id="between")
        return {"n": values.get("n", 0) + 1}

    numbers.change("c", count)
    assert numbers.get("c") == {"n": 1}
