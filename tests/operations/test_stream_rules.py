"""The rules of the checkpoint: what is a gap, which shards are read, what is kept, listed, and waited for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lambda_once.core.lifecycle import Record, State
from lambda_once.operations import checkpoint as module
from lambda_once.operations.checkpoint import (
    COVERED,
    ITERATOR_AGE,
    LONG,
    MOST_KEPT,
    OLDEST,
    YOUNG,
    Checkpoint,
    Fate,
    Malformed,
    Position,
    Scan,
    Stream,
    StreamRecord,
    at_end,
    begun_anew,
    by_age,
    disproved,
    fate_of,
    gap_in,
    inserted,
    is_fresh,
    kept_with,
    moved,
    old_enough,
    read_past,
    read_to,
    version_of,
    with_children,
)

NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
ROW = "watchdog#stream"
STREAM = Stream("arn:1", {"a": None, "b": None})
WHOLE = Checkpoint("arn:1", NOW, 7, {"a": Position(NOW), "b": Position(NOW, "12")})


def written(token: str, event: str = "INSERT", ago: timedelta = HOUR, number: int = 1) -> StreamRecord:
    """Return a record of *token*, *ago*."""
    return StreamRecord(token, event, str(number), NOW - ago)


def in_progress(lease: datetime, state: State = State.IN_PROGRESS) -> Record:
    """Return a row with *lease*."""
    return Record("s/n/1", state, "a1", 1, "f/r", NOW - HOUR, lease)


# ------------------------------------------------------------------ the row

ROWS = {
    "whole": WHOLE,
    "empty": Checkpoint("arn:1", NOW),
    "in a gap": replace(WHOLE, scan=Scan(NOW - HOUR, "s/n/77"), covered=NOW - HOUR, kept=("s/n/1", "s/n/2")),
    "at the scan's beginning": replace(WHOLE, scan=Scan(NOW)),
    "ended": replace(WHOLE, shards={"a": Position(NOW, "1", ended=True)}),
    "in doubt": replace(WHOLE, shards={"a": Position(NOW, "1", doubted=True)}),
    "with an iterator": replace(WHOLE, shards={"a": Position(NOW, None, "AAAA", NOW - SECOND)}),
}


@pytest.mark.parametrize("checkpoint", ROWS.values(), ids=ROWS)
def test_a_checkpoint_comes_back_as_it_was_written(checkpoint: Checkpoint) -> None:
    """Every part of it."""
    assert Checkpoint.from_item(checkpoint.to_item(ROW)) == checkpoint


@pytest.mark.parametrize("name", ["stream", "read", "version", "shards", "kept"])
@pytest.mark.parametrize("value", [None, {"S": "?"}, {"M": {"a": {"M": {}}}}])
def test_another_row_is_no_checkpoint(name: str, value: dict[str, object] | None) -> None:
    """Nor is one that lacks a part; a stream may have any name."""
    item = WHOLE.to_item(ROW)
    del item[name]
    if value is not None:
        item[name] = value
    if name == "stream" and value == {"S": "?"}:
        assert Checkpoint.from_item(item).stream == "?"
        return
    with pytest.raises(Malformed):
        Checkpoint.from_item(item)


def test_the_version_of_a_row_that_cannot_be_read() -> None:
    """It is replaced on condition of its version, or that it has none."""
    assert version_of({"version": {"N": "3"}}) == 3
    assert version_of({"version": {"S": "x"}}) is None
    assert version_of({}) is None


def test_iterators_have_a_bounded_part_of_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has no room can be asked for again; when it was kept is known still."""
    monkeypatch.setattr(module, "MOST_ITERATOR_BYTES", 10)
    shards = {name: Position(NOW, "1", "x" * 6, NOW) for name in "ab"}
    read = Checkpoint.from_item(replace(WHOLE, shards=shards).to_item(ROW)).shards
    assert read["a"] == shards["a"]
    assert read["b"] == replace(shards["b"], iterator=None)
    assert read["b"].lost_iterator(NOW)


def test_an_item_has_room_for_the_largest_checkpoint() -> None:
    """400 KB (quotas): 200 shards with iterators of 2 KB, and as many keys as may be kept."""
    shards = {
        f"shardId-{n:020}-{n:08x}": Position(NOW, "9" * 40, "i" * 2_000, NOW, ended=False) for n in range(200)
    }
    kept = kept_with((), {f"{n:0100}": n for n in range(9_999)}, (), {}).tokens
    assert len(kept) == 200_000 // 101
    item = replace(WHOLE, shards=shards, kept=kept).to_item(ROW)
    assert len(repr(item)) < 400_000  # which is longer than DynamoDB counts


# ------------------------------------------------------------------ gaps

GAPS: dict[str, tuple[Checkpoint | None, Stream, str]] = {
    "no checkpoint": (None, STREAM, "there is no checkpoint"),
    "another stream": (replace(WHOLE, stream="arn:0"), STREAM, "another stream"),
    "left": (replace(WHOLE, stream=""), STREAM, "another stream"),
    "a shard is gone": (WHOLE, Stream("arn:1", {"a": None}), "shard b is gone"),
    "a position is old": (
        replace(WHOLE, shards={"a": Position(NOW), "b": Position(NOW - OLDEST - SECOND)}),
        STREAM,
        "shard b was read up to",
    ),
    "a shard from nowhere": (WHOLE, Stream("arn:1", {"a": None, "b": None, "c": None}), "shard c is new"),
    "a child of one that was read to its end too long ago": (
        replace(WHOLE, shards={"a": Position(NOW - OLDEST - SECOND, ended=True), "b": Position(NOW)}),
        Stream("arn:1", {"a": None, "b": None, "c": "a"}),
        "shard c is new",
    ),
    "one whose parent is unknown": (WHOLE, Stream("arn:1", {"a": None, "b": None, "c": "x"}), "shard c"),
}


@pytest.mark.parametrize("gap", GAPS.values(), ids=GAPS)
def test_a_gap_is_found(gap: tuple[Checkpoint | None, Stream, str]) -> None:
    """What may have been missed, and why."""
    found, stream, reason = gap
    assert reason in str(gap_in(found, stream, NOW))


NO_GAPS = {
    "all known": (WHOLE, STREAM),
    "a position as old as may be": (
        replace(WHOLE, shards={"a": Position(NOW - OLDEST), "b": Position(NOW)}),
        STREAM,
    ),
    "a child of one that is read": (WHOLE, Stream("arn:1", {"a": None, "b": None, "c": "a", "d": "c"})),
    "a child whose parent is described no more": (
        replace(WHOLE, shards={"a": Position(NOW, ended=True), "b": Position(NOW)}),
        Stream("arn:1", {"b": None, "c": "a"}),
    ),
    "ancestors of what is read": (WHOLE, Stream("arn:1", {"b": "y", "a": "x", "x": "y", "y": None})),
    "one that ended is gone": (
        replace(WHOLE, shards={"a": Position(NOW), "b": Position(NOW - 2 * OLDEST, ended=True)}),
        Stream("arn:1", {"a": None}),
    ),
}


@pytest.mark.parametrize("whole", NO_GAPS.values(), ids=NO_GAPS)
def test_nothing_else_is_a_gap(whole: tuple[Checkpoint, Stream]) -> None:
    """A scan for nothing costs the table's size."""
    assert gap_in(*whole, NOW) is None


def test_a_gap_begins_at_every_shards_oldest_record() -> None:
    """And with a scan, before which nothing needs to be read; keys that were kept are open rows to it."""
    found = begun_anew(STREAM, NOW)
    assert found.shards == {"a": Position(NOW), "b": Position(NOW)}
    assert (found.scan, found.covered, found.kept) == (Scan(NOW), NOW - COVERED, ())


FRESH = {"CreationDateTime": NOW - HOUR, "ItemCount": 0}


@pytest.mark.parametrize(
    ("table", "made", "expected"),
    [
        (FRESH, NOW - HOUR, True),
        (FRESH | {"ItemCount": 1}, NOW - HOUR, False),
        (FRESH | {"RestoreSummary": {}}, NOW - HOUR, False),
        (FRESH, NOW - HOUR / 2, False),
        (FRESH | {"CreationDateTime": NOW - 24 * HOUR}, NOW - 24 * HOUR, False),
    ],
)
def test_a_stream_made_with_its_table_is_no_news(
    table: dict[str, object], made: datetime, expected: bool
) -> None:
    """The first run of a deployment warns of nothing."""
    assert is_fresh(table, made, NOW) is expected


# ------------------------------------------------------------------ shards


def test_children_enter_with_their_parents_time() -> None:
    """When the parent was read to its end, and not before."""
    stream = Stream("arn:1", {"a": None, "b": None, "a1": "a", "a2": "a", "b1": "b", "a3": "a1"})
    old = NOW - HOUR / 2
    found = with_children({"a": Position(old, "9", ended=True), "b": Position(NOW)}, stream)
    assert found["a1"] == found["a2"] == Position(old)
    assert found.keys() == {"a", "b", "a1", "a2"}


def test_a_parent_is_forgotten_an_hour_after_its_end() -> None:
    """Until then another child may appear; without a child it stays, or nobody would know that child."""
    ended = Position(NOW - HOUR - SECOND, ended=True)
    shards = {
        "a": ended,
        "b": ended,
        "a1": Position(NOW),
        "c": replace(ended, at=NOW - HOUR),
        "c1": Position(NOW),
    }
    stream = Stream("arn:1", {"a": None, "b": None, "a1": "a", "c": None, "c1": "c"})
    found = with_children(shards, stream)
    assert found.keys() == {"b", "a1", "c", "c1"}
    assert gap_in(replace(WHOLE, shards=found), stream, NOW) is None
    assert with_children({"b": ended}, Stream("arn:1", {})) == {}


def test_the_shard_that_is_behind_most_is_read_first() -> None:
    """Or a child whose turn never comes is trimmed; what has ended is not read."""
    shards = {"a": Position(NOW), "b": Position(NOW - HOUR), "c": Position(NOW - 2 * HOUR, ended=True)}
    assert by_age(shards) == ["b", "a"]


def test_how_far_the_slowest_shard_is_read() -> None:
    """Shards at their end hold nothing back; a gap counts from when its scan began."""
    shards = {"a": Position(NOW - HOUR), "b": Position(NOW - 3 * HOUR, ended=True)}
    assert replace(WHOLE, shards=shards).read_up_to == NOW - HOUR
    assert replace(WHOLE, shards=shards, scan=Scan(NOW - 2 * HOUR)).read_up_to == NOW - 2 * HOUR
    assert Checkpoint("", NOW).read_up_to == NOW


# ------------------------------------------------------------------ records


def test_young_records_are_left_to_the_next_run() -> None:
    """From the first on."""
    records = [written("a"), written("b", ago=YOUNG), written("c", ago=YOUNG - SECOND), written("d")]
    assert [record.token for record in old_enough(records, NOW)] == ["a", "b"]
    assert old_enough(records[:2], NOW) == records[:2]


def test_the_last_event_of_a_key_in_the_page_decides() -> None:
    """A later write lists what it leaves open; a key that was deleted and made again counts."""
    records = [
        written("a"),
        written("b"),
        written("b", "MODIFY"),
        written("c", "REMOVE"),
        written("c"),
        written("d"),
        written("d", "REMOVE"),
        written("x#a1#0"),
    ]
    assert inserted(records, None) == {"a": 0, "c": 4}


def test_what_a_scan_has_seen_is_passed_unread() -> None:
    """And nothing younger."""
    records = [written("a"), written("b", ago=HOUR - SECOND)]
    assert inserted(records, NOW - HOUR + SECOND) == {"b": 1}
    assert inserted(records, NOW - HOUR) == {"a": 0, "b": 1}


# ------------------------------------------------------------------ rows


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        (NOW - SECOND, Fate.LIST),
        (NOW, Fate.KEEP),
        (NOW + LONG, Fate.KEEP),
        (NOW + LONG + SECOND, Fate.LIST),
    ],
)
def test_what_has_lapsed_or_is_long_is_listed(lease: datetime, expected: Fate) -> None:
    """The rest is kept; what is listed already is not kept, nor what has ended."""
    assert fate_of(in_progress(lease), NOW, is_listed=False) is expected
    assert fate_of(in_progress(lease), NOW, is_listed=True) is Fate.DROP
    for state in (State.COMPLETE, State.RELEASED, State.HELD):
        assert fate_of(in_progress(lease, state), NOW, is_listed=False) is Fate.DROP


def test_keys_are_kept_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order in the page, and each once; before the first without room the position waits."""
    places = {"a": 0, "b": 2, "c": 5, "d": 7}
    assert kept_with(("z", "b"), places, (), places) == (("z", "b", "a", "c", "d"), None)
    monkeypatch.setattr(module, "MOST_KEPT", 3)
    assert kept_with(("z",), places, (), places) == (("z", "a", "b"), 5)
    assert kept_with(("x", "y", "z"), places, (), places) == (("x", "y", "z"), 0)
    assert kept_with(("a", "b", "c"), {"a": 0, "b": 2}, (), places) == (("a", "b", "c"), None)


def test_keys_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key has up to a kilobyte and more, and an item 400 KB."""
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 12)
    places = {"aaaaa": 0, "ääää": 1, "b": 2}
    assert kept_with((), places, (), places) == (("aaaaa",), 1)
    assert MOST_KEPT == 2_000


def test_what_was_not_answered_holds_the_position_back() -> None:
    """And what comes after it is read again, so it isn't kept yet."""
    places = {"a": 0, "b": 2, "c": 5}
    assert kept_with((), {"a": 0, "c": 5}, {"b"}, places) == (("a",), 2)


# ------------------------------------------------------------------ positions


def test_an_iterator_is_used_for_fourteen_minutes() -> None:
    """It lives for fifteen; then empty pages may have to be passed again."""
    position = Position(NOW, "1", "iterator", NOW - ITERATOR_AGE)
    assert position.iterator_at(NOW) is None
    assert position.lost_iterator(NOW)
    assert position.iterator_at(NOW - SECOND) == "iterator"
    assert not position.lost_iterator(NOW - SECOND)
    assert not Position(NOW, "1").lost_iterator(NOW)


def test_a_position_has_the_time_of_what_is_not_read() -> None:
    """Or of what was read last, if more may be there; an empty page says nothing of time."""
    records = [written("a", ago=3 * HOUR, number=1), written("b", ago=2 * HOUR, number=2)]
    before = Position(NOW - 5 * HOUR, "0", "old", NOW - SECOND)
    assert read_to(before, records, 1) == Position(NOW - 2 * HOUR, "1")
    assert read_to(before, records, 0) == replace(before, at=NOW - 3 * HOUR)
    assert read_past(before, records, "next", NOW) == Position(NOW - 2 * HOUR, "2", "next", NOW)
    assert read_past(before, [], "next", NOW) == Position(NOW - 5 * HOUR, "0", "next", NOW)
    assert at_end(before, records) == Position(NOW - 2 * HOUR, "2", ended=True)
    assert at_end(before, []) == Position(NOW - 5 * HOUR, "0", ended=True)


def test_records_from_before_the_tip_put_it_in_doubt() -> None:
    """But for what a scan has covered: such positions have its time; and times are rounded."""
    late = [written("a", ago=HOUR)]
    assert disproved(WHOLE, Position(NOW), late)
    assert not disproved(WHOLE, Position(NOW), [])
    assert not disproved(WHOLE, Position(NOW), [written("watchdog#stream", ago=HOUR)])
    assert not disproved(WHOLE, Position(NOW - HOUR + YOUNG), late)
    assert not disproved(replace(WHOLE, covered=NOW), Position(NOW), late)
    assert disproved(replace(WHOLE, covered=NOW - SECOND), Position(NOW), late)


def test_what_a_scan_covers_makes_no_position_old() -> None:
    """Or a gap would be found at each run that reads the records of a day."""
    covered = replace(WHOLE, covered=NOW - HOUR)
    assert moved(covered, "a", Position(NOW - 5 * HOUR, "3")).shards["a"] == Position(NOW - HOUR, "3")
    assert moved(covered, "a", Position(NOW, "3")).shards["a"] == Position(NOW, "3")
    assert moved(WHOLE, "a", Position(NOW - 5 * HOUR)).shards["a"].at == NOW - 5 * HOUR
