"""The token table as its operators see it: the store, the index, and a client that can wait longer."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import Clock, Deadline, SystemClock
from lambda_once.core.record import State
from lambda_once.errors import Misconfigured
from lambda_once.operations.clock import CorrectedClock
from lambda_once.stores.index import StatusIndex
from lambda_once.stores.rows import configured_shards, text
from lambda_once.stores.store import DynamoDBStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lambda_once.core.record import Record
    from lambda_once.core.writes import Finish
    from lambda_once.stores.contract import FinishAnswer, Unfinished
    from lambda_once.stores.rows import Item

PATIENCE = 30.0
"""Seconds that a person or the watchdog waits for one answer."""


class TokenTable:
    """One token table. Nothing is connected before first use."""

    def __init__(
        self,
        table: str | None = None,
        client: Any = None,
        clock: Clock | None = None,
        shards: int | None = None,
    ) -> None:
        """
        Left out: LAMBDA_ONCE_TABLE, LAMBDA_ONCE_STATUS_SHARDS and the machine's clock, corrected.

        Raises `Misconfigured`.
        """
        self.name = table or os.environ.get("LAMBDA_ONCE_TABLE") or _no_table()
        self.shards = configured_shards() if shards is None else shards
        self.clock: Clock = CorrectedClock(SystemClock()) if clock is None else clock
        self._corrected = self.clock if isinstance(self.clock, CorrectedClock) else None
        heard = None if self._corrected is None else self._corrected.hear
        self.store = DynamoDBStore(self.name, client, self.shards, heard=heard)
        self.transport = self.store.transport
        self.index = StatusIndex(self.transport)

    def deadline(self, seconds: float = PATIENCE) -> Deadline:
        local = self.clock if self._corrected is None else self._corrected.local
        return Deadline(local, local.now() + timedelta(seconds=seconds))

    def now(self) -> datetime:
        """
        Return the time by which leases are judged.

        A clock that is corrected by DynamoDB's answers needs one: where none came yet, the index is asked a
        small question. Raises `StoreUnavailable` and `Misconfigured`.
        """
        if self._corrected is not None and not self._corrected.heard:
            self.index.page(State.IN_PROGRESS.value, self.deadline(), limit=1)
        return self.clock.now()

    def read(self, token: str) -> Record | None:
        """Return the row of *token*, read consistently. Raises `StoreUnavailable` and `Misconfigured`."""
        return self.store.read(token, self.deadline())

    def rows(self, tokens: Iterable[str]) -> dict[str, Item]:
        """Return the rows of *tokens* that there are, read consistently. Raises as `read`."""
        keys = [{"lockToken": text(token)} for token in dict.fromkeys(tokens)]
        return self.transport.items(keys, self.deadline(), None)

    def settle(self, write: Finish) -> FinishAnswer:
        """Write *write*; `Refused` with the row where it is not any more as it was seen."""
        (answer,) = self.store.finish([write], self.deadline())
        return answer

    def is_beyond(self, entry: Unfinished) -> bool:
        """
        Tell whether *entry* stands in a shard that the configured number does not have.

        Somebody writes with a larger number than this reader was told, or the number was made smaller.
        """
        return entry.shard is not None and entry.shard >= self.shards


def _no_table() -> str:
    raise Misconfigured("no token table: give table=, or set LAMBDA_ONCE_TABLE")
