"""A token table in stream mode, its stream, its functions and its watchdog, by one clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from lambda_once.core.clock import Deadline
from lambda_once.core.results import Inline
from lambda_once.core.variables import Listing
from lambda_once.core.writes import Acquire, Change, Complete, Extend, Holder, Unclaimed, Write, new_write_id
from lambda_once.errors import Misconfigured
from lambda_once.operations.checkpoint import Checkpoint
from lambda_once.operations.list_state import CHECKPOINT_ROW
from lambda_once.operations.stream import Reading, StreamReader, leave_stream
from lambda_once.operations.table import TokenTable
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock
from tests.kit.streams import PlayedStreams
from tests.kit.strict.engine import StrictEngine
from tests.kit.strict.schemas import token_table
from tests.kit.strict.trees import Item

LEASE = 300.0
READING = 30.0


class Counting:
    """The engine's client; `sent` counts requests, and *before* may raise what is a request's answer."""

    def __init__(self, engine: StrictEngine) -> None:
        self.engine = engine
        self.sent: Counter[str] = Counter()
        self.before: Callable[[str, dict[str, Any]], object] = lambda _operation, _request: None

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_") or operation == "meta":
            raise AttributeError(operation)
        execute = getattr(self.engine, operation)

        def send(**request: Any) -> Any:
            self.sent[operation] += 1
            self.before(operation, request)
            return execute(**request)

        return send


class Streamed:
    """Tokens are named by their last part."""

    def __init__(self, shards: int = 1) -> None:
        self.clock = FakeClock()
        self.engine = StrictEngine(token_table("tokens"))
        self.streams = PlayedStreams(self.engine, self.clock)
        self.streams.switch_on(with_table=True, shards=shards)
        self.client = Counting(self.engine)
        self.gaps: list[str] = []
        self.malformed: list[str] = []
        self.store = DynamoDBStore("tokens", self.engine, listing=Listing.STREAM)

    # ---------------------------------------------------------------- functions

    @property
    def deadline(self) -> Deadline:
        return Deadline(self.clock, self.clock.now() + timedelta(seconds=30))

    def acquire(self, *names: str, lease: float = LEASE) -> None:
        """Acquire, for *lease* seconds."""
        now = self.clock.now()
        until = now + timedelta(seconds=lease)
        for name in names:
            found = Acquire(f"s/n/{name}", f"a-{name}", "f/r", now, until, Unclaimed(take_over=True), 2**33)
            self.store.acquire([found], self.deadline)

    def complete(self, *names: str) -> None:
        for name in names:
            self.write(name, Complete(Inline('"done"')))

    def extend(self, name: str, lease: float) -> None:
        self.write(name, Extend(self.clock.now() + timedelta(seconds=lease)))

    def write(self, name: str, change: Change) -> None:
        by, now = Holder(f"a-{name}"), self.clock.now()
        self.store.write([Write(f"s/n/{name}", by, change, now, 2**33, new_write_id(change))], self.deadline)

    def delete(self, name: str) -> None:
        self.engine.delete("tokens", f"s/n/{name}")

    # ---------------------------------------------------------------- the watchdog

    @property
    def table(self) -> TokenTable:
        return TokenTable("tokens", self.client, self.clock, Listing.STREAM)

    def reader(self) -> StreamReader:
        return StreamReader(self.table, self.streams, gap=self.gaps.append, malformed=self._note)

    def read(self, *, minutes: float = 0, seconds: float = READING) -> Reading:
        """Let *minutes* pass, and one reading be made by a new environment."""
        self.clock.advance(minutes * 60)
        return self.reader().read(self.table.deadline(seconds))

    def leave(self, *, minutes: float = 0, seconds: float = READING) -> Reading | None:
        """Let *minutes* pass, and one run be made by a watchdog that reads no stream."""
        self.clock.advance(minutes * 60)
        return leave_stream(self.table, self.table.deadline(seconds), self.gaps.append, self._note)

    def _note(self, error: Misconfigured) -> None:
        self.malformed.append(error.token or "")

    # ---------------------------------------------------------------- what is there

    @property
    def items(self) -> dict[str, Item]:
        return {str(key): item for key, item in self.engine.tables["tokens"].items.items()}

    @property
    def listed(self) -> list[str]:
        """The names of what is in the index."""
        return sorted(key.rpartition("/")[2] for key, item in self.items.items() if "listed" in item)

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint.from_item(self.items[CHECKPOINT_ROW])

    @property
    def kept(self) -> list[str]:
        return [token.rpartition("/")[2] for token in self.checkpoint.kept]
