"""
Forget what a token stores of its work: the result, its parts, the message of the error.

The token stays, so nothing runs again; a duplicate gets `ResultUnavailable`. For people who ask that their
data be erased. Pure; `TokenTable.erase_parts` deletes the parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import Decider, Failure, Record, State, new_attempt_id
from lambda_once.core.results import Unavailable
from lambda_once.core.writes import Complete, Hold, Release, Resolver, Write, new_write_id
from lambda_once.operations.resolution import noted

if TYPE_CHECKING:
    from datetime import datetime

FORGOTTEN: Final = "(forgotten)"
"""The message of an error that was forgotten; its kind, the name of a class, stays."""


def forget_objection(record: Record) -> str | None:
    """Return why *record* cannot be forgotten; None if it can."""
    if record.state is State.IN_PROGRESS:
        lease = stamp(record.expected_completion)
        return f"it is in progress, with a lease until {lease}: forget it once it is finished, or resolve it"
    has_message = record.error is not None and record.error.message != FORGOTTEN
    if not has_message and (record.stored is None or isinstance(record.stored, Unavailable)):
        return "it stores no result and no message"
    return None


def forgetting(record: Record, *, by: str, because: str, now: datetime) -> Write:
    """
    Return the write that forgets what *record* stores; refused if the row has changed since it was read.

    It has a new attempt id and fence + 1, as a resolution. State, ttl and the time of completion stay.
    *record* is not in progress (`forget_objection`).
    """
    attempt = new_attempt_id()
    change = _change(record)
    completed = record.actual_completion or now
    note = noted(record, attempt, kind=Decider.PERSON, by=by, because=because, now=now)
    writer = Resolver.of(record, attempt)
    return Write(record.token, writer, change, completed, record.ttl, new_write_id(change), note)


def _change(record: Record) -> Complete | Hold | Release:
    failure = None if record.error is None else Failure(record.error.kind, FORGOTTEN)
    match record.state:
        case State.COMPLETE:
            return Complete(Unavailable.FORGOTTEN)
        case State.HELD:
            return Hold(failure or Failure("Held", FORGOTTEN))
        case State.RELEASED:
            return Release(failure)
        case State.IN_PROGRESS:
            raise ValueError(f"token {record.token} is in progress")
        case _ as unreachable:
            assert_never(unreachable)


def is_forgotten(record: Record) -> bool:
    """Whether an operator had *record* forgotten."""
    if record.error is not None:
        return record.error.message == FORGOTTEN
    return record.stored is Unavailable.FORGOTTEN
