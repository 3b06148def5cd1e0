"""Every store: the list of what is in progress or held."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Change, Extend
from lambda_once.stores.contract import Unfinished
from lambda_once.stores.store import DynamoDBStore
from tests.stores.world import GIVEN_BACK, HELD, PAID, DynamoDBRows, World

TOKENS = 9


def _listed(world: World, state: State) -> list[str]:
    return [entry.token.rpartition("-")[2] for entry in world.store.unfinished(state, world.deadline)]


def _acquire(world: World) -> None:
    for n in range(TOKENS):
        world.won(token=f"{world.token}-{n}")
        world.clock.advance(1)


def _end(world: World) -> None:
    changes: dict[int, Change] = {1: PAID, 3: HELD, 5: GIVEN_BACK, 7: HELD}
    writes = [world.write(change, token=f"{world.token}-{n}") for n, change in changes.items()]
    world.store.finish(writes, world.deadline)


def test_what_is_unfinished_or_held_is_listed_by_its_lease(world: World) -> None:
    """What is complete or released is not; the earliest lease comes first."""
    _acquire(world)
    late = world.write(Extend(world.ends(timedelta(hours=1))), token=f"{world.token}-0")
    world.store.finish([late], world.deadline)
    _end(world)
    assert _listed(world, State.IN_PROGRESS) == ["2", "4", "6", "8", "0"]
    assert _listed(world, State.HELD) == ["3", "7"]


def test_an_entry_tells_who_had_the_token_and_until_when(world: World) -> None:
    """All that an operator needs to ask the log."""
    started = world.clock.now()
    world.won()
    (entry,) = world.store.unfinished(State.IN_PROGRESS, world.deadline)
    assert entry == Unfinished(
        token=world.token,
        state=State.IN_PROGRESS,
        attempt="a1",
        locked_by="orders/request-of-a1",
        created=started,
        expected_completion=world.ends(),
    )


@pytest.mark.parametrize("shards", [2, 4])
def test_shards_list_all_and_go_on_as_before(dynamodb: World, shards: int) -> None:
    """Rows written before the shards were raised are listed, and can be ended, too."""
    assert isinstance(dynamodb.rows, DynamoDBRows)
    _acquire(dynamodb)
    dynamodb.store = DynamoDBStore(dynamodb.rows.name, dynamodb.rows.client, shards)
    for n in range(TOKENS, 2 * TOKENS):
        dynamodb.won(token=f"{dynamodb.token}-{n}")
    _end(dynamodb)
    written = {
        item["status"]["S"]
        for n in range(2 * TOKENS)
        if "status" in (item := dynamodb.rows.item(f"{dynamodb.token}-{n}") or {})
    }
    assert {f"inProgress_{n}" for n in range(shards)} | {"inProgress"} <= written
    assert sorted(_listed(dynamodb, State.HELD)) == ["3", "7"]
    assert sorted(map(int, _listed(dynamodb, State.IN_PROGRESS))) == [
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
