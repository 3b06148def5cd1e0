"""One token as a list shows it: where it stands, whose it is, how long it has been so."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_once.core.clock import stamp
from lambda_once.core.record import State
from lambda_once.operations.names import TokenName, parts_of

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from lambda_once.core.record import Failure, Record
    from lambda_once.stores.contract import Unfinished


class Status(StrEnum):
    """Where a token stands at some time, in the words of the command line's JSON."""

    OVERDUE = "overdue"
    """In progress, but its lease is over: whether the work was done is unknown."""
    HELD = "held"
    IN_PROGRESS = "inProgress"
    COMPLETE = "complete"
    RELEASED = "released"


STUCK = frozenset({Status.OVERDUE, Status.HELD})
"""What somebody has to look at."""


_SETTLED = {
    State.HELD: Status.HELD,
    State.COMPLETE: Status.COMPLETE,
    State.RELEASED: Status.RELEASED,
}


class Entry(NamedTuple):
    """One token, by the index or by its row."""

    token: str
    status: Status
    locked_by: str
    attempt: str
    created: datetime
    expected_completion: datetime
    actual_completion: datetime | None = None
    shard: int | None = None
    error: Failure | None = None
    whole: bool = False
    """Whether its row was read; the index knows neither its end nor its error."""

    @property
    def name(self) -> TokenName | None:
        """Its parts; None for what is no token of this package's."""
        return parts_of(self.token)

    def row(self, now: datetime) -> dict[str, Any]:
        """
        Return it as JSON has it: the row's own names, the token's parts, and its ages in seconds.

        null means that there is none; what is not known, for only the index was read, has no name there.
        """
        parts = self.name
        done = self.actual_completion
        late = now - self.expected_completion if self.status is Status.OVERDUE else None
        error = None if self.error is None else {"kind": self.error.kind, "message": self.error.message}
        by_row = {"actualCompletion": None if done is None else stamp(done), "error": error}
        return {
            "lockToken": self.token,
            "status": self.status.value,
            "service": None if parts is None else parts.service,
            "name": None if parts is None else parts.name,
            "scope": None if parts is None else parts.scope,
            "key": None if parts is None else parts.key,
            "lockedBy": self.locked_by,
            "attempt": self.attempt,
            "created": stamp(self.created),
            "expectedCompletion": stamp(self.expected_completion),
            **(by_row if self.whole else {}),
            "ageSeconds": int((now - self.created).total_seconds()),
            "overdueSeconds": None if late is None else int(late.total_seconds()),
            "shard": self.shard,
        }


class Wanted(NamedTuple):
    """Which entries to list; None: any. *service* and *name* may have the wildcards ``*`` and ``?``."""

    service: str | None = None
    name: str | None = None
    older_than: timedelta | None = None
    """At least this long since the attempt acquired the token."""

    def takes(self, entry: Entry, now: datetime) -> bool:
        if self.older_than is not None and now - entry.created < self.older_than:
            return False
        if self.service is None and self.name is None:
            return True
        parts = entry.name
        return (
            parts is not None
            and fnmatchcase(parts.service, self.service or "*")
            and fnmatchcase(parts.name, self.name or "*")
        )


def status_of(seen: Record | Unfinished, now: datetime) -> Status:
    if seen.state is State.IN_PROGRESS:
        return Status.OVERDUE if seen.expected_completion < now else Status.IN_PROGRESS
    return _SETTLED[seen.state]


def listed(seen: Unfinished, now: datetime) -> Entry:
    """Return what the index says of a token."""
    return Entry(
        seen.token,
        status_of(seen, now),
        seen.locked_by,
        seen.attempt,
        seen.created,
        seen.expected_completion,
        shard=seen.shard,
    )


def read(record: Record, now: datetime, shard: int | None = None) -> Entry:
    """Return what its row says of a token."""
    return Entry(
        record.token,
        status_of(record, now),
        record.locked_by,
        record.attempt,
        record.created,
        record.expected_completion,
        record.actual_completion,
        shard,
        record.error,
        whole=True,
    )
