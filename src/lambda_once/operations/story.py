"""
A row as a story in time: what happened, what stands now, what a duplicate would get, what to do next.

Pure, and says nothing of payloads and results but their kind and size.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.record import Record, State
from lambda_once.core.results import Inline, Parts, Unavailable, utf8
from lambda_once.operations.entries import STUCK, Status, status_of
from lambda_once.operations.spans import spoken
from lambda_once.operations.verdicts import is_request

if TYPE_CHECKING:
    from lambda_once.core.results import Stored


class Event(NamedTuple):
    """One thing that happened to a token, or will."""

    at: datetime | None
    """None: the row does not say when."""
    what: str


# -- what happened


def story(record: Record, now: datetime) -> tuple[Event, ...]:
    """Return what the row tells, in the order of time; what it has no time for stands at its end."""
    events = [*_beginning(record, now), *_end(record), *_decision(record), *_memory(record, now)]
    dated = sorted((event for event in events if event.at is not None), key=lambda event: event.at or now)
    return (*dated, *(event for event in events if event.at is None))


def decided_by_another(record: Record) -> bool:
    """Tell whether the row stands as somebody other than its attempt decided."""
    return record.resolution is not None and record.resolution.at >= record.created


def _beginning(record: Record, now: datetime) -> list[Event]:
    if decided_by_another(record):  # the attempt id and the fence on the row are those of the decision
        acquired = f"acquired by {record.locked_by}"
    else:
        acquired = f"acquired by {record.locked_by}: attempt {record.attempt}, fence {record.fence}"
    if record.delivery is not None:
        acquired += f", for delivery {record.delivery}"
    events = [Event(record.created, acquired)]
    if record.state is State.IN_PROGRESS:
        over = record.lapsed(now)
        lease = "its lease ended, and nothing was heard of it" if over else "its lease ends"
        events.append(Event(record.expected_completion, lease))
    return events


def _end(record: Record) -> list[Event]:
    said = "" if record.error is None else f": {record.error.kind}: {record.error.message}"
    match record.state:
        case State.COMPLETE if record.error is not None:
            return [Event(record.actual_completion, f"failed for good{said}")]
        case State.COMPLETE:
            return [Event(record.actual_completion, f"complete{_after(record)}; {kept(record.stored)}")]
        case State.HELD:
            return [Event(record.actual_completion, f"held, for a person to look{said}")]
        case State.RELEASED:
            return [Event(_released(record), f"given back{said}")]
        case _:
            return []


def _after(record: Record) -> str:
    if record.actual_completion is None or decided_by_another(record):
        return ""
    return f" after {spoken(record.actual_completion - record.created)}"


def _released(record: Record) -> datetime | None:
    note = record.resolution
    return note.at if note is not None and decided_by_another(record) else None


def _decision(record: Record) -> list[Event]:
    note = record.resolution
    if note is None:
        return []
    verdict = _verdict(record) if decided_by_another(record) else None
    what = "decided on an earlier attempt" if verdict is None else f"decided: {verdict}"
    times = "" if note.times == 1 else f" ({note.times} times in a row)"
    return [Event(note.at, f"{note.by} {what}, because: {note.because}{times}")]


def _verdict(record: Record) -> str | None:
    if record.state is State.COMPLETE and record.error is not None:
        return "failed for good"
    return {State.COMPLETE: "done", State.RELEASED: "not done", State.HELD: "hold"}.get(record.state)


def _memory(record: Record, now: datetime) -> list[Event]:
    if record.ttl is None:
        return []
    until = datetime.fromtimestamp(record.ttl, UTC)
    past = until <= now
    match record.state:
        case State.COMPLETE:
            return [Event(until, "no longer replayed" if past else "replayed until then")]
        case State.RELEASED:
            return [Event(until, "forgotten" if past else "forgotten then, if no delivery comes")]
        case _:
            return [Event(until, "the row expires, if nobody comes before")]


# -- what stands now


def outlook(record: Record, now: datetime) -> str:
    """Return one sentence: where the token stands, and what the next delivery of its key gets."""
    match status_of(record, now):
        case Status.COMPLETE if record.expired(now):
            return "done, and past its ttl: the next delivery runs again"
        case Status.COMPLETE if record.error is not None:
            return "failed for good: a duplicate gets that error"
        case Status.COMPLETE if isinstance(record.stored, Unavailable):
            return "done, but its result is lost: a duplicate gets ResultUnavailable; on a queue, success"
        case Status.COMPLETE:
            return "done: a duplicate gets the stored result"
        case Status.RELEASED:
            return "not done, or not for good: the next delivery runs"
        case Status.HELD:
            return "waits for a person: every delivery is refused as Held until it is resolved"
        case Status.OVERDUE:
            late = spoken(now - record.expected_completion)
            return f"overdue by {late}, whether the work was done is unknown: {_after_lapse(record)}"
        case Status.IN_PROGRESS:
            left = spoken(record.expected_completion - now)
            return f"at work, with {left} left of its lease: a duplicate is told to come back"


def _after_lapse(record: Record) -> str:
    # Only under take_over has an unfinished row a ttl (hold and probe must not let it expire).
    return (
        "the next delivery is refused as Held, or asks a probe"
        if record.ttl is None
        else "the next delivery runs"
    )


def kept(stored: Stored) -> str:
    """Return the kind and the size of a stored result."""
    match stored:
        case Inline(str(data)):
            return f"its result is JSON of {len(utf8(data)):,} bytes in the row"
        case Inline(data):
            return f"its result is compressed to {len(data):,} bytes in the row"
        case Parts(count):
            return f"its result stands in {count} part{'' if count == 1 else 's'} beside the row"
        case Unavailable():
            return "its result could not be kept"
        case None:
            return "its result is null"


def memory_is_short(record: Record, retention: timedelta) -> str | None:
    """
    Return a warning where an outcome is forgotten sooner after its completion than a message may come again.

    *retention* is how long a queue and its dead-letter queue keep a message: 14 days for SQS at most (SQS
    developer guide, MessageRetentionPeriod).
    """
    if record.state is not State.COMPLETE or record.ttl is None or record.actual_completion is None:
        return None
    if is_request(record.token):
        return None  # of an API, whose clients keep no messages
    keep = datetime.fromtimestamp(record.ttl, UTC) - record.actual_completion
    if keep + timedelta(seconds=1) >= retention:  # a ttl is in whole seconds
        return None
    return (
        f"kept for {spoken(keep)} only: a message that a queue or a dead-letter queue keeps longer (up to "
        f"{spoken(retention)}) would run again. Right only where no queue is its source; else raise keep="
    )


# -- what to do next


def log_queries(record: Record) -> dict[str, str]:
    """
    Return what to ask CloudWatch Logs Insights: by the request that had the token, and by the token.

    Work without a Lambda context has no request id to ask by.
    """
    request = record.locked_by.rpartition("/")[2]
    asked = {"token": f'filter token = "{record.token}"'}
    if request not in ("", "-"):
        asked = {"request": f'filter @message like "{request}"'} | asked
    return {
        name: f"fields @timestamp, @message | {filtered} | sort @timestamp | limit 1000"
        for name, filtered in asked.items()
    }


def function_of(record: Record) -> str:
    """Return the name of the function that had the token, as Lambda knows it."""
    return record.locked_by.rpartition("/")[0] or record.locked_by


def next_steps(record: Record, now: datetime) -> tuple[str, ...]:
    """Return the commands that settle a token which is stuck; none for others."""
    if status_of(record, now) not in STUCK:
        return ()
    pinned = f"lambda-once resolve {quote(record.token)} --attempt {quote(record.attempt)}"
    return tuple(f"{pinned} {verdict} --because '…'" for verdict in ("--done", "--not-done"))
