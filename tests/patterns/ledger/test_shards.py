"""A ledger whose number of shards is not that of its key is refused, and nothing is added."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger import layout as ledger_layout
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.patterns.ledger.layout import id_digest, shard_of
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.patterns.transactions import transaction_results
from lambda_once.testing import FakeClock
from tests.kit import tables
from tests.kit.faulty import Fate, FaultyClient, every_second_answer_lost
from tests.patterns.conftest import Ground
from tests.patterns.ledger.test_add_all import Meanwhile
from tests.patterns.ledger.test_faults import endpoint_of

DAY = timedelta(days=1)
CHANGES = [(1, 4), (4, 8), (4, 1), (8, 4), (3, 2)]
IDS = [f"m{n}" for n in range(20)]


def ledger(ground: Ground, table: str, shards: int, client: Any = None, **options: Any) -> Ledger:
    """Return a ledger on *table*, through *client*."""
    given = {"window": DAY, "clock": FakeClock(), **options}
    return Ledger(table, ground.client if client is None else client, shards=shards, **given)


def items(ground: Ground, table: str) -> list[Any]:
    """Return all items of *table*, in the order of their keys."""
    found = ground.client.scan(TableName=table, ConsistentRead=True)["Items"]
    return sorted(found, key=lambda item: str(item["pk"]["S"]))


def an_id(shards: int, shard: int) -> str:
    """Return an id of *shard*."""
    return next(name for name in map(str, range(10_000)) if shard_of(id_digest(name), shards) == shard)


@pytest.mark.parametrize(("written", "now"), CHANGES)
def test_another_number_of_shards_adds_nothing(ground: Ground, written: int, now: int) -> None:
    """For each old id and each new one, one by one and together, in transactions, and for reads."""
    table = ground.table()
    before, after = ledger(ground, table, written), ledger(ground, table, now)
    for name in IDS:
        before.add("home", {"n": 1}, id=name)
    stored = items(ground, table)
    calls: list[Callable[[], object]] = [
        *(lambda name=name: after.add("home", {"n": 1}, id=name) for name in (*IDS, "new1", "new2", "new3")),
        *(lambda name=name: after.has("home", name) for name in IDS),
        *(lambda name=name: after.transact_item("home", {"n": 1}, id=name) for name in IDS),
        lambda: after.add_all("home", {name: {"n": 1} for name in IDS}),
        lambda: after.add_all("home", {"new1": {"n": 1}}),
        lambda: after.get("home"),
    ]
    wanted = (
        rf"key {{'pk': 'home'}} of ledger .* was written with shards={written}, and .* has shards={now}\."
    )
    for call in calls:
        with pytest.raises(Misconfigured, match=wanted) as refused:
            call()
        assert f"Make the ledger with shards={written}, or give it a new key" in str(refused.value)
    assert items(ground, table) == stored
    assert before.get("home") == {"n": 20}
    assert [before.add("home", {"n": 1}, id=name) for name in IDS] == [
        Duplicate({"n": 20} if written == 1 else {})
    ] * 20


@pytest.mark.parametrize("name", ["of the first item", "of another one"])
@pytest.mark.parametrize(("written", "now"), CHANGES)
def test_one_id_is_enough(ground: Ground, written: int, now: int, name: str) -> None:
    """Whichever shard has the only id, whichever shard a new one belongs to: it is refused."""
    first = 0 if name == "of the first item" else written - 1
    table = ground.table()
    ledger(ground, table, written).add("home", {"n": 1}, id=an_id(written, first))
    stored = items(ground, table)
    for shard in range(now):
        with pytest.raises(Misconfigured, match=f"shards={written}"):
            ledger(ground, table, now).add("home", {"n": 1}, id=an_id(now, shard))
    assert items(ground, table) == stored


@pytest.mark.parametrize(("written", "now"), CHANGES)
def test_without_the_condition_ids_count_twice(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, written: int, now: int
) -> None:
    """Negative twin: with neither condition nor comparison."""
    monkeypatch.setattr(ledger_requests, "has_shards", lambda *_: "")
    monkeypatch.setattr(ledger_layout, "check_shards", lambda *_: None)
    table = ground.table()
    before, after = ledger(ground, table, written), ledger(ground, table, now)
    for name in IDS:
        before.add("home", {"n": 1}, id=name)
    again = [after.add("home", {"n": 1}, id=name) for name in IDS]
    assert any(isinstance(each, Applied) for each in again)


@pytest.mark.parametrize(("one", "other"), CHANGES)
def test_of_two_first_writes_one_number_wins(ground: Ground, one: int, other: int) -> None:
    """The other ledger writes between any two requests of the first; the sum is that of one number."""
    for moment in range(4):
        for shard in (0, one - 1):
            table = ground.table()
            name = an_id(one, shard)
            theirs: list[object] = []

            def write(table: str = table, theirs: list[object] = theirs) -> None:
                try:
                    theirs.append(
                        ledger(ground, table, other).add("home", {"n": 1}, id=an_id(other, other - 1))
                    )
                except Misconfigured as refused:
                    theirs.append(refused)

            client = Meanwhile(ground.client, *[lambda: None] * moment, write)
            try:
                ours: object = ledger(ground, table, one, client).add("home", {"n": 1}, id=name)
            except Misconfigured as refused:
                ours = refused
            if not theirs:  # it needed fewer requests
                write()
            assert sorted(isinstance(each, Misconfigured) for each in (ours, theirs[0])) == [False, True]
            winner = other if isinstance(ours, Misconfigured) else one
            assert ledger(ground, table, winner).get("home") == {"n": 1}


@pytest.mark.engine
def test_racing_ledgers_of_two_sizes(engine: Ground) -> None:
    """Eight threads, half of them with another number: all of one half are refused, and the sum is exact."""
    for _ in range(10):
        table = engine.table()
        with closing(tables.client(endpoint_of(engine), max_pool_connections=8)) as client:

            def run(thread: int, table: str = table, client: Any = client) -> tuple[int, int]:
                shards = (4, 6)[thread % 2]
                faulty = FaultyClient(client, every_second_answer_lost())
                added = 0
                for n in range(5):
                    try:
                        ledger(engine, table, shards, faulty).add("home", {"n": 1}, id=f"{thread}-{n}")
                    except Misconfigured:
                        continue
                    added += 1
                return shards, added

            with ThreadPoolExecutor(8) as pool:
                added = list(pool.map(run, range(8)))
        winners = {shards for shards, count in added if count}
        assert len(winners) == 1
        assert all(count in (0, 5) for _, count in added)
        assert ledger(engine, table, winners.pop()).get("home") == {"n": 20}


# -- legitimate use


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("factor", [2, 0.5])
def test_another_window_stays_allowed(ground: Ground, shards: int, factor: float) -> None:
    """A longer or shorter window on an old key knows its ids."""
    table = ground.table()
    old = ledger(ground, table, shards)
    new = ledger(ground, table, shards, window=DAY * factor)
    for name in IDS:
        old.add("home", {"n": 1}, id=name)
    assert {type(new.add("home", {"n": 1}, id=name)) for name in IDS} == {Duplicate}
    assert new.get("home") == old.get("home") == {"n": 20}


def test_ledgers_of_two_sizes_share_a_table(ground: Ground) -> None:
    """Each has keys of its own."""
    table = ground.table()
    one, four = ledger(ground, table, 1), ledger(ground, table, 4)
    for name in IDS:
        one.add("a", {"n": 1}, id=name)
        four.add("b", {"n": 1}, id=name)
    assert one.get("a") == four.get("b") == {"n": 20}
    assert one.get("c") is None
    assert four.get("c") is None


def test_no_request_more_in_the_ordinary_case(ground: Ground) -> None:
    """A key of one shard is created by one request; a shard that is there takes one, and a new one three."""
    client = Meanwhile(ground.client)
    ledger(ground, ground.table(), 1, client).add("home", {"n": 1}, id="m1")
    assert client.sent == ["update_item"]
    client.sent.clear()
    four = ledger(ground, ground.table(), 4, client)
    four.add("home", {"n": 1}, id=an_id(4, 0))
    assert client.sent == ["update_item"]
    four.add("home", {"n": 1}, id=an_id(4, 1))
    assert client.sent == ["update_item"] * 4
    four.add("home", {"n": 1}, id="m2")
    four.add("home", {"n": 1}, id=an_id(4, 1))
    client.sent.clear()
    assert four.add("home", {"n": 1}, id=an_id(4, 1)) == Duplicate()
    assert client.sent == ["update_item"]


def test_all_shards_of_a_new_key_take_one_request_more(ground: Ground) -> None:
    """`add_all` reads them, makes the first item, and writes each."""
    client = Meanwhile(ground.client)
    four = ledger(ground, ground.table(), 4, client)
    assert four.add_all("home", {name: {"n": 1} for name in IDS}) == (Applied(),) * 20
    assert client.sent == ["batch_get_item", *["update_item"] * 5]
    assert four.get("home") == {"n": 20}


@pytest.mark.parametrize("lost", [Fate.ANSWER_LOST, Fate.REQUEST_LOST, Fate.LATE_COPY])
@pytest.mark.parametrize("position", range(3))
def test_a_lost_response_does_not_lose_the_claim(ground: Ground, lost: Fate, position: int) -> None:
    """Whichever of the three requests of a new shard it is, the id counts once."""
    fates = [Fate.SOUND] * position + [lost]
    client = FaultyClient(ground.client, lambda: fates.pop(0) if fates else Fate.SOUND)
    table = ground.table()
    assert ledger(ground, table, 4, client).add("home", {"n": 1}, id=an_id(4, 3)) == Applied()
    client.deliver()
    assert ledger(ground, table, 4).add("home", {"n": 1}, id=an_id(4, 3)) == Duplicate()
    assert ledger(ground, table, 4).get("home") == {"n": 1}


def test_an_item_of_others_becomes_the_first(ground: Ground) -> None:
    """What stood under the key keeps its attributes, and has the number of shards."""
    table = ground.table()
    ground.client.put_item(TableName=table, Item={"pk": {"S": "home"}, "n": {"N": "90"}})
    four = ledger(ground, table, 4)
    four.add("home", {"n": 1}, id=an_id(4, 2))
    four.add("home", {"n": 1}, id=an_id(4, 0))
    assert four.get("home") == {"n": 92}
    with pytest.raises(Misconfigured, match="shards=4"):
        ledger(ground, table, 1).add("home", {"n": 1}, id="m")


def test_a_transaction_creates_its_shard(ground: Ground) -> None:
    """Its entry is made after the first item, and tells of another number."""
    table = ground.table()
    entry = ledger(ground, table, 4).transact_item("home", {"n": 1}, id=an_id(4, 2))
    ground.client.transact_write_items(TransactItems=[entry])
    assert ledger(ground, table, 4).get("home") == {"n": 1}
    stale = ledger(ground, ground.table(), 1)
    entry = stale.transact_item("home", {"n": 1}, id="m")
    ledger(ground, stale._table.name, 4).add("home", {"n": 1}, id=an_id(4, 0))
    with pytest.raises(ground.client.exceptions.TransactionCanceledException) as cancelled:
        ground.client.transact_write_items(TransactItems=[entry])
    (result,) = transaction_results(cancelled.value, [entry])
    assert isinstance(result, Misconfigured)
    assert "shards=4" in str(result)
