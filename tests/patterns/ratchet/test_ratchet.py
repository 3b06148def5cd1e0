"""What one caller of a ratchet gets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.ratchet import Ratchet, timestamps
from lambda_once.patterns.ratchet import requests as ratchet_requests
from lambda_once.patterns.ratchet.requests import ANYTHING
from lambda_once.patterns.ratchet.timestamps import Stamp
from lambda_once.patterns.results import Applied, Conflict, Stale, TooFarAhead
from lambda_once.testing import FakeClock
from tests.kit.faulty import FaultyClient, every_second_answer_lost
from tests.patterns.conftest import Ground
from tests.patterns.ratchet.conftest import ITEM, LAMP, MS, NOW, rows

EVERYTHING = {
    "pk": "everything",
    "text": "ü",
    "price": Decimal("12.50"),
    "count": 3,
    "raw": b"\x00\x01",
    "flag": False,
    "nothing": None,
    "empty": "",
    "list": [1, {"a": {"b"}}],
    "names": {"a", "b"},
    "numbers": {1, 2},
    "ttl": 99,
}


def test_what_is_put_is_got(ratchet: Ratchet) -> None:
    """Every type that DynamoDB has, with the timestamp and without what the ratchet keeps for itself."""
    assert ratchet.put(EVERYTHING, NOW) == Applied({"ts": MS})
    assert ratchet.get({"pk": "everything"}) == {**EVERYTHING, "ts": MS}
    assert ratchet.get({"pk": "everything"}, consistent=False) == {**EVERYTHING, "ts": MS}


def test_the_newer_write_wins(ratchet: Ratchet) -> None:
    """An older put and an older delete are stale, and return the current timestamp."""
    assert ratchet.put(ITEM, MS + 5) == Applied({"ts": MS + 5})
    assert ratchet.put({**LAMP, "price": 9}, MS + 4) == Stale({"ts": MS + 5})
    assert ratchet.delete(LAMP, MS + 4) == Stale({"ts": MS + 5})
    assert ratchet.get(LAMP) == {**ITEM, "ts": MS + 5}
    assert ratchet.put({**LAMP, "colour": "red"}, MS + 6) == Applied({"ts": MS + 6})
    assert ratchet.get(LAMP) == {**LAMP, "colour": "red", "ts": MS + 6}


def test_a_write_may_be_repeated(ratchet: Ratchet) -> None:
    """The same under the same timestamp is written, however often."""
    for _ in range(3):
        assert ratchet.put(ITEM, MS) == Applied({"ts": MS})
    for _ in range(3):
        assert ratchet.delete(LAMP, MS + 1) == Applied({"ts": MS + 1})
    assert ratchet.get(LAMP) is None


def test_of_two_contents_of_one_timestamp_one_wins_in_both_orders(
    ground: Ground, table: str, ratchet: Ratchet
) -> None:
    """Which one is arbitrary; that the other is refused, wherever it comes, is not."""
    left = []
    for order in ((1, 2), (2, 1)):
        outcomes = {price: ratchet.put({**LAMP, "price": price}, MS) for price in order}
        left.append(ratchet.get(LAMP))
        assert left[-1] is not None
        assert outcomes[left[-1]["price"]] == Applied({"ts": MS})
        assert ratchet.put({**LAMP, "price": 3 - left[-1]["price"]}, MS) == Stale({"ts": MS})
        ground.client.delete_item(TableName=table, Key={"pk": {"S": "lamp"}})
    assert left[0] == left[1]


def test_a_delete_outranks_every_put_of_its_timestamp(ratchet: Ratchet) -> None:
    """Before or after it."""
    assert ratchet.put(ITEM, MS) == Applied({"ts": MS})
    assert ratchet.delete(LAMP, MS) == Applied({"ts": MS})
    assert ratchet.put(ITEM, MS) == Stale({"ts": MS})
    assert ratchet.get(LAMP) is None
    assert ratchet.put(ITEM, MS + 1) == Applied({"ts": MS + 1})


def test_a_tombstone_is_small_and_expires(ground: Ground, table: str, ratchet: Ratchet) -> None:
    """Of a large item only key, timestamp, mark and ttl stay: thirty days from the delete, by its clock."""
    ratchet.put({**ITEM, "text": "x" * 10_000}, MS - 1_000)
    ratchet.delete(LAMP, MS - 999)
    assert rows(ground, table) == [
        {
            "pk": {"S": "lamp"},
            "ts": {"N": str(MS - 999)},
            "deleted": {"BOOL": True},
            "ttl": {"N": str((MS + 30 * 86_400_000) // 1_000)},
        }
    ]


def test_an_item_that_was_never_there_can_be_deleted(ratchet: Ratchet) -> None:
    """Its put may be on its way yet, and is older."""
    assert ratchet.delete(LAMP, MS) == Applied({"ts": MS})
    assert ratchet.put(ITEM, MS - 1) == Stale({"ts": MS})
    assert ratchet.get(LAMP) is None


def test_a_tombstone_counts_after_its_ttl_until_dynamodb_takes_it(ratchet: Ratchet, clock: FakeClock) -> None:
    """It may do so days later; what is older stays refused."""
    ratchet.delete(LAMP, MS)
    clock.advance(timedelta(days=31).total_seconds())
    assert ratchet.put(ITEM, MS - 1) == Stale({"ts": MS})


def test_once_a_tombstone_is_gone_a_late_put_resurrects(ground: Ground, table: str, ratchet: Ratchet) -> None:
    """What is forgotten cannot be refused: the ttl must exceed the longest delivery of a write."""
    ratchet.put(ITEM, MS)
    ratchet.delete(LAMP, MS + 1)
    ground.client.delete_item(TableName=table, Key={"pk": {"S": "lamp"}})  # as DynamoDB's TTL does
    assert ratchet.put(ITEM, MS) == Applied({"ts": MS})
    assert ratchet.get(LAMP) == {**ITEM, "ts": MS}


# -- tokens that are no times


@pytest.mark.parametrize(
    ("older", "newer"),
    [(9, 10), (-1, 0), (Decimal("0.1"), Decimal("0.12345678")), ("09", "10"), ("a", "b"), ("Z", "a")],
)
def test_any_token_that_grows(
    ground: Ground, table: str, clock: FakeClock, older: Stamp, newer: Stamp
) -> None:
    """Numbers by value, texts by their characters."""
    ratchet = Ratchet(table, ground.client, ahead=None, clock=clock)
    assert ratchet.put(ITEM, newer) == Applied({"ts": newer})
    assert ratchet.put(ITEM, older) == Stale({"ts": newer})
    assert ratchet.delete(LAMP, older) == Stale({"ts": newer})
    assert ratchet.delete(LAMP, newer) == Applied({"ts": newer})


@pytest.mark.parametrize(
    ("stored", "mine"), [("9", "10"), ("10", "9"), (9, "10"), ("9", 10), (10, "9"), ("10", 9)]
)
def test_tokens_without_an_order_are_refused(
    ground: Ground, table: str, clock: FakeClock, stored: Stamp, mine: Stamp
) -> None:
    """Texts of two lengths, a number and a text: an error, with expected= or without; nothing is written."""
    ratchet = Ratchet(table, ground.client, ahead=None, clock=clock)
    ratchet.put(ITEM, stored)
    for expected in (ANYTHING, {**ITEM, "ts": stored}):
        with pytest.raises(Misconfigured, match="cannot be compared"):
            ratchet.put({**LAMP, "price": 2}, mine, expected=expected)
        with pytest.raises(Misconfigured, match="cannot be compared"):
            ratchet.delete(LAMP, mine, expected=expected)
    assert ratchet.get(LAMP) == {**ITEM, "ts": stored}


def test_without_the_width_a_text_goes_back(
    ground: Ground, table: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: "9" replaces "10"."""
    monkeypatch.setattr(ratchet_requests, "OF_ONE_WIDTH", ":width = :width")
    ratchet = Ratchet(table, ground.client, ahead=None, clock=clock)
    ratchet.put(ITEM, "10")
    assert ratchet.put(ITEM, "9") == Applied({"ts": "9"})


# -- clocks


def test_a_timestamp_far_ahead_is_refused_before_it_blocks_the_item(
    ground: Ground, table: str, ratchet: Ratchet, clock: FakeClock
) -> None:
    """Nothing is written; once the clock has come near it, it is."""
    ahead = NOW + timedelta(minutes=6)
    with pytest.raises(TooFarAhead, match=r"10:18:00.000Z.*10:12:00.000Z"):
        ratchet.put(ITEM, ahead)
    with pytest.raises(TooFarAhead, match=r"10:18:00.000Z.*10:12:00.000Z"):
        ratchet.delete(LAMP, ahead)
    assert rows(ground, table) == []
    clock.advance(60)
    assert ratchet.put(ITEM, ahead) == Applied({"ts": MS + 360_000})


def test_a_blocked_item_is_an_error(ground: Ground, table: str, ratchet: Ratchet) -> None:
    """What a writer with a wrong clock left refuses all others: not as stale, which would go unnoticed."""
    ahead = FakeClock(NOW + timedelta(hours=1))
    skewed = Ratchet(table, ground.client, clock=ahead)
    with skewed.revision() as revision:
        assert revision.put(ITEM) == Applied({"ts": MS + 3_600_000})
    with pytest.raises(TooFarAhead, match=r"the item .*lamp.* has the timestamp 2026-11-20T11:12"):
        ratchet.put(ITEM, MS)


def test_without_the_bound_an_item_is_blocked(ground: Ground, table: str, clock: FakeClock) -> None:
    """Negative twin: one wrong timestamp, and every right one is stale."""
    unbounded = Ratchet(table, ground.client, ahead=None, clock=clock)
    assert unbounded.put(ITEM, NOW + timedelta(days=365)) == Applied({"ts": MS + 365 * 86_400_000})
    assert isinstance(unbounded.put(ITEM, NOW), Stale)


# -- revisions


def test_a_revision_keeps_its_timestamp(ratchet: Ratchet, clock: FakeClock) -> None:
    """Its repetitions say the same, whatever the clock says meanwhile."""
    with ratchet.revision() as revision:
        assert revision.stamp == MS
        assert revision.put(ITEM) == Applied({"ts": MS})
        clock.advance(10)
        assert revision.put(ITEM) == Applied({"ts": MS})
        assert ratchet.put(ITEM, revision) == Applied({"ts": MS})
        assert revision.delete({"pk": "other"}) == Applied({"ts": MS})


def test_a_retry_with_a_fresh_timestamp_undoes_what_came_between(ratchet: Ratchet, clock: FakeClock) -> None:
    """Why a revision keeps it: a retry that takes the time anew brings the old content back as the newest."""
    with ratchet.revision() as first:
        first.put(ITEM)
        clock.advance(1)
        with ratchet.revision() as second:
            second.put({**LAMP, "price": 20})
        clock.advance(1)
        assert first.put(ITEM) == Stale({"ts": MS + 1_000})
    assert ratchet.get(LAMP) == {**LAMP, "price": 20, "ts": MS + 1_000}
    assert ratchet.put(ITEM, clock.now()) == Applied({"ts": MS + 2_000})  # the negative twin
    assert ratchet.get(LAMP) == {**ITEM, "ts": MS + 2_000}


def test_hedged_writes_of_one_revision_are_one_write(ratchet: Ratchet) -> None:
    """Eight threads send it; each is `Applied`."""
    with ratchet.revision() as revision, ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(lambda _: revision.put(ITEM), range(8)))
    assert outcomes == [Applied({"ts": MS})] * 8


def test_two_revisions_in_one_millisecond_are_two(ratchet: Ratchet) -> None:
    """The later change of one writer wins."""
    for price in (1, 2, 3):
        with ratchet.revision() as revision:
            assert revision.put({**LAMP, "price": price}) == Applied({"ts": MS + price - 1})
    assert ratchet.get(LAMP) == {**LAMP, "price": 3, "ts": MS + 2}


def test_a_revision_writes_one_content_to_an_item(ratchet: Ratchet) -> None:
    """A second one under the same timestamp would be left to chance: refused, and the first stays."""
    with ratchet.revision() as revision:
        revision.put(ITEM)
        with pytest.raises(Misconfigured, match="lamp"):
            revision.put({**LAMP, "price": 11})
        with pytest.raises(Misconfigured, match="lamp"):
            revision.delete(LAMP)
        with pytest.raises(Misconfigured, match="lamp"):  # what it has sent is not known by its id
            revision.put(ITEM, expected=None)
    assert ratchet.get(LAMP) == {**ITEM, "ts": MS}


def test_a_revision_is_of_one_ratchet(ground: Ground, ratchet: Ratchet, clock: FakeClock) -> None:
    """What it has written in one table is no write of another one's item of that key."""
    other = Ratchet(ground.table(), ground.client, clock=clock)
    other.put({**LAMP, "price": 1}, MS - 1)
    with ratchet.revision() as revision:
        assert revision.put(ITEM, expected=None) == Applied({"ts": MS})
        for write in (other.put, other.transact_item, other.delete):
            with pytest.raises(Misconfigured, match="another Ratchet"):
                write(ITEM if write != other.delete else LAMP, revision, expected=None)
    assert other.get(LAMP) == {**LAMP, "price": 1, "ts": MS - 1}


def test_an_item_that_was_json_meanwhile_is_as_expected(ratchet: Ratchet) -> None:
    """Its floats are the numbers that they print as, the timestamp too: an older write is stale."""
    stamp = Decimal(f"{MS}.123")
    ratchet.put({**LAMP, "price": 2.5}, stamp)
    read = {**LAMP, "price": 2.5, "ts": float(stamp)}
    assert ratchet.put(ITEM, MS, expected=read) == Stale({"ts": stamp})
    assert ratchet.put(ITEM, MS + 1, expected=read) == Applied({"ts": MS + 1})


@pytest.mark.engine
def test_a_key_is_one_key_whatever_class_its_number_has(engine: Ground, clock: FakeClock) -> None:
    """5 and Decimal("5.0") are one item: one content of a revision, and its writes know of each other."""
    ratchet = Ratchet(engine.table("pk", "sk", sort_type="N"), engine.client, key=("pk", "sk"), clock=clock)
    whole, exact = ({"pk": "lamp", "sk": sk, "price": 10} for sk in (5, Decimal("5.0")))
    with ratchet.revision() as revision:
        assert revision.put(whole, expected=None) == Applied({"ts": MS})
        with pytest.raises(Misconfigured, match="other content"):
            revision.put({**exact, "price": 11}, expected=None)
        ratchet.put({**whole, "price": 12}, MS + 1)
        assert revision.put(exact, expected=None) == Applied({"ts": MS})


def test_a_revision_ends_with_its_block(ratchet: Ratchet) -> None:
    """What comes later is another change."""
    with ratchet.revision() as revision:
        pass
    with pytest.raises(Misconfigured, match="has ended"):
        revision.put(ITEM)
    assert ratchet.get(LAMP) is None


def test_a_revision_takes_a_token(ground: Ground, table: str, clock: FakeClock, ratchet: Ratchet) -> None:
    """Where timestamps are no times it must be given; else it may be."""
    tokens = Ratchet(table, ground.client, ahead=None, clock=clock)
    with tokens.revision("0007") as revision:
        assert revision.put(ITEM) == Applied({"ts": "0007"})
    with pytest.raises(Misconfigured, match="ahead=None"):
        tokens.revision()
    assert ratchet.revision(NOW - timedelta(seconds=1)).stamp == MS - 1_000
    with pytest.raises(Misconfigured):
        ratchet.revision("0007")


# -- what was read


def test_a_write_of_what_was_read_wins_or_loses_the_race(ratchet: Ratchet) -> None:
    """Two read the same; the first write stays, the second is a `Conflict`, though it is newer."""
    ratchet.put(ITEM, MS)
    read = ratchet.get(LAMP)
    assert ratchet.put({**LAMP, "price": 11}, MS + 1, expected=read) == Applied({"ts": MS + 1})
    with pytest.raises(Conflict) as lost:
        ratchet.put({**LAMP, "price": 12}, MS + 2, expected=read)
    assert lost.value.values == {"ts": MS + 1}
    with pytest.raises(Conflict) as lost:
        ratchet.delete(LAMP, MS + 2, expected=read)
    assert lost.value.values == {"ts": MS + 1}
    assert ratchet.get(LAMP) == {**LAMP, "price": 11, "ts": MS + 1}
    assert ratchet.delete(LAMP, MS + 3, expected=ratchet.get(LAMP)) == Applied({"ts": MS + 3})


def test_stale_is_not_a_lost_race(ratchet: Ratchet) -> None:
    """The item is the one that was read, and is newer: only a later timestamp helps."""
    ratchet.put(ITEM, MS + 5)
    read = ratchet.get(LAMP)
    assert ratchet.put({**LAMP, "price": 11}, MS + 4, expected=read) == Stale({"ts": MS + 5})
    with ratchet.revision(after=MS + 5) as revision:
        assert revision.put({**LAMP, "price": 11}, expected=read) == Applied({"ts": MS + 6})


def test_nothing_may_be_what_was_read(ratchet: Ratchet) -> None:
    """Of two that found nothing one creates; a tombstone is nothing too, but for its timestamp."""
    assert ratchet.put(ITEM, MS, expected=None) == Applied({"ts": MS})
    with pytest.raises(Conflict) as lost:
        ratchet.put({**LAMP, "price": 2}, MS + 1, expected=None)
    assert lost.value.values == {"ts": MS}
    ratchet.delete(LAMP, MS + 2)
    assert ratchet.put(ITEM, MS + 1, expected=None) == Stale({"ts": MS + 2})
    assert ratchet.put(ITEM, MS + 3, expected=None) == Applied({"ts": MS + 3})


def test_what_was_read_and_deleted_since_is_a_lost_race(ratchet: Ratchet) -> None:
    """By a delete of its own timestamp too."""
    ratchet.put(ITEM, MS)
    read = ratchet.get(LAMP)
    ratchet.delete(LAMP, MS)
    with pytest.raises(Conflict) as lost:
        ratchet.put({**LAMP, "price": 2}, MS + 1, expected=read)
    assert lost.value.values == {"ts": MS}


def test_a_race_is_not_lost_against_oneself(ground: Ground, table: str, clock: FakeClock) -> None:
    """The answer is lost, the retry finds its own write in place of what was read: it is written."""
    faulty = FaultyClient(ground.client, every_second_answer_lost())
    ratchet = Ratchet(table, faulty, clock=clock)
    for n in range(6):
        read = ratchet.get(LAMP)
        assert ratchet.put({**LAMP, "price": n}, MS + n, expected=read) == Applied({"ts": MS + n})
        if n % 2:
            assert ratchet.delete(LAMP, MS + n, expected=ratchet.get(LAMP)) == Applied({"ts": MS + n})


def test_without_its_own_write_a_race_is_lost_against_oneself(
    ground: Ground, table: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: after a lost answer it is unknown whether the write took effect."""
    monkeypatch.setattr(ratchet_requests, "OWN", "(:write <> :write)")
    ratchet = Ratchet(table, FaultyClient(ground.client, every_second_answer_lost()), clock=clock)
    assert ratchet.put({"pk": "first"}, MS, expected=None) == Applied({"ts": MS})
    with pytest.raises(StoreUnavailable):
        ratchet.put({"pk": "second"}, MS, expected=None)


def test_without_what_was_read_an_update_is_lost(ratchet: Ratchet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: the second of two that read the same replaces what the first made of it."""
    monkeypatch.setattr(ratchet_requests, "AS_READ", "(:read = :read AND :readrank = :readrank)")
    ratchet.put(ITEM, MS)
    read = ratchet.get(LAMP)
    assert ratchet.put({**LAMP, "price": 11}, MS + 1, expected=read) == Applied({"ts": MS + 1})
    assert ratchet.put({**LAMP, "price": 12}, MS + 2, expected=read) == Applied({"ts": MS + 2})


def test_what_never_was_read_is_no_expectation(ground: Ground, table: str, ratchet: Ratchet) -> None:
    """An item of the caller's own, where nothing is stored, is a `Conflict`."""
    with pytest.raises(Conflict) as lost:
        ratchet.put(ITEM, MS, expected=ITEM)
    assert lost.value.values == {}
    assert rows(ground, table) == []


@pytest.mark.parametrize(
    "content",
    [
        {"nothing": None, "empty": [], "none": {}, "text": ""},
        {"names": {"b", "a"}, "numbers": {1, Decimal("2.5")}, "raw": {b"b", b"a"}},
        {"n": Decimal("1." + "1" * 37), "big": 10**38, "huge": 99 * 10**124, "tiny": Decimal("-1E-130")},
        {"numbers": {10**40, Decimal("1E-100")}, "list": [None, {"deep": [10**39, None, {"x"}]}]},
        {"deleted": False},
    ],
    ids=["nothing", "sets", "numbers", "nested", "not deleted"],
)
def test_what_was_read_is_what_is_expected(ratchet: Ratchet, content: dict[str, Any]) -> None:
    """Of every type, however DynamoDB writes it: get, expect, change, and expect that again."""
    item = {**LAMP, **content}
    ratchet.put(item, MS)
    read = ratchet.get(LAMP)
    assert read == {**item, "ts": MS}
    assert ratchet.put({**read, "n": 1}, MS - 1, expected=read) == Stale({"ts": MS})
    assert ratchet.put({**read, "n": 1}, MS + 1, expected=read) == Applied({"ts": MS + 1})
    with pytest.raises(Conflict):
        ratchet.put({**read, "n": 2}, MS + 2, expected=read)
    assert ratchet.delete(LAMP, MS + 2, expected=ratchet.get(LAMP)) == Applied({"ts": MS + 2})


# -- microseconds


def test_of_two_changes_within_a_millisecond_the_newer_stays(ratchet: Ratchet) -> None:
    """Whatever their digests are, in both orders; the timestamp that is returned is taken as it is."""
    early, late = NOW + timedelta(microseconds=100), NOW + timedelta(microseconds=400)
    newest = Decimal(f"{MS}.4")
    for n in range(20):
        key, change = {"pk": f"lamp {n}"}, {"pk": f"lamp {n}", "price": n}
        assert ratchet.put({**key, "price": -n}, early) == Applied({"ts": Decimal(f"{MS}.1")})
        assert ratchet.put(change, late) == Applied({"ts": newest})
        assert ratchet.put({**key, "price": -n}, early) == Stale({"ts": newest})
        read = ratchet.get(key)
        assert read == {**change, "ts": newest}
        assert ratchet.put(change, read["ts"]) == Applied({"ts": newest})
        assert ratchet.put(change, read["ts"], expected=read) == Applied({"ts": newest})
        assert ratchet.delete(key, late - timedelta(microseconds=1)) == Stale({"ts": newest})


def test_to_the_millisecond_the_newest_is_lost(ratchet: Ratchet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: with timestamps cut to the millisecond a digest decides, and some of 20 are lost."""
    exact = timestamps.milliseconds
    monkeypatch.setattr(timestamps, "milliseconds", lambda *at: int(exact(*at)))
    lost = 0
    for n in range(20):
        for micros in (100, 400):
            ratchet.put({"pk": f"lamp {n}", "at": micros}, NOW + timedelta(microseconds=micros))
        lost += (ratchet.get({"pk": f"lamp {n}"}) or {})["at"] != 400
    assert 0 < lost < 20


@pytest.mark.parametrize("decimals", ["001", "999", "9999999"])
def test_a_revision_is_later_than_what_was_read(
    ground: Ground, table: str, ratchet: Ratchet, decimals: str
) -> None:
    """Also where that has a part of a millisecond, or more digits than a datetime has."""
    stored = {"pk": {"S": "lamp"}, "ts": {"N": f"{MS + 7}.{decimals}"}}
    ground.client.put_item(TableName=table, Item=stored)
    read = ratchet.get(LAMP)
    assert read is not None
    behind = Ratchet(table, ground.client, clock=FakeClock(NOW - timedelta(seconds=1)))
    with behind.revision(after=read["ts"]) as revision:
        assert revision.put({**read, "price": 1}, expected=read) == Applied({"ts": MS + 8})


# -- bad input


def test_an_item_over_the_limit_of_dynamodb_writes_nothing(ratchet: Ratchet) -> None:
    """400 KB: the error is DynamoDB's, under a name that says that a retry is of no use."""
    with pytest.raises(Misconfigured, match="put_item"):
        ratchet.put({**LAMP, "text": "x" * 410_000}, MS)
    assert ratchet.get(LAMP) is None


def test_nothing_is_connected_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ratchet is made at import; without a region no client can be."""
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    Ratchet("products")


def test_what_could_break_the_ratchet_is_not_offered() -> None:
    """Partial updates and unconditional batches would depend on what they meet."""
    offered = {name for name in dir(Ratchet) if not name.startswith("_")}
    assert offered == {"revision", "batch_get", "delete", "get", "put", "query", "transact_item"}
