"""A durable execution that charges an order, for the tests of `once.execution`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from aws_durable_execution_sdk_python import DurableContext

from lambda_once.core.clock import Deadline
from lambda_once.core.writes import Acquire, Write
from lambda_once.stores.contract import AcquireAnswer, WriteAnswer
from tests.decorators.rig import Rig
from tests.kit.executions import Executions
from tests.kit.frail import FrailStore

HOUR = timedelta(hours=1)
ORDER: dict[str, Any] = {"order": 5}


class Killed(BaseException):
    """The environment is killed."""


class MortalStore(FrailStore):
    """The environment is killed after some writes, before anybody hears of them."""

    deaths: tuple[type[Acquire | Write], ...] = ()
    """After which writes it is still killed."""

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        answers = super().acquire(acquisitions, deadline)
        self._die(Acquire)
        return answers

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        answers = super().write(writes, deadline)
        self._die(Write)
        return answers

    def _die(self, at: type[Acquire | Write]) -> None:
        if at in self.deaths:
            self.deaths = self.deaths[1:]
            raise Killed


def complete(_: DurableContext, attempt: Any, charged: int) -> Any:
    """Complete with what was charged."""
    return attempt.complete({"charged": charged})


class Shop:
    """A handler that charges, waits for an approval, and completes; and what it did."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        rig.use_store(MortalStore)
        self.suspends = True
        """Whether it waits for an approval; an event may say otherwise."""
        self.options: dict[str, Any] = {}
        self.end: Callable[[DurableContext, Any, int], Any] = complete
        """What it does at last with its attempt, and what it was charged."""
        self.charges: list[int] = []
        self.invocations = 0
        self.of: Executions

    def at_once(self, end: Callable[[DurableContext, Any, int], Any] = complete, **options: Any) -> None:
        """Wait for no approval, and end so, under these options."""
        self.suspends, self.end, self.options = False, end, options

    def die_after(self, write: type[Acquire | Write], times: int = 1) -> None:
        """Kill the environment so many times after a write of that kind."""
        assert isinstance(self.rig.store, MortalStore)
        self.rig.store.deaths = (write,) * times

    def charge(self, order: int) -> int:
        self.charges.append(order)
        return len(self.charges)

    def handle(self, event: Any, context: DurableContext) -> Any:
        self.invocations += 1
        options: dict[str, Any] = {"name": "pay", "lease": HOUR} | self.options
        with self.rig.once.execution(context, key=event["order"], **options) as attempt:
            if attempt.replayed:
                return {"replayed": attempt.result}
            charged = context.step(lambda _: self.charge(event["order"]), name="charge")
            if event.get("suspends", self.suspends):
                self.of.suspend(context)
            return self.end(context, attempt, charged)
