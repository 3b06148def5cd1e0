"""Writers that expect what they read: each gets the truth, or that the outcome is unknown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.errors import StoreUnavailable
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.ratchet import requests as ratchet_requests
from lambda_once.patterns.ratchet.ratchet import InFlight
from lambda_once.patterns.results import Applied, Conflict, Stale
from lambda_once.testing import FakeClock
from tests.kit.faulty import Fate, FaultyClient, by_seed
from tests.kit.turns import Turns
from tests.patterns.conftest import Ground
from tests.patterns.ratchet.conftest import MS, NOW

KEY = {"pk": "tickets"}

BY_CONTENT = "(#ts = :ts AND #rank = :rank)"
"""A guard that takes the same content under the same timestamp for the same write."""


def ratchet(client: Any, table: str, apart: float = 0) -> Ratchet:
    """Return a ratchet whose clock is *apart* seconds from `NOW`."""
    return Ratchet(table, client, clock=FakeClock(NOW + timedelta(seconds=apart)))


# -- two that write the same


def two_that_sell_the_last_but_one(ground: Ground) -> list[object]:
    """Let two whose clocks are behind read ten tickets, sell one each, and return the outcomes."""
    table = ground.table()
    ratchet(ground.client, table).put({**KEY, "left": 10}, MS)
    one, other = ratchet(ground.client, table, -1.7), ratchet(ground.client, table, -1)
    reads = one.get(KEY), other.get(KEY)
    outcomes: list[object] = []
    for seller, read in zip((one, other), reads, strict=True):
        assert read is not None
        with seller.revision(after=read["ts"]) as revision:
            try:
                outcomes.append(revision.put({**KEY, "left": read["left"] - 1}, expected=read))
            except Conflict as conflict:
                outcomes.append(conflict.values)
    assert one.get(KEY) == {**KEY, "left": 9, "ts": MS + 1}
    return outcomes


def test_of_two_equal_writes_one_is_written(ground: Ground) -> None:
    """The same content under the same timestamp, made from the same read: one wins, and one loses."""
    assert two_that_sell_the_last_but_one(ground) == [Applied({"ts": MS + 1}), {"ts": MS + 1}]


def test_equal_contents_are_no_proof_of_an_own_write(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: recognised by content, both are `Applied`, and one ticket is sold twice."""
    monkeypatch.setattr(ratchet_requests, "OWN", BY_CONTENT)
    assert two_that_sell_the_last_but_one(ground) == [Applied({"ts": MS + 1}), Applied({"ts": MS + 1})]


def test_of_two_equal_claims_one_is_written(ground: Ground) -> None:
    """Of two that found nothing, and of two that delete what they read, one each."""
    table = ground.table()
    one, other = ratchet(ground.client, table), ratchet(ground.client, table)
    assert one.put(KEY, MS, expected=None) == Applied({"ts": MS})
    with pytest.raises(Conflict) as lost:
        other.put(KEY, MS, expected=None)
    assert lost.value.values == {"ts": MS}
    read = one.get(KEY)
    assert one.delete(KEY, MS + 1, expected=read) == Applied({"ts": MS + 1})
    with pytest.raises(Conflict) as lost:
        other.delete(KEY, MS + 1, expected=read)
    assert lost.value.values == {"ts": MS + 1}


def test_without_an_expectation_equal_writes_are_one(ground: Ground) -> None:
    """The same content under the same timestamp is a repetition, by any writer in any way."""
    table = ground.table()
    one, other = ratchet(ground.client, table), ratchet(ground.client, table)
    assert one.put(KEY, MS, expected=None) == Applied({"ts": MS})
    assert other.put(KEY, MS) == Applied({"ts": MS})
    assert one.delete(KEY, MS, expected=other.get(KEY)) == Applied({"ts": MS})
    assert other.delete(KEY, MS) == Applied({"ts": MS})


def test_a_revision_knows_its_own_write(ground: Ground) -> None:
    """Repeated within the revision, it is the same write; its id is neither read nor expected."""
    table = ground.table()
    counter = ratchet(ground.client, table)
    with counter.revision() as revision:
        for _ in range(3):
            assert revision.put({**KEY, "n": 1}, expected=None) == Applied({"ts": MS})
    read = counter.get(KEY)
    assert read == {**KEY, "n": 1, "ts": MS}
    assert counter.put({**read, "n": 2}, MS + 1, expected=read) == Applied({"ts": MS + 1})


# -- a lost answer, and another write on top


def put_on_top(other: Ratchet) -> None:
    """Another writer adds one to what it reads."""
    read = other.get(KEY)
    assert read is not None
    assert other.put({**KEY, "n": read["n"] + 1}, read["ts"] + 1, expected=read) == Applied(
        {"ts": read["ts"] + 1}
    )


def deleted_on_top(other: Ratchet) -> None:
    """Another one deletes it."""
    read = other.get(KEY)
    assert read is not None
    assert other.delete(KEY, read["ts"], expected=read) == Applied({"ts": read["ts"]})


LATER: dict[str, Callable[[Ratchet], None]] = {"a put": put_on_top, "a delete": deleted_on_top}


class LosesThen:
    """Deals *first*, and lets *later* happen before the next request."""

    def __init__(self, first: Fate, later: Callable[[], object]) -> None:
        self._first: Fate | None = first
        self._later: Callable[[], object] | None = later

    def __call__(self) -> Fate:
        if self._first is not None:
            fate, self._first = self._first, None
            return fate
        if self._later is not None:
            later, self._later = self._later, None
            later()
        return Fate.SOUND


def adding_one(
    ground: Ground, first: Fate, later: Callable[[Ratchet], None]
) -> tuple[str, Callable[[], Any]]:
    """Return the table, and a write that adds one to 0, whose first request has the fate *first*."""
    table = ground.table()
    other = ratchet(ground.client, table)
    other.put({**KEY, "n": 0}, MS)
    read = other.get(KEY)
    mine = ratchet(FaultyClient(ground.client, LosesThen(first, lambda: later(other))), table)
    return table, lambda: mine.put({**KEY, "n": 1}, MS + 1, expected=read)


@pytest.mark.parametrize("later", LATER.values(), ids=LATER.keys())
def test_a_lost_answer_under_a_later_write_is_unknown(
    ground: Ground, later: Callable[[Ratchet], None]
) -> None:
    """It was written and replaced by something newer: a `Conflict` would have it done twice."""
    _, add = adding_one(ground, Fate.ANSWER_LOST, later)
    with pytest.raises(StoreUnavailable, match="may have been written or not"):
        add()


def test_a_lost_answer_of_what_is_gone_is_unknown(ground: Ground) -> None:
    """There is no item: it was written and deleted, or never written."""
    table, add = adding_one(ground, Fate.ANSWER_LOST, lambda _: taken_away())

    def taken_away() -> None:
        ground.client.delete_item(TableName=table, Key={"pk": {"S": "tickets"}})

    with pytest.raises(StoreUnavailable, match="or gone"):
        add()


def test_without_memory_of_unanswered_tries_it_is_reported_lost(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: after a false `Conflict` the caller adds one again, and two additions make three."""
    monkeypatch.setattr(InFlight, "was_written", lambda sent, *_: sent.written)
    table, add = adding_one(ground, Fate.ANSWER_LOST, put_on_top)
    with pytest.raises(Conflict) as lost:
        add()
    assert lost.value.values == {"ts": MS + 2}
    put_on_top(ratchet(ground.client, table))
    assert ratchet(ground.client, table).get(KEY) == {**KEY, "n": 3, "ts": MS + 3}


def test_what_cannot_have_replaced_it_is_a_lost_race(ground: Ground) -> None:
    """The first request is lost; the item is older than this write, which therefore never took effect."""
    table = ground.table()
    other = ratchet(ground.client, table)
    other.put({**KEY, "n": 0}, MS)
    read = other.get(KEY)
    fates = LosesThen(Fate.REQUEST_LOST, lambda: put_on_top(other))
    mine = ratchet(FaultyClient(ground.client, fates), table)
    with pytest.raises(Conflict) as lost:
        mine.put({**KEY, "n": 1}, MS + 5, expected=read)
    assert lost.value.values == {"ts": MS + 1}


def test_a_revision_remembers_what_got_no_answer(ground: Ground) -> None:
    """A first call ends without an answer; the second finds another write, and does not know either."""
    table = ground.table()
    other = ratchet(ground.client, table)
    lost = True
    mine = ratchet(FaultyClient(ground.client, lambda: Fate.ANSWER_LOST if lost else Fate.SOUND), table)
    with mine.revision() as revision:
        with pytest.raises(StoreUnavailable):
            revision.put({**KEY, "n": 1}, expected=None)
        lost = False
        put_on_top(other)
        with pytest.raises(StoreUnavailable, match="may have been written or not"):
            revision.put({**KEY, "n": 1}, expected=None)


def test_a_hedge_of_what_was_written_is_written(ground: Ground) -> None:
    """One request was answered; another write replaced it; the hedge that comes late has not lost."""
    table = ground.table()
    mine, other = ratchet(ground.client, table), ratchet(ground.client, table)
    with mine.revision() as revision:
        assert revision.put({**KEY, "n": 1}, expected=None) == Applied({"ts": MS})
        put_on_top(other)
        assert revision.put({**KEY, "n": 1}, expected=None) == Applied({"ts": MS})
    assert mine.get(KEY) == {**KEY, "n": 2, "ts": MS + 1}


def test_a_lost_answer_under_a_later_tombstone_is_unknown(ground: Ground) -> None:
    """Nothing was expected, and nothing is there: a tombstone may be from before this write or after it."""
    table = ground.table()
    other = ratchet(ground.client, table)
    lost = True
    mine = ratchet(FaultyClient(ground.client, lambda: Fate.ANSWER_LOST if lost else Fate.SOUND), table)
    with mine.revision() as revision:
        with pytest.raises(StoreUnavailable):
            revision.put({**KEY, "n": 1}, expected=None)
        lost = False
        assert other.delete(KEY, MS + 1, expected=other.get(KEY)) == Applied({"ts": MS + 1})
        with pytest.raises(StoreUnavailable, match="may have been written or not"):
            revision.put({**KEY, "n": 1}, expected=None)
    with mine.revision(MS) as late:  # it was sent once
        assert late.put({**KEY, "n": 1}, expected=None) == Stale({"ts": MS + 1})


def test_what_was_written_and_deleted_was_written(ground: Ground) -> None:
    """Its repetition finds the tombstone, which is newer and as expected."""
    table = ground.table()
    mine, other = ratchet(ground.client, table), ratchet(ground.client, table)
    with mine.revision() as revision:
        assert revision.put({**KEY, "n": 1}, expected=None) == Applied({"ts": MS})
        other.delete(KEY, MS + 1)
        assert revision.put({**KEY, "n": 1}, expected=None) == Applied({"ts": MS})
        assert mine.put({**KEY, "n": 1}, MS) == Stale({"ts": MS + 1})


def test_a_hedge_does_not_know_while_another_is_on_its_way(ground: Ground) -> None:
    """The other request may have taken effect before the current item."""
    table = ground.table()
    other = ratchet(ground.client, table)
    outcomes: list[object] = []

    class Slow:
        """Answers the first request after another write and a hedge of it."""

        first = True

        def put_item(self, **request: Any) -> Any:
            answer = ground.client.put_item(**request)
            if self.first:
                self.first = False
                put_on_top(other)
                with pytest.raises(StoreUnavailable):
                    outcomes.append(revision.put({**KEY, "n": 1}, expected=None))
            return answer

    with ratchet(Slow(), table).revision() as revision:
        assert revision.put({**KEY, "n": 1}, expected=None) == Applied({"ts": MS})
    assert outcomes == []


# -- many


class Counter:
    """Additions to one item, each of its own name, and the outcome of each."""

    def __init__(self) -> None:
        self.written: set[str] = set()
        self.lost: set[str] = set()
        self.unknown: set[str] = set()
        self._lock = threading.Lock()

    def add(self, counter: Ratchet, name: str) -> bool:
        """Add *name*, and tell whether it is over: written, or unknown."""
        try:
            read = counter.get(KEY)
            done = {"-"} if read is None else read["done"]
            with counter.revision(after=None if read is None else read["ts"]) as revision:
                result = revision.put({**KEY, "n": len(done), "done": {*done, name}}, expected=read)
        except StoreUnavailable:
            kind = self.unknown
        except Conflict:
            kind = self.lost
        else:
            kind = self.written if isinstance(result, Applied) else self.lost
        with self._lock:
            kind.add(name)
        return kind is not self.lost

    def wrong(self, item: dict[str, Any] | None) -> list[str]:
        """Return the outcomes that are false."""
        done = set() if item is None else item["done"] - {"-"}
        return [f"{name}: written, and not there" for name in self.written - done] + [
            f"{name}: lost, and there" for name in self.lost & done
        ]


@pytest.mark.engine
def test_increments_of_four_threads_are_exact(engine: Ground) -> None:
    """4 × 25 that read, add 1 and write: the content of two is often the same, and 100 stand."""
    table = engine.table()
    outcomes: list[int] = []

    def add_all(_: int) -> None:
        counter = Ratchet(table, engine.client)
        for _ in range(25):
            while True:
                read = counter.get(KEY)
                after = None if read is None else read["ts"]
                with suppress(Conflict), counter.revision(after=after) as revision:
                    n = 0 if read is None else read["n"]
                    if isinstance(revision.put({**KEY, "n": n + 1}, expected=read), Applied):
                        break
            outcomes.append(n)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_all, range(4)))
    item = Ratchet(table, engine.client).get(KEY)
    assert item is not None
    assert (item["n"], sorted(outcomes)) == (100, [*range(100)])


@pytest.mark.engine
def test_answers_are_true_for_threads_on_a_bad_line(engine: Ground) -> None:
    """Of 4 × 25 with lost answers and requests: what is written is there, and what has lost is not."""
    table, counter = engine.table(), Counter()

    def add_all(thread: int) -> None:
        mine = Ratchet(table, FaultyClient(engine.client, by_seed(thread, sound=0.7)))
        for n in range(25):
            tries = 0
            while not counter.add(mine, f"{thread}-{n}-{tries}"):
                tries += 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_all, range(4)))
    assert counter.wrong(Ratchet(table, engine.client).get(KEY)) == []
    assert len(counter.written) + len(counter.unknown) == 100


def schedule(ground: Ground, seed: int) -> list[str]:
    """Let three add three each on a bad line, in turns that *seed* decides; return the false outcomes."""
    table, counter, clock = ground.table(), Counter(), FakeClock(NOW)

    def adder(who: int) -> Callable[[Any], None]:
        def add(client: Any) -> None:
            faulty = FaultyClient(client, by_seed(seed * 3 + who, sound=0.5))
            mine = Ratchet(table, faulty, clock=clock)
            for n in range(3):
                counter.add(mine, f"{who}-{n}")
            faulty.deliver()

        return add

    results = Turns(ground.client, seed).run([adder(who) for who in range(3)])
    assert results == [None] * 3
    return counter.wrong(Ratchet(table, ground.client, clock=clock).get(KEY))


@pytest.mark.parametrize("seed", range(8))
def test_answers_are_true_on_every_schedule(ground: Ground, seed: int) -> None:
    """Whatever is lost, copied and interleaved."""
    assert schedule(ground, seed) == []


def test_schedules_see_what_unanswered_tries_hide(strict: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: with those forgotten, some of 20 schedules have a false outcome."""
    monkeypatch.setattr(InFlight, "was_written", lambda sent, *_: sent.written)
    assert any(schedule(strict, seed) for seed in range(20))
