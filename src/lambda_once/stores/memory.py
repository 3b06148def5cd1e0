"""A token table in the memory of one process: for tests, and for a first try."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from lambda_once.core.record import Record, State
from lambda_once.core.results import Chunks
from lambda_once.core.writes import Acquire, Complete, Finish, acquired, acquired_by, finished, made_by
from lambda_once.stores.contract import Acquired, Finished, Refused, Unfinished, Won, Written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline


class MemoryStore:
    """
    Keeps the store contract among the threads of one process; nothing is shared with another.

    ``records`` maps lock tokens to their rows; ``items`` collects what `transact` was given, since
    there is no table here to write it to.
    """

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.items: list[Mapping[str, Any]] = []
        self._chunks: dict[tuple[str, str | None], tuple[bytes, ...]] = {}
        """By token and write."""
        self._lock = threading.Lock()

    def acquire(self, wishes: Sequence[Acquire], deadline: Deadline) -> list[Acquired]:
        del deadline
        return [self._acquire(wish) for wish in wishes]

    def finish(self, writes: Sequence[Finish], deadline: Deadline) -> list[Finished]:
        del deadline
        return [self._finish(write)[0] for write in writes]

    def read(self, token: str, deadline: Deadline) -> Record | None:
        del deadline
        return self.records.get(token)

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        del deadline
        return self._chunks.get((record.token, record.write))

    def transact(
        self, finish: Finish | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> Finished:
        del deadline
        answer, fresh = (Written(), True) if finish is None else self._finish(finish)
        if fresh:
            self.items.extend(items)
        return answer

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Unfinished]:
        del deadline
        with self._lock:
            found = [record for record in self.records.values() if record.state is state]
        for row in sorted(found, key=lambda record: record.expected_completion):
            if before is not None and row.expected_completion >= before:
                return
            yield Unfinished(
                row.token, state, row.attempt, row.locked_by, row.created, row.expected_completion
            )

    def _acquire(self, wish: Acquire) -> Acquired:
        with self._lock:
            before = self.records.get(wish.token)
            row = acquired(before, wish)
            if row is None:
                if before is not None and acquired_by(before, wish):
                    return Won.before(before)
                return Refused(before)
            self.records[wish.token] = row
        return Won(row.fence, took_over=before is not None and before.state is State.IN_PROGRESS)

    def _finish(self, write: Finish) -> tuple[Finished, bool]:
        """Answer *write*, and tell whether it changed the row."""
        with self._lock:
            before = self.records.get(write.token)
            row = finished(before, write)
            if row is None:
                return (Written() if made_by(before, write) else Refused(before)), False
            self.records[write.token] = row
            if isinstance(write.change, Complete) and isinstance(write.change.result, Chunks):
                self._chunks[write.token, write.write] = write.change.result.parts
        return Written(), True
