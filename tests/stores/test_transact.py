"""Every store: the user's writes and the completion, together or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from lambda_once.core.lifecycle import State
from lambda_once.core.results import Chunks, Inline
from lambda_once.core.writes import Complete
from lambda_once.stores.contract import Refused, Written
from lambda_once.stores.memory import MemoryStore
from tests.stores.world import LEASE, PAID, DynamoDBRows, World


def _order(world: World, name: str = "order", **more: Any) -> dict[str, Any]:
    table = world.rows.name if isinstance(world.rows, DynamoDBRows) else "orders"
    return {"Put": {"TableName": table, "Item": {"lockToken": {"S": f"{world.token}-{name}"}}, **more}}


def _written(world: World, name: str = "order") -> bool:
    if isinstance(world.store, MemoryStore):
        return _order(world, name) in world.store.items
    return world.rows.item(f"{world.token}-{name}") is not None


def test_items_and_completion_are_written_together(world: World) -> None:
    """The order is there, and the token is complete with its result."""
    world.won()
    assert world.store.transact(world.write(PAID), [_order(world)], world.deadline) == Written.WRITTEN
    assert _written(world)
    row = world.row()
    assert (row.state, row.stored) == (State.COMPLETE, Inline('{"paid": true}'))


def test_items_alone(world: World) -> None:
    """Without a token (the package is switched off) they are written all the same."""
    assert world.store.transact(None, [_order(world)], world.deadline) == Written.WRITTEN
    assert _written(world)


def test_an_attempt_that_was_taken_over_writes_nothing(world: World) -> None:
    """Neither its completion nor the user's items."""
    world.won()
    world.clock.advance(LEASE.total_seconds() + 1)
    world.won("a2")
    before = world.row()
    assert world.store.transact(world.write(PAID), [_order(world)], world.deadline) == Refused(before)
    assert world.row() == before
    assert not _written(world)


def test_a_transaction_sent_again_is_written_once(world: World) -> None:
    """The refusal of the second is our own first one; the items stay as they were written."""
    world.won()
    write = world.write(PAID)
    world.store.transact(write, [_order(world)], world.deadline)
    before = world.row()
    assert world.store.transact(write, [_order(world, "again")], world.deadline) == Written.WRITTEN
    assert world.row() == before
    assert not _written(world, "again")


def test_a_refused_condition_of_the_users_is_raised_as_it_came(dynamodb: World) -> None:
    """With the reasons in the order of the items; nothing was written."""
    dynamodb.won()
    before = dynamodb.row()
    refused = _order(dynamodb, "b", ConditionExpression="attribute_exists(lockToken)")
    items = [_order(dynamodb, "a"), refused]
    with pytest.raises(ClientError) as raised:
        dynamodb.store.transact(dynamodb.write(PAID), items, dynamodb.deadline)
    reasons = raised.value.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed", "None"]
    assert dynamodb.row() == before
    assert not _written(dynamodb, "a")


def test_where_both_conditions_are_refused_the_token_speaks(dynamodb: World) -> None:
    """Who lost the token has lost it, whatever its items say."""
    dynamodb.won()
    dynamodb.clock.advance(LEASE.total_seconds() + 1)
    dynamodb.won("a2")
    items = [_order(dynamodb, ConditionExpression="attribute_exists(lockToken)")]
    answer = dynamodb.store.transact(dynamodb.write(PAID), items, dynamodb.deadline)
    assert answer == Refused(dynamodb.row())


def test_a_large_result_is_completed_by_a_transaction(dynamodb: World) -> None:
    """Its parts are written before."""
    dynamodb.won()
    write = dynamodb.write(Complete(Chunks((b"one", b"two"))))
    assert dynamodb.store.transact(write, [_order(dynamodb)], dynamodb.deadline) == Written.WRITTEN
    assert dynamodb.store.chunks(dynamodb.row(), dynamodb.deadline) == (b"one", b"two")
