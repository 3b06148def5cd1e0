"""
Records of another idempotency layer, for functions that migrate from it (``history=``).

Both versions of a function may be deployed at once. A call has a guard then, which asks the history after the
token is acquired and before the work starts, and records there how the work ended. So an attempt of either
version is seen by duplicates that reach the other one. `integrations.history` has what a guard does; here are
the values and protocols that the engine and the options need of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lambda_once.stores.contract import Unanswered

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.clock import Waits
    from lambda_once.errors import Misconfigured


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


class Guard(Protocol):
    """
    What another layer does before the work of a call and after it (`Call.guard`).

    Ownership, finisher and call have no types here: their modules need this one.
    """

    asks: bool
    """Whether it asks before the work starts, and records what became of it: it blocks then."""

    @property
    def attempt_id(self) -> str | None:
        """
        The id of the call's attempt if that is recorded elsewhere (a durable execution); None: generate one.

        The call may acquire its token again with the same id. A release would refuse that, so the token is
        not released if the work does not start.
        """
        ...

    def before(self, ownership: Any, finisher: Any) -> Waits[Any]:
        """
        Return *ownership* if its work may start now, or the outcome of the other layer as `Replayed`.

        Raises `OnceError` if the work may not start. The token is then released, or held.
        """
        ...

    def succeeded(self, call: Any, value: Any, whose: Any = None) -> None:
        """Record *value*, the result of the attempt *whose*, before the token is complete. Never raises."""
        ...

    def wrong(self, call: Any, error: BaseException) -> Misconfigured | None:
        """Return the error to raise for *error*, which the work of *call* raised; None: it is that itself."""
        ...

    def undone(self, call: Any, now: datetime) -> None:
        """Forget the attempt that `before` let start, before its token is released. Never raises."""
        ...


class HistorySource(Protocol):
    """The type of ``history=``: returns the history of each call of a function."""

    def of(self, seen: object, name: str, *, is_call: bool) -> Guard:
        """
        Return the guard of a call of the function *name*, ``module.qualname``.

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
