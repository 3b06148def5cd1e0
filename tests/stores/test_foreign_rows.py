"""DynamoDB: a row under our key that this package did not write is reported, and never overwritten."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once.core.lifecycle import OnLapse
from lambda_once.errors import Misconfigured
from lambda_once.stores import requests
from tests.stores.suite.world import PAID, World
from tests.stores.world import DynamoDBRows, Item

FOREIGN: dict[str, Item] = {
    "a balance": {"balance": {"N": "7"}},
    "a balance that expires": {"balance": {"N": "7"}, "ttl": {"N": "1"}},
    "an attempt of another program": {"attempt": {"N": "3"}, "balance": {"N": "7"}},
    "in progress, and no lease": {"status": {"S": "inProgress"}, "expectedCompletion": {"S": "2000"}},
}
BROKEN: dict[str, dict[str, Any]] = {
    "attempt": {"N": "1"},
    "fence": {"S": "1"},
    "lockedBy": {"N": "1"},
    "created": {"N": "1"},
}
"""(DynamoDB itself takes no other type for expectedCompletion: it is a key of the index.)"""
by_rule = pytest.mark.parametrize("rule", [OnLapse.TAKE_OVER, OnLapse.HOLD])


def _put(world: World, item: Item) -> Item:
    assert isinstance(world.rows, DynamoDBRows)
    item = {"lockToken": {"S": world.token}, **item}
    world.rows.put(item)
    return item


def _rejected(world: World, item: Item, rule: OnLapse) -> None:
    for known in (False, True):  # the small first try, and the statement that may take a row
        answer = world.acquire(world.acquisition(rule=rule)._replace(known=known))
        assert isinstance(answer, Misconfigured), answer
        assert world.token in str(answer)
        assert world.item() == item


@by_rule
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_row_is_not_acquired(dynamodb: World, name: str, rule: OnLapse) -> None:
    """Misconfigured names its token, and the row is as it was."""
    _rejected(dynamodb, _put(dynamodb, FOREIGN[name]), rule)


@by_rule
@pytest.mark.parametrize("name", BROKEN)
def test_a_row_with_an_attribute_of_another_type_is_not_acquired(
    dynamodb: World, name: str, rule: OnLapse
) -> None:
    """Though it is released, and past its ttl: what it stood for is not known."""
    dynamodb.won()
    dynamodb.finish(PAID)
    item = dynamodb.item() or {}
    _rejected(dynamodb, _put(dynamodb, item | {"ttl": {"N": "1"}, name: BROKEN[name]}), rule)


@by_rule
@pytest.mark.parametrize("missing", [*BROKEN, "expectedCompletion"])
def test_a_row_without_one_of_our_attributes_is_not_acquired(
    dynamodb: World, missing: str, rule: OnLapse
) -> None:
    """Somebody has edited it."""
    dynamodb.won()
    dynamodb.finish(PAID)
    item = dict(dynamodb.item() or {}) | {"ttl": {"N": "1"}}
    del item[missing]
    _rejected(dynamodb, _put(dynamodb, item), rule)


def test_twin_that_acquires_whatever_has_no_status(strict: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A balance is gone, and it was no token."""
    shapeless = (
        "(attribute_exists(lockToken) OR attribute_type(attempt, :text) OR attribute_type(fence, :number))"
    )
    monkeypatch.setattr(requests, "OF_THIS_PACKAGE", shapeless)
    item = _put(strict, FOREIGN["a balance that expires"])
    with pytest.raises((AssertionError, KeyError)):
        _rejected(strict, item, OnLapse.TAKE_OVER)
    assert strict.item() != item
