"""DynamoDB: transactions that a condition refuses, and large results completed by one."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from botocore.exceptions import ClientError

import lambda_once.dynamodb as dynamodb_package
from lambda_once import Once
from lambda_once.core.results import Chunks
from lambda_once.core.writes import Complete
from lambda_once.dynamodb import shapes
from lambda_once.stores.contract import Refused, Written
from lambda_once.stores.store import DynamoDBStore
from tests.stores.suite.contents import Transactions
from tests.stores.suite.world import LEASE, PAID, World


def _refused_order(world: World, name: str) -> dict[str, Any]:
    (order,) = world.orders(name)
    return {"Put": {**order["Put"], "ConditionExpression": "attribute_exists(lockToken)"}}


def test_a_refused_condition_of_the_users_is_raised_as_it_came(dynamodb: World) -> None:
    """With the reasons in the order of the items; nothing was written."""
    dynamodb.won()
    before = dynamodb.row()
    items = [*dynamodb.orders("a"), _refused_order(dynamodb, "b")]
    with pytest.raises(ClientError) as raised:
        dynamodb.transact(dynamodb.write(PAID), items)
    reasons = raised.value.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed", "None"]
    assert "max retries" not in str(raised.value)  # botocore 1.44.8 says so of a client that tries once
    assert dynamodb.row() == before
    assert not dynamodb.ordered("a")


def test_twin_without_the_check(memory: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store gets what the suite calls a mistake."""
    monkeypatch.setattr(shapes, "mistake_in", lambda *_: None)
    with pytest.raises(AssertionError, match="asked for a transaction"):
        Transactions().test_a_mistake_in_an_item_reaches_no_store(memory, "a condition of None")


def test_without_boto3_there_is_nothing_to_check(memory: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No item can reach DynamoDB: a store in memory keeps them, as it did before they were checked."""
    monkeypatch.delitem(sys.modules, shapes.__name__)
    monkeypatch.delattr(dynamodb_package, "shapes")
    monkeypatch.setitem(sys.modules, "botocore.validate", None)
    once = Once(store=memory.store, service="suite")
    with once.begin(memory.token, name="transact"):
        assert once.current().transact(memory.orders("a"), "paid") == "paid"


def test_where_both_conditions_are_refused_the_token_speaks(dynamodb: World) -> None:
    """Who lost the token has lost it, whatever its items say."""
    dynamodb.won()
    dynamodb.clock.advance(LEASE.total_seconds() + 1)
    dynamodb.won("a2")
    items = [_refused_order(dynamodb, "order")]
    answer = dynamodb.transact(dynamodb.write(PAID), items)
    assert answer == Refused(dynamodb.row())


def test_a_large_result_is_completed_by_a_transaction(dynamodb: World) -> None:
    """Its parts are written before."""
    dynamodb.won()
    write = dynamodb.write(Complete(Chunks((b"one", b"two"))))
    assert dynamodb.transact(write, dynamodb.orders()) == Written.WRITTEN
    assert dynamodb.chunks(dynamodb.row()) == (b"one", b"two")


def test_a_completion_that_is_refused_without_its_row_is_looked_up(strict: World) -> None:
    """An engine that ignores ReturnValuesOnConditionCheckFailure: ours is no other attempt's."""
    strict.won()
    write = strict.write(PAID)
    assert strict.transact(write, strict.orders("a")) == Written.WRITTEN
    store = strict.store
    assert isinstance(store, DynamoDBStore)

    def without_items(parsed: dict[str, Any], **_: object) -> None:
        for reason in parsed.get("CancellationReasons", ()):
            reason.pop("Item", None)

    events = store.transport.client.meta.events
    events.register_first("after-call.dynamodb.TransactWriteItems", without_items)
    try:
        assert strict.transact(write, strict.orders("b")) == Written.WRITTEN
        assert strict.transact(strict.write(PAID, "a2"), strict.orders("b")) == Refused(strict.row())
    finally:
        events.unregister("after-call.dynamodb.TransactWriteItems", without_items)
