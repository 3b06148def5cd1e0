"""
The contract of a store: acquire, write and read, for many tokens at once.

A store answers each acquisition and each write separately, in order; a failure of one affects no other. It
recognises its own writes: `Refused` means that another attempt's row refused the write, never that our first
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
    """The token was acquired. *fence* is larger than that of every earlier acquisition."""

    fence: int
    took_over: bool
    """Whether the token was taken over from a lapsed attempt."""
    lease: datetime | None = None
    """The row's lease, which ends earlier, if an earlier try had acquired the token. None: as requested."""
    generation: str | None = None
    """The row's `Record.generation`."""

    @classmethod
    def first(cls, acquisition: Acquire) -> Won:
        """Return the answer if there is no row."""
        return cls(acquisition.first_fence, took_over=False, generation=acquisition.attempt_id)

    @classmethod
    def before(cls, record: Record) -> Won:
        """Return the answer if *record* is our own acquisition, whose response was lost (guarantee 3)."""
        return cls(
            record.fence, took_over=False, lease=record.expected_completion, generation=record.generation
        )


class Written(Enum):
    """The row has the content of the write."""

    WRITTEN = "written"


class Refused(NamedTuple):
    """Nothing was written, because of *record*, or because there is no row (None)."""

    record: Record | None


class Unanswered(NamedTuple):
    """No response in time; the write may have taken effect. *reason* is safe to log."""

    reason: str
    parts: int = 0
    """Number of parts of a large result, from the first, that are written: the next try may skip them."""


AcquireAnswer = Won | Refused | Unanswered | Misconfigured
WriteAnswer = Written | Refused | Unanswered | Misconfigured
"""`Misconfigured` is returned, not raised: table or permission missing, nothing written, no retry helps."""


def answer_acquire(before: Record | None, acquisition: Acquire) -> tuple[AcquireAnswer, Record | None]:
    """
    Return the answer for the row *before*, and the row to write; None to write nothing. Pure.

    Correct only if no other write comes between reading *before* and writing the result.
    """
    row = after_acquire(before, acquisition)
    if row is not None:
        took_over = before is not None and before.state is State.IN_PROGRESS
        return Won(row.fence, took_over, generation=row.generation), row
    if before is not None and before.in_progress_by(acquisition.attempt_id):
        return Won.before(before), None
    return Refused(before), None


def answer_write(before: Record | None, write: Write) -> tuple[WriteAnswer, Record | None]:
    """Return the answer for the row *before*, and the row to write, as `answer_acquire` does."""
    row = after_write(before, write)
    if row is not None:
        return Written.WRITTEN, row
    return (Written.WRITTEN if made_by(before, write) else Refused(before)), None


class Store(Protocol):
    """The token table. Safe from several threads. A failure of one token is an answer, not an exception."""

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        """Acquire each token, or return the row that refused it. The tokens of *acquisitions* must differ."""
        ...

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        """Write each of *writes*. The parts of a large result are written before its row."""
        ...

    def read(self, token: str, deadline: Deadline) -> Record | None:
        """
        Return the row of *token*, read consistently; None if there is none.

        Raises `StoreUnavailable` without a response, and `Misconfigured` if a retry cannot help.
        """
        ...

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        """Return the parts of *record*'s large result; None if one is missing. Raises as `read` does."""
        ...

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        """
        Write the user's *items* and *finish* in one transaction, all or nothing.

        *items* are as for TransactWriteItems; without *finish* they are written alone. If a condition of an
        item is refused, botocore's `TransactionCanceledException` is raised. A store that cannot write items
        raises `Misconfigured` if there are any, and writes nothing.
        """
        ...

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        """
        List the tokens in progress, held, or released by a decision, earliest lease first.

        Raises as `read` does. For a row that cannot be read it raises `Misconfigured`, after all other rows.

        With *before*, only tokens whose lease ended before that time. An index may lag behind, and may return
        only token, state, attempt id, `locked_by`, `created` and lease of each row, with a fence of 0.
        """
        ...
