"""A ledger: each id counts once within its window, floors hold, and readers see sums."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from lambda_once.dynamodb.items import plain_item
from lambda_once.dynamodb.retry import TRIES
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger import ledger as ledger_module
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.patterns.ledger.layout import (
    ID_BYTES,
    Layout,
    bucket_name,
    id_digest,
    layout_for,
    ledger_table,
)
from lambda_once.patterns.ledger.requests import LedgerWrite, adding
from lambda_once.patterns.results import Applied, Conflict, Duplicate, Full, Refused
from lambda_once.testing import FakeClock
from tests.kit.faulty import Fate, FaultyClient
from tests.patterns.conftest import Ground

HOUR = timedelta(hours=1)


def ledger(ground: Ground, client: Any = None, **options: Any) -> Ledger:
    """Return a ledger on a table of *ground*, through *client*."""
    options = {"window": HOUR, "clock": FakeClock(), **options}
    return Ledger(
        options.pop("table", None) or ground.table(),
        ground.client if client is None else client,
        **options,
    )


def item(ground: Ground, table: str, key: str = "c") -> dict[str, Any]:
    """Return the item of *key* as it is stored, in Python values."""
    found = ground.client.get_item(TableName=table, Key={"pk": {"S": key}}, ConsistentRead=True)["Item"]
    return plain_item(found)


def in_turn(*fates: Fate) -> Any:
    """Deal *fates*, and SOUND from then on."""
    left = list(fates)
    return lambda: left.pop(0) if left else Fate.SOUND


def test_the_request_is_a_value() -> None:
    """One UpdateItem: the id must be in no live bucket, and the spare ones are emptied."""
    write = LedgerWrite(
        table=ledger_table("points", ("pk",)),
        key={"pk": {"S": "c"}},
        ids=frozenset({b"12345678"}),
        layout=Layout(width=1000, buckets=2),
        write_id=b"87654321",
        amounts={"balance": -5},
        floor={"balance": 0},
        sets={"last": "today"},
    )
    request = adding(write, 64, {})
    spare = ", ".join(f"b{n}" for n in range(1, 63))
    assert request == {
        "TableName": "points",
        "Key": {"pk": {"S": "c"}},
        "UpdateExpression": (
            f"SET bt = :v6, bl = :v7, bv = :v8, #n2 = :v10 ADD b0 :v0, #n0 :v11 REMOVE {spare}"
        ),
        "ConditionExpression": (
            "attribute_not_exists(bs) AND (attribute_not_exists(bt) AND attribute_not_exists(bl) "
            "AND attribute_not_exists(bv) OR (bl = :v2 "
            "AND bt <= :v1 AND (bt >= :v3 OR attribute_not_exists(b0)))) "
            "AND NOT (contains(b63, :v4) OR contains(b0, :v4)) AND #n0 >= :v5 AND NOT (#n1 < :v9)"
        ),
        "ExpressionAttributeNames": {"#n0": "balance", "#n1": "ttl", "#n2": "last"},
        "ExpressionAttributeValues": {
            ":v0": {"BS": [b"12345678"]},
            ":v1": {"N": "64"},
            ":v2": {"N": "100002"},
            ":v3": {"N": "2"},
            ":v4": {"B": b"12345678"},
            ":v5": {"N": "5"},
            ":v6": {"N": "64"},
            ":v7": {"N": "100002"},
            ":v8": {"B": b"87654321"},
            ":v9": {"N": "66"},
            ":v10": {"S": "today"},
            ":v11": {"N": "-5"},
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def test_an_id_counts_once(ground: Ground) -> None:
    """The same id again is a duplicate, another one is not, and the sum is read without the ids."""
    points = ledger(ground)
    assert points.get("c") is None
    assert isinstance(points.add("c", {"balance": 10, "count": 1}, id="m1"), Applied)
    assert isinstance(points.add("c", {"balance": 10, "count": 1}, id="m1"), Duplicate)
    points.add("c", {"balance": Decimal("2.5"), "count": 1}, id=b"m2", set={"last": "m2"})
    assert points.get("c") == {"balance": Decimal("12.5"), "count": 2, "last": "m2"}


def test_each_key_has_its_own_ids(ground: Ground) -> None:
    """One id may count for two keys; text and its UTF-8 are one id."""
    points = ledger(ground)
    assert isinstance(points.add("c", {"balance": 1}, id="é"), Applied)
    assert isinstance(points.add("d", {"balance": 1}, id="é"), Applied)
    assert isinstance(points.add("c", {"balance": 1}, id="é".encode()), Duplicate)


def test_a_key_may_have_two_parts(ground: Ground) -> None:
    """The key is the primary key of the table, partition key first, and stays out of what is read."""
    points = ledger(ground, table=ground.table("pk", "sk"), key=("pk", "sk"))
    points.add(("c", "2026"), {"balance": 1}, id="m1")
    assert points.get(("c", "2026")) == {"balance": 1}
    assert points.get(("c", "2027")) is None


def test_attributes_are_set_in_the_same_write(ground: Ground) -> None:
    """A duplicate sets nothing; a write may set and add nothing."""
    points = ledger(ground)
    points.add("c", {}, id="m1", set={"seen": "first", "none": None})
    points.add("c", {}, id="m1", set={"seen": "second"})
    assert points.get("c") == {"seen": "first", "none": None}


def test_names_may_be_reserved_words(ground: Ground) -> None:
    """Counters and attributes may bear any name, DynamoDB's own words and blanks too."""
    points = ledger(ground)
    points.add("c", {"count": 1, "total sum": 2}, id="m1", set={"status": "new"})
    assert points.get("c") == {"count": 1, "total sum": 2, "status": "new"}


# -- floors


def test_a_floor_holds(ground: Ground) -> None:
    """What would fall below its floor is refused and not remembered: with enough there, the id counts."""
    points = ledger(ground)
    points.add("c", {"balance": 10}, id="m1")
    refused = points.add("c", {"balance": -11, "count": 1}, id="m2", floor={"balance": 0})
    assert refused == Refused({"balance": 10}, floor={"balance": 0})
    assert points.get("c") == {"balance": 10}
    points.add("c", {"balance": 1}, id="m3")
    assert isinstance(points.add("c", {"balance": -11, "count": 1}, id="m2", floor={"balance": 0}), Applied)
    assert points.get("c") == {"balance": 0, "count": 1}


def test_what_was_taken_is_no_refusal_when_it_comes_again(ground: Ground) -> None:
    """The last 10 of 10 are gone: the same id again is a duplicate, though there is not enough any more."""
    points = ledger(ground)
    points.add("c", {"balance": 10}, id="m1")
    assert isinstance(points.add("c", {"balance": -10}, id="m2", floor={"balance": 0}), Applied)
    assert isinstance(points.add("c", {"balance": -10}, id="m2", floor={"balance": 0}), Duplicate)


def test_a_taking_whose_answer_is_lost_is_no_refusal(ground: Ground) -> None:
    """The retry meets an empty counter, and its own id."""
    table = ground.table()
    ledger(ground, table=table).add("c", {"balance": 10}, id="m1")
    client = FaultyClient(ground.client, in_turn(Fate.ANSWER_LOST))
    points = ledger(ground, client, table=table)
    assert isinstance(points.add("c", {"balance": -10}, id="m2", floor={"balance": 0}), Applied)
    assert points.get("c") == {"balance": 0}


@pytest.mark.parametrize(("floor", "taken"), [(-5, True), (-4, False)])
def test_a_missing_counter_counts_as_nothing(ground: Ground, floor: int, *, taken: bool) -> None:
    """Of a missing counter 5 may be taken if its floor is -5."""
    points = ledger(ground)
    if taken:
        assert isinstance(points.add("c", {"balance": -5}, id="m1", floor={"balance": floor}), Applied)
        return
    refused = points.add("c", {"balance": -5}, id="m1", floor={"balance": floor})
    assert refused == Refused({}, floor={"balance": floor})
    assert points.get("c") is None


def test_one_broken_floor_stops_all(ground: Ground) -> None:
    """Of two counters with floors, neither moves where one of them cannot."""
    points = ledger(ground)
    points.add("c", {"a": 5, "b": 1}, id="m1")
    refused = points.add("c", {"a": -5, "b": -2}, id="m2", floor={"a": 0, "b": 0})
    assert isinstance(refused, Refused)
    assert points.get("c") == {"a": 5, "b": 1}


def test_what_is_added_needs_no_floor(ground: Ground) -> None:
    """A counter below its floor rises, by 0 too."""
    points = ledger(ground)
    points.add("c", {"balance": -5}, id="m1")
    assert points.add("c", {"balance": 1}, id="m2", floor={"balance": 0}) == Applied({"balance": -4})
    assert points.add("c", {"balance": 0}, id="m3", floor={"balance": 0}) == Applied({"balance": -4})


def test_a_floor_is_exact(ground: Ground) -> None:
    """Numbers of 38 digits are compared to their last one."""
    points = ledger(ground)
    held = Decimal("12345678901234567890123456789.012345678")
    points.add("c", {"balance": held}, id="m1")
    least = {"balance": Decimal("0.000000001")}
    assert points.add("c", {"balance": held.copy_negate()}, id="m2", floor=least) == Refused(
        {"balance": held}, floor=least
    )
    assert isinstance(
        points.add("c", {"balance": held.copy_negate()}, id="m2", floor={"balance": 0}), Applied
    )
    assert points.get("c") == {"balance": 0}


def test_a_floor_is_for_numbers(ground: Ground) -> None:
    """A counter that somebody made text of is said to be text."""
    points = ledger(ground)
    points.add("c", {}, id="m1", set={"balance": "ten"})
    with pytest.raises(Misconfigured, match="'balance' is a str"):
        points.add("c", {"balance": -1}, id="m2", floor={"balance": 0})
    with pytest.raises(Misconfigured, match="update_item"):
        points.add("c", {"balance": 1}, id="m3")


# -- optimistic writes


def test_an_update_needs_what_it_expects(ground: Ground) -> None:
    """Of two that read version 3, one writes version 4; the other gets the current values."""
    stock = ledger(ground)
    assert isinstance(stock.update("c", {"version": 3, "tier": "blue"}, expected={"version": None}), Applied)
    assert isinstance(stock.update("c", {"version": 4, "tier": "gold"}, expected={"version": 3}), Applied)
    with pytest.raises(Conflict, match="read it") as lost:
        stock.update("c", {"version": 4, "tier": "red"}, expected={"version": 3})
    assert lost.value.values == {"version": 4, "tier": "gold"}
    with pytest.raises(Conflict):
        stock.update("c", {"version": 1}, expected={"version": None})
    with pytest.raises(Conflict) as absent:
        stock.update("d", {"version": 1}, expected={"version": 0})
    assert absent.value.values == {}


@pytest.mark.parametrize("stored_value", ["3", 3, True, b"3", Decimal("3.5")])
def test_expectations_are_of_their_type(ground: Ground, stored_value: object) -> None:
    """Text is no number, and True is no 1: a value equals only itself."""
    stock = ledger(ground)
    stock.add("c", {}, id="m1", set={"version": stored_value})
    for expected in ("3", 3, True, 1, b"3", Decimal("3.5")):
        if expected == stored_value and type(expected) is type(stored_value):
            continue
        with pytest.raises(Conflict):
            stock.update("c", {"version": "new"}, expected={"version": expected})
    assert isinstance(stock.update("c", {"version": "new"}, expected={"version": stored_value}), Applied)


def test_an_update_knows_its_own_lost_answer(ground: Ground) -> None:
    """Its retry meets version 5, and its own id beside it: it was written, and another write came after."""
    table = ground.table()
    other = ledger(ground, table=table)
    other.update("c", {"version": 3}, expected={"version": None})
    clock = FakeClock()
    clock.while_asleep(lambda _: other.update("c", {"version": 5}, expected={"version": 4}))
    client = FaultyClient(ground.client, in_turn(Fate.ANSWER_LOST))
    stock = ledger(ground, client, table=table, clock=clock)
    assert isinstance(stock.update("c", {"version": 4}, expected={"version": 3}), Applied)
    assert stock.get("c") == {"version": 5}


def test_an_update_of_an_id_is_made_once(ground: Ground) -> None:
    """A redelivered update is a duplicate, not a conflict, whatever was written since."""
    stock = ledger(ground)
    assert isinstance(stock.update("c", {"version": 1}, expected={"version": None}, id="m1"), Applied)
    stock.update("c", {"version": 2}, expected={"version": 1})
    assert isinstance(stock.update("c", {"version": 1}, expected={"version": None}, id="m1"), Duplicate)


def test_values_are_as_they_are_read(ground: Ground) -> None:
    """A float as the decimal that is stored, a tuple as a list."""
    points, given = ledger(ground), {"rate": 0.1, "names": ("ann", "bo")}
    for result in (
        points.update("c", given, expected={"rate": None}),
        points.change("c", lambda _: given),
        points.add("c", {}, id="m1", set=given),
    ):
        assert result == Applied({"rate": Decimal("0.1"), "names": ["ann", "bo"]})
    assert points.get("c") == {"rate": Decimal("0.1"), "names": ["ann", "bo"]}


def test_a_change_starts_anew_where_another_write_came_between(ground: Ground) -> None:
    """The second reading has the other's amount, and nothing is lost."""
    stock = ledger(ground)
    stock.add("c", {"left": 5}, id="m1")
    read: list[object] = []

    def take(values: dict[str, Any]) -> dict[str, object]:
        read.append(dict(values))
        if len(read) == 1:
            stock.add("c", {"left": 2}, id="m2")
        return {"left": values["left"] - 1}

    assert stock.change("c", take) == Applied({"left": 6})
    assert read == [{"left": 5}, {"left": 7}]
    assert stock.get("c") == {"left": 6}


def test_a_change_may_make_the_item(ground: Ground) -> None:
    """Where nothing is, the change gets an empty dict."""
    stock = ledger(ground)
    assert stock.change("c", lambda values: {"n": values.get("n", 0) + 1}).values == {"n": 1}
    assert stock.change("c", lambda values: {"n": values.get("n", 0) + 1}).values == {"n": 2}


def test_a_change_knows_its_own_lost_answer(ground: Ground) -> None:
    """Its retry finds another version there, and its own id: it is not made again."""
    table = ground.table()
    other = ledger(ground, table=table)
    clock = FakeClock()
    clock.while_asleep(lambda _: other.add("c", {"n": 10}, id="m1"))
    client = FaultyClient(ground.client, in_turn(Fate.SOUND, Fate.ANSWER_LOST))
    stock = ledger(ground, client, table=table, clock=clock)
    assert stock.change("c", lambda _: {"n": 1}) == Applied({"n": 1})
    assert stock.get("c") == {"n": 11}


def test_a_change_of_an_id_is_made_once(ground: Ground) -> None:
    """A redelivered change is not even computed, nor is one whose answer was lost computed again."""
    table = ground.table()
    client = FaultyClient(ground.client, in_turn(Fate.SOUND, Fate.ANSWER_LOST))
    stock = ledger(ground, client, table=table)
    computed: list[int] = []

    def count(values: dict[str, Any]) -> dict[str, object]:
        computed.append(1)
        return {"n": values.get("n", 0) + 1}

    assert stock.change("c", count, id="m1") == Applied({"n": 1})
    assert stock.change("c", count, id="m1") == Duplicate({"n": 1})
    assert len(computed) == 1


def test_a_change_gives_up_after_ten_races(ground: Ground) -> None:
    """Somebody writes each time: after ten readings it is a conflict, and the waits grew on the way."""
    clock = FakeClock()
    stock = ledger(ground, clock=clock)
    races: list[int] = []

    def lose(values: dict[str, Any]) -> dict[str, object]:
        races.append(1)
        stock.add("c", {"n": 1}, id=f"m{len(races)}")
        return {"n": 0}

    with pytest.raises(Conflict):
        stock.change("c", lose)
    assert len(races) == 10
    assert len(clock.slept) == 9
    assert stock.get("c") == {"n": 10}


# -- shards


def test_shards_are_summed(ground: Ground) -> None:
    """An id meets its own shard each time, and what is read is the sum of all."""
    table = ground.table()
    points = ledger(ground, table=table, shards=7)
    assert points.get("c") is None
    for n in range(40):
        assert isinstance(points.add("c", {"balance": Decimal("0.1"), "count": 1}, id=f"m{n}"), Applied)
        assert isinstance(points.add("c", {"balance": Decimal("0.1"), "count": 1}, id=f"m{n}"), Duplicate)
    assert points.get("c") == {"balance": 4, "count": 40}
    keys = {each["pk"]["S"] for each in ground.client.scan(TableName=table)["Items"]}
    assert keys == {"c", *(f"c#{shard}" for shard in range(1, 7))}


def test_what_is_no_number_has_no_sum(ground: Ground) -> None:
    """An attribute that others put on a shard is left out of what is read."""
    table = ground.table()
    ground.client.put_item(
        TableName=table,
        Item={"pk": {"S": "c#1"}, "note": {"S": "x"}, "n": {"N": "2"}},
    )
    assert ledger(ground, table=table, shards=2).get("c") == {"n": 2}


def test_more_shards_than_one_read_takes(ground: Ground) -> None:
    """The shards of a key are read a hundred at a time."""
    points = ledger(ground, shards=250)
    for n in range(20):
        points.add("c", {"balance": 1}, id=f"m{n}")
    assert points.get("c") == {"balance": 20}


def test_what_a_read_left_out_is_asked_for_again(ground: Ground) -> None:
    """UnprocessedKeys are read in further rounds, and given up after ten."""
    points = ledger(ground, shards=4)
    for n in range(20):
        points.add("c", {"balance": 1}, id=f"m{n}")

    class Stingy:
        rounds = 0
        stubborn = False

        def batch_get_item(self, **request: Any) -> Any:
            ((table, asked),) = request["RequestItems"].items()
            self.rounds += 1
            first, rest = asked["Keys"][:1], asked["Keys"][1:]
            if self.stubborn:
                return {"Responses": {}, "UnprocessedKeys": {table: asked}}
            answer = ground.client.batch_get_item(RequestItems={table: {**asked, "Keys": first}})
            return {**answer, "UnprocessedKeys": {table: {**asked, "Keys": rest}} if rest else {}}

    stingy = Stingy()
    clock = FakeClock()
    reader = ledger(ground, stingy, table=points._table.name, shards=4, clock=clock)
    assert reader.get("c") == {"balance": 20}
    assert stingy.rounds == 4
    stingy.stubborn = True
    with pytest.raises(StoreUnavailable, match="all its shards"):
        reader.get("c")
    assert stingy.rounds == 4 + ledger_module.ROUNDS


# -- what is stored


def test_ids_are_eight_bytes_in_a_bucket(ground: Ground) -> None:
    """An item has its sums, one binary set of digests for the time of its writes, and three stamps."""
    table, clock = ground.table(), FakeClock()
    points = ledger(ground, table=table, clock=clock)
    points.add("c", {"balance": 10}, id="m1")
    points.add("c", {"balance": 10}, id="m2")
    layout = layout_for(HOUR)
    number = layout.number(clock.now())
    stored = item(ground, table)
    assert len(stored.pop("bv")) == ID_BYTES
    assert stored == {
        "pk": "c",
        "balance": 20,
        f"b{number % 64}": {id_digest("m1"), id_digest("m2")},
        "bt": number,
        "bl": 100 * layout.width + layout.buckets,
    }
    ledger(ground, table=table, clock=clock, shards=2).add("s", {"n": 1}, id="m2")
    assert item(ground, table, "s")["bs"] == 2


def test_more_buckets_of_one_width_rearrange_the_item(ground: Ground) -> None:
    """A longer window may have the same width: the item takes its layout, and keeps its ids."""
    table, clock = ground.table(), FakeClock()
    short, long = (
        ledger(ground, table=table, clock=clock, window=timedelta(seconds=seconds), buckets=buckets)
        for seconds, buckets in ((58, 4), (98, 6))
    )
    assert isinstance(short.add("c", {"n": 1}, id="m1"), Applied)
    assert isinstance(long.add("c", {"n": 1}, id="m2"), Applied)
    assert item(ground, table)["bl"] == 2_000_006
    assert isinstance(long.add("c", {"n": 1}, id="m1"), Duplicate)


def test_an_item_of_others_becomes_a_ledger(ground: Ground) -> None:
    """A balance that stood there before is added to."""
    table = ground.table()
    ground.client.put_item(TableName=table, Item={"pk": {"S": "c"}, "balance": {"N": "90"}})
    points = ledger(ground, table=table)
    assert isinstance(points.add("c", {"balance": 10}, id="m1"), Applied)
    points.change("c", lambda values: {"tier": "gold" if values["balance"] >= 100 else "blue"})
    assert points.get("c") == {"balance": 100, "tier": "gold"}


THEIRS: dict[str, dict[str, dict[str, str]]] = {
    "bt": {"bt": {"S": "2026-11-20"}},
    "bl": {"bl": {"N": "1795255200"}},
    "bv": {"bv": {"N": "7"}},
    "bs": {"bs": {"S": "small"}},
    "bt as a number": {"bt": {"N": "1795255200"}},
    "bt as a fraction": {"bt": {"N": "1.5"}, "bl": {"N": "1"}},
    "b5": {"b5": {"S": "cup"}, "bt": {"N": "1"}, "bl": {"N": "1"}},
}
"""Attributes of other code under the ledger's names."""


@pytest.mark.parametrize("theirs", THEIRS.values(), ids=THEIRS)
def test_an_attribute_of_others_is_never_overwritten(
    ground: Ground, theirs: dict[str, dict[str, str]]
) -> None:
    """Each operation names the attribute and says what a new key means, and writes nothing."""
    table, whole = ground.table(), {"pk": {"S": "c"}, **theirs}
    ground.client.put_item(TableName=table, Item=whole)
    points = ledger(ground, table=table)
    calls: list[Callable[[], object]] = [
        lambda: points.add("c", {"n": 1}, id="m1"),
        lambda: points.update("c", {"x": 1}, expected={"y": None}),
        lambda: points.change("c", lambda _: {"x": 1}),
        lambda: points.transact_item("c", {"n": 1}, id="m1"),
        lambda: points.get("c"),
    ]
    wanted = f"'{next(iter(theirs))}' of item .* was not written by ledger .* which starts from zero"
    for call in calls:
        with pytest.raises(Misconfigured, match=wanted):
            call()
    assert item(ground, table) == plain_item(whole)


@pytest.mark.parametrize("theirs", ["bt", "bl", "bv"])
def test_without_the_condition_a_stamp_of_others_is_overwritten(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    """Negative twin: that there is no time is taken for an item that no one wrote; only the time is safe."""
    monkeypatch.setattr(ledger_requests, "STAMPS", ("bt",))
    table, whole = ground.table(), {"pk": {"S": "c"}, **THEIRS[theirs]}
    ground.client.put_item(TableName=table, Item=whole)
    points = ledger(ground, table=table)
    if theirs == "bt":
        with pytest.raises(Misconfigured, match="not written by ledger"):
            points.add("c", {"n": 1}, id="m1")
    else:
        assert isinstance(points.add("c", {"n": 1}, id="m1"), Applied)
        assert item(ground, table)[theirs] != plain_item(whole)[theirs]


def test_an_item_that_is_full_says_so(ground: Ground) -> None:
    """Beyond 400 KB nothing is written, and the error names the way out."""
    points = ledger(ground)
    points.add("c", {"balance": 1}, id="m1", set={"filling": "x" * 400_000})
    with pytest.raises(Full, match=r"a new key, which starts from zero: carry the balance over"):
        points.add("c", {"balance": 1}, id="m2", set={"filling": "x" * 409_600})
    assert points.get("c") == {"balance": 1, "filling": "x" * 400_000}


def test_a_full_item_has_room_when_ids_go(ground: Ground) -> None:
    """The write that was refused is taken after the window."""
    table, clock = ground.table(), FakeClock()
    points = ledger(ground, table=table, clock=clock)
    points.add("c", {"balance": 1}, id="m1")
    bulk = [n.to_bytes(8, "big") for n in range(51_180)]
    for start in range(0, len(bulk), 10_000):
        ground.client.update_item(
            TableName=table,
            Key={"pk": {"S": "c"}},
            UpdateExpression=f"ADD {bucket_name(layout_for(HOUR).number(clock.now()))} :bulk",
            ExpressionAttributeValues={":bulk": {"BS": bulk[start : start + 10_000]}},
        )
    with pytest.raises(Full):
        points.add("c", {"balance": 1}, id="m2", set={"filling": "x" * 200})
    clock.advance(2 * 3600)
    assert isinstance(points.add("c", {"balance": 1}, id="m2", set={"filling": "x" * 200}), Applied)
    assert points.get("c") == {"balance": 2, "filling": "x" * 200}


def test_no_answer_after_all_tries_is_store_unavailable(ground: Ground) -> None:
    """No answer after all tries is StoreUnavailable; the same id again settles it."""
    table = ground.table()
    client = FaultyClient(ground.client, in_turn(*[Fate.REQUEST_LOST] * TRIES))
    with pytest.raises(StoreUnavailable, match="retry"):
        ledger(ground, client, table=table).add("c", {"balance": 1}, id="m1")
    assert isinstance(ledger(ground, table=table).add("c", {"balance": 1}, id="m1"), Applied)


def test_a_write_that_never_fits_is_given_up(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that is at another time whenever it is asked ends in StoreUnavailable, not in a circle."""
    points = ledger(ground)
    points.add("c", {"balance": 1}, id="m0")
    monkeypatch.setattr(ledger_requests, "in_step", lambda *_: "attribute_exists(never)")
    monkeypatch.setattr(ledger_requests, "as_seen", lambda *_: "attribute_exists(never)")
    with pytest.raises(StoreUnavailable, match="is contended; retry"):
        points.add("c", {"balance": 1}, id="m1")


# -- expectations of an addition


def test_an_addition_needs_what_it_expects(ground: Ground) -> None:
    """Money is added to an open account only; the id counts once the account is open."""
    points = ledger(ground)
    points.add("c", {"balance": 1}, id="m1", set={"state": "closed"})
    with pytest.raises(Conflict) as lost:
        points.add("c", {"balance": 1}, id="m2", expected={"state": "open"})
    assert lost.value.values == {"balance": 1, "state": "closed"} == points.get("c")
    points.add("c", {}, id="m3", expected={"state": "closed"}, set={"state": "open"})
    assert points.add("c", {"balance": 1}, id="m2", expected={"state": "open"}) == Applied({"balance": 2})
    with pytest.raises(Misconfigured, match="2 shards"):
        ledger(ground, shards=2).add("c", {"balance": 1}, id="m1", expected={"state": "open"})


def test_a_counter_may_be_the_version(ground: Ground) -> None:
    """Expected and added to in one write; of two that expect version 0 one succeeds."""
    points = ledger(ground)
    points.add("c", {"version": 1}, id="m1", expected={"version": None})
    assert points.add("c", {"version": 1}, id="m2", expected={"version": 1}) == Applied({"version": 2})
    with pytest.raises(Conflict):
        points.add("c", {"version": 1}, id="m3", expected={"version": 1})


def test_a_duplicate_comes_before_a_conflict_and_that_before_a_refusal(ground: Ground) -> None:
    """So a redelivery is told that it counted, and a closed account is not called an empty one."""
    points = ledger(ground)
    points.add("c", {"balance": 10}, id="m1", set={"state": "open"})
    withdraw: dict[str, Any] = {"floor": {"balance": 0}, "expected": {"state": "open"}}
    points.add("c", {"balance": -10}, id="m2", **withdraw)
    assert isinstance(points.add("c", {"balance": -10}, id="m3", **withdraw), Refused)
    points.add("c", {}, id="m4", set={"state": "closed"})
    assert points.add("c", {"balance": -10}, id="m2", **withdraw) == Duplicate(points.get("c") or {})
    for amount in (-10, 10):
        with pytest.raises(Conflict):
            points.add("c", {"balance": amount}, id="m3", **withdraw)


def test_none_is_missing_or_null(ground: Ground) -> None:
    """`get` returns None for both, so an update expects both by None."""
    points = ledger(ground)
    points.add("c", {}, id="m1", set={"coupon": None})
    points.update("c", {"coupon": None, "n": 1}, expected={"coupon": None, "absent": None})
    assert points.add("c", {"n": 1}, id="m2", expected={"coupon": None}) == Applied({"n": 2})
    points.update("c", {"coupon": "x"}, expected={"coupon": None})
    with pytest.raises(Conflict):
        points.add("c", {"n": 1}, id="m3", expected={"coupon": None})


def test_without_its_condition_an_expectation_does_not_hold(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: money is added to a closed account."""
    points = ledger(ground)
    points.add("c", {}, id="m1", set={"state": "closed"})
    monkeypatch.setattr(ledger_requests, "is_as_expected", lambda *_: "")
    assert isinstance(points.add("c", {"n": 1}, id="m2", expected={"state": "open"}), Applied)


# -- what a result has


def test_results_have_the_values(ground: Ground) -> None:
    """An applied addition those that it changed, from its own request; a duplicate the item as it is now."""
    points = ledger(ground)
    points.add("c", {"n": 5}, id="m1", set={"last": "m1", "other": 1})
    assert points.add("c", {"n": 0.5}, id="m2", set={"last": "m2"}) == Applied(
        {"n": Decimal("5.5"), "last": "m2"}
    )
    assert points.add("c", {"n": 5}, id="m1") == Duplicate({"n": Decimal("5.5"), "last": "m2", "other": 1})
    assert points.update("c", {"last": "m3"}, expected={"last": "m2"}) == Applied({"last": "m3"})
    spread = ledger(ground, shards=2)
    assert spread.add("c", {"n": 5}, id="m1") == Applied()
    assert spread.add("c", {"n": 5}, id="m1") == Duplicate()


@pytest.mark.engine
def test_numbers_are_given_out_once(engine: Ground) -> None:
    """The counter after an addition is a number that no other addition got."""
    points = ledger(engine)

    def number(n: int) -> Any:
        return points.add("c", {"invoice": 1}, id=f"m{n}").values["invoice"]

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(number, range(40))) == list(range(1, 41))


def test_an_id_is_looked_up(ground: Ground) -> None:
    """In its shard, whatever window wrote it; for its key, until it is forgotten."""
    for shards in (1, 4):
        table, clock = ground.table(), FakeClock()
        points = ledger(ground, table=table, clock=clock, shards=shards)
        assert not points.has("c", "m1")
        points.add("c", {"n": 1}, id="m1")
        longer = ledger(ground, table=table, clock=clock, shards=shards, window=2 * HOUR)
        assert points.has("c", "m1")
        assert longer.has("c", b"m1")
        assert not points.has("c", "m2")
        assert not points.has("d", "m1")
        clock.advance(2 * 3600)
        assert not points.has("c", "m1")


# -- expiry


def expiry(ground: Ground, table: str) -> int:
    """Return the TTL attribute of the item."""
    found: int = item(ground, table, "c")["ttl"]
    return found


def test_items_expire(ground: Ground) -> None:
    """The attribute is the ledger's own, and a duplicate does not move it; shards have none."""
    clock = FakeClock()
    at, later = clock.now() + timedelta(days=9, seconds=0.5), clock.now() + timedelta(days=10)
    table = ground.table()
    points = ledger(ground, table=table, clock=clock)
    assert points.add("c", {"n": 1}, id="m1", expires=at) == Applied({"n": 1})
    assert points.add("c", {"n": 1}, id="m1", expires=later) == Duplicate({"n": 1})
    points.add("c", {"n": 1}, id="m2")
    assert expiry(ground, table) == int(at.timestamp())
    assert points.get("c") == {"n": 2}
    spread = ledger(ground, table=table, clock=clock, shards=2)
    with pytest.raises(Misconfigured, match="expires: a key with 2 shards"):
        spread.add("home", {"n": 1}, id="m1", expires=at)
    with pytest.raises(Misconfigured, match="expires: a key with 2 shards"):
        spread.add_all("home", {"m1": {"n": 1}}, expires=at)
    assert spread.get("home") is None


@pytest.mark.parametrize(
    "late", [timedelta(0), HOUR * 8], ids=["its ids are forgotten first", "it ends first"]
)
def test_a_write_without_an_end_outlives_its_item(ground: Ground, late: timedelta) -> None:
    """TTL would delete the item, and an id inside of its window with it: an earlier end is moved."""
    clock = FakeClock()
    end = clock.now() + 9 * HOUR
    writes: dict[str, Callable[[Ledger], object]] = {
        "add": lambda points: points.add("c", {"n": 1}, id="m2"),
        "add_all": lambda points: points.add_all("c", {"m2": {"n": 1}}),
        "update": lambda points: points.update("c", {"x": 1}, expected={"n": 1}, id="m2"),
        "change": lambda points: points.change("c", lambda _: {"x": 1}, id="m2"),
        "transact": lambda points: ground.client.transact_write_items(
            TransactItems=[points.transact_item("c", {"n": 1}, id="m2")]
        ),
    }
    for name, write in writes.items():
        table, its = ground.table(), FakeClock(clock.now())
        points = ledger(ground, table=table, clock=its)
        points.add("c", {"n": 1}, id="m1", expires=end)
        its.advance(late.total_seconds() + 1)
        write(points)
        left = expiry(ground, table) - its.now().timestamp()
        assert points.has("c", "m2"), name
        assert (expiry(ground, table) == int(end.timestamp())) is (late == timedelta(0)), name
        its.advance(left)
        assert not points.has("c", "m2"), name


@pytest.mark.parametrize("buckets", [2, 32])
def test_an_item_does_not_expire_before_its_ids(ground: Ground, buckets: int) -> None:
    """However early *expires* is, and by whatever window the ids are kept."""
    table, clock = ground.table(), FakeClock()
    long = ledger(ground, table=table, clock=clock, window=2 * HOUR, buckets=buckets)
    long.add("c", {"n": 1}, id="m1", expires=clock.now() - HOUR)
    ledger(ground, table=table, clock=clock).add("c", {"n": 1}, id="m2", expires=clock.now())
    expires = expiry(ground, table)
    clock.advance(expires - 1 - clock.now().timestamp())
    assert expires >= (clock.now() + timedelta(seconds=1)).timestamp() >= 7200
    clock.advance(2)
    assert not long.has("c", "m1")
    assert not long.has("c", "m2")


@pytest.mark.parametrize("theirs", [{"S": "never"}, {"N": "1"}, {"NULL": True}])
def test_a_ttl_of_others_stays_until_the_ledger_sets_one(ground: Ground, theirs: dict[str, Any]) -> None:
    """Of an adopted table; it is not among the values, and is no reason to refuse the item."""
    table, clock = ground.table(), FakeClock()
    ground.client.put_item(TableName=table, Item={"pk": {"S": "c"}, "ttl": theirs, "n": {"N": "1"}})
    points = ledger(ground, table=table, clock=clock)
    assert points.add("c", {"n": 1}, id="m1") == Applied({"n": 2})
    if theirs == {"N": "1"}:  # the id would go with the item
        assert expiry(ground, table) > clock.now().timestamp() + HOUR.total_seconds()
    else:
        assert item(ground, table)["ttl"] == plain_item({"ttl": theirs})["ttl"]
    points.add("c", {"n": 1}, id="m2", expires=clock.now() + 9 * HOUR)
    assert expiry(ground, table) == int((clock.now() + 9 * HOUR).timestamp())
    assert points.get("c") == {"n": 3}


@pytest.mark.parametrize("expires", [1_800_000_000, "2027-01-01", datetime(2027, 1, 1), HOUR])  # noqa: DTZ001
def test_an_expiry_has_a_time_zone(ground: Ground, expires: Any) -> None:
    """And no unit to guess; the attribute is not set by other means."""
    points = ledger(ground)
    with pytest.raises(Misconfigured, match="a datetime with a time zone"):
        points.add("c", {"n": 1}, id="m1", expires=expires)
    with pytest.raises(Misconfigured, match="ledger's own"):
        points.add("c", {"n": 1}, id="m1", set={"ttl": 1})
    assert points.get("c") is None
