"""
`lambda-once forget` beside a delivery: every order of their requests, in every state that a token may have.

The operator was shown the row; the command deletes the parts of its result, and writes it. The delivery is a
duplicate that replays, or acquires the token anew.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import pytest

from lambda_once import HOLD, RELEASE, STORE, Held, Once, OnceError, ResultUnavailable
from lambda_once.core.lifecycle import Record, Resolve, State
from lambda_once.core.results import Parts, Unavailable
from lambda_once.core.writes import Resolver, Write
from lambda_once.operations.decisions import FORGOTTEN, Author, decided, forget_objection
from lambda_once.operations.table import TokenTable
from lambda_once.policies import Policy
from lambda_once.stores import requests
from lambda_once.stores.contract import Written
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.kit.turns import Turns

LARGE = random.Random(0).randbytes(8_000).hex()
"""A result in parts: compressed it is longer than a row takes."""
TOKEN = "shop/charge/5"
TURNS = 6
"""Requests of both: an order of so many turns is a whole one, and what is beyond it is the delivery's."""


class Declined(Exception):
    """The provider's answer, with data in its message."""


class Order:
    """One order and its operator, on a table of its own."""

    def __init__(self, client: Any, table: str, policy: Policy | None) -> None:
        """*policy*: that of the first charge, which fails; None: it does not."""
        self.client = client
        self.table = table
        self.clock = FakeClock()
        self.charged = 0
        self.answers: list[Any] = []
        self._policy = policy

    def deliver(self, client: Any = None) -> Any:
        """Deliver the order; return the result, or the error that is raised."""
        once = Once(store=DynamoDBStore(self.table, client or self.client), service="shop")
        once._runtime.clock = self.clock

        @once.function(key="n", name="charge", keep=timedelta(hours=1), on_error=self._policy or RELEASE)
        def charge(n: int) -> Any:
            self.charged += 1
            return self._charge()

        try:
            return charge(5)
        except (OnceError, Declined) as error:
            return error

    def _charge(self) -> Any:
        if self.charged == 1 and self._policy is not None:
            raise Declined("Ann Private")
        return [self.charged, LARGE]

    def forget(self, row: Record, client: Any) -> bool:
        """Forget what *row* stores, as the command does; return whether that was written."""
        assert forget_objection(row) is None
        table = TokenTable(self.table, client, self.clock)
        write = decided(row, Resolve.FORGET, Author("ann", "request 77"), self.clock.now())
        table.erase_parts(row)
        return table.write(write) is Written.WRITTEN

    def row(self) -> Record:
        found = TokenTable(self.table, self.client, self.clock).read(TOKEN)
        assert found is not None
        return found

    def parts(self) -> int:
        """Return how many parts of results the table has."""
        return sum("#" in item["lockToken"]["S"] for item in self._items())

    def clear(self) -> None:
        for item in self._items():
            self.client.delete_item(TableName=self.table, Key={"lockToken": item["lockToken"]})

    def _items(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.client.scan(TableName=self.table)["Items"]
        return items


class Race(NamedTuple):
    """What a forgetting returned, and what a delivery beside it did."""

    order: Order
    forgotten: bool
    answer: Any


class Planned(Turns):
    """Turns in the order of a plan; the next one, if the one of the plan has ended."""

    def __init__(self, client: Any, plan: Sequence[int]) -> None:
        super().__init__(client, 0)
        self._left = iter(plan)
        self._dice = self  # type: ignore[assignment]

    def choice(self, waiting: Sequence[int]) -> int:
        """Return who is next of *waiting*."""
        planned = next(self._left, waiting[0])
        return planned if planned in waiting else waiting[0]


Races = Callable[..., Iterator[Race]]


@pytest.fixture
def races() -> Iterator[Races]:
    """Give the races of every order, after a first delivery by *policy* and so many *hours*."""
    with mounted() as engine, tables.fresh(tables.shared()) as table:

        def each(policy: Policy | None = None, hours: float = 0) -> Iterator[Race]:
            for plan in itertools.product((0, 1), repeat=TURNS):
                order = Order(engine, table, policy)
                order.deliver()
                order.clock.advance(hours * 3_600)
                forget = partial(order.forget, order.row())
                forgotten, answer = Planned(engine, plan).run([forget, order.deliver])
                assert isinstance(forgotten, bool)
                yield Race(order, forgotten, answer)
                order.clear()

        yield each


def test_a_duplicate_replays_or_is_refused(races: Races) -> None:
    """It gets the whole result or `ResultUnavailable`, never None; nothing runs, no part is left."""
    answers = []
    for race in races():
        assert race.forgotten
        assert race.answer == [1, LARGE] or isinstance(race.answer, ResultUnavailable)
        assert (race.order.charged, race.order.parts()) == (1, 0)
        assert race.order.row().stored is Unavailable.FORGOTTEN
        answers.append(type(race.answer))
    assert {*answers} == {list, ResultUnavailable}


def test_a_stored_error_stays_an_error(races: Races) -> None:
    """With its message or without it."""
    for race in races(STORE):
        assert race.forgotten
        assert type(race.answer).__name__ == "Declined"
        assert race.order.charged == 1
        again = race.order.deliver()
        assert (type(again).__name__, str(again)) == ("Declined", FORGOTTEN)


def test_a_held_token_stays_held(races: Races) -> None:
    """Whatever the order."""
    for race in races(HOLD):
        assert race.forgotten
        assert isinstance(race.answer, Held)
        assert (race.order.charged, race.order.row().state) == (1, State.HELD)


@pytest.mark.parametrize(("policy", "hours"), [(None, 2), (RELEASE, 0)], ids=["expired", "released"])
def test_new_work_is_left_alone(races: Races, policy: Policy | None, hours: float) -> None:
    """A delivery that may run does, once, and its result stays, whatever is forgotten of the one before."""
    outcomes = set()
    for race in races(policy, hours):
        assert race.answer == race.order.deliver() == [2, LARGE]
        assert race.order.charged == 2
        assert isinstance(race.order.row().stored, Parts)
        outcomes.add(race.forgotten)
    assert outcomes == {False, True}


# ---------------------------------------------------------------- negative twin


def test_twin_without_the_condition(races: Races, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write to whatever row there is erases new work, or takes the token from the attempt in progress."""
    owner = requests._owner

    def unconditional(write: Write) -> Any:
        return ("attribute_exists(lockToken)", {}) if isinstance(write.by, Resolver) else owner(write)

    monkeypatch.setattr(requests, "_owner", unconditional)
    assert any(race.order.deliver() != [2, LARGE] for race in races(None, 2))
