"""Every store: results beyond a row."""

from __future__ import annotations

import random

from lambda_once.core.lifecycle import Record
from lambda_once.core.results import PART_LIMIT, Chunks, Parts
from lambda_once.core.writes import Complete
from lambda_once.stores.contract import Refused, Written
from tests.stores.world import KEEP, LEASE, World

PARTS_OF_5_MB = tuple(random.Random(n).randbytes(PART_LIMIT) for n in range(15))


def _chunks(world: World, record: Record) -> tuple[bytes, ...] | None:
    return world.store.chunks(record, world.deadline)


def test_five_megabytes_come_back(world: World) -> None:
    """In parts beside the row, which stays small."""
    world.won()
    assert world.finish(Complete(Chunks(PARTS_OF_5_MB))) == Written.WRITTEN
    row = world.row()
    assert row.stored == Parts(15)
    assert _chunks(world, row) == PARTS_OF_5_MB


def test_a_late_attempt_does_not_touch_its_successors_parts(world: World) -> None:
    """It is refused, and what it had written lies beside the successor's, not over it."""
    world.won()
    world.clock.advance(LEASE.total_seconds() + 1)
    world.won("a2")
    world.finish(Complete(Chunks((b"two", b"2"))), "a2")
    before = world.row()
    assert world.finish(Complete(Chunks((b"one", b"1"))), "a1") == Refused(before)
    assert world.row() == before
    assert _chunks(world, before) == (b"two", b"2")


def test_a_second_completion_of_one_attempt_does_not_touch_the_parts_of_the_first(world: World) -> None:
    """It is refused, and what it had written lies beside: an earlier transaction's answer may be lost."""
    world.won()
    first = world.write(Complete(Chunks((b"one", b"1"))))
    assert world.store.transact(first, [], world.deadline) == Written.WRITTEN
    before = world.row()
    assert world.finish(Complete(Chunks((b"two", b"2")))) == Refused(before)
    assert world.row() == before
    assert _chunks(world, before) == (b"one", b"1")


def test_a_missing_part_is_no_result(dynamodb: World) -> None:
    """Half of a result is none."""
    dynamodb.won()
    dynamodb.finish(Complete(Chunks((b"one", b"two", b"three"))), write="w1")
    dynamodb.rows.forget(f"{dynamodb.token}#a1#w1#1")
    assert _chunks(dynamodb, dynamodb.row()) is None


def test_parts_are_keyed_by_attempt_and_write_and_outlive_their_row(dynamodb: World) -> None:
    """By a day: DynamoDB deletes what has expired in any order."""
    dynamodb.won()
    dynamodb.finish(Complete(Chunks((b"one", b"two"))), write="w1")
    row_ttl = int((dynamodb.clock.now() + KEEP).timestamp())
    for number, data in enumerate((b"one", b"two")):
        key = f"{dynamodb.token}#a1#w1#{number}"
        item = dynamodb.rows.item(key)
        assert item == {"lockToken": {"S": key}, "data": {"B": data}, "ttl": {"N": str(row_ttl + 86_400)}}


def test_parts_do_not_stand_in_the_index(dynamodb: World) -> None:
    """They have no status: an operator's list shows tokens alone."""
    from lambda_once.core.lifecycle import State

    dynamodb.won()
    dynamodb.finish(Complete(Chunks((b"one", b"two"))))
    assert list(dynamodb.store.unfinished(State.IN_PROGRESS, dynamodb.deadline)) == []


def test_a_row_without_parts_has_no_chunks(dynamodb: World) -> None:
    """Nothing is asked of the table then."""
    dynamodb.won()
    assert _chunks(dynamodb, dynamodb.row()) == ()
