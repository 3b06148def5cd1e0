"""Large results, transactions, the list of unfinished tokens, and concurrent acquisitions."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final

import pytest

from lambda_once import Once
from lambda_once.core.lifecycle import State
from lambda_once.core.results import PART_LIMIT, Chunks, Inline, Parts
from lambda_once.core.writes import Change, Complete, Extend
from lambda_once.errors import Misconfigured
from lambda_once.stores.contract import Refused, Won, Written

from .world import HELD, LEASE, PAID, RELEASED, World

PARTS_OF_5_MB = tuple(random.Random(n).randbytes(PART_LIMIT) for n in range(15))
TOKENS = 9
RIVALS = 6
FOREIGN = {"Put": {"TableName": "orders", "Item": {"id": {"S": "an order"}}}}


def _put(**more: Any) -> dict[str, Any]:
    return {"Put": {**FOREIGN["Put"], **more}}


MISTAKES: Final[dict[str, tuple[Any, str]]] = {
    "no list": (None, "TransactItems: give a list or tuple, not a NoneType"),
    "one item alone": (FOREIGN, "TransactItems: give a list or tuple, not a dict"),
    "no item": ([None], "TransactItems[0]: give a dict, not a NoneType"),
    "no table": ([{"Put": {"Item": {}}}], "TransactItems[0].Put: TableName is missing"),
    "an unknown operation": (
        [FOREIGN, {"Putt": {}}],
        "TransactItems[1]: 'Putt' is unknown; use ConditionCheck, Put, Delete, Update",
    ),
    "a condition of None": (
        [_put(ConditionExpression=None)],
        "TransactItems[0].Put.ConditionExpression: give a str, not a NoneType",
    ),
    "a number": ([_put(Item={"id": {"N": 5}})], "TransactItems[0].Put.Item.id.N: give a str, not a int"),
    "a set of letters": (
        [_put(Item={"id": {"SS": "abc"}})],
        "TransactItems[0].Put.Item.id.SS: give a list or tuple, not a str",
    ),
    "too many": ([FOREIGN] * 100, "TransactItems: 100 items; at most 99 fit beside the token's own"),
}
"""Wrong items of a transaction, and what is said of them, whatever the store."""


def listed(world: World, state: State) -> list[str]:
    """Return the numbers of the listed tokens."""
    return [entry.token.rpartition("-")[2] for entry in world.store.unfinished(state, world.deadline)]


def acquire_some(world: World) -> None:
    """Acquire numbered tokens, a second apart."""
    for n in range(TOKENS):
        world.won(token=f"{world.token}-{n}")
        world.clock.advance(1)


def finish_some(world: World) -> None:
    """Complete, release and hold some of them."""
    changes: dict[int, Change] = {1: PAID, 3: HELD, 5: RELEASED, 7: HELD}
    writes = [world.write(change, token=f"{world.token}-{n}") for n, change in changes.items()]
    world.store.write(writes, world.deadline)


class _WithoutTransactions:
    """The store *real*, to which no transaction may come."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def transact(self, *_: Any) -> Any:
        raise AssertionError("the store was asked for a transaction")


class LargeResults:
    """`Store.chunks`: parts belong to one write of one attempt."""

    def test_five_megabytes_come_back(self, world: World) -> None:
        """The result is stored in parts beside the row, which stays small."""
        world.won()
        assert world.finish(Complete(Chunks(PARTS_OF_5_MB))) == Written.WRITTEN
        row = world.row()
        assert row.stored == Parts(15)
        assert world.chunks(row) == PARTS_OF_5_MB

    def test_a_late_attempt_does_not_touch_its_successors_parts(self, world: World) -> None:
        """It is refused, and its parts are stored apart from its successor's."""
        world.won()
        world.clock.advance(LEASE.total_seconds() + 1)
        world.won("a2")
        world.finish(Complete(Chunks((b"two", b"2"))), "a2")
        before = world.row()
        assert world.finish(Complete(Chunks((b"one", b"1"))), "a1") == Refused(before)
        assert world.row() == before
        assert world.chunks(before) == (b"two", b"2")

    def test_a_second_completion_of_one_attempt_does_not_touch_the_parts_of_the_first(
        self, world: World
    ) -> None:
        """It is refused, and its parts are stored apart from the first ones."""
        world.won()
        first = world.write(Complete(Chunks((b"one", b"1"))))
        assert world.transact(first) == Written.WRITTEN
        before = world.row()
        assert world.finish(Complete(Chunks((b"two", b"2")))) == Refused(before)
        assert world.row() == before
        assert world.chunks(before) == (b"one", b"1")

    def test_a_row_without_parts_has_no_chunks(self, world: World) -> None:
        """It returns an empty tuple or None."""
        world.won()
        assert not world.chunks(world.row())


class Transactions:
    """`Store.transact`: the user's items and the completion are written together or not at all."""

    def test_items_and_completion_are_written_together(self, world: World) -> None:
        """The item exists, and the token is complete with its result."""
        world.won()
        assert world.transact(world.write(PAID), world.orders()) == Written.WRITTEN
        assert world.ordered() is bool(world.orders())
        row = world.row()
        assert (row.state, row.stored) == (State.COMPLETE, Inline('{"paid": true}'))

    def test_items_alone(self, world: World) -> None:
        """They are also written without a token, as when the package is disabled."""
        assert world.transact(None, world.orders()) == Written.WRITTEN
        assert world.ordered() is bool(world.orders())

    def test_an_attempt_that_was_taken_over_writes_nothing(self, world: World) -> None:
        """Neither its completion nor the user's items are written."""
        world.won()
        world.clock.advance(LEASE.total_seconds() + 1)
        world.won("a2")
        before = world.row()
        assert world.transact(world.write(PAID), world.orders()) == Refused(before)
        assert world.row() == before
        assert not world.ordered()

    def test_a_transaction_sent_again_is_written_once(self, world: World) -> None:
        """The second is recognised as the first, and the items are unchanged."""
        world.won()
        write = world.write(PAID)
        world.transact(write, world.orders())
        before = world.row()
        assert world.transact(write, world.orders("again")) == Written.WRITTEN
        assert world.row() == before
        assert not world.ordered("again")

    @pytest.mark.parametrize("name", MISTAKES)
    def test_a_mistake_in_an_item_reaches_no_store(self, world: World, name: str) -> None:
        """It is the same error with every store, and nothing is written."""
        items, said = MISTAKES[name]
        once = Once(store=_WithoutTransactions(world.store), service="suite")
        with pytest.raises(Misconfigured) as raised, once.begin(world.token, name="transact"):
            once.current().transact(items)
        assert str(raised.value) == f"{said}; nothing was written"

    def test_no_items_complete_the_token(self, world: World) -> None:
        """As an order without lines does."""
        once = Once(store=world.store, service="suite")
        with once.begin(world.token, name="transact"):
            assert once.current().transact([], "paid") == "paid"
        assert once.outcome(world.token, name="transact").result == "paid"

    def test_a_store_that_writes_no_items_says_so(self, world: World) -> None:
        """It raises `Misconfigured`, and the token is not completed. Other stores skip this test."""
        world.won()
        if world.orders():
            return
        before = world.row()
        with pytest.raises(Misconfigured):
            world.transact(world.write(PAID), [FOREIGN])
        assert world.row() == before


class Listing:
    """`Store.unfinished`: tokens in progress or held."""

    def test_what_is_unfinished_or_held_is_listed_by_its_lease(self, world: World) -> None:
        """Complete and released tokens are not listed; the earliest lease comes first."""
        acquire_some(world)
        late = world.write(Extend(world.ends(timedelta(hours=1))), token=f"{world.token}-0")
        world.store.write([late], world.deadline)
        finish_some(world)
        assert listed(world, State.IN_PROGRESS) == ["2", "4", "6", "8", "0"]
        assert listed(world, State.HELD) == ["3", "7"]

    def test_an_entry_has_the_attempt_and_its_lease(self, world: World) -> None:
        """Operators search the log for both."""
        started = world.clock.now()
        world.won()
        (entry,) = world.store.unfinished(State.IN_PROGRESS, world.deadline)
        assert (entry.token, entry.state, entry.attempt_id) == (world.token, State.IN_PROGRESS, "a1")
        assert (entry.locked_by, entry.created) == ("orders/request-of-a1", started)
        assert entry.expected_completion == world.ends()

    def test_only_leases_that_ended_before(self, world: World) -> None:
        """A lease that ends at that very moment is not listed."""
        acquire_some(world)
        at = world.row_of(f"{world.token}-4").expected_completion
        found = world.store.unfinished(State.IN_PROGRESS, world.deadline, at)
        assert [entry.token.rpartition("-")[2] for entry in found] == ["0", "1", "2", "3"]


class Concurrency:
    """Guarantee 1 across threads: of many acquisitions of one token, one is granted."""

    @pytest.mark.parametrize("together", [False, True], ids=["one a call", "all in one call"])
    def test_of_many_rivals_one_wins_each_token(self, world: World, *, together: bool) -> None:
        """Each token has one winner, and its row has the winner's attempt."""
        tokens = [f"{world.token}-{n}" for n in range(TOKENS)]
        start, deadline = threading.Barrier(RIVALS), world.deadline

        def rival(n: int) -> list[str]:
            acquisitions = [world.acquisition(f"a{n}", token=token) for token in tokens]
            calls = [acquisitions] if together else [[each] for each in acquisitions]
            start.wait()
            answers = [answer for call in calls for answer in world.store.acquire(call, deadline)]
            return [token for token, answer in zip(tokens, answers, strict=True) if isinstance(answer, Won)]

        with ThreadPoolExecutor(RIVALS) as pool:
            won = list(pool.map(rival, range(RIVALS)))
        assert sorted(token for of_one in won for token in of_one) == tokens
        for n, of_one in enumerate(won):
            assert {world.row_of(token).attempt_id for token in of_one} <= {f"a{n}"}
