"""The watchdog in stream mode: it reads the stream in half of its run, then does what it always did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.operations import stream
from lambda_once.operations.list_state import CHECKPOINT_ROW
from lambda_once.operations.watchdog import watchdog
from lambda_once.testing import lambda_context
from tests.kit.strict.engine import client_error

from .streamed import Streamed
from .watch import Lines, measured

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Streamed:
    """A new table with a stream, on which every watchdog's client plays."""
    made = Streamed()
    monkeypatch.setattr(stream, "streams_client", lambda _table: made.streams)
    monkeypatch.delenv("LAMBDA_ONCE_LISTING", raising=False)
    return made


def run_of(world: Streamed, log: Lines | None = None, **options: Any) -> Run:
    """Return a watchdog in stream mode; a call lets minutes pass, and makes a run."""
    chosen: dict[str, Any] = {"listing": "stream", "sweep": False, "logger": log or Lines()} | options
    handler = watchdog("tokens", world.client, world.clock, **chosen)

    def run(minutes: float = 0, context: Any = None) -> dict[str, Any]:
        world.clock.advance(minutes * 60)
        return handler({}, context)

    return run


def test_lost_work_is_counted_and_released(world: Streamed) -> None:
    """Nobody had listed it: a run later than its lease it's overdue, and what is done about it is done."""
    log = Lines()
    run = run_of(world, log, actions={"n": "release"})
    assert run()["listed"] == 0
    world.acquire("lost", "done")
    world.complete("done")
    alive = run(2)
    assert (alive["overdue"], alive["inProgress"], alive["listed"], alive["streamRecords"]) == (0, 1, 0, 3)
    found = run(5)
    assert (found["overdue"], found["listed"], found["released"], found["inProgress"]) == (1, 1, 1, 0)
    assert [line["token"] for line in log.of("once.overdue")] == ["s/n/lost"]
    assert world.items["s/n/lost"]["status"] == {"S": "released"}


def test_what_is_kept_and_what_is_listed_is_in_progress_once(world: Streamed) -> None:
    """A key that was kept may have been extended, and so listed, since it was read."""
    run = run_of(world)
    run()
    world.acquire("a", "b", "c")
    world.extend("c", 900)
    assert run(2)["inProgress"] == 3

    def extend(operation: str, _request: dict[str, Any]) -> None:
        if operation == "query":
            world.client.before = lambda _operation, _request: None
            world.extend("a", 900)

    world.client.before = extend
    assert run(1)["inProgress"] == 3
    assert "a" in world.listed


def test_it_measures_how_far_it_is_behind(world: Streamed, capsys: pytest.CaptureFixture[str]) -> None:
    """In seconds, at each run; a watchdog that reads no stream measures nothing of it."""
    run_of(world)()
    assert measured(capsys.readouterr().out)[0]["streamLagSeconds"] == 0
    assert run_of(world)(1)["streamLagSeconds"] <= 60
    capsys.readouterr()
    world.engine.delete("tokens", CHECKPOINT_ROW)
    assert "streamLagSeconds" not in run_of(world, listing="at_once")()
    assert "streamLagSeconds" not in measured(capsys.readouterr().out)[0]


def test_a_gap_is_logged_when_it_opens_and_when_it_is_closed(world: Streamed) -> None:
    """With what it costs."""
    log = Lines()
    run = run_of(world, log)
    run()
    run(24 * 60)
    opened, closed = log.of("once.stream_gap")
    assert opened["level"] == "WARNING"
    assert "read units" in opened["reason"]
    assert "has all lost work again" in closed["reason"]


def test_a_malformed_row_is_logged(world: Streamed) -> None:
    """And the run is none the worse."""
    log = Lines()
    run = run_of(world, log)
    run()
    world.engine.put_item(TableName="tokens", Item={"lockToken": {"S": "s/n/theirs"}, "x": {"S": "y"}})
    run(2)
    (line,) = log.of("once.malformed_row")
    assert line["token"] == "s/n/theirs"


def test_todays_duties_are_done_where_the_stream_fails(world: Streamed) -> None:
    """Then the run fails, every time: a table without a stream lists nothing."""
    run = run_of(world, actions={"n": "release"})
    run()
    world.acquire("lost")
    run(6)
    world.acquire("more")
    world.extend("more", 301)
    world.streams.switch_off()
    for _ in range(2):
        with pytest.raises(Misconfigured, match="has no stream"):
            run(6)
    assert world.items["s/n/more"]["status"] == {"S": "released"}


def test_what_the_stream_did_not_answer_fails_the_run(world: Streamed) -> None:
    """Lambda's Errors metric counts it, and the next run reads on."""
    run = run_of(world)
    run()

    def fail(operation: str, _request: object) -> None:
        raise client_error("InternalServerError", "later", operation, 500)

    world.streams.before = fail
    with pytest.raises(StoreUnavailable):
        run(5)
    world.streams.before = lambda _operation, _request: None
    assert run(5)["listed"] == 0


def test_half_of_the_run_is_the_streams(world: Streamed) -> None:
    """However much there is to read."""
    run = run_of(world)
    run()
    started = []

    def late(operation: str, _request: object) -> None:
        world.clock.advance(2)
        if operation == "get_records":
            started.append(world.clock.now())

    world.streams.stretch(300)
    world.acquire("lost")
    world.clock.advance(20 * 60)
    world.streams.before = late
    before = world.clock.now()
    run(0, lambda_context(remaining_ms=60_000))
    assert (started[-1] - before).total_seconds() <= 30
    assert (started[-1] - before).total_seconds() > 20


def test_the_variable_says_how_it_lists(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for functions; the option comes before it, and anything else is no word."""
    monkeypatch.setenv("LAMBDA_ONCE_LISTING", "stream")
    assert "listed" in run_of(world, listing=None)()
    world.engine.delete("tokens", CHECKPOINT_ROW)
    assert "listed" not in run_of(world, listing="at_once")()
    monkeypatch.setenv("LAMBDA_ONCE_LISTING", "always")
    with pytest.raises(Misconfigured, match="use at_once or stream"):
        run_of(world, listing=None)()
    with pytest.raises(Misconfigured, match="use at_once or stream"):
        run_of(world, listing="never")


def test_who_reads_no_stream_ends_what_another_has_left(world: Streamed) -> None:
    """One scan, an hour later; then it asks for the checkpoint no more."""
    run_of(world)()
    world.acquire("lost")
    run = run_of(world, listing="at_once")
    assert run(30)["listed"] == 0
    found = run(31)
    assert (found["listed"], found["overdue"], found["streamGap"]) == (1, 1, False)
    assert set(world.items[CHECKPOINT_ROW]) == {"lockToken", "version"}
    assert "listed" not in run(5)
    world.client.sent.clear()
    run(5)
    assert world.client.sent["get_item"] == 1  # the cursor of what is overdue


def test_a_reading_that_fails_has_no_lag(world: Streamed, capsys: pytest.CaptureFixture[str]) -> None:
    """The alarm on a silent watchdog counts its samples, although the checkpoint says how far it was."""
    run = run_of(world)
    run()
    world.acquire("a")
    world.streams.fail("get_records", "AccessDeniedException")
    capsys.readouterr()
    with pytest.raises(Misconfigured):
        run(5)
    assert "streamLagSeconds" not in measured(capsys.readouterr().out)[0]
    run(5)
    assert "streamLagSeconds" in measured(capsys.readouterr().out)[0]
