"""DynamoDB: the partitions of the index, and what they have in each mode."""

from __future__ import annotations

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.core.variables import Listing
from lambda_once.stores.index import partitions
from lambda_once.stores.store import DynamoDBStore
from tests.stores.suite.contents import TOKENS, acquire_some, finish_some, listed
from tests.stores.suite.world import PAID, World
from tests.stores.world import DynamoDBRows


def test_all_partitions_are_listed(dynamodb: World) -> None:
    """Tokens in every one of the eight, each once."""
    assert isinstance(dynamodb.rows, DynamoDBRows)
    acquire_some(dynamodb)
    for n in range(TOKENS, 80):
        dynamodb.won(token=f"{dynamodb.token}-{n}")
    finish_some(dynamodb)
    rows = [dynamodb.rows.item(f"{dynamodb.token}-{n}") or {} for n in range(80)]
    assert {row["listed"]["S"] for row in rows if "listed" in row} >= {*partitions(State.IN_PROGRESS)}
    assert all(("status" in row) is ("listed" in row) for row in rows)
    assert sorted(listed(dynamodb, State.HELD)) == ["3", "7"]
    assert sorted(map(int, listed(dynamodb, State.IN_PROGRESS))) == [
        n for n in range(80) if n not in (1, 3, 5, 7)
    ]


@pytest.fixture
def streaming(dynamodb: World) -> World:
    """The table, written in stream mode."""
    assert isinstance(dynamodb.rows, DynamoDBRows)
    dynamodb.store = DynamoDBStore(dynamodb.rows.name, dynamodb.rows.client, Listing.STREAM)
    return dynamodb


def test_in_stream_mode_a_first_acquisition_is_not_listed(streaming: World) -> None:
    """It is in progress all the same, and ends as any other."""
    assert isinstance(streaming.rows, DynamoDBRows)
    streaming.won()
    assert "listed" not in (streaming.rows.item(streaming.token) or {})
    assert streaming.row().state is State.IN_PROGRESS
    assert listed(streaming, State.IN_PROGRESS) == []
    streaming.finish(PAID, "a1")
    assert streaming.row().state is State.COMPLETE


def test_in_stream_mode_a_take_over_is_listed(streaming: World) -> None:
    """Nothing but the first acquisition of a token is left to the watchdog."""
    assert isinstance(streaming.rows, DynamoDBRows)
    streaming.won()
    streaming.clock.advance(31)
    assert streaming.won("a2").took_over
    assert (streaming.rows.item(streaming.token) or {})["listed"]["S"] in partitions(State.IN_PROGRESS)
    streaming.finish(PAID, "a2")
    assert {"status", "listed"} & {*(streaming.rows.item(streaming.token) or {})} == set()
