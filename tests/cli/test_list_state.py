"""A list that the watchdog writes is an answer only while it writes it: otherwise exit code 2, and why."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.operations import stream
from lambda_once.operations.checkpoint import Checkpoint, Position, Scan
from lambda_once.operations.list_state import (
    CHECKPOINT_ROW,
    STALE,
    LastReading,
    ListState,
    judged,
    stream_of,
)
from lambda_once.testing import FakeClock, create_table
from lambda_once_tools.cli import options
from tests.kit import tables
from tests.kit.streams import PlayedStreams
from tests.kit.strict.mounted import mounted

from .shop import Shop, complaint

COMMANDS = (
    ["list"],
    ["list", "--overdue"],
    ["list", "--by-function", "--output", "json"],
    ["watch", "--count", "1"],
    ["redrive", "--because", "x", "--by", "ann", "--yes"],
)
TWO_MINUTES = timedelta(minutes=2)
PARTLY = "in progress: only what was retried, extended or is long; all: --scan"


class Streamed:
    """A shop whose table has a stream, and the row that a watchdog leaves of its readings."""

    def __init__(self, shop: Shop, streams: PlayedStreams) -> None:
        self.shop = shop
        self.streams = streams
        self.arn = streams.switch_on(with_table=True).arn

    def read(
        self,
        ago: timedelta = timedelta(0),
        arn: str | None = None,
        *,
        in_gap: bool = False,
        behind: timedelta = timedelta(0),
    ) -> None:
        """Leave the row of a reading."""
        at = self.shop.clock.now() - ago
        shards = {"shard": Position(at - behind)}
        scan = Scan(at) if in_gap else None
        self.shop.put(Checkpoint(arn or self.arn, at, 1, shards, scan=scan).to_item(CHECKPOINT_ROW))


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Streamed]:
    """A table with a stream that nobody has read yet."""
    monkeypatch.delenv("LAMBDA_ONCE_LISTING", raising=False)
    with mounted() as engine:
        client = tables.shared()
        create_table(client, "tokens")
        shop = Shop(client, "tokens")
        monkeypatch.setattr(options, "clock", lambda: shop.clock)
        yield Streamed(shop, PlayedStreams(engine, shop.clock))


DOUBTS = {
    "nobody has read it": (None, "no watchdog has read this table's stream: --scan reads the table"),
    "nobody reads it any more": (
        {"ago": STALE + timedelta(seconds=1)},
        "no watchdog has read this table's stream since ",
    ),
    "another stream": ({"arn": "arn:aws:dynamodb:eu-central-1:1:table/tokens/stream/1"}, "another stream"),
    "a gap": ({"in_gap": True}, "has missed a part of this table's stream"),
    "far behind": ({"behind": timedelta(hours=1, seconds=1)}, "has read this table's stream up to"),
}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_list_that_nobody_writes_is_no_answer(streamed: Streamed, command: list[str], doubt: str) -> None:
    """Whatever is in it: exit code 2, one line that names --scan, and nothing on standard output."""
    reading, says = DOUBTS[doubt]
    if reading is not None:
        streamed.read(**reading)
    streamed.shop.hold("orders/charge/1")
    message = complaint(streamed.shop.run(*command))
    assert says in message
    assert "--scan reads the table" in message
    row = streamed.shop.store.read("orders/charge/1", streamed.shop._deadline())
    assert row is not None
    assert row.state.value == "error"


@pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
def test_a_list_that_is_current_is_one(streamed: Streamed, command: list[str]) -> None:
    """Nothing: 0. Lost work: 1."""
    streamed.read(TWO_MINUTES)
    assert streamed.shop.run(*command).exit_code == 0
    streamed.shop.begin("orders/charge/late")
    streamed.shop.clock.advance(60)
    assert streamed.shop.run(*command).exit_code == 1


def test_what_the_list_has_of_live_work_is_said(streamed: Streamed) -> None:
    """Where work in progress is listed or counted, and only where the watchdog lists it."""
    streamed.read(behind=timedelta(minutes=59))
    for command, says in (
        (["list"], True),
        (["list", "--in-progress"], True),
        (["watch", "--count", "1"], True),
        (["list", "--held"], False),
        (["redrive", "--because", "x", "--by", "ann", "--yes"], False),
    ):
        assert (PARTLY in streamed.shop.run(*command).stderr) is says, command


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_stream_may_be_somebody_elses(streamed: Streamed, command: list[str]) -> None:
    """LAMBDA_ONCE_LISTING=at_once says so, unless a checkpoint tells of a mode that has not ended."""
    assert streamed.shop.run(*command, LAMBDA_ONCE_LISTING="at_once").exit_code == 0
    streamed.read()
    told = complaint(streamed.shop.run(*command, LAMBDA_ONCE_LISTING="at_once"))
    assert "the table was in stream mode" in told


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_scan_needs_no_list(streamed: Streamed, command: list[str]) -> None:
    """It reads the table, whatever nobody has read."""
    streamed.shop.begin("orders/charge/late")
    streamed.shop.clock.advance(60)
    yes = [] if "--yes" in command else ["--yes"]
    ran = streamed.shop.run(*command, "--scan", *yes)
    assert ran.exit_code == (0 if command[0] == "redrive" else 1), ran.stderr
    assert PARTLY not in ran.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_stream_mode_without_a_stream_is_no_answer(streamed: Streamed, command: list[str]) -> None:
    """By the variable alone, and by a checkpoint that was left, too; without both a table lists at once."""
    streamed.streams.switch_off()
    assert streamed.shop.run(*command).exit_code == 0
    told = complaint(streamed.shop.run(*command, LAMBDA_ONCE_LISTING="stream"))
    assert "the table's stream is off" in told
    streamed.read()
    assert "the table's stream is off" in complaint(streamed.shop.run(*command))


def test_a_checkpoint_that_cannot_be_read_is_no_reading(streamed: Streamed) -> None:
    """Nor is one absent: some program has begun to list."""
    streamed.shop.put({"lockToken": {"S": CHECKPOINT_ROW}, "stream": {"S": "?"}, "read": {"N": "1"}})
    for mode in ({}, {"LAMBDA_ONCE_LISTING": "at_once"}):
        assert "--scan" in complaint(streamed.shop.run("list", **mode))
    streamed.shop.put({"lockToken": {"S": CHECKPOINT_ROW}, "version": {"N": "8"}})
    assert streamed.shop.run("list", LAMBDA_ONCE_LISTING="at_once").exit_code == 0


def test_a_run_by_hand_reads_the_stream_that_is_there(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever says no mode ends none: a run that listed at once would empty the checkpoint."""
    monkeypatch.setattr(stream, "streams_client", lambda _table: streamed.streams)
    streamed.read(timedelta(hours=2))
    ran = streamed.shop.run("watchdog", "--output", "json")
    assert ran.exit_code == 0, ran.stderr
    assert "streamRecords" in ran.stdout
    assert streamed.shop.run("list").exit_code == 0
    streamed.read(timedelta(hours=2))
    streamed.shop.run("watchdog", LAMBDA_ONCE_LISTING="at_once")
    assert "no watchdog has read" in complaint(streamed.shop.run("list"))


def test_an_unknown_mode_is_refused(streamed: Streamed) -> None:
    """It is named, and what it may be."""
    told = complaint(streamed.shop.run("list", LAMBDA_ONCE_LISTING="streams"))
    assert "LAMBDA_ONCE_LISTING=streams is unknown: use at_once or stream" in told


def test_a_long_watch_ends_when_the_list_does(streamed: Streamed) -> None:
    """The rounds before it are printed; then the exit code is 2."""
    streamed.read(STALE - timedelta(seconds=12))
    ran = streamed.shop.run("watch", "--interval", "5", "--count", "9")
    assert ran.exit_code == 2
    assert len(ran.stdout.splitlines()) == 3
    assert "no watchdog has read this table's stream since" in ran.stderr


NOW = FakeClock().now()


@pytest.mark.parametrize("ago", [timedelta(0), STALE])
def test_a_reading_counts_for_fifteen_minutes(ago: timedelta) -> None:
    """To the second."""
    reading = LastReading("arn", NOW - ago, NOW - ago, in_gap=False)
    assert judged("arn", reading, NOW, told=True) == ListState(by_stream=True)
    older = reading._replace(at=reading.at - timedelta(milliseconds=1))
    assert (judged("arn", older, NOW, told=True).doubt is None) is (ago < STALE)


@pytest.mark.parametrize(
    ("description", "arn"),
    [
        ({}, None),
        ({"LatestStreamArn": "arn"}, None),
        ({"LatestStreamArn": "arn", "StreamSpecification": {"StreamEnabled": False}}, None),
        ({"LatestStreamArn": "arn", "StreamSpecification": {"StreamEnabled": True}}, "arn"),
    ],
)
def test_a_stream_that_is_off_is_none(description: dict[str, Any], arn: str | None) -> None:
    """DescribeTable keeps the ARN of the last one."""
    assert stream_of(description) == arn
