"""The reader of the table's stream, over a stream that is played: each rule, and what breaks without it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.operations import checkpoint as rules
from lambda_once.operations import stream as module
from lambda_once.operations import unlisted
from lambda_once.operations.list_state import CHECKPOINT_ROW
from lambda_once.operations.stream import NO_READING, TIP_PAGES, StreamReader, streams_client
from lambda_once.operations.table import TokenTable
from tests.kit.streams import FIRST_NUMBER, Written
from tests.kit.strict.engine import client_error
from tests.kit.strict.trees import Item

from .streamed import LEASE, Streamed

MINUTE = timedelta(minutes=1)


@pytest.fixture
def world() -> Streamed:
    """A new table, which has been read once."""
    made = Streamed()
    assert made.read().failed is None
    assert made.gaps == []
    made.client.sent.clear()
    made.streams.sent.clear()
    return made


# ------------------------------------------------------------------ what is listed


def test_lost_work_is_listed_when_its_lease_is_over(world: Streamed) -> None:
    """Until then it's kept, in the same write as the position."""
    world.acquire("lost")
    reading = world.read(minutes=2)
    assert (reading.records, reading.listed, reading.kept) == (1, 0, frozenset({"s/n/lost"}))
    assert (world.kept, world.listed) == (["lost"], [])
    reading = world.read(minutes=4)
    assert (reading.records, reading.listed, reading.kept) == (0, 1, frozenset())
    assert (world.kept, world.listed) == ([], ["lost"])
    assert world.read(minutes=5).listed == 0


def test_what_ended_within_the_page_is_not_read(world: Streamed) -> None:
    """Most work: two write units, and no read."""
    world.acquire("a", "b")
    world.complete("a", "b")
    world.read(minutes=2)
    assert world.client.sent["batch_get_item"] == 0
    assert (world.kept, world.listed) == ([], [])


def test_what_is_young_is_left_to_the_next_run(world: Streamed) -> None:
    """Its reading costs nothing once it has ended."""
    world.acquire("a")
    world.read(minutes=0.5)
    assert (world.kept, world.client.sent["batch_get_item"]) == ([], 0)
    world.complete("a")
    assert world.read(minutes=5).records == 2
    assert (world.kept, world.client.sent["batch_get_item"]) == ([], 0)


@pytest.mark.parametrize("end", ["complete", "extend", "delete"])
def test_what_is_kept_is_dropped_when_it_needs_nothing(world: Streamed, end: str) -> None:
    """It has ended, or is listed, or is gone."""
    world.acquire("a", "b")
    world.read(minutes=2)
    if end == "extend":
        world.extend("a", 900)
    else:
        getattr(world, end)("a")
    world.read(minutes=2)
    assert world.kept == ["b"]
    assert world.listed == (["a"] if end == "extend" else [])


def test_a_long_lease_is_listed_at_once(world: Streamed) -> None:
    """Or durable executions would fill the checkpoint for days."""
    world.acquire("long", lease=86_400)
    world.acquire("short", lease=20 * 60)
    world.read(minutes=2)
    assert (world.listed, world.kept) == (["long"], ["short"])


def test_rows_that_are_no_tokens_are_not_read(world: Streamed) -> None:
    """A part has 300 KB, and its key a #."""
    for name in ("s/n/1#a1#w#0", "lambda-once#watchdog"):
        world.engine.put_item(TableName="tokens", Item={"lockToken": {"S": name}, "data": {"B": b"x"}})
    assert world.read(minutes=2).records == 0
    assert (world.client.sent["batch_get_item"], world.malformed) == (0, [])


def test_a_row_of_another_program_is_logged_and_passed(world: Streamed) -> None:
    """It holds nothing back."""
    world.engine.put_item(TableName="tokens", Item={"lockToken": {"S": "s/n/theirs"}, "x": {"S": "y"}})
    world.acquire("lost")
    world.read(minutes=6)
    assert (world.malformed, world.listed) == (["s/n/theirs"], ["lost"])
    world.read(minutes=6)
    assert world.malformed == ["s/n/theirs"]


def test_a_row_that_cannot_be_listed_is_logged_and_passed(world: Streamed) -> None:
    """DynamoDB refuses it for what is in it, and will again."""

    def refuse(operation: str, request: dict[str, Any]) -> None:
        if operation == "update_item" and request["Key"]["lockToken"]["S"] == "s/n/bad":
            raise client_error("ValidationException", "Item size has exceeded", "UpdateItem")

    world.acquire("bad", "lost")
    world.client.before = refuse
    assert world.read(minutes=6).failed is None
    assert (world.malformed, world.listed, world.kept) == (["s/n/bad"], ["lost"], [])


@pytest.mark.parametrize("change", ["complete", "take over"])
def test_what_changed_since_it_was_read_is_passed(world: Streamed, change: str) -> None:
    """The condition is that the attempt is the one that was read, and open (guarantee 2)."""

    def meanwhile(operation: str, request: dict[str, Any]) -> None:
        if operation == "update_item" and request["Key"]["lockToken"]["S"] == "s/n/a":
            world.client.before = lambda _operation, _request: None
            if change == "complete":
                world.complete("a")
            else:
                row = world.engine.tables["tokens"].items["s/n/a"]
                row["attempt"] = {"S": "another"}

    world.acquire("a", "b")
    world.client.before = meanwhile
    reading = world.read(minutes=6)
    assert (reading.listed, reading.failed, world.listed, world.kept) == (1, None, ["b"], [])


def throttled(*names: str) -> Callable[[str, dict[str, Any]], None]:
    """Return what throttles the listing of *names*."""

    def refuse(operation: str, request: dict[str, Any]) -> None:
        if operation == "update_item" and request["Key"]["lockToken"]["S"].rpartition("/")[2] in names:
            raise client_error("InternalServerError", "later", "UpdateItem", 500)

    return refuse


def test_what_is_not_answered_holds_the_position_back(world: Streamed) -> None:
    """What comes before it is done, and the next run reads on from there."""
    for name in ("a", "b", "c"):
        world.acquire(name)
    world.client.before = throttled("b")
    reading = world.read(minutes=6)
    assert (reading.records, world.listed) == (1, ["a", "c"])
    assert isinstance(reading.failed, StoreUnavailable)
    world.client.before = lambda _operation, _request: None
    assert world.read(minutes=6).failed is None
    assert world.listed == ["a", "b", "c"]


def test_what_is_kept_and_not_answered_is_kept(world: Streamed) -> None:
    """It doesn't keep the run from reading on."""
    world.acquire("a")
    world.read(minutes=2)
    world.acquire("b")
    world.client.before = throttled("a")
    reading = world.read(minutes=6)
    assert isinstance(reading.failed, StoreUnavailable)
    assert (world.kept, world.listed) == (["a"], ["b"])
    world.client.before = lambda _operation, _request: None
    world.read(minutes=6)
    assert (world.kept, world.listed) == ([], ["a", "b"])


def test_what_may_not_be_written_fails(world: Streamed) -> None:
    """A permission is missing: nothing is passed."""

    def refuse(operation: str, _request: dict[str, Any]) -> None:
        if operation == "update_item":
            raise client_error("AccessDeniedException", "no", "UpdateItem")

    world.acquire("lost")
    world.client.before = refuse
    assert isinstance(world.read(minutes=6).failed, Misconfigured)
    world.client.before = lambda _operation, _request: None
    world.read()
    assert world.listed == ["lost"]


# ------------------------------------------------------------------ room


def test_beyond_its_room_the_position_waits(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first that isn't kept: what waits is listed one lease later, and nothing is lost."""
    monkeypatch.setattr(rules, "MOST_KEPT", 2)
    names = [f"{n}" for n in range(6)]
    for name in names:
        world.acquire(name)
    assert world.read(minutes=2).records == 2
    assert (world.kept, world.listed) == (["0", "1"], [])
    world.read(minutes=4)
    assert world.listed == names


def test_a_full_checkpoint_is_full_of_what_ends_soon(
    world: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long leases aren't in the way."""
    monkeypatch.setattr(rules, "MOST_KEPT", 2)
    world.acquire(*(f"{n}" for n in range(6)), lease=86_400)
    world.acquire("lost", lease=30)
    world.read(minutes=2)
    assert "lost" in world.listed


def test_a_shard_that_waits_holds_no_other_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it's behind by the age of what it didn't read."""
    world = Streamed(shards=2)
    monkeypatch.setattr(rules, "MOST_KEPT", 1)
    world.read()
    names = [f"{n}" for n in range(12)]
    for name in names:
        world.acquire(name)
    lost = [name for name in names if int(name) % 2]
    for name in names:
        if name not in lost:
            world.complete(name)
    reading = world.read(minutes=2)
    assert len(reading.kept) == 1
    assert 110 <= (reading.lag_seconds or 0) <= 130
    world.read(minutes=5)
    assert world.listed == sorted(lost)


# ------------------------------------------------------------------ two watchdogs, crashes


def test_who_is_slower_ends_his_reading(world: Streamed) -> None:
    """The checkpoint is written on condition of the version that was read: no error, and nothing is lost."""

    def second(operation: str, _request: object) -> None:
        if operation == "get_records":
            world.streams.before = lambda _operation, _request: None
            assert not world.read().overtaken

    world.acquire("a", "b")
    world.streams.before = second
    reading = world.read(minutes=2)
    assert (reading.overtaken, reading.failed) == (True, None)
    assert world.kept == ["a", "b"]
    world.read(minutes=5)
    assert world.listed == ["a", "b"]


def test_two_first_readings_write_one_checkpoint() -> None:
    """The slower one finds a row that was not there."""
    world = Streamed()

    def second(operation: str, _request: object) -> None:
        if operation == "describe_stream":
            world.streams.before = lambda _operation, _request: None
            second_one.append(world.reader())

    second_one: list[StreamReader] = []
    world.streams.before = second
    original = world.client.before

    def at_load(operation: str, _request: object) -> None:
        if operation == "update_item" and second_one:
            world.client.before = original
            assert second_one.pop().read(world.table.deadline(30)).failed is None

    world.client.before = at_load
    assert world.read().overtaken
    version = world.checkpoint.version
    world.read()
    assert world.checkpoint.version == version + 1


class Killed(BaseException):
    """The sandbox ends."""


@pytest.mark.parametrize("at", range(1, 14))
def test_a_run_that_is_killed_is_done_again(world: Streamed, at: int) -> None:
    """At whichever request: what it did is done twice, and nothing is left out."""
    for name in ("a", "b", "c"):
        world.acquire(name)
    world.complete("b")
    left = [at]

    def kill(_operation: str, _request: object) -> None:
        left[0] -= 1
        if not left[0]:
            raise Killed

    world.client.before = world.streams.before = kill
    with suppress(Killed):
        world.read(minutes=6)
    world.client.before = world.streams.before = lambda _operation, _request: None
    world.read()
    assert (world.listed, world.kept) == (["a", "c"], [])


def test_a_checkpoint_that_cannot_be_read_is_none(world: Streamed) -> None:
    """It's replaced, with a gap, on condition that nobody else replaces it."""
    for row in ({"version": {"N": "9"}}, {"version": {"S": "x"}}, {"x": {"S": "y"}}):
        world.engine.put_item(TableName="tokens", Item={"lockToken": {"S": CHECKPOINT_ROW}, **row})
        world.acquire("lost")
        assert world.read(minutes=1).failed is None
        assert world.listed == ["lost"]
        world.checkpoint  # noqa: B018  (it can be read)


# ------------------------------------------------------------------ shards


def test_children_are_read_when_their_parents_have_ended() -> None:
    """Through roll-overs and splits, in whatever state they're met."""
    world = Streamed(shards=2)
    world.read()
    names = []
    for generation in range(5):
        for number in range(4):
            names.append(f"{generation}-{number}")
            world.acquire(names[-1])
        if generation % 2:
            world.streams.split()
        else:
            world.streams.roll_over()
        if generation != 2:
            world.read(minutes=2)
    for _ in range(3):
        world.read(minutes=6)
    assert world.listed == sorted(names)
    assert world.gaps == []
    assert len([each for each in world.checkpoint.shards.values() if not each.ended]) == 4


def test_shards_are_described_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred at a time."""
    world = Streamed(shards=150)
    world.read()
    assert len(world.checkpoint.shards) == 150
    assert world.streams.sent["describe_stream"] == 2


@pytest.mark.parametrize(
    "code", ["ExpiredIteratorException", "TrimmedDataAccessException", "ValidationException"]
)
def test_a_place_that_is_none_any_more_is_asked_for_again(world: Streamed, code: str) -> None:
    """No gap: the position's time says that nothing is missing."""
    world.acquire("a")
    world.read(minutes=2)
    world.acquire("b")
    world.streams.fail("get_records", code)
    assert world.read(minutes=6).failed is None
    assert world.listed == ["a", "b"]
    world.acquire("c")
    world.streams.fail("get_records", code)
    world.streams.fail("get_shard_iterator", code)
    assert world.read(minutes=6).failed is None
    assert world.listed == ["a", "b", "c"]
    assert world.gaps == []


def test_a_shard_that_goes_while_it_is_read_is_left_to_the_next_run(world: Streamed) -> None:
    """DescribeStream says what has become of it."""
    world.acquire("a")
    world.streams.fail("get_records", "ResourceNotFoundException")
    assert world.read(minutes=2).failed is None
    assert world.kept == []
    world.read()
    assert world.kept == ["a"]


def test_a_shard_that_does_not_answer_holds_no_other_back() -> None:
    """The run fails in the end."""
    world = Streamed(shards=2)
    world.read()
    world.acquire(*(f"{n}" for n in range(8)))
    failures = [6]

    def fail(operation: str, _request: object) -> None:
        if operation == "get_records" and failures[0]:
            failures[0] -= 1
            raise client_error("InternalServerError", "later", "GetRecords", 500)

    world.streams.before = fail
    reading = world.read(minutes=2)
    assert isinstance(reading.failed, StoreUnavailable)
    assert 0 < len(world.kept) < 8
    world.read()
    assert len(world.kept) == 8


def test_a_throttled_reading_waits(world: Streamed) -> None:
    """LimitExceededException: another reader has taken its share."""
    world.acquire("a")
    world.streams.fail("get_records", *["LimitExceededException"] * 8)
    assert world.read(minutes=2).failed is None
    assert world.kept == ["a"]


def test_an_answer_without_records_is_no_end(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that was cut would end the shard for ever."""
    world.acquire("a")
    with monkeypatch.context() as patch:
        patch.setattr(world.streams, "get_records", lambda **_: {})
        assert isinstance(world.read(minutes=2).failed, StoreUnavailable)
    world.read()
    assert world.kept == ["a"]


# ------------------------------------------------------------------ empty pages


def test_ten_empty_pages_are_the_tip() -> None:
    """An open shard has no end. One of the two has the records of the last run's checkpoint."""
    world = Streamed(shards=2)
    world.read()
    world.streams.sent.clear()
    reading = world.read(minutes=5)
    assert world.streams.sent["get_records"] == 2 * TIP_PAGES + 1
    assert reading.lag_seconds == 0


def runs_until_it_is_listed(world: Streamed, minutes: float) -> int:
    """Return how many runs it takes until the token "lost" is listed."""
    for number in range(1, 60):
        world.read(minutes=minutes)
        if "lost" in world.listed:
            return number
    return 60


def test_a_stretch_of_empty_pages_is_passed_run_by_run(world: Streamed) -> None:
    """Each goes on with the iterator of the one before."""
    world.streams.stretch(300)
    world.acquire("lost")
    assert runs_until_it_is_listed(world, 5) == 31
    assert world.gaps == []


def test_twin_an_iterator_that_is_not_kept(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run would walk the same ten pages, and take them for the tip."""
    monkeypatch.setattr(rules.Position, "iterator_at", lambda _self, _now: None)
    monkeypatch.setattr(rules.Position, "lost_iterator", lambda _self, _now: False)
    world.streams.stretch(300)
    world.acquire("lost")
    assert runs_until_it_is_listed(world, 5) == 60


def test_a_tip_that_was_none_is_doubted(world: Streamed) -> None:
    """A shard with stretch after stretch falls behind by ten pages a run, and would be trimmed unread."""
    world.streams.before = lambda _operation, _request: world.clock.advance(0.02)
    names = [f"{number:02}" for number in range(40)]
    for name in names:
        world.streams.stretch(30)
        world.acquire(name, lease=30)
        world.read(minutes=5)
    assert max(position.at for position in world.checkpoint.shards.values()) > world.clock.now() - 60 * MINUTE
    for _ in range(4):
        world.read(minutes=5)
    assert world.listed == names


def test_twin_a_tip_that_is_never_doubted(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs in three are not enough for what was written in the time of one."""
    monkeypatch.setattr(module, "disproved", lambda *_: False)
    world.streams.before = lambda _operation, _request: world.clock.advance(0.02)
    names = [f"{number:02}" for number in range(40)]
    for name in names:
        world.streams.stretch(30)
        world.acquire(name, lease=30)
        world.read(minutes=5)
    for _ in range(4):
        world.read(minutes=5)
    assert world.listed != names


def test_a_doubted_tip_is_met_again(world: Streamed) -> None:
    """By a young record, or a hundred empty pages in a row: no run polls for half of its time for ever."""
    world.streams.before = lambda _operation, _request: world.clock.advance(0.02)
    world.streams.stretch(30)
    world.acquire("lost")
    for _ in range(4):
        world.read(minutes=5)
    assert world.listed == ["lost"]
    (position,) = world.checkpoint.shards.values()
    assert not position.doubted
    world.streams.sent.clear()
    world.read(minutes=5)
    assert world.streams.sent["get_records"] <= 2 * TIP_PAGES


def test_a_lost_iterator_costs_one_run_more(world: Streamed) -> None:
    """Runs that are twenty minutes apart: then empty pages are read while there is time."""
    world.streams.before = lambda _operation, _request: world.clock.advance(0.05)
    world.streams.stretch(300)
    world.acquire("lost")
    assert runs_until_it_is_listed(world, 20) == 2
    assert runs_until_it_is_listed(Streamed(), 20) == 60  # nothing was lost there


# ------------------------------------------------------------------ gaps


def test_a_day_without_a_run_is_a_gap(world: Streamed) -> None:
    """Records may be gone; the scan lists every open token, whatever its lease."""
    world.acquire("lost")
    world.clock.advance(23 * 3600 + 60)
    world.acquire("alive", lease=900)
    reading = world.read()
    assert world.listed == ["alive", "lost"]
    assert not reading.in_gap
    assert "was read up to" in world.gaps[0]
    assert "has all lost work again" in world.gaps[1]
    assert world.read(minutes=5).listed == 0
    assert len(world.gaps) == 2


def test_a_day_behind_a_shard_that_ended_is_a_gap(world: Streamed) -> None:
    """It was closed while it was read, and no checkpoint has its child, whose records are gone."""
    closed: list[str] = []

    def close(operation: str, _request: object) -> None:
        if operation == "get_records" and not closed:
            closed.append(operation)
            world.streams.roll_over()

    world.streams.before = close
    world.read(minutes=5)
    assert [each.ended for each in world.checkpoint.shards.values()] == [True]
    world.acquire("lost")
    world.read(minutes=25 * 60)
    assert world.listed == ["lost"]
    assert "is new" in world.gaps[0]


def test_less_than_a_day_is_none(world: Streamed) -> None:
    """The stream has it all."""
    world.acquire("lost")
    world.read(minutes=22 * 60)
    assert (world.listed, world.gaps) == (["lost"], [])


def test_another_stream_is_a_gap(world: Streamed) -> None:
    """Switched off and on again, it has no record of what was written meanwhile."""
    world.streams.switch_off()
    world.acquire("lost")
    world.clock.advance(60)
    world.streams.switch_on()
    world.read()
    assert world.listed == ["lost"]
    assert "another stream" in world.gaps[0]


def test_a_first_reading_of_an_old_table_is_a_gap() -> None:
    """Whoever comes to stream mode has rows without records; a new table warns of nothing."""
    world = Streamed()
    world.streams.forget_stream()
    world.acquire("lost")
    world.clock.advance(3600)
    world.streams.switch_on()
    world.read()
    assert world.listed == ["lost"]
    assert "there is no checkpoint" in world.gaps[0]


def test_a_stream_switched_on_soon_after_its_table_hides_nothing() -> None:
    """ItemCount may be hours old: the table is read all the same."""
    world = Streamed()
    world.acquire("a")
    world.streams.switch_off()
    world.acquire("b")
    world.clock.advance(60)
    world.streams.switch_on()
    world.read(minutes=6)
    assert world.listed == ["a", "b"]


def test_a_scan_goes_on_where_it_stopped(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page at least in each run; the stream is read alongside, but what the scan sees."""
    monkeypatch.setattr(unlisted, "SCANNED", 3)
    names = sorted(f"{n:02}" for n in range(10))
    for name in names:
        world.acquire(name)
    world.clock.advance(24 * 3600)
    runs = 0
    world.client.before = lambda operation, _request: world.clock.advance(40 if operation == "scan" else 0)
    while not runs or world.checkpoint.scan is not None:
        runs += 1
        before = len(world.listed)
        reading = world.read(minutes=5)
        assert reading.failed is None
        assert len(world.listed) - before <= 3
        if runs == 2:
            world.acquire("new", lease=60)
    assert world.listed == [*names, "new"]
    assert runs == 5
    assert len(world.gaps) == 2


def test_the_scan_lists_what_the_stream_does_not_read(
    world: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog of a day, before the scan began, costs no read."""
    for number in range(50):
        world.acquire(f"{number}", lease=86_400 * 2)
        world.complete(f"{number}") if number % 2 else None
        world.clock.advance(60)
    world.engine.delete("tokens", CHECKPOINT_ROW)
    world.clock.advance(180)
    world.read()
    assert len(world.listed) == 25
    assert world.client.sent["batch_get_item"] == 0


def test_a_second_gap_begins_the_scan_anew(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first one has passed may have been lost since."""
    monkeypatch.setattr(unlisted, "SCANNED", 3)
    world.client.before = lambda operation, _request: world.clock.advance(40 if operation == "scan" else 0)
    for name in "efghij":
        world.acquire(name)
    world.clock.advance(24 * 3600)
    world.read()
    assert world.checkpoint.scan is not None
    assert world.checkpoint.scan.cursor != ""
    world.streams.switch_off()
    world.acquire("a")
    world.clock.advance(60)
    world.streams.switch_on()
    for _ in range(5):
        world.read(minutes=5)
    assert world.listed == list("aefghij")


def test_a_page_of_a_scan_that_is_not_answered_is_read_again(world: Streamed) -> None:
    """And the gap stays open till then."""
    world.acquire("a", "b")
    world.clock.advance(24 * 3600)
    world.client.before = throttled("a")
    reading = world.read()
    assert (reading.in_gap, world.listed) == (True, ["b"])
    assert isinstance(reading.failed, StoreUnavailable)
    world.client.before = lambda _operation, _request: None
    assert not world.read().in_gap
    assert world.listed == ["a", "b"]


def test_a_day_of_a_stream_that_is_read_is_no_gap(world: Streamed) -> None:
    """Nor is one in which nothing was written, or whose first half a scan has covered."""
    world.clock.advance(24 * 3600)
    world.acquire("lost")
    world.read()
    for _ in range(30):
        world.read(minutes=60)
    assert len(world.gaps) == 2


# ------------------------------------------------------------------ no stream


@pytest.mark.parametrize("how", ["off", "never", "gone", "unknown"])
def test_a_table_without_a_stream_fails_every_run(world: Streamed, how: str) -> None:
    """A stream that is switched off can be read for a day, but has no new records."""
    if how == "off":
        world.streams.switch_off()
    elif how == "never":
        world.streams.forget_stream()
    elif how == "gone":
        world.streams.streams.clear()
    else:
        world.streams.before = lambda operation, _request: (_ for _ in ()).throw(
            client_error("ResourceNotFoundException", "no stream", operation)
        )
    before = world.checkpoint
    for _ in range(2):
        failed = world.read(minutes=5).failed
        assert isinstance(failed, Misconfigured)
        assert "has no stream" in str(failed)
    assert world.checkpoint == before


def test_a_missing_permission_is_named(world: Streamed) -> None:
    """Three actions, on the table's stream."""
    for operation in ("describe_stream", "get_records"):
        world.streams.fail(operation, "AccessDeniedException")
        failed = world.read(minutes=5).failed
        assert isinstance(failed, Misconfigured)
        assert "stream/*" in str(failed)


# ------------------------------------------------------------------ switching back


def test_who_leaves_stream_mode_scans_once(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour after the last reading: by then no function leaves work unlisted. Then the checkpoint goes."""
    monkeypatch.setattr(unlisted, "SCANNED", 3)
    world.client.before = lambda operation, _request: world.clock.advance(40 if operation == "scan" else 0)
    world.acquire("a", "b", "c", "d", lease=86_400)
    assert world.leave(minutes=59) is not None
    assert world.listed == []
    reading = world.leave(minutes=2)
    assert reading is not None
    assert reading.in_gap
    runs = 1
    while world.leave(minutes=5) is not None:
        runs += 1
    assert runs == 2
    assert world.listed == list("abcd")
    assert set(world.items[CHECKPOINT_ROW]) == {"lockToken", "version"}
    assert len(world.gaps) == 2
    world.client.sent.clear()
    assert world.leave(minutes=5) is None
    assert world.client.sent == {"get_item": 1}


def test_who_comes_back_to_stream_mode_has_a_gap(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream was not read meanwhile."""
    monkeypatch.setattr(unlisted, "SCANNED", 1)
    world.acquire("a", "b", lease=86_400)
    world.leave(minutes=61, seconds=0)
    assert world.checkpoint.stream == ""
    world.read(minutes=5)
    assert world.listed == ["a", "b"]
    assert "another stream" in world.gaps[1]


def test_a_checkpoint_that_cannot_be_read_is_left_by_a_scan(world: Streamed) -> None:
    """It may be anybody's: no token is taken for listed because of it."""
    world.acquire("a", lease=86_400)
    world.engine.put_item(
        TableName="tokens",
        Item={"lockToken": {"S": CHECKPOINT_ROW}, "stream": {"S": "?"}, "read": {"N": "1"}},
    )
    assert world.leave(minutes=5) is not None
    assert world.listed == ["a"]
    assert world.leave(minutes=5) is None


def test_a_list_that_may_not_be_written_holds_the_position(world: Streamed) -> None:
    """A denial is of every row: nothing is passed."""
    world.read(minutes=5)
    world.acquire("lost", lease=30)
    world.clock.advance(120)
    before = world.checkpoint.shards

    def denied(operation: str, request: Any) -> None:
        if operation == "update_item" and request["Key"]["lockToken"]["S"] == "s/n/lost":
            raise client_error("AccessDeniedException", "no", "UpdateItem")

    world.client.before = denied
    failed = world.read().failed
    assert isinstance(failed, Misconfigured)
    world.client.before = lambda _operation, _request: None
    assert {shard: position.after for shard, position in world.checkpoint.shards.items()} == {
        shard: position.after for shard, position in before.items()
    }
    world.read(minutes=5)
    assert world.listed == ["lost"]


def test_who_comes_back_after_all_begins_anew(world: Streamed) -> None:
    """What is left of the row is no checkpoint: its version counts on."""
    world.acquire("a", lease=86_400)
    world.leave(minutes=61)
    assert world.leave(minutes=5) is None
    version = int(world.items[CHECKPOINT_ROW]["version"]["N"])
    world.acquire("b")
    assert world.read(minutes=5).failed is None
    assert world.listed == ["a", "b"]
    assert world.checkpoint.version > version


def test_leaving_that_fails_is_told(world: Streamed) -> None:
    """The next run goes on."""
    world.client.before = lambda operation, _request: (_ for _ in ()).throw(
        client_error("AccessDeniedException", "no", operation)
    )
    reading = world.leave(minutes=61)
    assert reading is not None
    assert isinstance(reading.failed, Misconfigured)


# ------------------------------------------------------------------ a backlog


def test_a_backlog_is_read_in_bounded_pages() -> None:
    """300,000 records: a thousand a request; rows are read of what is open alone, a checkpoint a page."""
    world = Streamed(shards=10)
    world.read()
    shards = world.streams.latest["tokens"].open
    at, number = world.clock.now(), FIRST_NUMBER * 2
    for place, shard in enumerate(shards):
        for n in range(15_000):
            keys: Item = {"lockToken": {"S": f"s/n/{place}-{n}"}}
            shard.records += [
                Written(number := number + 1, at, "INSERT", keys),
                Written(number := number + 1, at, "MODIFY", keys),
            ]
    world.streams._number = number
    world.acquire("lost")
    world.clock.advance(2 * 3600)
    world.client.sent.clear()
    world.streams.sent.clear()
    reading = world.read()
    assert reading.records == 300_000 + 1
    assert 300 < world.streams.sent["get_records"] <= 300 + 1 + 10 * TIP_PAGES
    assert world.client.sent["batch_get_item"] == 1
    assert world.client.sent["update_item"] <= 300 + 1 + 4
    assert world.listed == ["lost"]


def test_a_backlog_takes_as_many_runs_as_it_takes() -> None:
    """A run reads while it has time, and the next one goes on: the oldest first."""
    world = Streamed(shards=4)
    world.read()
    names = sorted(f"{n:04}" for n in range(600))
    for name in names:
        world.acquire(name)
    world.streams.before = lambda _operation, _request: world.clock.advance(1)
    lags, runs = [], 0
    while world.listed != names:
        runs += 1
        reading = world.read(minutes=6, seconds=8)
        lags.append(reading.lag_seconds)
        assert reading.failed is None
    assert 1 < runs < 6
    assert lags[0] is not None
    assert lags[0] > 300


# ------------------------------------------------------------------ the client


class Made:
    """What boto3 was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: list[tuple[str | None, str | None]] = []
        monkeypatch.setattr(module, "new_streams_client", lambda *place: self.places.append(place))


def table(endpoint: str | None = None, region: str = "eu-central-1") -> TokenTable:
    """Return a table whose client was made with these."""
    import boto3

    client = boto3.client(
        "dynamodb",
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    return TokenTable("tokens", client)


def test_the_streams_client_is_where_the_tables_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or an endpoint of one's own for DynamoDB alone would read AWS' streams."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS"):
        monkeypatch.delenv(name, raising=False)
    made = Made(monkeypatch)
    streams_client(table())
    streams_client(table("http://localhost:8000", "eu-west-1"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:8001")
    streams_client(table())
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", "http://localhost:8002")
    streams_client(table("http://localhost:8000"))
    assert made.places == [
        ("eu-central-1", None),
        ("eu-west-1", "http://localhost:8000"),
        ("eu-central-1", "http://localhost:8001"),
        ("eu-central-1", None),
    ]


def test_the_streams_client_validates_nothing() -> None:
    """Engines have shard ids of fewer characters than AWS'."""
    from lambda_once.dynamodb.client import new_streams_client

    client = new_streams_client("eu-central-1", "http://localhost:1")
    answer: Any = (type("Answer", (), {"status_code": 200})(), {"Records": []})
    client.meta.events.register("before-call", lambda **_: answer)
    assert client.get_records(ShardIterator="") == {"Records": []}
    assert client.meta.endpoint_url == "http://localhost:1"
    assert client.meta.service_model.service_id == "DynamoDB Streams"


def test_a_client_that_cannot_be_made_fails_the_reading(
    world: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the run: today's duties are still to do."""
    from botocore.exceptions import NoRegionError

    def fail(_table: TokenTable) -> None:
        raise NoRegionError

    monkeypatch.setattr(module, "streams_client", fail)
    reader = StreamReader(world.table)
    failed = reader.read(world.table.deadline()).failed
    assert isinstance(failed, Misconfigured)
    assert "no client" in str(failed)
    monkeypatch.setattr(module, "streams_client", lambda _table: world.streams)
    assert reader.read(world.table.deadline()).failed is None


def test_an_endpoint_that_is_no_url_fails_the_reading(
    world: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a client that can't be made for any other reason."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", "nowhere")
    failed = StreamReader(world.table).read(world.table.deadline()).failed
    assert isinstance(failed, Misconfigured)
    assert "nowhere" in str(failed)


def test_no_reading_has_nothing() -> None:
    """The counts of a watchdog whose table has no stream to read."""
    assert NO_READING.counts == {
        "listed": 0,
        "streamRecords": 0,
        "streamLagSeconds": None,
        "streamGap": False,
    }
    assert MINUTE.total_seconds() < LEASE
