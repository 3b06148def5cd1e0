"""Invocations near their end, in a schedule's time, in front of a table in any state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from botocore.exceptions import ReadTimeoutError

from lambda_once import Once
from lambda_once.dynamodb.client import ANSWER, CONNECT
from lambda_once.observability.reporter import Details
from lambda_once.testing import lambda_context
from tests.kit.strict.engine import StrictEngine, client_error
from tests.kit.strict.schemas import token_table
from tests.simulation.determined import determined
from tests.simulation.machines import MachineClock
from tests.simulation.scheduler import Sandbox, Scheduler

TABLE = "tokens"
LATE = 60_000
"""Milliseconds after which a handler that has not answered never will."""

Arguments = dict[str, Any]
Handler = Callable[[Any, Any], Any]


class Table(Enum):
    """How the table answers."""

    HEALTHY = "healthy"
    SLOW = "slow"
    """After nine tenths of a second."""
    THROTTLED = "throttled"
    SILENT = "silent"
    """Not at all: the client gives up after its own limits."""


LATENCY = {
    Table.HEALTHY: 5,
    Table.SLOW: 900,
    Table.THROTTLED: 3,
    Table.SILENT: round((CONNECT + ANSWER) * 1000),
}
"""Milliseconds until the client has an answer, or gives up."""


@dataclass
class Ending:
    """One invocation of *remaining* milliseconds; its table is *table* from the millisecond *turns* on."""

    table: Table
    remaining: int = 3_000
    turns: int = 0
    sent: list[tuple[int, str, Arguments]] = field(default_factory=list)
    """When each request was sent, its operation, and its arguments."""
    worked: list[int] = field(default_factory=list)
    """When each work ended."""
    reported: list[Details] = field(default_factory=list)
    outcome: Any = None
    """What the handler returned or raised; None: it has not answered."""
    answered: int = LATE
    """When the handler answered."""

    def __post_init__(self) -> None:
        self.scheduler = Scheduler()
        self.clock = MachineClock(self.scheduler, 0)
        self.engine = StrictEngine(token_table(TABLE))

    @property
    def spare(self) -> int:
        """The milliseconds between the answer and the kill."""
        return self.remaining - self.answered

    def run(self, handler_of: Callable[[Once], Handler], event: Any) -> None:
        """Have the handler called once."""
        once = Once(table=TABLE, client=self, service="shop", hooks=[self.reported.append])
        once._runtime.clock = self.clock
        sandbox = Sandbox("the function")

        def call() -> None:
            try:
                self.outcome = handler_of(once)(event, lambda_context(remaining_ms=self.remaining))
            except Exception as error:  # noqa: BLE001  (what was raised is the answer)
                self.outcome = error
            self.answered = self.scheduler.now

        with determined(0):
            self.scheduler.start(sandbox, call)
            self.scheduler.at(LATE, lambda: self.scheduler.kill(sandbox))
            self.scheduler.run()

    # ---------------------------------------------------------------- the work

    def until(self, when: int) -> int:
        """Return the milliseconds that a work takes that ends at *when*, or at once where that is over."""
        return max(when - self.scheduler.now, 1)

    def work(self, milliseconds: int) -> None:
        """Take so long."""
        self.scheduler.pause(milliseconds)
        self.worked.append(self.scheduler.now)

    async def work_async(self, milliseconds: int) -> None:
        """Take so long on the event loop."""
        await self.clock.sleep_async(milliseconds / 1000)
        self.worked.append(self.scheduler.now)

    # ---------------------------------------------------------------- the client

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_") or not hasattr(StrictEngine, operation):
            raise AttributeError(operation)

        def request(**arguments: Any) -> Any:
            return self._send(operation, arguments)

        return request

    def _send(self, operation: str, arguments: Arguments) -> Any:
        self.sent.append((self.scheduler.now, operation, arguments))
        table = self.table if self.scheduler.now >= self.turns else Table.HEALTHY
        if table is Table.SILENT:
            self.scheduler.pause(LATENCY[table])
            raise ReadTimeoutError(endpoint_url="https://dynamodb.invalid")
        self.scheduler.pause(LATENCY[table])
        if table is Table.THROTTLED:
            raise client_error("ThrottlingException", "throttled", operation)
        return getattr(self.engine, operation)(**arguments)

    def rows(self) -> dict[str, int]:
        """Count the rows of the table by their state."""
        found: dict[str, int] = {}
        for item in self.engine.tables[TABLE].items.values():
            state = item.get("status", {}).get("S") or (
                "complete" if "actualCompletion" in item else "released"
            )
            found[state] = found.get(state, 0) + 1
        return found
