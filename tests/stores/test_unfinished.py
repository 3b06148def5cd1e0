"""DynamoDB: the shards of the index."""

from __future__ import annotations

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.stores.store import DynamoDBStore
from tests.stores.suite.contents import TOKENS, acquire_some, finish_some, listed
from tests.stores.suite.world import PAID, World
from tests.stores.world import DynamoDBRows


@pytest.mark.parametrize("shards", [2, 4])
def test_shards_list_all_and_go_on_as_before(dynamodb: World, shards: int) -> None:
    """Rows written before the shards were raised are listed, and can be ended, too."""
    assert isinstance(dynamodb.rows, DynamoDBRows)
    acquire_some(dynamodb)
    dynamodb.store = DynamoDBStore(dynamodb.rows.name, dynamodb.rows.client, shards)
    for n in range(TOKENS, 2 * TOKENS):
        dynamodb.won(token=f"{dynamodb.token}-{n}")
    finish_some(dynamodb)
    written = {
        item["status"]["S"]
        for n in range(2 * TOKENS)
        if "status" in (item := dynamodb.rows.item(f"{dynamodb.token}-{n}") or {})
    }
    assert {f"inProgress_{n}" for n in range(shards)} | {"inProgress"} <= written
    assert sorted(listed(dynamodb, State.HELD)) == ["3", "7"]
    assert sorted(map(int, listed(dynamodb, State.IN_PROGRESS))) == [
        n for n in range(2 * TOKENS) if n not in (1, 3, 5, 7)
    ]


def test_a_sharded_token_is_taken_over_and_ended(dynamodb: World) -> None:
    """Conditions ask for the beginning of the status, never for the whole."""
    assert isinstance(dynamodb.rows, DynamoDBRows)
    dynamodb.store = DynamoDBStore(dynamodb.rows.name, dynamodb.rows.client, 4)
    dynamodb.won()
    dynamodb.clock.advance(31)
    assert dynamodb.won("a2").took_over
    dynamodb.finish(PAID, "a2")
    assert dynamodb.row().state is State.COMPLETE
