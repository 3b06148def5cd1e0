"""A token for operators: the parts of its name, and its status."""

from __future__ import annotations

import re
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from lambda_once.core.keys import tenant_part
from lambda_once.core.lifecycle import Record, State

if TYPE_CHECKING:
    from datetime import datetime, timedelta

# The scope of an API request begins with its method and path, each percent-encoded.
_METHOD_AND_PATH = re.compile(r"[A-Z]+:%2F")


class TokenName(NamedTuple):
    """
    The decoded parts of a token, ``service/name/[tenant/][scope/]key``; a hashed part stays a SHA-256.

    One of four parts doesn't show whether the third is a tenant or a scope. It counts as the scope.
    """

    service: str
    name: str
    tenant: str | None
    scope: str | None
    key: str

    @property
    def third(self) -> str | None:
        """Where a tenant stands; None: the token has neither tenant nor scope."""
        return self.scope if self.tenant is None else self.tenant

    def is_of_tenant(self, tenant: str) -> bool:
        """Whether it is *tenant*'s, or has a scope of that text. Raises `Misconfigured` for an empty text."""
        return self.third == unquote(tenant_part(tenant))


def parts_of(token: str) -> TokenName | None:
    """Return the parts of *token*; None if it is not a token (a part row, a cursor, a foreign row)."""
    if is_auxiliary(token):
        return None
    match [unquote(part) for part in token.split("/")]:
        case [service, name, key]:
            return TokenName(service, name, None, None, key)
        case [service, name, scope, key]:
            return TokenName(service, name, None, scope, key)
        case [service, name, tenant, scope, key]:
            return TokenName(service, name, tenant, scope, key)
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
    return name is not None and name.scope is not None and bool(_METHOD_AND_PATH.match(token.split("/")[-2]))


class Status(StrEnum):
    """The state of a token at some time; the values are those of the JSON output."""

    OVERDUE = "overdue"
    """In progress, but its lease has expired: whether the work was done is unknown."""
    HELD = "held"
    IN_PROGRESS = "inProgress"
    COMPLETE = "complete"
    RELEASED = "released"

    @property
    def words(self) -> str:
        """As a person reads it."""
        return "in progress" if self is Status.IN_PROGRESS else self.value


STATUS: Final = {
    State.IN_PROGRESS: Status.IN_PROGRESS,
    State.HELD: Status.HELD,
    State.COMPLETE: Status.COMPLETE,
    State.RELEASED: Status.RELEASED,
}
"""The status of a row in each state, its lease alive."""
STUCK = frozenset({Status.OVERDUE, Status.HELD})
"""Statuses that an operator has to look at."""
UNFINISHED = STUCK | {Status.IN_PROGRESS}


def token_status(record: Record, now: datetime) -> Status:
    return Status.OVERDUE if record.lapsed(now) else STATUS[record.state]


class Filter(NamedTuple):
    """
    Which tokens to list; None: any.

    *service*, *name*, *scope* and *tenant* may have the wildcards ``*`` and ``?``.
    """

    service: str | None = None
    name: str | None = None
    scope: str | None = None
    older_than: timedelta | None = None
    """At least this long since the token was acquired, or released by a decision."""
    newer_than: timedelta | None = None
    """At most this long."""
    error: str | None = None
    """The kind of the error after which it is held. The index has none: entries that were not read match."""
    tenant: str | None = None

    def matches(self, record: Record, now: datetime) -> bool:
        return self._matches_age(record, now) and self._matches_error(record) and self._matches_name(record)

    def _matches_age(self, record: Record, now: datetime) -> bool:
        age = now - (record.expected_completion if record.awaits_delivery else record.created)
        if self.older_than is not None and age < self.older_than:
            return False
        return self.newer_than is None or age <= self.newer_than

    def _matches_error(self, record: Record) -> bool:
        is_read = record.fence > 0
        return (
            self.error is None
            or not is_read
            or (record.error is not None and record.error.kind == self.error)
        )

    def _matches_name(self, record: Record) -> bool:
        if (self.service, self.name, self.scope, self.tenant) == (None, None, None, None):
            return True
        parts = parts_of(record.token)
        return (
            parts is not None
            and fnmatchcase(parts.service, self.service or "*")
            and fnmatchcase(parts.name, self.name or "*")
            and self._matches_scope(parts)
        )

    def _matches_scope(self, parts: TokenName) -> bool:
        if self.tenant is None:
            return fnmatchcase(parts.scope or "", self.scope or "*")
        is_of_tenant = parts.third is not None and fnmatchcase(parts.third, self.tenant)
        scope = parts.scope if parts.tenant is not None else None  # of four parts the third is the tenant
        of_scope = fnmatchcase(scope or "", self.scope or "*")
        return of_scope and (is_of_tenant or parts.is_of_tenant(self.tenant))
