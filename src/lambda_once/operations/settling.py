"""What somebody other than its attempts decides about a token, as the one write that says so."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, assert_never

from lambda_once.core.clock import epoch_seconds
from lambda_once.core.record import MESSAGE_LIMIT, Failure, Resolution
from lambda_once.core.results import Chunks, Inline, pack
from lambda_once.core.writes import Complete, Finish, Hold, Release, Resolver, new_attempt_id, new_write_id

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.record import Record

KEEP = timedelta(days=28)
"""
How long a settled outcome is replayed. What is held lies in a dead-letter queue, for 14 days at most, and a
redrive from there makes it a new message, for 14 more (SQS' longest retention).
"""

WATCHDOG = "watchdog"
LONGEST_REASON = 1_024
LONGEST_NAME = 256


FAILURE = "Failed"
"""The kind of the error that a verdict stores; its message is the reason."""


class Verdict(Enum):
    """What is to become of a token."""

    DONE = "done"
    NOT_DONE = "not done"
    FAILED = "failed"
    """For good: duplicates get a stored error of kind `FAILURE`."""
    HOLD = "hold"


def settlement(
    record: Record,
    verdict: Verdict,
    *,
    by: str,
    because: str,
    now: datetime,
    result: str | None = None,
    keep: timedelta = KEEP,
) -> Finish:
    """
    Return the write that gives *record* its *verdict*; refused unless the row still is as *record* says.

    It bears a fresh attempt id and fence + 1: an attempt that wakes up can neither overwrite it nor take it
    for its own. *result* is the JSON text that duplicates of done work get; None: they get None. Of failed
    work they get an error of kind `FAILURE`, whose message is *because*. *because* and *by* are kept on the
    row, cut to 1,024 and 256 characters.
    """
    note = Resolution(by[:LONGEST_NAME], because[:LONGEST_REASON], now, _times(record, by))
    writer = Resolver(record.attempt, record.expected_completion, new_attempt_id(), record.state)
    ttl = None if verdict is Verdict.HOLD else epoch_seconds(now + keep)
    change = _change(record, verdict, because, result)
    return Finish(record.token, writer, change, now, ttl, new_write_id(change), note)


def _times(record: Record, by: str) -> int:
    before = record.resolution
    return before.times + 1 if before is not None and before.by == by else 1


def _change(record: Record, verdict: Verdict, because: str, result: str | None) -> Complete | Hold | Release:
    match verdict:
        case Verdict.DONE:
            packed: Inline | Chunks | None = None if result is None else pack(result)
            return Complete(packed)
        case Verdict.NOT_DONE:
            return Release(record.error)
        case Verdict.FAILED:
            return Complete(None, Failure(FAILURE, because[:MESSAGE_LIMIT]))
        case Verdict.HOLD:
            return Hold(record.error or Failure("Held", because[:LONGEST_REASON]))
        case _ as unreachable:
            assert_never(unreachable)
