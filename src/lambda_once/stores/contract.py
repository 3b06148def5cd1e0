"""
What a store promises: acquire and finish, over many tokens at once, and reads.

A store answers each acquisition and each write by itself, in order; a failure of one affects no other.
It recognises its own writes: `Refused` means that another attempt's row refused it, never that our first
try succeeded and its response was lost.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lambda_once.core.lifecycle import Record, State
from lambda_once.core.writes import Acquire, Write, after_acquire, after_write, made_by
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline


class Won(NamedTuple):
    """The token is ours. *fence* is larger than that of every earlier acquisition."""

    fence: int
    took_over: bool
    """Whether it was taken over from an attempt that had lapsed."""
    lease: datetime | None = None
    """The row's lease, if an earlier try had acquired it: it ends earlier. None: as requested."""
    generation: str | None = None
    """The row's `Record.generation`."""

    @classmethod
    def first(cls, acquisition: Acquire) -> Won:
        """Return the answer if there was no row."""
        return cls(acquisition.first_fence, took_over=False, generation=acquisition.attempt_id)

    @classmethod
    def before(cls, record: Record) -> Won:
        """Return the answer if *record* is our own acquisition, whose response was lost (guarantee 3)."""
        return cls(
            record.fence, took_over=False, lease=record.expected_completion, generation=record.generation
        )


class Written(Enum):
    """The row is as the write makes it."""

    WRITTEN = "written"


class Refused(NamedTuple):
    """Nothing was written, because of *record*; None: there is no row."""

    record: Record | None


class Unanswered(NamedTuple):
    """No response in time: it may have been written or not. *reason* is safe to log."""

    reason: str
    parts: int = 0
    """How many parts of a large result, from the first, are written: the next try may skip them."""


AcquireAnswer = Won | Refused | Unanswered | Misconfigured
WriteAnswer = Written | Refused | Unanswered | Misconfigured
"""`Misconfigured` is returned: the table or a permission is missing, nothing was written, no retry helps."""


def answer_acquire(before: Record | None, acquisition: Acquire) -> tuple[AcquireAnswer, Record | None]:
    """
    Return the answer if *before* is the row, and the row to write; None: nothing is written. Pure.

    Right only if no other write comes between reading *before* and writing the result.
    """
    row = after_acquire(before, acquisition)
    if row is not None:
        took_over = before is not None and before.state is State.IN_PROGRESS
        return Won(row.fence, took_over, generation=row.generation), row
    if before is not None and before.in_progress_by(acquisition.attempt_id):
        return Won.before(before), None
    return Refused(before), None


def answer_write(before: Record | None, write: Write) -> tuple[WriteAnswer, Record | None]:
    """Return the answer if *before* is the row, and the row to write, as `answer_acquire` does."""
    row = after_write(before, write)
    if row is not None:
        return Written.WRITTEN, row
    return (Written.WRITTEN if made_by(before, write) else Refused(before)), None


class Store(Protocol):
    """The token table. Safe from several threads; a failure of one token is an answer, not an exception."""

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        """Acquire each token, or return the row that refused; the tokens of *acquisitions* differ."""
        ...

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        """Write each of *writes*; the parts of a large result before its row."""
        ...

    def read(self, token: str, deadline: Deadline) -> Record | None:
        """
        Return the row of *token*, read consistently.

        Raises `StoreUnavailable` without a response, `Misconfigured` if a retry cannot help.
        """
        ...

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        """Return the parts of *record*'s large result, None if one is missing. Raises as `read`."""
        ...

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        """
        Write the user's *items* and *finish* in one transaction, or none of them.

        *items* are as for TransactWriteItems; without *finish* they are written alone. A refused condition of
        theirs raises botocore's `TransactionCanceledException`. A store that cannot write items raises
        `Misconfigured` if there are any, and writes nothing.
        """
        ...

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        """
        List what is in progress, held, or released by a decision, in all shards, the earliest lease first.

        Raises as `read`; for a row that cannot be read, `Misconfigured` after all others.

        With *before*, only tokens whose lease ended before then. An index may lag behind, and have of each
        row no more than token, state, attempt id, `locked_by`, `created` and lease, and 0 for the fence.
        """
        ...
