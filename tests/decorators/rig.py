"""What the tests of the decorators work with: a `Once` on a clock set by hand and a store that can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambda_once import Once
from lambda_once.core.lifecycle import Record, State
from lambda_once.observability.reporter import Details
from lambda_once.stores.contract import Store
from lambda_once.testing import FakeClock, lambda_context
from tests.decorators.grounds import Ground, Memory
from tests.kit.frail import FrailStore

T = TypeVar("T")

MEMORY, STRICT, ENGINE = "on_memory", "on_strict", "on_engine"
"""Fixtures: a rig on each store. `rig` is the strict one unless a mark below says otherwise."""

in_memory = pytest.mark.parametrize("rig", [MEMORY], indirect=True)
"""For tests that no store can change: they need no table, or read none of it."""

on_every_store = pytest.mark.parametrize(
    "rig",
    [MEMORY, STRICT, pytest.param(ENGINE, marks=pytest.mark.engine)],
    indirect=True,
)
"""For one test of each kind of request. That the stores agree on every request, tests/stores shows."""


def elsewhere(function: Callable[..., T], *args: Any) -> T:
    """Call *function* as another environment does: not inside of any other work."""
    return Context().run(function, *args)


@dataclass
class Rig:
    """One `Once` on a store and a clock that the test has in hand."""

    ground: Ground = field(default_factory=Memory)
    clock: FakeClock = field(default_factory=FakeClock)
    reported: list[Details] = field(default_factory=list)
    store: FrailStore = field(init=False)
    once: Once = field(init=False)

    def __post_init__(self) -> None:
        self.use_store(FrailStore)

    def use_store(self, kind: Callable[[Store], FrailStore]) -> None:
        """Let the store fail as *kind* does, from now on."""
        self.store = kind(self.ground.store)
        self.once = self.new()

    def new(self, **options: Any) -> Once:
        """Another `Once` on the same store and clock, with policies of its own."""
        once = Once(store=self.store, service="shop", hooks=[self.reported.append], **options)
        once._runtime.clock = self.clock
        return once

    def context(self, request_id: str = "request-1", seconds: float = 30) -> LambdaContext:
        """A new invocation that has *seconds* left."""
        return lambda_context("orders", request_id, int(seconds * 1000))

    @property
    def slept(self) -> float:
        """How many seconds somebody has waited."""
        return sum(self.clock.slept)

    def rows(self) -> list[Record]:
        """All rows of the table, in the order in which their tokens were first wished for."""
        return sorted(self.ground.records, key=lambda row: self.store.wished.index(row.token))

    def row(self) -> Record:
        """The one row of the table."""
        (row,) = self.rows()
        return row

    def states(self) -> list[State]:
        """The state of each row, in the order of `rows`."""
        return [row.state for row in self.rows()]

    def events(self) -> list[str]:
        """The events that were reported to the hooks."""
        return [details.event.value for details in self.reported]

    @contextmanager
    def crash(self) -> Iterator[None]:
        """What ends in the block does not reach the table: its row stays in progress."""
        self.store.loses_ends = True
        try:
            yield
        finally:
            self.store.loses_ends = False
