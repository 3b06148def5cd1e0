"""Every store: what somebody other than its attempts decides about a token, whatever its state."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Inline, Parts
from lambda_once.core.writes import Finish, Resolver, after_finish
from lambda_once.operations.resolution import Resolve, resolution
from lambda_once.stores import requests
from lambda_once.stores.contract import FinishAnswer, Refused, Written
from tests.stores.world import FAILED, GIVEN_BACK, HELD, LEASE, PAID, UNSTARTED, World

ROWS = {
    "in progress": None,
    "held": HELD,
    "complete": PAID,
    "stored error": FAILED,
    "released": GIVEN_BACK,
    "unstarted": UNSTARTED,
}
LARGE = f'"{random.Random("large").randbytes(40_000).hex()}"'

by_row = pytest.mark.parametrize("row", ROWS)
by_verdict = pytest.mark.parametrize("verdict", Resolve)


def _made(world: World, row: str) -> Record:
    world.won(fingerprint="f", delivery="m-1")
    change = ROWS[row]
    if change is not None:
        assert world.finish(change) == Written.WRITTEN
    world.clock.advance(LEASE.total_seconds() + 1)
    return world.row()


def _verdict(world: World, before: Record, verdict: Resolve, result: str | None = None) -> Finish:
    because = "seen at the provider"
    return resolution(before, verdict, by="ann", because=because, now=world.clock.now(), result=result)


def _send(world: World, write: Finish) -> FinishAnswer:
    (answer,) = world.store.finish([write], world.deadline)
    return answer


@by_row
@by_verdict
def test_a_verdict_is_written_to_the_row_as_it_was_seen(world: World, row: str, verdict: Resolve) -> None:
    """With a fresh attempt id, a fence above, and who said so and why; nothing else is left of before."""
    before = _made(world, row)
    write = _verdict(world, before, verdict, "5" if verdict is Resolve.DONE else None)
    assert _send(world, write) == Written.WRITTEN
    after = world.row()
    assert after == after_finish(before, write)
    assert (after.attempt, after.fence) == (write.attempt, before.fence + 1)
    assert after.attempt != before.attempt
    assert after.stored == (Inline("5") if verdict is Resolve.DONE else None)
    assert (after.ttl is None) is (verdict is Resolve.HOLD)
    assert after.resolution == write.note
    assert (after.fingerprint, after.delivery) == ("f", "m-1")


LEFT = {
    Resolve.DONE: {"actualCompletion", "ttl"},
    Resolve.NOT_DONE: {"ttl"},
    Resolve.FAILED: {"actualCompletion", "error", "ttl"},
    Resolve.HOLD: {"actualCompletion", "status", "error"},
}
"""What a verdict leaves beside what every row has."""


@by_row
@by_verdict
def test_no_attribute_of_the_outcome_before_is_left(dynamodb: World, row: str, verdict: Resolve) -> None:
    """Neither its result nor its error, but the error of work that was not done."""
    before = _made(dynamodb, row)
    assert _send(dynamodb, _verdict(dynamodb, before, verdict)) == Written.WRITTEN
    item = dynamodb.item()
    assert item is not None
    everywhere = {"lockToken", "lockedBy", "attempt", "fence", "created", "expectedCompletion", "write"}
    kept = {"error"} if verdict is Resolve.NOT_DONE and before.error is not None else set()
    assert item.keys() - {"fields"} == (
        everywhere | {"fingerprint", "delivery", "resolution"} | LEFT[verdict] | kept
    )


@by_row
@by_verdict
def test_a_verdict_sent_again_is_written(world: World, row: str, verdict: Resolve) -> None:
    """Its answer was lost: the refusal of the second copy is our own first one."""
    write = _verdict(world, _made(world, row), verdict)
    _send(world, write)
    before = world.row()
    assert _send(world, write) == Written.WRITTEN
    assert world.row() == before


OTHERS: dict[str, Callable[[Resolver], Resolver]] = {
    "another attempt": lambda by: by._replace(seen="somebody"),
    "another lease": lambda by: by._replace(lease=by.lease + timedelta(seconds=1)),
}


@by_row
@by_verdict
@pytest.mark.parametrize("other", OTHERS)
def test_a_row_that_is_not_as_it_was_seen_refuses(
    world: World, row: str, verdict: Resolve, other: str
) -> None:
    """Another attempt, or another lease: nothing is written."""
    before = _made(world, row)
    write = _verdict(world, before, verdict)
    assert isinstance(write.by, Resolver)
    item = world.item()
    assert _send(world, replace(write, by=OTHERS[other](write.by))) == Refused(before)
    assert world.item() == item


@by_row
@pytest.mark.parametrize("seen", State)
def test_another_state_than_was_seen_refuses(world: World, row: str, seen: State) -> None:
    """Though attempt and lease are those that were seen."""
    before = _made(world, row)
    write = _verdict(world, before, Resolve.NOT_DONE)
    assert isinstance(write.by, Resolver)
    answer = _send(world, replace(write, by=write.by._replace(state=seen)))
    assert answer == (Written.WRITTEN if seen is before.state else Refused(before))


def test_there_is_no_verdict_without_a_row(world: World) -> None:
    """It makes none."""
    before = _made(world, "held")
    world.rows.forget(world.token)
    assert _send(world, _verdict(world, before, Resolve.DONE)) == Refused(None)
    assert world.read() is None


@by_row
def test_the_reason_outlives_the_next_attempt(world: World, row: str) -> None:
    """Whoever looks later sees that this work was released once, by whom and why."""
    before = _made(world, row)
    write = _verdict(world, before, Resolve.NOT_DONE)
    _send(world, write)
    again = world.won("a2", fingerprint="f")
    assert again.fence == before.fence + 2
    assert world.row().resolution == write.note
    world.finish(PAID, "a2")
    assert world.row().resolution == write.note


def test_verdicts_of_one_writer_are_counted(world: World) -> None:
    """As long as nobody else decides in between."""
    times: list[int] = []
    for by in ("ann", "ann", "ann", "bob", "ann"):
        write = resolution(
            _made(world, "held") if not times else world.row(),
            Resolve.HOLD,
            by=by,
            because="wait",
            now=world.clock.now(),
        )
        _send(world, write)
        note = world.row().resolution
        assert note is not None
        times.append(note.times)
    assert times == [1, 2, 3, 1, 1]


def test_a_large_result_of_a_verdict_is_read_back(world: World) -> None:
    """Its parts bear the ids of the verdict."""
    write = _verdict(world, _made(world, "held"), Resolve.DONE, LARGE)
    assert _send(world, write) == Written.WRITTEN
    row = world.row()
    assert isinstance(row.stored, Parts)
    chunks = world.store.chunks(row, world.deadline)
    assert chunks is not None
    assert len(chunks) == row.stored.count


def test_of_two_verdicts_on_one_row_the_first_stands(world: World) -> None:
    """The second is refused, and gets the row that the first has made."""
    before = _made(world, "held")
    first = _verdict(world, before, Resolve.NOT_DONE)
    second = _verdict(world, before, Resolve.DONE, "5")
    assert _send(world, first) == Written.WRITTEN
    assert _send(world, second) == Refused(after_finish(before, first))


@dataclass(frozen=True)
class Twin:
    """One part of a condition that is taken away, and the row to which a verdict is then written."""

    condition: str
    part: str
    row: str
    seen: State
    other: str | None = None


def _twins(condition: str, seen: State, row: str, **others: str) -> list[Twin]:
    """Every part of *condition*: attempt and lease on the right row, each of *others* on that in *others*."""
    return [
        Twin(condition, "attempt = :seen", row, seen, "another attempt"),
        Twin(condition, "expectedCompletion = :lease", row, seen, "another lease"),
        *(Twin(condition, PARTS[part], stands, seen) for part, stands in others.items()),
    ]


PARTS = {
    "in_progress": "begins_with(#status, :in_progress)",
    "held": "begins_with(#status, :held)",
    "no_status": "attribute_not_exists(#status)",
    "ended": "attribute_exists(actualCompletion)",
    "not_ended": "attribute_not_exists(actualCompletion)",
}
TWINS = [
    *_twins("LAPSED_AS_SEEN", State.IN_PROGRESS, "in progress", in_progress="complete"),
    *_twins("HELD_AS_SEEN", State.HELD, "held", held="complete"),
    *_twins("FINISHED_AS_SEEN", State.COMPLETE, "complete", no_status="held", ended="released"),
    *_twins("RELEASED_WITH_LEASE", State.RELEASED, "released", no_status="in progress", not_ended="complete"),
]


@pytest.mark.parametrize("dropped", [False, True], ids=["whole", "dropped"])
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.condition} {twin.part}")
def test_twins_of_every_part_of_a_verdicts_condition(
    strict: World, monkeypatch: pytest.MonkeyPatch, twin: Twin, dropped: bool
) -> None:
    """A verdict on what is not as it was seen is refused; with that part dropped it is written."""
    condition = getattr(requests, twin.condition)
    assert twin.part in condition
    if dropped:
        always = f"({twin.part} OR attribute_exists(lockToken))"
        monkeypatch.setattr(requests, twin.condition, condition.replace(twin.part, always))
    before = _made(strict, twin.row)
    write = _verdict(strict, before, Resolve.HOLD)
    assert isinstance(write.by, Resolver)
    by = write.by._replace(state=twin.seen)
    by = by if twin.other is None else OTHERS[twin.other](by)
    answer = _send(strict, replace(write, by=by))
    assert answer == (Written.WRITTEN if dropped else Refused(before))
