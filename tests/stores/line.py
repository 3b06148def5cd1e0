"""A store at one end of a wire, an engine at the other: what goes through is counted, and may get lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Acquire, Change, Write
from lambda_once.stores.contract import AcquireAnswer, Won, WriteAnswer
from lambda_once.stores.store import DynamoDBStore
from tests.kit import tables
from tests.kit.strict.mounted import batches_sent
from tests.kit.wire import Wire
from tests.stores.suite.world import PAID, World
from tests.stores.world import DynamoDBRows

BATCH, READ, SINGLE, PARTS = "BatchExecuteStatement", "BatchGetItem", "UpdateItem", "BatchWriteItem"


@dataclass
class Line:
    """A store at one end of a wire, an engine at the other; the rows are read directly."""

    world: World
    wire: Wire
    warnings: list[str]
    parts_denied: list[str]

    @property
    def table(self) -> str:
        assert isinstance(self.world.rows, DynamoDBRows)
        return self.world.rows.name

    def token(self, n: int) -> str:
        return f"{self.world.token}-{n}"

    def acquisition(self, n: int, attempt: str = "a1", **options: Any) -> Acquire:
        return self.world.acquisition(attempt, token=self.token(n), **options)

    def acquire(self, *acquisitions: Acquire) -> list[AcquireAnswer]:
        return self.world.store.acquire(acquisitions, self.world.deadline)

    def won(self, many: int, attempt: str = "a1") -> list[AcquireAnswer]:
        """Acquire *many* tokens, insist on it, and forget how."""
        answers = self.acquire(*(self.acquisition(n, attempt) for n in range(many)))
        assert all(isinstance(answer, Won) for answer in answers), answers
        self.wire.sent.clear()
        self.wire.bodies.clear()
        return answers

    def write(self, n: int, change: Change = PAID, by: str = "a1") -> Write:
        return self.world.write(change, by, self.token(n))

    def finish(self, *writes: Write) -> list[WriteAnswer]:
        return self.world.store.write(writes, self.world.deadline)

    def row(self, n: int) -> Any:
        """The row, read past the wire."""
        rows = self.world.rows
        assert isinstance(rows, DynamoDBRows)
        return DynamoDBStore(rows.name, rows.client).read(self.token(n), self.world.deadline)

    def states(self, many: int) -> list[State]:
        return [self.row(n).state for n in range(many)]

    def sizes(self) -> list[int]:
        """How many statements each batch had, in their order."""
        return [len(body["Statements"]) for body in self.wire.bodies if "Statements" in body]


@contextmanager
def on_wire(endpoint: str | None) -> Iterator[Line]:
    """Yield a wire to a new table at *endpoint*, else of the strict engine that is mounted."""
    client = tables.client(endpoint)
    with batches_sent(), tables.fresh(client) as name:
        wire = Wire(endpoint)
        warnings: list[str] = []
        parts_denied: list[str] = []
        store = DynamoDBStore(name, wire.client, warn=warnings.append, parts_denied=parts_denied.append)
        yield Line(World(store, DynamoDBRows(client, name)), wire, warnings, parts_denied)
        wire.client.close()
    client.close()
