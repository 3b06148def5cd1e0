"""Held tokens found by what they stand for, and released one by one."""

from __future__ import annotations

from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, assert_never

from lambda_once.core.record import Record, State
from lambda_once.dynamodb.paging import MOST_KEYS
from lambda_once.operations.entries import Status, Wanted
from lambda_once.operations.listing import unfinished
from lambda_once.operations.settling import Verdict, settlement
from lambda_once.stores.contract import Refused, Rejected, Unanswered, Written
from lambda_once.stores.rows import record_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from lambda_once.operations.table import TokenTable


HELD = frozenset({Status.HELD})


class Outcome(Enum):
    """What became of a token that was to be released."""

    RELEASED = "released"
    REFUSED = "refused"
    """It is not any more as it was shown: somebody has settled it."""
    UNANSWERED = "unanswered"
    """It was released or not: the table did not answer."""
    LEFT = "left"
    """Not tried, for the table did not answer before."""


def held(table: TokenTable, wanted: Wanted, now: datetime) -> Iterator[Record]:
    """
    Yield the held rows that are *wanted*, the earliest lease first, each as a consistent read has it.

    Raises `StoreUnavailable` and `Misconfigured`.
    """
    entries = (entry for entry in unfinished(table, HELD, now) if wanted.takes(entry, now))
    while some := list(islice(entries, MOST_KEYS)):
        rows = table.rows(entry.token for entry in some)
        for entry in some:
            record = record_of(rows[entry.token]) if entry.token in rows else None
            if record is not None and record.state is State.HELD:
                yield record


def release(
    table: TokenTable, records: Iterable[Record], *, by: str, because: str
) -> Iterator[tuple[Record, Outcome]]:
    """
    Release each of *records*, if it still is as it was read, and tell what became of it.

    The first that gets no answer is the last that is tried. Raises `Misconfigured` where the table will never
    take it.
    """
    answered = True
    for record in records:
        outcome = _released(table, record, by, because) if answered else Outcome.LEFT
        answered = answered and outcome is not Outcome.UNANSWERED
        yield record, outcome


def _released(table: TokenTable, record: Record, by: str, because: str) -> Outcome:
    write = settlement(record, Verdict.NOT_DONE, by=by, because=because, now=table.now())
    answer = table.settle(write)
    match answer:
        case Written():
            return Outcome.RELEASED
        case Refused():
            return Outcome.REFUSED
        case Unanswered():
            return Outcome.UNANSWERED
        case Rejected(error):
            raise error
        case _ as unreachable:
            assert_never(unreachable)
