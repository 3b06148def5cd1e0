"""DynamoDB: what a third party's decision leaves of a row, and every part of its condition taken away."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Resolver
from lambda_once.operations.resolution import Resolve
from lambda_once.stores import requests
from lambda_once.stores.contract import Refused, Written
from lambda_once.testing.store_suite.resolving import OTHERS, by_decision, by_row, decided, row_of
from lambda_once.testing.store_suite.world import World

LEFT = {
    Resolve.DONE: {"actualCompletion", "ttl"},
    Resolve.NOT_DONE: {"ttl"},
    Resolve.FAILED: {"actualCompletion", "error", "ttl"},
    Resolve.HOLD: {"actualCompletion", "status", "error"},
}
"""What a decision leaves beside what every row has."""


@by_row
@by_decision
def test_no_attribute_of_the_outcome_before_is_left(dynamodb: World, row: str, decision: Resolve) -> None:
    """Neither its result nor its error, but the error of work that was not done."""
    before = row_of(dynamodb, row)
    assert dynamodb.send(decided(dynamodb, before, decision)) == Written.WRITTEN
    item = dynamodb.item()
    assert item is not None
    everywhere = {"lockToken", "lockedBy", "attempt", "fence", "created", "expectedCompletion"}
    kept = {"error"} if decision is Resolve.NOT_DONE and before.error is not None else set()
    if decision in (Resolve.NOT_DONE, Resolve.HOLD) and before.generation is not None:
        kept.add("generation")
    assert item.keys() - {"fields"} == (
        everywhere | {"before", "write", "fingerprint", "delivery", "resolution"} | LEFT[decision] | kept
    )


@dataclass(frozen=True)
class Twin:
    """One part of a condition that is taken away, and the row to which a decision is then written."""

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
def test_twins_of_every_part_of_a_decisions_condition(
    strict: World, monkeypatch: pytest.MonkeyPatch, twin: Twin, dropped: bool
) -> None:
    """A decision on what is not as it was seen is refused; with that part dropped it is written."""
    condition = getattr(requests, twin.condition)
    assert twin.part in condition
    if dropped:
        always = f"({twin.part} OR attribute_exists(lockToken))"
        monkeypatch.setattr(requests, twin.condition, condition.replace(twin.part, always))
    before = row_of(strict, twin.row)
    write = decided(strict, before, Resolve.HOLD)
    assert isinstance(write.by, Resolver)
    by = write.by._replace(state=twin.seen)
    by = by if twin.other is None else OTHERS[twin.other](by)
    answer = strict.send(replace(write, by=by))
    assert answer == (Written.WRITTEN if dropped else Refused(before))
