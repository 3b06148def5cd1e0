"""
What another idempotency layer remembers of a call, while functions move from that layer to this one.

Both versions of a function may be deployed at once. The engine asks the history once it has the token and
before the work starts, and lets it know how the work ended, so that an attempt of either version refuses the
duplicates that reach the other one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lambda_once.stores.contract import Unanswered

if TYPE_CHECKING:
    from datetime import datetime


class Vacant(NamedTuple):
    """The history has no outcome, and no attempt in progress but this one, which it has recorded."""

    lapsed: datetime | None = None
    """
    Until when an earlier attempt had time, if one did not finish and may be the other layer's; else None.

    It is not forgotten before this attempt finishes: whoever begins after this one was killed gets it, too.
    """


class Earlier(NamedTuple):
    """The work was done under the other layer; *text* is its result as JSON, which counts until *expires*."""

    text: str
    expires: datetime | None
    """None: it does not expire."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Another attempt is in progress, *until* that time at the latest; None: no time is known."""

    until: datetime | None


HistoryAnswer = Vacant | Earlier | Busy | Unanswered


class History(Protocol):
    """The history of one call. Each method sends requests and blocks meanwhile."""

    def begin(
        self, lease: datetime, now: datetime, *, takes_over: bool, attempt_id: str, token: str
    ) -> HistoryAnswer:
        """
        Record an attempt that is alive until *lease*, unless the history has another one or an outcome.

        *takes_over*: a lapsed attempt need not be looked for.
        *attempt_id*: its random id, by which it recognises its own record after a lost answer (guarantee 3).
        *token*: what the attempt holds, whose earlier attempts its row shows.
        Raises `OnceError` where the call may not run, such as `KeyReused`. Nothing is recorded then.
        """
        ...

    def succeed(self, text: str) -> None:
        """Record the result *text*, in JSON, of an attempt that began or lapsed. May raise anything."""
        ...

    def undo(self, now: datetime) -> None:
        """Forget the attempt, if `begin` recorded it and its time is not over. Raises as `succeed`."""
        ...


class HistorySource(Protocol):
    """What ``history=`` takes: the histories of the calls of a function."""

    def of(self, seen: object, name: str, *, is_call: bool) -> History:
        """
        Return the history of a call of the function *name*, ``module.qualname``.

        *seen*: the record or event as Lambda delivers it; if *is_call*, the arguments by their names.
        Raises `OnceError`.
        """
        ...

    def check(self, parameters: list[str] | None, *, of_requests: bool = False) -> None:
        """
        Check that it fits a function of *parameters*; None: a handler, perhaps *of_requests* over HTTP.

        Raises `Misconfigured`.
        """
        ...
