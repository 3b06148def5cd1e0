"""
What a store promises: two verbs over many tokens, acquire and finish, and reads.

A store answers each wish and each write by itself, in the order they came; one that fails takes none
of the others down. It recognises its own writes: an answer `Refused` means that somebody else's row
stands in the way, never that our first try had succeeded and only its response was lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline
    from lambda_once.core.record import Record, State
    from lambda_once.core.writes import Acquire, Finish
    from lambda_once.errors import Misconfigured


class Won(NamedTuple):
    """The token is ours. *fence* is larger than with every acquisition before."""

    fence: int
    took_over: bool
    """Whether it was taken from an attempt that had lapsed."""
    lease: datetime | None = None
    """
    What the row says, where it was found to be ours already; None: as wished.

    An earlier wish of the same attempt may have been the one that was written, and its lease ends earlier.
    """

    @classmethod
    def before(cls, record: Record) -> Won:
        """Return that *record* is our own acquisition, of which only the response was lost (guarantee 3)."""
        return cls(record.fence, took_over=False, lease=record.expected_completion)


@dataclass(frozen=True, slots=True)
class Written:
    """The row is as the write makes it."""


class Refused(NamedTuple):
    """Nothing was written, and *record* is why; None: there is no row."""

    record: Record | None


class Unanswered(NamedTuple):
    """No answer in the time there was: it may have been written or not. *reason* is safe to log."""

    reason: str
    parts: int = 0
    """How many parts of a large result, from the first on, are written: the next try need not repeat them."""
    refused: bool = False
    """
    Whether there was an answer, a refusal, and only the row that refused could not be read.

    The row may be anybody's, our own of an earlier try included; it is no outage (guarantee 7).
    """


class Rejected(NamedTuple):
    """The table will never take it: it is missing, or a permission is. Nothing was written."""

    error: Misconfigured


Acquired = Won | Refused | Unanswered | Rejected
Finished = Written | Refused | Unanswered | Rejected


class Unfinished(NamedTuple):
    """What the index says of a token that is in progress or held; it is eventually consistent."""

    token: str
    state: State
    attempt: str
    locked_by: str
    created: datetime
    expected_completion: datetime
    shard: int | None = None
    """The suffix of its status; None: it has none."""


class Store(Protocol):
    """The token table. Calls are safe from several threads; none raises for what one token met."""

    def acquire(self, wishes: Sequence[Acquire], deadline: Deadline) -> list[Acquired]:
        """Acquire each token, or tell who has it; the tokens of *wishes* differ."""
        ...

    def finish(self, writes: Sequence[Finish], deadline: Deadline) -> list[Finished]:
        """Write each finish; the chunks of a large result are written before the row is flipped."""
        ...

    def read(self, token: str, deadline: Deadline) -> Record | None:
        """
        Return the row of *token*, read consistently.

        Raises `StoreUnavailable` without an answer, `Misconfigured` where there never will be one.
        """
        ...

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        """Return the parts of *record*'s large result, or None where one is missing. Raises as `read`."""
        ...

    def transact(
        self, finish: Finish | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> Finished:
        """
        Write the user's *items* and *finish* in one transaction, or none of them.

        *items* are as TransactWriteItems takes them; without *finish* they are written alone. A
        refused condition of theirs is raised as it came (`TransactionCanceledException`).
        """
        ...

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Unfinished]:
        """
        List what is in progress or held, the earliest lease first, from all shards. Raises as `read`.

        With *before* only what had its lease end before then: what is overdue at that time.
        """
        ...
