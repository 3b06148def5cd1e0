"""DynamoDB: what a third party's decision leaves of a row, and every part of its condition taken away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lambda_once.core.clock import epoch_seconds
from lambda_once.core.lifecycle import Record, Resolve, State
from lambda_once.core.results import Parts
from lambda_once.core.writes import Resolver
from lambda_once.stores import requests
from lambda_once.stores.contract import Refused, Unanswered, Written
from lambda_once.stores.requests import ENDED, part_keys
from lambda_once.stores.store import DynamoDBStore
from tests.stores.suite.resolving import (
    LARGE,
    OTHERS,
    by_decision,
    by_row,
    decision_on,
    kept_for,
    row_of,
)
from tests.stores.suite.world import World
from tests.stores.world import DynamoDBRows

LEFT = {
    Resolve.DONE: {"actualCompletion", "ttl"},
    Resolve.NOT_DONE: {"status", "listed"},
    Resolve.FAILED: {"actualCompletion", "error", "ttl"},
    Resolve.HOLD: {"actualCompletion", "status", "listed", "error"},
}
"""What a decision leaves beside what every row has."""


@by_row
@by_decision
def test_no_attribute_of_the_outcome_before_is_left(dynamodb: World, row: str, decision: Resolve) -> None:
    """Neither its result nor its error, but the error of work that was not done."""
    before = row_of(dynamodb, row)
    result = "null" if decision is Resolve.DONE else None
    assert dynamodb.send(decision_on(dynamodb, before, decision, result)) == Written.WRITTEN
    item = dynamodb.item()
    assert item is not None
    everywhere = {"lockToken", "lockedBy", "attempt", "fence", "created", "expectedCompletion"}
    kept = {"error"} if decision is Resolve.NOT_DONE and before.error is not None else set()
    if decision in (Resolve.NOT_DONE, Resolve.HOLD) and before.generation is not None:
        kept.add("generation")
    assert item.keys() - {"fields"} == (
        everywhere | {"write", "fingerprint", "delivery", "decisions"} | LEFT[decision] | kept
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
        *(Twin(condition, PARTS[part], remaining, seen) for part, remaining in others.items()),
    ]


PARTS = {
    "in_progress": "begins_with(#status, :in_progress)",
    "held": "begins_with(#status, :held)",
    "no_status": "attribute_not_exists(#status)",
    "ended_status": ENDED,
    "ended": "attribute_exists(actualCompletion)",
    "not_ended": "attribute_not_exists(actualCompletion)",
}
TWINS = [
    *_twins("LAPSED_AS_SEEN", State.IN_PROGRESS, "in progress", in_progress="complete"),
    *_twins("HELD_AS_SEEN", State.HELD, "held", held="complete"),
    *_twins("FINISHED_AS_SEEN", State.COMPLETE, "complete", no_status="held", ended="released"),
    Twin("FINISHED_AS_SEEN", "fence = :fence", "complete", State.COMPLETE, "another fence"),
    *_twins(
        "RELEASED_WITH_LEASE", State.RELEASED, "released", ended_status="in progress", not_ended="complete"
    ),
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
    write = decision_on(strict, before, Resolve.HOLD)
    assert isinstance(write.by, Resolver)
    by = write.by._replace(state=twin.seen)
    others = OTHERS | {"another fence": lambda by: by._replace(fence=by.fence + 1)}
    by = by if twin.other is None else others[twin.other](by)
    answer = strict.send(replace(write, by=by))
    assert answer == (Written.WRITTEN if dropped else Refused(before))


def _part_ttls(world: World) -> list[int]:
    record = world.row()
    assert isinstance(record.stored, Parts)
    assert isinstance(world.rows, DynamoDBRows)
    items = [world.rows.item(key["lockToken"]["S"]) for key in part_keys(record, record.stored.count)]
    return [int(item["ttl"]["N"]) for item in items if item is not None]


def _large(world: World) -> Record:
    """A complete token whose result is in parts, decided for 28 days."""
    world.send(decision_on(world, row_of(world, "held"), Resolve.DONE, LARGE))
    return world.row()


@pytest.mark.parametrize("days", [1, 90])
def test_parts_outlive_a_row_that_is_kept(dynamodb: World, days: int) -> None:
    """By a day, as those of a completion: their ttl is lengthened, and never shortened."""
    before = _large(dynamodb)
    longest = max(before.ttl or 0, epoch_seconds(dynamodb.clock.now() + timedelta(days=days)))
    assert dynamodb.send(kept_for(dynamodb, before, days)) == Written.WRITTEN
    assert _part_ttls(dynamodb) == [longest + requests.PART_MARGIN] * len(_part_ttls(dynamodb)) != []


def test_parts_are_lengthened_before_the_row(strict: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that lives longer never waits for its parts to follow: without them its ttl is as it was."""
    before = _large(strict)
    store = strict.store
    assert isinstance(store, DynamoDBStore)
    call = store.transport.call

    def silent(operation: str, arguments: Any, *rest: Any) -> Any:
        if "#" in arguments["Key"]["lockToken"]["S"]:
            raise ClientError({"Error": {"Code": "InternalServerError"}}, operation)
        return call(operation, arguments, *rest)

    monkeypatch.setattr(store.transport, "call", silent)
    assert isinstance(strict.send(kept_for(strict, before, 90)), Unanswered)
    monkeypatch.undo()
    assert strict.row() == before


def test_a_part_that_is_gone_is_not_made_again(dynamodb: World) -> None:
    """It would have no data: the row is kept all the same, or the work would run again."""
    before = _large(dynamodb)
    (first, *_) = part_keys(before, 1)
    dynamodb.rows.forget(first["lockToken"]["S"])
    assert dynamodb.send(kept_for(dynamodb, before, 90)) == Written.WRITTEN
    assert dynamodb.chunks(dynamodb.row()) is None
    assert dynamodb.rows.item(first["lockToken"]["S"]) is None
