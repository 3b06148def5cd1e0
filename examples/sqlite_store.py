"""
A store in one SQLite database, for the processes of one machine: an example of the store contract.

Everything that decides is `answer_acquire` and `answer_write`. What is left to a store is to read a row, ask
them, and write their row, as one step that no other writer can come between.
"""

# ruff: noqa: ARG002, D102  (the contract documents the methods, and the deadline that SQLite does not need)
from __future__ import annotations

import pickle
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from lambda_once import Misconfigured, StoreUnavailable
from lambda_once.core.clock import Deadline, stamp
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Chunks, Parts
from lambda_once.core.writes import Acquire, Complete, Write
from lambda_once.stores.contract import (
    AcquireAnswer,
    Unanswered,
    WriteAnswer,
    Written,
    answer_acquire,
    answer_write,
)

TABLES = """
CREATE TABLE IF NOT EXISTS tokens (token TEXT PRIMARY KEY, state TEXT, lease TEXT, ttl INT, row BLOB);
CREATE INDEX IF NOT EXISTS byState ON tokens (state, lease);
CREATE TABLE IF NOT EXISTS parts (token TEXT, write TEXT, n INT, data BLOB, PRIMARY KEY (token, write, n));
"""


class SqliteStore:
    """Keeps the store contract among the threads and processes that open one database."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._lock = threading.Lock()
        self._db.executescript(TABLES)

    def close(self) -> None:
        """Close the database; Python 3.13 and later warn of one that is left open."""
        self._db.close()

    @contextmanager
    def _one_step(self) -> Iterator[None]:
        """Exclude all other writers: a row that is read inside is the row that is overwritten."""
        with self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            yield

    @contextmanager
    def _reading(self, token: str | None = None) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except sqlite3.OperationalError as error:
            raise StoreUnavailable(
                f"the database did not answer ({error}); retry later", token=token
            ) from error

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        return [self._acquire(acquisition) for acquisition in acquisitions]

    def _acquire(self, acquisition: Acquire) -> AcquireAnswer:
        try:
            with self._one_step():
                answer, row = answer_acquire(self._row(acquisition.token), acquisition)
                self._put(row)
        except sqlite3.OperationalError as error:  # locked or full: whether it was written is unknown
            return Unanswered(str(error))
        return answer

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        return [self._finish(write) for write in writes]

    def _finish(self, write: Write) -> WriteAnswer:
        try:
            with self._one_step():
                answer, row = answer_write(self._row(write.token), write)
                self._put(row)
                if row is not None and isinstance(write.change, Complete):
                    self._put_parts(write, write.change)
        except sqlite3.OperationalError as error:
            return Unanswered(str(error))
        return answer

    def read(self, token: str, deadline: Deadline) -> Record | None:
        with self._reading(token):
            return self._row(token)

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        if not isinstance(record.stored, Parts):
            return ()
        query = "SELECT data FROM parts WHERE token = ? AND write = ? ORDER BY n"
        with self._reading(record.token):
            found = tuple(data for (data,) in self._db.execute(query, (record.token, record.write_id)))
        return found if len(found) == record.stored.count else None

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        if items:
            raise Misconfigured(
                "transact writes items of DynamoDB, and this store has none: use another table"
            )
        return Written.WRITTEN if finish is None else self._finish(finish)

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        query = "SELECT row FROM tokens WHERE state = ? AND lease < ? ORDER BY lease"
        with self._reading():
            found = self._db.execute(
                query, (state.value, "~" if before is None else stamp(before))
            ).fetchall()
        rows = (_record(data) for (data,) in found)
        yield from (row for row in rows if row.is_listed)

    def forget(self, token: str) -> None:
        """Delete the row of *token*."""
        with self._one_step():
            self._db.execute("DELETE FROM tokens WHERE token = ?", (token,))

    def _row(self, token: str) -> Record | None:
        found = self._db.execute("SELECT row FROM tokens WHERE token = ?", (token,)).fetchone()
        return None if found is None else _record(found[0])

    def _put(self, row: Record | None) -> None:
        if row is not None:
            columns = (row.token, row.state.value, stamp(row.expected_completion), row.ttl, pickle.dumps(row))
            self._db.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?, ?)", columns)

    def _put_parts(self, write: Write, change: Complete) -> None:
        if isinstance(change.result, Chunks):
            parts = [(write.token, write.id, n, part) for n, part in enumerate(change.result.parts)]
            self._db.executemany("INSERT INTO parts VALUES (?, ?, ?, ?)", parts)


def _record(data: bytes) -> Record:
    record: Record = pickle.loads(data)  # noqa: S301  (only this store writes its database)
    return record
