"""Batches in conflict and in part, on the strict engine: which requests they cost, and what they answer."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.core.results import Chunks
from lambda_once.core.writes import Complete
from lambda_once.dynamodb import retry
from lambda_once.dynamodb.retry import TRIES
from lambda_once.stores.contract import Refused, Unanswered, Won, Written
from tests.kit.wire import after, before, failing, muddled, refused
from tests.stores.line import BATCH, PARTS, READ, SINGLE, Line

CONFLICT = "TransactionConflict"
WAIT_SECONDS = 10
"""Seconds after which somebody who should have come by now is missed."""


THROTTLED = refused("ProvisionedThroughputExceededException")


def hold(line: Line, *numbers: int, attempt: str = "a1") -> None:
    """Acquire these tokens, one by one, and forget how."""
    for n in numbers:
        line.world.won(attempt, token=line.token(n))
    line.wire.sent.clear()


def test_a_lasting_conflict_returns_the_stored_row(line: Line) -> None:
    """A transaction has the item: its row is read as the loser's is, and the conflict is no outage."""
    hold(line, 0, attempt="other")
    line.wire.fates_of[BATCH] = [failing(CONFLICT)] * TRIES
    first, second = line.world.store.acquire([line.acquisition(0), line.acquisition(1)], line.world.deadline)
    assert first == Refused(line.world.row_of(line.token(0)))
    assert isinstance(second, Won)
    assert line.wire.sent[: TRIES + 1] == [BATCH] * TRIES + [READ]
    assert SINGLE not in line.wire.sent


IN_CONFLICT = refused("TransactionConflictException")


def test_a_conflict_before_a_throttled_try_is_a_refusal(line: Line) -> None:
    """Somebody was at the row: it is read, and only the last try's silence would be an outage."""
    hold(line, 0, attempt="other")
    line.wire.fates_of[SINGLE] = [IN_CONFLICT, *[THROTTLED] * (TRIES - 1)]
    (answer,) = line.world.store.acquire([line.acquisition(0)], line.world.deadline)
    assert answer == Refused(line.world.row_of(line.token(0)))


def test_a_conflict_in_a_batch_before_a_throttled_try_is_a_refusal(line: Line) -> None:
    """The same for a statement: the row is read, and the other one is not touched by it."""
    hold(line, 0, attempt="other")
    silent = failing("ThrottlingError")
    line.wire.fates_of[BATCH] = [failing(CONFLICT), *[silent] * (TRIES - 1)]
    first, second = line.world.store.acquire([line.acquisition(0), line.acquisition(1)], line.world.deadline)
    assert first == Refused(line.world.row_of(line.token(0)))
    assert isinstance(second, Won)


def test_a_conflict_that_passes_is_no_answer_yet(line: Line) -> None:
    """The statement is sent again by itself, and wins."""
    line.wire.fates_of[BATCH] = [failing(CONFLICT), failing(CONFLICT)]
    answers = line.world.store.acquire([line.acquisition(0), line.acquisition(1)], line.world.deadline)
    assert [type(answer) for answer in answers] == [Won, Won]
    assert line.wire.sent == [BATCH] * 3


def test_an_ending_in_a_lasting_conflict_is_unanswered(line: Line) -> None:
    """The attempt has its token still: it was not fenced, and may try again."""
    hold(line, 0, 1)
    writes = [line.world.write(Complete(None), token=line.token(n)) for n in (0, 1)]
    line.wire.fates_of[BATCH] = [failing(CONFLICT)] * TRIES
    assert line.world.store.write(writes, line.world.deadline) == [Unanswered(CONFLICT), Written.WRITTEN]
    assert line.wire.sent == [BATCH] * TRIES + [READ]
    assert line.world.row_of(line.token(0)).state is State.IN_PROGRESS


def test_an_ending_that_landed_in_spite_of_a_conflict_is_written(line: Line) -> None:
    """The row bears its `write`."""
    hold(line, 0, 1)
    writes = [line.world.write(Complete(None), token=line.token(n)) for n in (0, 1)]
    line.wire.fates_of[BATCH] = [muddled(CONFLICT)] * TRIES
    assert line.world.store.write(writes, line.world.deadline) == [Written.WRITTEN] * 2


def test_an_early_read_that_found_no_row_is_repeated(line: Line) -> None:
    """Of a redelivery, beside its INSERT: the row came in between. It costs one read, and no write."""
    read = threading.Event()

    def another_wins() -> None:
        assert read.wait(WAIT_SECONDS)
        line.world.won("other", token=line.token(0))
        line.wire.sent.remove(SINGLE)

    line.wire.fates_of = {READ: [after(read.set)], BATCH: [before(another_wins)]}
    acquisitions = [line.acquisition(n)._replace(likely=not n) for n in (0, 1)]
    first, second = line.world.store.acquire(acquisitions, line.world.deadline)
    assert first == Refused(line.world.row_of(line.token(0)))
    assert isinstance(second, Won)
    assert sorted(line.wire.sent[:3]) == sorted([READ, BATCH, READ])
    assert SINGLE not in line.wire.sent


# ------------------------------------------------------------------ the parts of a large result

FIVE = Chunks((b"1", b"2", b"3", b"4", b"5"))


@pytest.fixture
def in_twos(line: Line, monkeypatch: pytest.MonkeyPatch) -> Line:
    """Parts go out two a call; token 0 is held."""
    monkeypatch.setattr(retry, "MOST_WRITES", 2)
    hold(line, 0)
    return line


def test_parts_stop_at_the_deadline(in_twos: Line) -> None:
    """Each call may be the last that ends in time: what is left is not sent."""
    write = in_twos.world.write(Complete(FIVE), token=in_twos.token(0))
    deadline = in_twos.world.deadline
    in_twos.wire.fates_of[PARTS] = [after(lambda: in_twos.world.clock.advance(20))]
    (answer,) = in_twos.world.store.write([write], deadline)
    assert isinstance(answer, Unanswered)
    assert answer.parts == 2
    assert in_twos.wire.sent == [PARTS]


def test_parts_that_are_written_are_not_sent_again(in_twos: Line) -> None:
    """The next try goes on where the one before was throttled."""
    write = in_twos.world.write(Complete(FIVE), token=in_twos.token(0))
    once = in_twos.world.deadline._replace(final=math.inf)
    in_twos.wire.fates_of[PARTS] = [after(lambda: None), THROTTLED]
    (answer,) = in_twos.world.store.write([write], once)
    assert isinstance(answer, Unanswered)
    assert answer.parts == 2
    in_twos.wire.sent.clear()
    assert in_twos.world.store.write([replace(write, parts_written=2)], once) == [Written.WRITTEN]
    assert in_twos.wire.sent == [PARTS, PARTS, SINGLE]
    row = in_twos.world.row_of(in_twos.token(0))
    assert in_twos.world.store.chunks(row, in_twos.world.deadline) == FIVE.parts
