"""
Records of another idempotency layer, for functions that migrate from it.

Both versions of a function may be deployed at once. The engine reads the history after it has the token and
before the work starts, and records there how the work ended. So an attempt of either version is seen by
duplicates that reach the other one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lambda_once.stores.contract import Unanswered

if TYPE_CHECKING:
    from datetime import datetime


class Vacant(NamedTuple):
    """The history has no outcome and no other attempt in progress; it has recorded this attempt."""

    lapsed: datetime | None = None
    """
    When an earlier, unfinished attempt lapsed that may be the other layer's; None: there is none.

    It is kept until this attempt finishes: if this one is killed, the next one gets it, too.
    """


class Earlier(NamedTuple):
    """The work was done under the other layer; *text* is its result in JSON, valid until *expires*."""

    text: str
    expires: datetime | None
    """None: it does not expire."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Another attempt is in progress, *until* this time at the latest; None: unknown."""

    until: datetime | None


HistoryAnswer = Vacant | Earlier | Busy | Unanswered


class History(Protocol):
    """The history of one call. Each method sends requests and blocks."""

    def begin(
        self, lease: datetime, now: datetime, *, takes_over: bool, attempt_id: str, token: str
    ) -> HistoryAnswer:
        """
        Record an attempt with this *lease*, unless the history has another attempt or an outcome.

        *takes_over*: do not look for a lapsed attempt.
        *attempt_id*: its random id, which identifies its own record after a lost response (guarantee 3).
        *token*: its token, whose row shows earlier attempts.
        Raises `OnceError`, with nothing recorded, if the call may not run (for example `KeyReused`).
        """
        ...

    def succeed(self, text: str) -> None:
        """Record the result *text*, in JSON, of an attempt that began or lapsed. May raise any exception."""
        ...

    def undo(self, now: datetime) -> None:
        """Delete the attempt if `begin` recorded it and it has not lapsed. May raise any exception."""
        ...


class HistorySource(Protocol):
    """The type of ``history=``: returns the history of each call of a function."""

    def of(self, seen: object, name: str, *, is_call: bool) -> History:
        """
        Return the history of a call of the function *name*, ``module.qualname``.

        *seen*: the record or event as Lambda delivers it; with *is_call*, the arguments by name.
        Raises `OnceError`.
        """
        ...

    def find(self, key: object, now: datetime, token: str) -> HistoryAnswer:
        """
        Return what the history has of the work of *key*, the value that the function selects; only reads.

        *token*: its token. Raises `Misconfigured` if the key alone does not lead to a record.
        """
        ...

    def check(self, parameters: list[str] | None, *, of_requests: bool = False) -> None:
        """
        Check that it supports a function with *parameters*; None: a handler (*of_requests*: over HTTP).

        Raises `Misconfigured`.
        """
        ...
