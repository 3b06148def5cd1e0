"""DynamoDB: the rows of results beyond a row."""

from __future__ import annotations

from lambda_once.core.results import Chunks
from lambda_once.core.writes import Complete
from tests.stores.suite.world import KEEP, World


def test_a_missing_part_is_no_result(dynamodb: World) -> None:
    """Half of a result is none."""
    dynamodb.won()
    dynamodb.finish(Complete(Chunks((b"one", b"two", b"three"))), write="w1")
    dynamodb.rows.forget(f"{dynamodb.token}#a1#w1#1")
    assert dynamodb.chunks(dynamodb.row()) is None


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
