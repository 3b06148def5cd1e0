"""A ledger: each id counts once within its window, floors hold, and readers see sums."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from lambda_once.dynamodb.retry import TRIES
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.items import plain_item
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger import ledger as ledger_module
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.patterns.ledger.layout import Layout, bucket_name, id_digest, layout_for, ledger_table
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
        digest=b"12345678",
        layout=Layout(width=1000, buckets=2),
        amounts={"balance": -5},
        floor={"balance": 0},
        sets={"last": "today"},
        expected={},
    )
    request = adding(write, 64)
    spare = ", ".join(f"b{n}" for n in range(1, 63))
    assert request == {
        "TableName": "points",
        "Key": {"pk": {"S": "c"}},
        "UpdateExpression": (
            f"SET bt = :v7, bw = :v8, bl = :v9, #n1 = :v10 ADD b0 :v0, bv :v12, #n0 :v11 REMOVE {spare}"
        ),
        "ConditionExpression": (
            "(attribute_not_exists(bt) AND attribute_not_exists(bw) AND attribute_not_exists(bl) "
            "AND attribute_not_exists(bv) OR (bw = :v1 AND bl = :v3 "
            "AND bt <= :v2 AND (bt >= :v4 OR attribute_not_exists(b0)))) "
            "AND NOT (contains(b63, :v5) OR contains(b0, :v5)) AND #n0 >= :v6"
        ),
        "ExpressionAttributeNames": {"#n0": "balance", "#n1": "last"},
        "ExpressionAttributeValues": {
            ":v0": {"BS": [b"12345678"]},
            ":v1": {"N": "1000"},
            ":v2": {"N": "64"},
            ":v3": {"N": "100002"},
            ":v4": {"N": "2"},
            ":v5": {"B": b"12345678"},
            ":v6": {"N": "5"},
            ":v7": {"N": "64"},
            ":v8": {"N": "1000"},
            ":v9": {"N": "100002"},
            ":v10": {"S": "today"},
            ":v11": {"N": "-5"},
            ":v12": {"N": "1"},
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def test_an_id_counts_once(ground: Ground) -> None:
    """The same id again is a duplicate, another one is not, and the sum is read without the ids."""
    points = ledger(ground)
    assert points.get("c") is None
    assert points.add("c", {"balance": 10, "count": 1}, id="m1") == Applied()
    assert points.add("c", {"balance": 10, "count": 1}, id="m1") == Duplicate()
    points.add("c", {"balance": Decimal("2.5"), "count": 1}, id=b"m2", set={"last": "m2"})
    assert points.get("c") == {"balance": Decimal("12.5"), "count": 2, "last": "m2"}


def test_each_key_has_its_own_ids(ground: Ground) -> None:
    """One id may count for two keys; text and its UTF-8 are one id."""
    points = ledger(ground)
    assert points.add("c", {"balance": 1}, id="é") == Applied()
    assert points.add("d", {"balance": 1}, id="é") == Applied()
    assert points.add("c", {"balance": 1}, id="é".encode()) == Duplicate()


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
    assert points.add("c", {"balance": -11, "count": 1}, id="m2", floor={"balance": 0}) == Applied()
    assert points.get("c") == {"balance": 0, "count": 1}


def test_what_was_taken_is_no_refusal_when_it_comes_again(ground: Ground) -> None:
    """The last 10 of 10 are gone: the same id again is a duplicate, though there is not enough any more."""
    points = ledger(ground)
    points.add("c", {"balance": 10}, id="m1")
    assert points.add("c", {"balance": -10}, id="m2", floor={"balance": 0}) == Applied()
    assert points.add("c", {"balance": -10}, id="m2", floor={"balance": 0}) == Duplicate()


def test_a_taking_whose_answer_is_lost_is_no_refusal(ground: Ground) -> None:
    """The retry meets an empty counter, and its own id."""
    table = ground.table()
    ledger(ground, table=table).add("c", {"balance": 10}, id="m1")
    client = FaultyClient(ground.client, in_turn(Fate.ANSWER_LOST))
    points = ledger(ground, client, table=table)
    assert points.add("c", {"balance": -10}, id="m2", floor={"balance": 0}) == Duplicate()
    assert points.get("c") == {"balance": 0}


@pytest.mark.parametrize(("floor", "taken"), [(-5, True), (-4, False)])
def test_a_missing_counter_counts_as_nothing(ground: Ground, floor: int, *, taken: bool) -> None:
    """Of a missing counter 5 may be taken if its floor is -5."""
    points = ledger(ground)
    if taken:
        assert points.add("c", {"balance": -5}, id="m1", floor={"balance": floor}) == Applied()
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
    """A counter below its floor may rise: a floor is for what is taken."""
    points = ledger(ground)
    points.add("c", {"balance": -10}, id="m1")
    assert points.add("c", {"balance": 3}, id="m2", floor={"balance": 0}) == Applied()


def test_a_floor_is_exact(ground: Ground) -> None:
    """Numbers of 38 digits are compared to their last one."""
    points = ledger(ground)
    held = Decimal("12345678901234567890123456789.012345678")
    points.add("c", {"balance": held}, id="m1")
    least = {"balance": Decimal("0.000000001")}
    assert points.add("c", {"balance": held.copy_negate()}, id="m2", floor=least) == Refused(
        {"balance": held}, floor=least
    )
    assert points.add("c", {"balance": held.copy_negate()}, id="m2", floor={"balance": 0}) == Applied()
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
    assert stock.update("c", {"version": 3, "tier": "blue"}, expected={"version": None}) == Applied()
    assert stock.update("c", {"version": 4, "tier": "gold"}, expected={"version": 3}) == Applied()
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
    assert stock.update("c", {"version": "new"}, expected={"version": stored_value}) == Applied()


def test_an_update_knows_its_own_lost_answer(ground: Ground) -> None:
    """Its retry meets version 5, and its own id beside it: it was written, and another write came after."""
    table = ground.table()
    other = ledger(ground, table=table)
    other.update("c", {"version": 3}, expected={"version": None})
    clock = FakeClock()
    clock.while_asleep(lambda _: other.update("c", {"version": 5}, expected={"version": 4}))
    client = FaultyClient(ground.client, in_turn(Fate.ANSWER_LOST))
    stock = ledger(ground, client, table=table, clock=clock)
    assert stock.update("c", {"version": 4}, expected={"version": 3}) == Applied()
    assert stock.get("c") == {"version": 5}


def test_an_update_of_an_id_is_made_once(ground: Ground) -> None:
    """A redelivered update is a duplicate, not a conflict, whatever was written since."""
    stock = ledger(ground)
    assert stock.update("c", {"version": 1}, expected={"version": None}, id="m1") == Applied()
    stock.update("c", {"version": 2}, expected={"version": 1})
    assert stock.update("c", {"version": 1}, expected={"version": None}, id="m1") == Duplicate()


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
    """A redelivered change is not even computed; one whose answer was lost is a duplicate of itself."""
    table = ground.table()
    client = FaultyClient(ground.client, in_turn(Fate.SOUND, Fate.ANSWER_LOST))
    stock = ledger(ground, client, table=table)
    computed: list[int] = []

    def count(values: dict[str, Any]) -> dict[str, object]:
        computed.append(1)
        return {"n": values.get("n", 0) + 1}

    for _ in range(2):
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
        assert points.add("c", {"balance": Decimal("0.1"), "count": 1}, id=f"m{n}") == Applied()
        assert points.add("c", {"balance": Decimal("0.1"), "count": 1}, id=f"m{n}") == Duplicate()
    assert points.get("c") == {"balance": 4, "count": 40}
    keys = {each["pk"]["S"] for each in ground.client.scan(TableName=table)["Items"]}
    assert keys == {f"c#{shard}" for shard in range(7)}


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
    assert stingy.rounds == 5
    stingy.stubborn = True
    with pytest.raises(StoreUnavailable, match="all its shards"):
        reader.get("c")
    assert stingy.rounds == 5 + ledger_module.ROUNDS


# -- what is stored


def test_ids_are_eight_bytes_in_a_bucket(ground: Ground) -> None:
    """An item has its sums, one binary set of digests for the time of its writes, and four stamps."""
    table, clock = ground.table(), FakeClock()
    points = ledger(ground, table=table, clock=clock)
    points.add("c", {"balance": 10}, id="m1")
    points.add("c", {"balance": 10}, id="m2")
    layout = layout_for(HOUR)
    number = layout.number(clock.now())
    assert item(ground, table) == {
        "pk": "c",
        "balance": 20,
        f"b{number % 64}": {id_digest("m1"), id_digest("m2")},
        "bt": number,
        "bw": layout.width,
        "bl": 100 * layout.width + layout.buckets,
        "bv": 2,
    }


def test_an_item_of_others_becomes_a_ledger(ground: Ground) -> None:
    """A balance that stood there before is added to."""
    table = ground.table()
    ground.client.put_item(TableName=table, Item={"pk": {"S": "c"}, "balance": {"N": "90"}})
    points = ledger(ground, table=table)
    assert points.add("c", {"balance": 10}, id="m1") == Applied()
    points.change("c", lambda values: {"tier": "gold" if values["balance"] >= 100 else "blue"})
    assert points.get("c") == {"balance": 100, "tier": "gold"}


def test_an_item_that_is_full_says_so(ground: Ground) -> None:
    """Beyond 400 KB nothing is written, and the error names the way out."""
    points = ledger(ground)
    points.add("c", {"balance": 1}, id="m1", set={"filling": "x" * 400_000})
    with pytest.raises(Full, match=r"lambda-once plan.*shards"):
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
    assert points.add("c", {"balance": 1}, id="m2", set={"filling": "x" * 200}) == Applied()
    assert points.get("c") == {"balance": 2, "filling": "x" * 200}


def test_no_answer_after_all_tries_is_store_unavailable(ground: Ground) -> None:
    """No answer after all tries is StoreUnavailable; the same id again settles it."""
    table = ground.table()
    client = FaultyClient(ground.client, in_turn(*[Fate.REQUEST_LOST] * TRIES))
    with pytest.raises(StoreUnavailable, match="retry"):
        ledger(ground, client, table=table).add("c", {"balance": 1}, id="m1")
    assert ledger(ground, table=table).add("c", {"balance": 1}, id="m1") == Applied()


def test_a_write_that_never_fits_is_given_up(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that is at another time whenever it is asked ends in StoreUnavailable, not in a circle."""
    monkeypatch.setattr(ledger_requests, "in_step", lambda *_: "attribute_exists(never)")
    monkeypatch.setattr(ledger_requests, "as_seen", lambda *_: "attribute_exists(never)")
    with pytest.raises(StoreUnavailable, match="is contended; retry"):
        ledger(ground).add("c", {"balance": 1}, id="m1")
