"""A store that fails: a test makes it, or a subclass of its own, the store of a `Rig`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.writes import Acquire, Write
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.stores.contract import AcquireAnswer, Store, Unanswered, WriteAnswer


class FrailStore:
    """A store that can be out of reach, or lose what an attempt writes at its end (as a crash does)."""

    def __init__(self, sound: Store) -> None:
        self.sound = sound
        self.out = False
        self.loses_ends = False
        self.acquisitions = 0
        self.wished: list[str] = []
        """The tokens, in the order in which they were first wished for."""

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        self.acquisitions += len(acquisitions)
        self.wished += [
            acquisition.token for acquisition in acquisitions if acquisition.token not in self.wished
        ]
        if self.out:
            return [Unanswered("ConnectTimeoutError") for _ in acquisitions]
        return self.sound.acquire(acquisitions, deadline)

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if self.loses_ends:  # and no process is left to retry it
            return [Misconfigured("the environment died") for _ in writes]
        if self.out:
            return [Unanswered("ConnectTimeoutError") for _ in writes]
        return self.sound.write(writes, deadline)

    def read(self, token: str, deadline: Deadline) -> Record | None:
        if self.out:
            raise StoreUnavailable("the table is out of reach", token=token)
        return self.sound.read(token, deadline)

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        return self.sound.chunks(record, deadline)

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        return self.sound.transact(finish, items, deadline)

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        return self.sound.unfinished(state, deadline, before)
