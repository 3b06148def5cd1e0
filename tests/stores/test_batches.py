"""Many tokens in one call: how many calls, under which conditions, and what goes alone."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lambda_once.core.lifecycle import OnLapse, State
from lambda_once.core.results import Chunks
from lambda_once.core.writes import AsSeen, Complete, Extend
from lambda_once.dynamodb.retry import MOST_KEYS, TRIES
from lambda_once.stores import requests
from lambda_once.stores.contract import Refused, Unanswered, Won, Written
from tests.kit.wire import (
    refused,
)
from tests.stores.line import BATCH, PARTS, READ, SINGLE, Line
from tests.stores.suite.world import HELD, LEASE, RELEASED, resolver

# ------------------------------------------------------------------ how many calls


def test_ten_new_cost_one_call_each_way(line: Line) -> None:
    """Ten tokens are acquired by one call, and completed by one."""
    answers = line.acquire(*(line.acquisition(n) for n in range(10)))
    assert answers == [Won(line.row(n).fence, took_over=False, generation="a1") for n in range(10)]
    assert line.finish(*(line.write(n) for n in range(10))) == [Written.WRITTEN] * 10
    assert line.wire.sent == [BATCH, BATCH]
    assert line.states(10) == [State.COMPLETE] * 10


def test_losers_are_read_together(line: Line) -> None:
    """Those that were there before cost one consistent read, whatever state they are in."""
    line.won(4)
    line.finish(line.write(0), line.write(1, HELD), line.write(2, RELEASED))
    line.wire.sent.clear()
    line.wire.bodies.clear()
    answers = line.acquire(*(line.acquisition(n, "a2") for n in range(6)))
    assert answers[:4] == [Refused(line.row(n)) for n in range(4)]
    assert [type(answer) for answer in answers[4:]] == [Won, Won]
    assert line.wire.sent == [BATCH, READ]
    (asked,) = line.wire.bodies[1]["RequestItems"].values()
    assert asked["ConsistentRead"] is True
    assert [key["lockToken"]["S"] for key in asked["Keys"]] == [line.token(n) for n in range(4)]


def test_more_than_a_call_takes_are_several_calls(line: Line) -> None:
    """A call takes 25 statements; the losers of all calls are read together."""
    line.acquire(line.acquisition(3, "other"), line.acquisition(41, "other"))
    line.wire.sent.clear()
    line.wire.bodies.clear()
    answers = line.acquire(*(line.acquisition(n) for n in range(60)))
    assert {n for n, answer in enumerate(answers) if isinstance(answer, Refused)} == {3, 41}
    assert line.wire.sent == [BATCH] * 3 + [READ]
    assert sorted(line.sizes()) == [10, 25, 25]
    line.wire.bodies.clear()
    written = line.finish(*(line.write(n) for n in range(60)))
    assert {n for n, answer in enumerate(written) if answer != Written.WRITTEN} == {3, 41}
    assert sorted(line.sizes()) == [10, 25, 25]


def test_more_losers_than_a_read_takes_are_several_reads(line: Line) -> None:
    """A read takes 100 keys."""
    many = MOST_KEYS + 1
    line.won(many)
    answers = line.acquire(*(line.acquisition(n, "a2") for n in range(many)))
    assert answers == [Refused(line.row(n)) for n in range(many)]
    assert line.wire.sent.count(READ) == 2


def test_one_alone_is_a_single_write(line: Line) -> None:
    """Its refusal brings the row along, which a statement's does not."""
    line.acquire(line.acquisition(0))
    line.acquire(line.acquisition(0, "a2"))
    line.finish(line.write(0))
    assert line.wire.sent == [SINGLE] * 3


def test_what_an_insert_cannot_say_is_a_single_write(line: Line) -> None:
    """An acquisition of a row that is there is a conditional write at once; the others go together."""
    line.won(2)
    line.finish(line.write(0, RELEASED))
    line.world.clock.advance(31)
    line.wire.sent.clear()
    lapsed = AsSeen("a1", line.row(1).expected_completion)
    answers = line.acquire(
        line.acquisition(0, "a2")._replace(known=True),
        line.acquisition(1, "a2", rule=OnLapse.PROBE, seen=lapsed),
        line.acquisition(2, "a2"),
        line.acquisition(3, "a2"),
    )
    assert [(type(a), getattr(a, "took_over", None)) for a in answers] == [
        (Won, False),
        (Won, True),
        (Won, False),
        (Won, False),
    ]
    assert line.wire.sent == [BATCH, SINGLE, SINGLE]


def test_what_an_update_statement_cannot_say_is_a_single_write(line: Line) -> None:
    """A renewal and a resolver's write keep their own conditions beside a batch."""
    line.won(4)
    later = line.world.ends(2 * LEASE)
    answers = line.finish(
        line.write(0, Extend(later)),
        line.world.write(RELEASED, resolver(line.row(1)), line.token(1)),
        line.write(2),
        line.write(3),
    )
    assert answers == [Written.WRITTEN] * 4
    assert line.wire.sent == [BATCH, SINGLE, SINGLE]
    assert line.row(0).expected_completion == later
    assert line.row(1).attempt_id == "operator"


# ------------------------------------------------------------------ guarantees 1 and 2


def test_of_many_batches_one_wins_each_token(line: Line) -> None:
    """Environments that ask at the same moment, each in an order of its own, share the tokens out."""
    tokens, rivals = 10, 6
    store, deadline = line.world.store, line.world.deadline
    start = threading.Barrier(rivals)

    def rival(n: int) -> list[int]:
        order = random.Random(n).sample(range(tokens), tokens)
        acquisitions = [line.acquisition(token, f"a{n}") for token in order]
        start.wait()
        answers = store.acquire(acquisitions, deadline)
        return [token for token, answer in zip(order, answers, strict=True) if isinstance(answer, Won)]

    with ThreadPoolExecutor(rivals) as pool:
        won = list(pool.map(rival, range(rivals)))
    assert sorted(token for tokens_ in won for token in tokens_) == list(range(tokens))
    for n, mine in enumerate(won):
        assert {line.row(token).attempt_id for token in mine} <= {f"a{n}"}


def _taken_over(line: Line) -> None:
    """Two attempts lapse, and their completions arrive together while successors are in progress."""
    line.won(3)
    line.world.clock.advance(31)
    line.acquire(
        line.acquisition(0, "a2")._replace(known=True), line.acquisition(1, "a2")._replace(known=True)
    )
    before = [line.row(n) for n in range(2)]
    answers = line.finish(*(line.write(n) for n in range(3)))
    assert answers == [Refused(before[0]), Refused(before[1]), Written.WRITTEN]
    assert [line.row(n) for n in range(2)] == before


def test_a_late_ending_in_a_batch_is_fenced(line: Line) -> None:
    """It gets its successor's row, leaves it as it is, and takes no other ending with it."""
    line.wire.sent.clear()
    _taken_over(line)
    assert line.wire.sent[-2:] == [BATCH, READ]


def test_twin_without_the_attempt_a_late_ending_counts(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """It overwrites the row of its successor, which is in progress."""
    anyone = '("attempt" = ? OR "attempt" <> \'none\') AND begins_with("status", ?)'
    monkeypatch.setattr(requests, "OURS_IN_PARTIQL", anyone)
    with pytest.raises(AssertionError):
        _taken_over(line)


def test_our_id_in_another_final_state_is_no_success(line: Line) -> None:
    """What is complete stays complete: a late hold of completed work is refused, and changes nothing."""
    line.won(2)
    line.finish(line.write(0), line.write(1))
    before = [line.row(n) for n in range(2)]
    assert line.finish(line.write(0, HELD), line.write(1, RELEASED)) == [Refused(row) for row in before]
    assert [line.row(n) for n in range(2)] == before


def test_twin_without_the_state_a_late_ending_counts(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes what is complete."""
    any_state = '"attempt" = ? AND (begins_with("status", ?) OR "attempt" <> \'none\')'
    monkeypatch.setattr(requests, "OURS_IN_PARTIQL", any_state)
    with pytest.raises(AssertionError):
        test_our_id_in_another_final_state_is_no_success(line)


# ------------------------------------------------------------------ large results

LARGE = Complete(Chunks((b"one", b"two")))


def test_parts_are_written_before_the_rows_are_flipped(line: Line) -> None:
    """A reader that finds a row complete finds its parts."""
    line.won(3)
    assert line.finish(line.write(0, LARGE), line.write(1), line.write(2, LARGE)) == [Written.WRITTEN] * 3
    assert line.wire.sent == [PARTS, PARTS, BATCH]
    for n in (0, 2):
        assert line.world.store.chunks(line.row(n), line.world.deadline) == (b"one", b"two")


def test_an_ending_whose_parts_are_not_taken_is_not_written(line: Line) -> None:
    """It stays in progress; the others are completed, together."""
    line.won(3)
    line.wire.fates = [refused("ThrottlingException")] * TRIES
    answers = line.finish(line.write(0, LARGE), line.write(1), line.write(2))
    assert [type(answer) for answer in answers] == [Unanswered, Written, Written]
    assert "BatchWriteItem on table" in str(answers[0])
    assert "was throttled (ThrottlingException)" in str(answers[0])
    assert line.wire.sent == [PARTS] * TRIES + [BATCH]
    assert line.states(3) == [State.IN_PROGRESS, State.COMPLETE, State.COMPLETE]
