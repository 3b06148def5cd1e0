"""Stores without a table: one in the memory of a process, for tests, and one that grants everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Chunks
from lambda_once.core.threads import Exclusive
from lambda_once.core.writes import Acquire, Complete, Write
from lambda_once.stores.contract import (
    AcquireAnswer,
    Store,
    Won,
    WriteAnswer,
    Written,
    answer_acquire,
    answer_write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline


class MemoryStore:
    """
    Keeps tokens in the memory of one process, for tests. Thread-safe.

    ``records`` maps lock tokens to their rows; ``items`` lists the items passed to `transact`.
    """

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.items: list[Mapping[str, Any]] = []
        self._chunks: dict[tuple[str, str | None], tuple[bytes, ...]] = {}
        """By token and write."""
        self._lock = Exclusive("a row is being written")

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        del deadline
        return [self._acquire(acquisition) for acquisition in acquisitions]

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        del deadline
        return [self._finish(write)[0] for write in writes]

    def read(self, token: str, deadline: Deadline) -> Record | None:
        del deadline
        return self.records.get(token)

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        del deadline
        return self._chunks.get((record.token, record.write_id))

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        del deadline
        answer, changed = (Written.WRITTEN, True) if finish is None else self._finish(finish)
        if changed:
            self.items.extend(items)
        return answer

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        del deadline
        with self._lock.alone():
            found = [record for record in self.records.values() if record.state is state and record.is_listed]
        for row in sorted(found, key=lambda record: record.expected_completion):
            if before is not None and row.expected_completion >= before:
                return
            yield row

    def _acquire(self, acquisition: Acquire) -> AcquireAnswer:
        with self._lock.alone():
            answer, row = answer_acquire(self.records.get(acquisition.token), acquisition)
            if row is not None:
                self.records[acquisition.token] = row
        return answer

    def _finish(self, write: Write) -> tuple[WriteAnswer, bool]:
        """Return the answer to *write*, and whether it changed the row."""
        with self._lock.alone():
            answer, row = answer_write(self.records.get(write.token), write)
            if row is None:
                return answer, False
            self.records[write.token] = row
            if isinstance(write.change, Complete) and isinstance(write.change.result, Chunks):
                self._chunks[write.token, write.id] = write.change.result.parts
        return answer, True


class ForgetfulStore:
    """
    Grants every token and stores nothing (LAMBDA_ONCE_DISABLED).

    The user's own items of a transaction are still written, by the store that *real* returns.
    """

    def __init__(self, real: Callable[[], Store]) -> None:
        self._real = real

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        del deadline
        return [Won(0, took_over=False) for _ in acquisitions]

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        del deadline
        return [Written.WRITTEN for _ in writes]

    def read(self, token: str, deadline: Deadline) -> Record | None:
        del token, deadline
        return None

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        del record, deadline
        return None

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        del finish
        return self._real().transact(None, items, deadline) if items else Written.WRITTEN

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        del state, deadline, before
        return iter(())
