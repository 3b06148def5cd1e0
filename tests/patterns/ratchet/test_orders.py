"""
Every permutation of puts and deletes ends in the same item; so does every schedule of faults.

The expected item is computed by a rule of its own: the greatest timestamp; of equal ones a delete; of equal
puts always the same one, whichever that is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import combinations_with_replacement, permutations, product
from typing import Any, NamedTuple

import pytest

from lambda_once.errors import StoreUnavailable
from lambda_once.patterns.ratchet import Ratchet, Revision
from lambda_once.patterns.ratchet import requests as ratchet_requests
from lambda_once.patterns.results import Applied, Stale
from lambda_once.testing import FakeClock
from tests.kit.faulty import FaultyClient, by_seed
from tests.patterns.conftest import Ground
from tests.patterns.ratchet.conftest import MS

MICRO = Decimal("0.001")


class Event(NamedTuple):
    """A put of *content*, or a delete where there is none."""

    ts: int | Decimal
    content: int | None


def apply(ratchet: Ratchet, key: str, event: Event) -> object:
    """Hand *event* to *ratchet*."""
    if event.content is None:
        return ratchet.delete({"pk": key}, MS + event.ts)
    return ratchet.put({"pk": key, "content": event.content}, MS + event.ts)


def end_of(ground: Ground, table: str, ratchet: Ratchet, events: Sequence[Event]) -> dict[str, Any] | None:
    """Return the items at one key after *events*, and delete them."""
    for event in events:
        apply(ratchet, "k", event)
    key = {"pk": {"S": "k"}}
    gone = ground.client.delete_item(TableName=table, Key=key, ReturnValues="ALL_OLD")
    item: dict[str, Any] | None = gone.get("Attributes")
    return item


def expected_of(events: Sequence[Event]) -> list[Event]:
    """Return those of *events* one of which must stand: more than one only for puts of one timestamp."""
    largest = max((event.ts for event in events), default=0)
    newest = [event for event in events if event.ts == largest]
    return [event for event in newest if event.content is None] or newest


def event_of(item: dict[str, Any] | None) -> Event | None:
    """Return the event of which *item* is what is left."""
    if item is None:
        return None
    content = None if "deleted" in item else int(item["content"]["N"])
    return Event(Decimal(item["ts"]["N"]) - MS, content)


@pytest.mark.parametrize(
    "events",
    [
        [Event(1, 1), Event(2, None), Event(3, 3), Event(4, None), Event(5, 5)],
        [Event(1, 1), Event(2, 2), Event(3, 3), Event(4, None)],
        [Event(1, None), Event(2, 2), Event(3, None)],
        [Event(1, 1), Event(1, 2), Event(1, 3), Event(1, None)],
        [Event(1, 1), Event(1, 2), Event(1, 3), Event(0, 4)],
        [Event(1, 1), Event(2, None), Event(2, 2), Event(2, 2), Event(1, None)],
        [Event(1, 1), Event(MICRO, 2), Event(1 + MICRO, 3), Event(1 - MICRO, None), Event(1 + MICRO, 4)],
    ],
    ids=lambda events: " ".join(f"{each.ts}{'-' if each.content is None else '+'}" for each in events),
)
def test_every_permutation_ends_in_the_same_item(
    ground: Ground, table: str, ratchet: Ratchet, events: list[Event]
) -> None:
    """Down to the last attribute, with timestamps that differ and with timestamps that do not."""
    ends = [end_of(ground, table, ratchet, order) for order in permutations(events)]
    assert event_of(ends[0]) in expected_of(events)
    assert all(end == ends[0] for end in ends)


def test_every_three_events_end_in_the_same_item_in_every_order(strict: Ground) -> None:
    """All triples of two timestamps and three contents, a delete among them, in all orders, repeated."""
    table = strict.table()
    ratchet = Ratchet(table, strict.client, clock=FakeClock())
    kinds = [Event(ts, content) for ts, content in product((1, 2), (None, 1, 2))]
    for events in combinations_with_replacement(kinds, 3):
        orders = [(*order, *again) for order in permutations(events) for again in ((), order[:2])]
        ends = [end_of(strict, table, ratchet, order) for order in orders]
        assert event_of(ends[0]) in expected_of(events)
        assert all(end == ends[0] for end in ends), events


# -- negative twins


def ends_differ(ground: Ground, table: str, ratchet: Ratchet, events: list[Event]) -> bool:
    """Tell whether two permutations of *events* end in different items."""
    ends = [end_of(ground, table, ratchet, order) for order in permutations(events)]
    return any(end != ends[0] for end in ends)


ANY_PUT = ":ts = :ts AND :rank = :rank"
ANY_DELETE = ":ts = :ts"
OVER_TOMBSTONES = "#ts < :ts OR (#ts = :ts AND (attribute_not_exists(#rank) OR #rank <= :rank))"
TWINS: dict[str, tuple[str, str, list[Event]]] = {
    "put: no timestamp": ("PUT_IS_NEWER", ANY_PUT, [Event(1, 1), Event(2, 2)]),
    "put: no rank": ("PUT_IS_NEWER", "#ts <= :ts AND :rank = :rank", [Event(1, 1), Event(1, 2)]),
    "put: no tombstone": ("PUT_IS_NEWER", OVER_TOMBSTONES, [Event(1, 1), Event(1, None)]),
    "delete: no timestamp": ("DELETE_IS_NEWER", ANY_DELETE, [Event(1, None), Event(2, 2)]),
    "delete: not equal": ("DELETE_IS_NEWER", "#ts < :ts", [Event(1, 1), Event(1, None)]),
}


@pytest.mark.parametrize(("guard", "instead", "events"), TWINS.values(), ids=TWINS.keys())
def test_without_a_guard_the_order_decides(
    ground: Ground,
    table: str,
    ratchet: Ratchet,
    monkeypatch: pytest.MonkeyPatch,
    guard: str,
    instead: str,
    events: list[Event],
) -> None:
    """Negative twins: with any part of the conditions gone, two orders end in two items."""
    assert not ends_differ(ground, table, ratchet, events)
    monkeypatch.setattr(ratchet_requests, guard, instead)
    assert ends_differ(ground, table, ratchet, events)


# -- schedules of faults


class World:
    """Writers with clocks of their own, on lines that lose and delay, writing to a few items."""

    WRITERS = 4
    KEYS = ("a", "b", "c")

    def __init__(self, ground: Ground, seed: int) -> None:
        self.dice = random.Random(seed)
        self.table = ground.table()
        self.client = ground.client
        self.clocks = [FakeClock() for _ in range(self.WRITERS)]
        for clock in self.clocks:
            clock.advance(self.dice.uniform(-120, 120))
        self.lines = [FaultyClient(ground.client, by_seed(seed + n)) for n in range(self.WRITERS)]
        self.ratchets = [
            Ratchet(self.table, line, clock=clock)
            for line, clock in zip(self.lines, self.clocks, strict=True)
        ]
        self.meant: dict[str, list[tuple[int | Decimal, int | None]]] = {key: [] for key in self.KEYS}
        """All writes by key: timestamp, and content or None for a delete."""

    def step(self, n: int) -> None:
        """Let one writer make one change, repeating it until it has an answer; let late copies arrive."""
        writer = self.dice.randrange(self.WRITERS)
        self.clocks[writer].advance(self.dice.uniform(0, 2))
        key, content = self.dice.choice(self.KEYS), n if self.dice.random() < 0.7 else None
        with self.ratchets[writer].revision() as revision:
            self.meant[key].append((int(revision.stamp), content))
            answer = self.until_answered(lambda: self.change(revision, key, content))
            assert isinstance(answer, Applied | Stale)
            if self.dice.random() < 0.2:  # a hedged write
                self.until_answered(lambda: self.change(revision, key, content))
        line = self.dice.choice(self.lines)
        line.deliver(self.dice.randrange(len(line.delayed) + 1))

    def change(self, revision: Revision, key: str, content: int | None) -> object:
        """Make one change."""
        if content is None:
            return revision.delete({"pk": key})
        return revision.put({"pk": key, "content": content})

    def until_answered(self, change: Callable[[], object]) -> object:
        """Repeat what had no answer, as SQS would."""
        while True:
            try:
                return change()
            except StoreUnavailable:
                continue

    def unlike(self) -> list[str]:
        """Return the keys whose item is not the write of the largest timestamp."""
        for line in self.lines:
            line.deliver()
        return [key for key in self.KEYS if self.stored(key) not in self.expected(key)]

    def stored(self, key: str) -> tuple[int | Decimal, int | None] | None:
        """Return timestamp and content of what is stored at *key*."""
        item = self.client.get_item(TableName=self.table, Key={"pk": {"S": key}}).get("Item")
        event = event_of(item)
        return None if event is None else (event.ts + MS, event.content)

    def expected(self, key: str) -> Sequence[tuple[int | Decimal, int | None] | None]:
        """Return the write of the largest timestamp; more than one where two writers met in a millisecond."""
        meant = [Event(ts, content) for ts, content in self.meant[key]]
        return expected_of(meant) or [None]


STEPS = 60


@pytest.mark.parametrize("seed", range(12))
def test_faults_and_skewed_clocks_end_in_the_newest_write(strict: Ground, seed: int) -> None:
    """Answers and requests lost, copies late, four clocks minutes apart: the largest timestamp wins."""
    world = World(strict, seed)
    for n in range(STEPS):
        world.step(n)
    assert world.unlike() == []


@pytest.mark.engine
@pytest.mark.parametrize("seed", range(100, 106))
def test_the_same_on_a_real_engine(engine: Ground, seed: int) -> None:
    """As many steps, on dynoxide."""
    world = World(engine, seed)
    for n in range(STEPS * 3):
        world.step(n)
    assert world.unlike() == []


def test_without_the_condition_a_late_copy_wins(strict: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: the last to arrive wins, and most worlds end in something else."""
    monkeypatch.setattr(ratchet_requests, "PUT_IS_NEWER", ANY_PUT)
    monkeypatch.setattr(ratchet_requests, "DELETE_IS_NEWER", ANY_DELETE)
    worlds = [World(strict, seed) for seed in range(5)]
    for world in worlds:
        for n in range(STEPS):
            world.step(n)
    assert [world.unlike() for world in worlds].count([]) == 0
