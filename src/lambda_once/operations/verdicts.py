"""What speaks against a verdict, and what follows from one: for who is about to give it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

from lambda_once.core.clock import stamp
from lambda_once.operations.entries import Status, status_of
from lambda_once.operations.names import parts_of
from lambda_once.operations.settling import Verdict

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from lambda_once.core.record import Record

LONGEST_RETENTION_DAYS = 14
"""How long SQS keeps a message at most (developer guide, message retention period)."""

# A request of an API is scoped by its method and path, each encoded, and what follows them.
_METHOD_AND_PATH = re.compile(r"[A-Z]+:%2F")


def objection(record: Record, now: datetime) -> str | None:
    """Return why *record* should be left alone; None where somebody has to settle it."""
    match status_of(record, now):
        case Status.OVERDUE | Status.HELD:
            return None
        case Status.IN_PROGRESS:
            return (
                f"it is in progress, and its lease runs until {stamp(record.expected_completion)}: "
                "somebody may be at work on it"
            )
        case Status.COMPLETE:
            return "it is complete: duplicates get its outcome"
        case Status.RELEASED:
            return "it is released already: the next delivery runs"
        case _ as unreachable:
            assert_never(unreachable)


def next_delivery(verdict: Verdict, until: datetime, *, with_result: bool) -> str:
    """Tell what a delivery gets after *verdict*; what is done is replayed *until* then."""
    match verdict:
        case Verdict.DONE:
            what = "the result that was given" if with_result else "None: no result was given"
            return f"it is not run again; it gets {what}, until {stamp(until)}"
        case Verdict.NOT_DONE:
            return "it runs, as a new attempt"
        case Verdict.FAILED:
            return f"it is not run again; it gets StoredError (Failed, with the reason), until {stamp(until)}"
        case Verdict.HOLD:
            return "it is refused (Held), until somebody resolves the token"
        case _ as unreachable:
            assert_never(unreachable)


def redrive_advice(verdict: Verdict) -> str:
    """Tell whether messages of a queue must be sent again after *verdict*."""
    match verdict:
        case Verdict.DONE:
            return (
                "none needed: what lies in a dead-letter queue may be deleted; sent again, it is replayed "
                "and harmless"
            )
        case Verdict.NOT_DONE:
            return (
                "needed where the message is in a dead-letter queue by now: redrive that queue to its "
                "source; a message that is still in its own queue comes by itself"
            )
        case Verdict.FAILED:
            return (
                "none needed: what is in a dead-letter queue may be deleted; sent again, it fails again with "
                "the stored error"
            )
        case Verdict.HOLD:
            return "wait with it: what is sent again now ends in the dead-letter queue again"
        case _ as unreachable:
            assert_never(unreachable)


def is_request(token: str) -> bool:
    """
    Tell whether *token* stands for a request of an API, by the method and path that its scope begins with.

    False may also mean that the scope is too long to be readable.
    """
    name = parts_of(token)
    return name is not None and name.scope is not None and bool(_METHOD_AND_PATH.match(token.split("/")[2]))


def is_short(keep: timedelta) -> bool:
    """Tell whether a message in a queue may outlive an outcome that is kept for *keep*."""
    return keep.days < LONGEST_RETENTION_DAYS
