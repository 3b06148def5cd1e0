"""Batches on a bad wire: what fails is handled statement by statement, and nothing is guessed."""

from __future__ import annotations

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Change
from lambda_once.dynamodb.retry import TRIES
from lambda_once.stores import batches
from lambda_once.stores.contract import Refused, Unanswered, Won, Written
from tests.kit.wire import (
    Fate,
    answer_lost,
    failing,
    muddled,
    refused,
    request_lost,
)
from tests.stores.line import BATCH, READ, Line
from tests.stores.suite.world import HELD, PAID, RELEASED

THROTTLED = [
    "InternalServerError",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "ThrottlingError",
]

# ------------------------------------------------------------------ throttled and conflicting statements


@pytest.mark.parametrize("code", [*THROTTLED, "TransactionConflict"])
def test_a_statement_that_may_pass_is_sent_again_by_itself(line: Line, code: str) -> None:
    """After a pause; what succeeded is not sent twice."""
    line.wire.fates = [failing(None, code, None, code), failing(code)]
    answers = line.acquire(*(line.acquisition(n) for n in range(5)))
    assert [type(answer) for answer in answers] == [Won] * 5
    assert line.sizes() == [5, 2, 1]
    line.wire.bodies.clear()
    line.wire.fates = [failing(code, None, code)]
    assert line.finish(*(line.write(n) for n in range(5))) == [Written.WRITTEN] * 5
    assert line.sizes() == [5, 2]
    assert line.wire.sent == [BATCH] * 5
    assert len(line.world.clock.slept) == 3


@pytest.mark.parametrize("code", THROTTLED)
def test_tries_of_a_statement_are_bounded(line: Line, code: str) -> None:
    """Then there is no answer for it, and the store does not guess; the others are not held up."""
    line.wire.fates = [failing(None, code)] + [failing(code)] * 2 * TRIES
    first, second = line.acquire(line.acquisition(0), line.acquisition(1))
    assert isinstance(first, Won)
    assert isinstance(second, Unanswered)
    assert f"({code}): " in second.reason
    assert line.wire.sent == [BATCH] * TRIES
    assert len(line.world.clock.slept) == TRIES - 1
    assert line.row(1) is None


def test_an_ending_that_stays_throttled_is_unanswered(line: Line) -> None:
    """Its row is in progress still; the others are complete."""
    line.won(3)
    line.wire.fates = [failing(None, "ThrottlingError")] + [failing("ThrottlingError")] * 2 * TRIES
    answers = line.finish(*(line.write(n) for n in range(3)))
    assert [type(answer) for answer in answers] == [Written, Unanswered, Written]
    assert "was throttled (ThrottlingError)" in str(answers[1])
    assert line.states(3) == [State.COMPLETE, State.IN_PROGRESS, State.COMPLETE]


def test_no_statement_is_tried_after_the_deadline(line: Line) -> None:
    """Nor does a pause go beyond it."""
    deadline = line.world.deadline
    line.world.clock.advance(20)
    line.wire.fates = [failing("ThrottlingError")] * TRIES
    first, second = line.world.store.acquire([line.acquisition(0), line.acquisition(1)], deadline)
    assert isinstance(first, Unanswered)
    assert isinstance(second, Won)
    assert line.wire.sent == [BATCH]
    assert line.world.clock.slept == []


def test_a_lasting_conflict_returns_the_stored_row(line: Line) -> None:
    """A transaction has the row: its owner is in progress."""
    line.won(1, "other")
    line.wire.fates = [failing("TransactionConflict")] * TRIES
    first, second = line.acquire(line.acquisition(0), line.acquisition(1))
    assert first == Refused(line.row(0))
    assert isinstance(second, Won)
    assert line.wire.sent == [BATCH] * TRIES + [READ]


def test_a_lasting_conflict_over_a_row_of_our_own_is_no_answer(line: Line) -> None:
    """No other attempt owns it, and it is not complete: the finish was not written; nothing prevents it."""
    line.won(2)
    line.wire.fates = [failing("TransactionConflict")] * TRIES
    first, second = line.finish(line.write(0), line.write(1))
    assert isinstance(first, Unanswered)
    assert second == Written.WRITTEN
    assert line.states(2) == [State.IN_PROGRESS, State.COMPLETE]


# ------------------------------------------------------------------ lost on the wire


@pytest.mark.parametrize(
    "fate", [request_lost, refused("InternalServerError", 500), refused("ThrottlingException")]
)
def test_a_call_that_did_not_arrive_is_sent_again(line: Line, fate: Fate) -> None:
    """Whole, and then it is as if nothing had been."""
    line.wire.fates = [fate, fate]
    assert [type(a) for a in line.acquire(line.acquisition(0), line.acquisition(1))] == [Won, Won]
    line.wire.fates = [fate]
    assert line.finish(line.write(0), line.write(1)) == [Written.WRITTEN] * 2
    assert line.wire.sent == [BATCH] * 5


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_of_an_acquisition_is_won(line: Line, lost: int) -> None:
    """Sent again it meets its own rows, and knows them by its attempt ids; another's row is another's."""
    line.won(1, "other")
    line.wire.fates = [answer_lost] * lost
    answers = line.acquire(*(line.acquisition(n) for n in range(4)))
    assert answers[0] == Refused(line.row(0))
    assert answers[1:] == [Won.before(line.row(n)) for n in range(1, 4)]
    assert [line.row(n).attempt_id for n in range(4)] == ["other", "a1", "a1", "a1"]
    assert line.wire.sent == [BATCH] * (lost + 1) + [READ]


@pytest.mark.parametrize("change", [PAID, HELD, RELEASED], ids=["complete", "hold", "release"])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_of_an_ending_is_written(line: Line, lost: int, change: Change) -> None:
    """Sent again it is refused by the state that it makes; one read settles all of them."""
    line.won(3)
    line.wire.fates = [answer_lost] * lost
    assert line.finish(*(line.write(n, change) for n in range(3))) == [Written.WRITTEN] * 3
    assert line.wire.sent == [BATCH] * (lost + 1) + [READ]
    assert State.IN_PROGRESS not in line.states(3)


def test_twin_that_does_not_know_its_own_rows(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without recognition the attempts are fenced by themselves."""
    monkeypatch.setattr(batches, "made_by", lambda *_: False)
    with pytest.raises(AssertionError):
        test_a_lost_answer_of_an_ending_is_written(line, 1, PAID)


@pytest.mark.parametrize("code", ["InternalServerError", "TransactionConflict"])
def test_a_statement_that_was_done_and_said_to_have_failed(line: Line, code: str) -> None:
    """Its outcome was unknown: sent again it meets its own row, and is known by its attempt id."""
    line.wire.fates = [muddled(code)]
    answers = line.acquire(*(line.acquisition(n) for n in range(3)))
    assert answers == [Won.before(line.row(n)) for n in range(3)]
    line.wire.fates = [muddled(code)]
    assert line.finish(*(line.write(n) for n in range(3))) == [Written.WRITTEN] * 3
    assert line.wire.sent == [BATCH, BATCH, READ] * 2
    assert line.states(3) == [State.COMPLETE] * 3


@pytest.mark.parametrize("fate", [request_lost, answer_lost])
def test_calls_without_any_answer(line: Line, fate: Fate) -> None:
    """Whether anything was written is not known, and is not guessed."""
    line.wire.fates = [fate] * 2 * TRIES
    answers = line.acquire(line.acquisition(0), line.acquisition(1))
    assert [type(answer) for answer in answers] == [Unanswered, Unanswered]
    assert line.wire.sent == [BATCH] * TRIES
    assert (line.row(0) is None) is (fate is request_lost)
