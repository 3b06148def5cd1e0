"""`add_all`: many ids of one key in one read and one write, as if they were added one after another."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.patterns.ledger.layout import id_digest, shard_of
from lambda_once.patterns.results import Applied, Duplicate, Full, Refused
from lambda_once.testing import FakeClock
from tests.kit import tables
from tests.kit.faulty import Fate, FaultyClient, by_seed, every_second_answer_lost
from tests.patterns.conftest import Ground
from tests.patterns.ledger.test_faults import Added, Skewed, endpoint_of, until_answered
from tests.patterns.test_observing import Seen, seen

__all__ = ["seen"]

HOUR = timedelta(hours=1)
Batch = dict[str | bytes, dict[str, int]]


def ledger(ground: Ground, table: str, client: Any = None, **options: Any) -> Ledger:
    """Return a ledger on *table*, through *client*."""
    given = {"window": HOUR, "clock": FakeClock(), **options}
    return Ledger(table, ground.client if client is None else client, **given)


def stored(ground: Ground, table: str, key: str = "c") -> dict[str, Any]:
    """Return the item of *key*, without the random id of its last write."""
    found = ground.client.get_item(TableName=table, Key={"pk": {"S": key}}, ConsistentRead=True)
    return {name: each for name, each in found.get("Item", {}).items() if name != "bv"}


class Meanwhile:
    """A client that does something before each of its first writes."""

    def __init__(self, client: Any, *work: Callable[[], object]) -> None:
        self._client = client
        self._work = list(work)
        self.sent: list[str] = []

    def __getattr__(self, operation: str) -> Any:
        def request(**arguments: Any) -> Any:
            self.sent.append(operation)
            if operation == "update_item" and self._work:
                self._work.pop(0)()
            return getattr(self._client, operation)(**arguments)

        return request


def test_many_ids_take_one_read_and_one_write(ground: Ground) -> None:
    """Each id has its own result, in order, with the counters after it."""
    client = Meanwhile(ground.client)
    points = ledger(ground, ground.table(), client)
    given: Batch = {"m1": {"n": 5, "count": 1}, "m2": {"n": -3}, b"m1": {"n": 9}}
    assert points.add_all("c", given) == (
        Applied({"n": 5, "count": 1}),
        Applied({"n": 2}),
        Duplicate({"n": 2, "count": 1}),
    )
    assert client.sent == ["get_item", "update_item"]
    assert points.add_all("c", {"m2": {"n": 1}}) == (Duplicate({"n": 2, "count": 1}),)
    assert client.sent[2:] == ["get_item"]
    assert points.add("c", {"n": 1}, id="m2") == Duplicate({"n": 2, "count": 1})
    assert points.add_all("c", {}, floor={"n": 0}) == ()


def batches(dice: random.Random, rounds: int) -> list[tuple[Batch, dict[str, int]]]:
    """Return batches of new and old ids with amounts of two counters, and the floors of each."""
    found = []
    for _ in range(rounds):
        ids = [dice.choice((str, str.encode))(f"m{dice.randrange(5 * rounds)}") for _ in range(8)]
        given = {each: {name: dice.randint(-9, 9) for name in dice.choice(("a", "ab"))} for each in ids}
        found.append((given, dice.choice(({}, {"a": 0}, {"a": -5}))))
    return found


def differences(ground: Ground, seed: int) -> int:
    """Return in how many batches `add_all` and the same additions by `add` differ, in results or items."""
    dice, clock = random.Random(seed), FakeClock()
    one, two = ground.table(), ground.table()
    together, alone = (ledger(ground, each, clock=clock, buckets=4) for each in (one, two))
    different = 0
    for given, floor in batches(dice, 25):
        clock.advance(dice.choice((1, 600, 1_300, 9_000)))
        found = together.add_all("c", given, floor=floor)
        wanted = tuple(
            alone.add("c", each, id=name, floor={n: floor[n] for n in floor if n in each})
            for name, each in given.items()
        )
        different += found != wanted or stored(ground, one) != stored(ground, two)
    return different


@pytest.mark.parametrize("seed", range(12))
def test_it_is_what_single_additions_are(strict: Ground, seed: int) -> None:
    """In every result, its values and the item: over idle times, with floors, and ids that were forgotten."""
    assert differences(strict, seed) == 0


@pytest.mark.engine
def test_it_is_what_single_additions_are_on_an_engine(engine: Ground) -> None:
    """The same."""
    assert differences(engine, 99) == 0


@pytest.mark.parametrize("guarded", [True, False])
def test_an_id_that_comes_in_between_counts_once(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, *, guarded: bool
) -> None:
    """It is decided anew from the item as it is then; without the condition the id is added twice."""
    if not guarded:
        monkeypatch.setattr(ledger_requests, "as_seen", lambda *_: "attribute_exists(pk)")
        monkeypatch.setattr(ledger_requests, "is_as_expected", lambda *_: "")
    table = ground.table()
    other = ledger(ground, table)
    client = Meanwhile(ground.client, lambda: other.add("c", {"n": 1}, id="m2"))
    results = ledger(ground, table, client).add_all("c", {"m1": {"n": 1}, "m2": {"n": 1}})
    assert (results == (Applied({"n": 2}), Duplicate({"n": 2}))) is guarded
    assert client.sent == ["get_item", "update_item", "update_item"][: 3 if guarded else 2]
    assert other.get("c") == {"n": 2 if guarded else 3}


@pytest.mark.parametrize("guarded", [True, False])
def test_an_item_that_is_made_anew_is_another(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, *, guarded: bool
) -> None:
    """
    Deleted after it was read, and added to by others: what they added is not added again.

    The counter is as before then. Negative twin: writes that have one id.
    """
    if not guarded:
        monkeypatch.setattr("os.urandom", bytes)
    table, clock = ground.table(), FakeClock()
    alone = ledger(ground, table, clock=clock)
    alone.add("c", {"n": 1}, id="m0")

    def made_anew() -> None:
        ground.client.delete_item(TableName=table, Key={"pk": {"S": "c"}})
        alone.add("c", {"n": 1}, id="m1")

    points = ledger(ground, table, Meanwhile(ground.client, made_anew), clock=clock)
    points.add_all("c", {"m1": {"n": 1}, "m2": {"n": 1}})
    assert alone.get("c") == {"n": 2 if guarded else 3}


@pytest.mark.parametrize("guarded", [True, False])
def test_a_writer_that_bypasses_the_ledger_breaks_no_floor(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, *, guarded: bool
) -> None:
    """It takes what was read; without the condition the balance falls below 0."""
    table = ground.table()
    ledger(ground, table).add("c", {"n": 5}, id="m0")

    def take() -> None:
        ground.client.update_item(
            TableName=table,
            Key={"pk": {"S": "c"}},
            UpdateExpression="ADD n :taken",
            ExpressionAttributeValues={":taken": {"N": "-3"}},
        )

    if not guarded:
        monkeypatch.setattr(ledger_requests, "is_as_expected", lambda *_: "")
    points = ledger(ground, table, Meanwhile(ground.client, take))
    results = points.add_all("c", {"m1": {"n": -2}, "m2": {"n": -3}}, floor={"n": 0})
    assert isinstance(results[1], Refused) is guarded
    assert (points.get("c") == {"n": 0}) is guarded


def test_a_lost_answer_counts_nothing_twice(ground: Ground) -> None:
    """The same request again finds its own write, as that of `add` does."""
    fates = iter([Fate.SOUND, Fate.ANSWER_LOST])
    table = ground.table()
    points = ledger(ground, table, FaultyClient(ground.client, lambda: next(fates, Fate.SOUND)))
    results = points.add_all("c", {"m1": {"n": 5}, "m2": {"n": -9}, "m3": {"n": 1}}, floor={"n": 0})
    assert [type(each) for each in results] == [Applied, Refused, Applied]
    assert points.get("c") == {"n": 6}


def test_without_an_answer_the_same_call_is_safe(ground: Ground) -> None:
    """It took effect before the line was cut."""
    fates = iter([Fate.SOUND, Fate.ANSWER_LOST, *[Fate.REQUEST_LOST] * 5])
    table = ground.table()
    points = ledger(ground, table, FaultyClient(ground.client, lambda: next(fates, Fate.SOUND)))
    given: Batch = {"m1": {"n": 5}, "m2": {"n": 1}}
    with pytest.raises(StoreUnavailable):
        points.add_all("c", given)
    assert points.add_all("c", given) == (Duplicate({"n": 6}),) * 2


def test_after_three_lost_races_ids_are_added_alone(ground: Ground) -> None:
    """So a busy item takes every batch."""
    table = ground.table()
    other = ledger(ground, table)
    races = [lambda n=n: other.add("c", {"n": 1}, id=f"other{n}") for n in range(3)]
    client = Meanwhile(ground.client, *races)
    points = ledger(ground, table, client)
    assert points.add_all("c", {"m1": {"n": 1}, "m2": {"n": 1}}) == (Applied({"n": 4}), Applied({"n": 5}))
    assert client.sent == ["get_item", *["update_item"] * 5]


def test_a_full_item_takes_what_fits(ground: Ground) -> None:
    """One by one, and then raises; what was added is a duplicate of the next call."""
    table = ground.table()
    points = ledger(ground, table)
    # In two requests: what an update carries counts against 400 KB, too (dynoxide 3.2.0, as seen on AWS).
    points.add("c", {}, id="m0", set={"first": "x" * 200_000})
    points.add("c", {"n": 1}, id="m1", set={"filling": "x" * 209_466})
    given: Batch = {f"n{n}": {"n": 1} for n in range(40)}
    for _ in range(2):
        with pytest.raises(Full):
            points.add_all("c", given)
    assert 1 < (points.get("c") or {})["n"] < 40


def test_a_sum_that_no_number_has_is_added_in_parts(ground: Ground) -> None:
    """Of 39 digits: each addition alone leaves a number."""
    points, most = ledger(ground, ground.table()), 10**38 - 1
    points.add("c", {"n": -most}, id="m0")
    results = points.add_all("c", {"m1": {"n": most}, "m2": {"n": most}})
    assert results == (Applied({"n": 0}), Applied({"n": most}))


def test_sums_are_exact(ground: Ground) -> None:
    """To the last of 38 digits, and whole ones are int."""
    points, small = ledger(ground, ground.table()), Decimal("1E-37")
    given = {"m1": {"n": Decimal(1)}, "m2": {"n": small}, "m3": {"n": -small}}
    first, second, third = points.add_all("c", given)
    assert first == third == Applied({"n": 1})
    assert second == Applied({"n": Decimal(f"1.{1:037}")})
    assert type(third.values["n"]) is int
    points.add_all("c", {"m4": {"n": small}, "m5": {"n": small}})
    assert points.get("c") == {"n": Decimal(f"1.{2:037}")}


def test_shards_are_read_together_and_written_once_each(ground: Ground) -> None:
    """Ids that were added before are duplicates in their shards."""
    table = ground.table()
    old = [f"old{n}" for n in range(6)]
    for each in old:
        ledger(ground, table, shards=4).add("c", {"n": 1}, id=each)
    client = Meanwhile(ground.client)
    points = ledger(ground, table, client, shards=4)
    new = [f"m{n}" for n in range(10)]
    results = points.add_all("c", {each: {"n": 1} for each in old + new})
    assert list(results) == [Duplicate()] * 6 + [Applied()] * 10
    written = {shard_of(id_digest(each), 4) for each in new}
    assert client.sent == ["batch_get_item", *["update_item"] * len(written)]
    assert points.get("c") == {"n": 16}


def test_items_that_are_written_expire(ground: Ground) -> None:
    """All at one time."""
    table, clock = ground.table(), FakeClock()
    at = clock.now() + timedelta(days=9)
    ledger(ground, table, clock=clock).add_all("c", {"m1": {"n": 1}}, expires=at)
    assert stored(ground, table)["ttl"] == {"N": str(int(at.timestamp()))}


def test_outcomes_are_counted_by_their_kind(strict: Ground, seen: Seen) -> None:
    """As those of single additions are; a line for each kind."""
    points = ledger(strict, strict.table(), **seen.objects)
    given: Batch = {"m1": {"n": 1}, b"m1": {"n": 1}, "m2": {"n": -9}, "m3": {"n": 1}}
    points.add_all("c", given, floor={"n": 0})
    wanted = [{"applied": [2.0]}, {"duplicate": [1.0]}, {"refused": [1.0]}]
    assert sorted(seen.counts(), key=str) == [("Shop", each) for each in wanted]


def test_what_was_added_before_an_error_is_counted(strict: Ground, seen: Seen) -> None:
    """The next call has it as duplicates."""
    table, given = strict.table(), {f"m{n}": {"n": 1} for n in range(40)}
    ledger(strict, table).add("c", {"n": 1}, id="m0", set={"filling": "x" * 409_480})
    points = ledger(strict, table, **seen.objects)
    with pytest.raises(Full):
        points.add_all("c", given)
    added = (points.get("c") or {})["n"] - 1
    assert sorted(seen.counts(), key=str) == [
        ("Shop", {"applied": [added]}),
        ("Shop", {"duplicate": [1.0]}),
        ("Shop", {"full": [1.0]}),
    ]


WRONG: dict[str, tuple[Any, Any, str]] = {
    "no mapping": (["m1"], None, "mapping of up to 10,000 ids"),
    "too many": ({f"m{n}": {"n": 1} for n in range(10_001)}, None, "10,000 ids"),
    "no amounts": ({"m1": {"n": 1}, "m2": {}}, None, "nothing to add"),
    "amounts that are none": ({"m1": 5}, None, "amounts is a mapping"),
    "an id": ({5: {"n": 1}}, None, "an id is text or bytes"),
    "a floor of nothing": ({"m1": {"n": 1}}, {"x": 0}, "to which nothing is added"),
    "a floor of something else": ({"m1": {"n": 1}}, {"n": "0"}, "give an int"),
}


@pytest.mark.parametrize(("given", "floor", "message"), WRONG.values(), ids=WRONG.keys())
def test_bad_input_is_refused_before_anything_is_sent(given: Any, floor: Any, message: str) -> None:
    """Of every addition."""
    with pytest.raises(Misconfigured, match=message):
        Ledger("points", object(), window=HOUR).add_all("c", given, floor=floor)
    with pytest.raises(Misconfigured, match="2 shards"):
        Ledger("points", object(), window=HOUR, shards=2).add_all("c", {"m": {"n": 1}}, floor={"n": 0})


@pytest.mark.parametrize("found", ["five", True, None])
def test_what_is_no_number_is_named(ground: Ground, found: Any) -> None:
    """Nothing is written."""
    points = ledger(ground, ground.table())
    points.add("c", {}, id="m0", set={"n": found})
    with pytest.raises(Misconfigured, match=f"'n' is a {type(found).__name__}"):
        points.add_all("c", {"m1": {"x": 1}, "m2": {"n": 1}})
    assert points.get("c") == {"n": found}


# -- under faults


@pytest.mark.engine
@pytest.mark.parametrize("shards", [1, 4])
def test_threads_add_exactly(engine: Ground, shards: int) -> None:
    """12 threads add overlapping batches and single ids, half of the answers lost; no id is applied twice."""
    table = engine.table()
    with closing(tables.client(endpoint_of(engine), max_pool_connections=12)) as client:
        faulty = FaultyClient(client, every_second_answer_lost())
        points = ledger(engine, table, faulty, shards=shards)

        def deliver(thread: int) -> list[tuple[str | bytes, Added]]:
            dice = random.Random(thread)
            found: list[tuple[str | bytes, Added]] = []
            for _ in range(6):
                batch: Batch = {f"m{dice.randrange(120)}": {"n": 1} for _ in range(dice.choice((1, 10)))}
                results = until_answered(partial(deliver_one, batch))
                found += zip(batch, results, strict=True)
            return found

        def deliver_one(batch: Batch) -> tuple[Added, ...]:
            if len(batch) > 1:
                return points.add_all("c", batch)
            return tuple(points.add("c", amounts, id=name) for name, amounts in batch.items())

        with ThreadPoolExecutor(12) as pool:
            found = [each for thread in pool.map(deliver, range(12)) for each in thread]
    assert ledger(engine, table, shards=shards).get("c") == {"n": len({name for name, _ in found})}
    applied = Counter(name for name, result in found if isinstance(result, Applied))
    assert applied.most_common(1)[0][1] == 1


@pytest.mark.engine
@pytest.mark.parametrize("seed", range(4))
def test_late_copies_and_lost_requests_count_nothing(engine: Ground, seed: int) -> None:
    """Writers whose clocks are apart, with floors: the sum is that of the ids which were not refused."""
    dice, true, table = random.Random(seed), FakeClock(), engine.table()
    client = FaultyClient(engine.client, by_seed(seed))
    writers = [
        ledger(engine, table, client, clock=Skewed(true, timedelta(seconds=apart)), buckets=4)
        for apart in (-1, 0, 1)
    ]
    booked: dict[str | bytes, int] = {}
    for step in range(60):
        true.advance(dice.choice((0, 1, 400)))
        given = {f"m{step}-{n}": dice.choice((5, 3, -4, -7)) for n in range(5)}
        for _ in range(dice.choice((1, 2))):
            batch: Batch = {name: {"n": each} for name, each in given.items()}
            results = until_answered(partial(dice.choice(writers).add_all, "c", batch, floor={"n": 0}))
            for name, result in zip(given, results, strict=True):
                if not isinstance(result, Refused):
                    booked[name] = given[name]
        if dice.random() < 0.3:
            client.deliver(3)
        assert (ledger(engine, table).get("c") or {"n": 0})["n"] == sum(booked.values()) >= 0
    client.deliver()
    assert ledger(engine, table).get("c") == {"n": sum(booked.values())}
