"""One token as operators see it: the parts of its name, its status, its age."""

from __future__ import annotations

import re
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import Failure, Record, Resolution, State

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from lambda_once.stores.contract import Unfinished

# The scope of an API request begins with its method and path, each percent-encoded.
_METHOD_AND_PATH = re.compile(r"[A-Z]+:%2F")


class TokenName(NamedTuple):
    """The decoded parts of a token, ``service/name/[scope/]key``; a hashed part stays a SHA-256."""

    service: str
    name: str
    scope: str | None
    key: str


def parts_of(token: str) -> TokenName | None:
    """Return the parts of *token*; None if it is not a token (a part row, a cursor, a foreign row)."""
    if is_auxiliary(token):
        return None
    match [unquote(part) for part in token.split("/")]:
        case [service, name, key]:
            return TokenName(service, name, None, key)
        case [service, name, scope, key]:
            return TokenName(service, name, scope, key)
        case _:
            return None


def is_auxiliary(primary_key: str) -> bool:
    """Whether this row cannot be a token: tokens have their ``#`` percent-encoded."""
    return "#" in primary_key


def is_request(token: str) -> bool:
    """
    Whether *token* is that of an API request, by the method and path at the beginning of its scope.

    False may also mean that the scope was too long, and is hashed.
    """
    name = parts_of(token)
    return name is not None and name.scope is not None and bool(_METHOD_AND_PATH.match(token.split("/")[2]))


class Status(StrEnum):
    """The state of a token at some time; the values are those of the JSON output."""

    OVERDUE = "overdue"
    """In progress, but its lease has expired: whether the work was done is unknown."""
    HELD = "held"
    IN_PROGRESS = "inProgress"
    COMPLETE = "complete"
    RELEASED = "released"


STUCK = frozenset({Status.OVERDUE, Status.HELD})
"""What an operator has to look at."""
UNFINISHED = STUCK | {Status.IN_PROGRESS}


def token_status(seen: Record | Unfinished, now: datetime) -> Status:
    match seen.state:
        case State.IN_PROGRESS:
            return Status.OVERDUE if seen.expected_completion < now else Status.IN_PROGRESS
        case State.HELD:
            return Status.HELD
        case State.COMPLETE:
            return Status.COMPLETE
        case State.RELEASED:
            return Status.RELEASED


class Entry(NamedTuple):
    """One token, as the index or its row shows it."""

    token: str
    status: Status
    locked_by: str
    attempt: str
    created: datetime
    expected_completion: datetime
    actual_completion: datetime | None = None
    shard: int | None = None
    error: Failure | None = None
    resolution: Resolution | None = None
    whole: bool = False
    """Whether the row was read; the index has no `actual_completion`, no `error` and no `resolution`."""

    @classmethod
    def of_index(cls, seen: Unfinished, now: datetime) -> Entry:
        status = token_status(seen, now)
        lease = seen.expected_completion
        return cls(seen.token, status, seen.locked_by, seen.attempt_id, seen.created, lease, shard=seen.shard)

    @classmethod
    def of_row(cls, record: Record, now: datetime, shard: int | None = None) -> Entry:
        return cls(
            record.token,
            token_status(record, now),
            record.locked_by,
            record.attempt_id,
            record.created,
            record.expected_completion,
            record.actual_completion,
            shard,
            record.error,
            record.resolution,
            whole=True,
        )

    @property
    def name(self) -> TokenName | None:
        """Its parts; None if it is not a token of this package."""
        return parts_of(self.token)

    def row(self, now: datetime) -> dict[str, Any]:
        """
        Return it as JSON values: the row's own names, the token's parts, and its ages in seconds.

        null: there is none. A missing name: unknown, because only the index was read.
        """
        parts = self.name
        done = self.actual_completion
        late = now - self.expected_completion if self.status is Status.OVERDUE else None
        error = None if self.error is None else {"kind": self.error.kind, "message": self.error.message}
        by_row = {
            "actualCompletion": None if done is None else stamp(done),
            "error": error,
            "resolution": resolution_row(self.resolution, self.attempt),
        }
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


def resolution_row(note: Resolution | None, attempt: str) -> dict[str, Any] | None:
    """Return the last decision about a row that has *attempt*, as JSON values; None: there is none."""
    if note is None:
        return None
    return {
        "kind": note.kind.value,
        "by": note.by,
        "because": note.because,
        "at": stamp(note.at),
        "attempt": note.attempt_id,
        "times": note.times,
        "stands": note.attempt_id == attempt,
    }


class Filter(NamedTuple):
    """Which entries to list; None: any. *service* and *name* may have the wildcards ``*`` and ``?``."""

    service: str | None = None
    name: str | None = None
    older_than: timedelta | None = None
    """At least this long since the token was acquired."""
    newer_than: timedelta | None = None
    """At most this long."""

    def matches(self, entry: Entry, now: datetime) -> bool:
        age = now - entry.created
        if self.older_than is not None and age < self.older_than:
            return False
        if self.newer_than is not None and age > self.newer_than:
            return False
        if self.service is None and self.name is None:
            return True
        parts = entry.name
        return (
            parts is not None
            and fnmatchcase(parts.service, self.service or "*")
            and fnmatchcase(parts.name, self.name or "*")
        )
