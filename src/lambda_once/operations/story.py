"""
The history of a row: its events, its state, what a duplicate gets, and the next steps.

Pure. It shows the kind and size of a result, never its content.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from shlex import quote
from typing import Final, NamedTuple

from lambda_once.core.lifecycle import Decider, Decision, Record, Resolve, State
from lambda_once.core.results import Inline, Parts, Stored, Unavailable, is_sealed, utf8
from lambda_once.operations.decisions import stores_result
from lambda_once.operations.times import duration_text, time_of_ttl
from lambda_once.operations.tokens import STATUS, STUCK, Status, is_request, token_status


class Moment(NamedTuple):
    """One event of a token, past or future."""

    at: datetime | None
    """None: the row has no time for it."""
    what: str


# -- events


def story(record: Record, now: datetime) -> tuple[Moment, ...]:
    """Return the events of a row in the order of time; those without a time end what has happened so far."""
    decisions = (Moment(decision.at, describe_decision(decision)) for decision in record.decisions)
    events = [*_beginning(record, now), *_end(record), *decisions, *_memory(record, now)]
    return tuple(sorted(events, key=lambda event: (event.at or now, event.at is None)))


def is_resolved(record: Record) -> bool:
    """Whether the state of the row was decided by an operator, a probe or the watchdog."""
    return record.standing is not None and not _is_kept(record)


def _is_kept(record: Record) -> bool:
    """Whether the last decision left the outcome as it was: it is later than the outcome."""
    last, completed = record.standing, record.actual_completion
    if last is None or completed is None or last.before is not State.COMPLETE:
        return False
    return last.how in (Resolve.DONE, Resolve.KEEP) and last.at > completed


def _beginning(record: Record, now: datetime) -> list[Moment]:
    acquired = f"acquired by {record.locked_by}"
    if record.standing is None:  # else the attempt id or the fence on the row is that of the resolution
        acquired += f": attempt {record.attempt_id}, fence {record.fence}"
    if record.delivery is not None:
        acquired += f", for delivery {record.delivery}"
    events = [Moment(record.created, acquired)]
    if record.state is State.IN_PROGRESS:
        lease = "lease expired, no outcome written" if record.lapsed(now) else "lease expires"
        events.append(Moment(record.expected_completion, lease))
    return events


def _end(record: Record) -> list[Moment]:
    error = "" if record.error is None else f": {record.error.kind}: {record.error.message}"
    if record.omits_outcome:
        error = "; its error was not read"
    match record.state:
        case State.COMPLETE if record.error is not None:
            return [Moment(record.actual_completion, f"failed for good{error}")]
        case State.COMPLETE:
            took = ""
            if record.actual_completion is not None and not is_resolved(record):
                took = f" after {duration_text(record.actual_completion - record.created)}"
            return [Moment(record.actual_completion, f"complete{took}; {describe_outcome(record)}")]
        case State.HELD:
            return [Moment(record.actual_completion, f"held for manual review{error}")]
        case State.RELEASED:
            last = record.standing
            return [Moment(None if last is None else last.at, f"released{error}")]
        case _:
            return []


_DECIDED: Final = {
    Resolve.DONE: "resolved it as done",
    Resolve.NOT_DONE: "released it as not done",
    Resolve.FAILED: "resolved it as failed for good",
    Resolve.HOLD: "decided to hold it",
    Resolve.KEEP: "changed until when its outcome is kept",
    Resolve.FORGET: "had it forgotten",
}
_PLANNED: Final = {
    Resolve.DONE: "would be resolved as done",
    Resolve.NOT_DONE: "would be released as not done",
    Resolve.FAILED: "would be resolved as failed for good",
    Resolve.HOLD: "would be held",
    Resolve.KEEP: "its outcome would be kept until another time",
    Resolve.FORGET: "what it stores would be forgotten",
}


def describe_plan(record: Record, decision: Decision, now: datetime) -> str:
    """Return what *decision* would do with *record*, before it is written: nothing is done yet."""
    return f"{_PLANNED[decision.how]} (it is {token_status(record, now).words}): {decision.because}"


def describe_decision(decision: Decision) -> str:
    """Return one decision that was written: who, what, of which state, why; its time is beside it."""
    who = decision.by
    if decision.kind is Decider.PERSON:
        who += f" ({decision.caller or 'identity unverified'})"
    elif decision.kind is Decider.PROBE:
        who += " (by its probe)"
    times = "" if decision.times == 1 else f", {decision.times} times in a row"
    return (
        f"{who} {_DECIDED[decision.how]} (it was {STATUS[decision.before].words}){times}: {decision.because}"
    )


def _memory(record: Record, now: datetime) -> list[Moment]:
    if record.ttl is None:
        return []
    until = time_of_ttl(record.ttl)
    past = until <= now
    if record.state is State.COMPLETE:
        return [Moment(until, "no longer replayed" if past else "replayed until then")]
    return [Moment(until, "expired" if past else "expires unless it is acquired again")]


# -- the state


def outlook(record: Record, now: datetime, parts_present: int | None = None) -> str:
    """
    Return the state of the token, and what the next delivery of its key gets, in one sentence.

    *parts_present*: how many parts of its result exist; None: it has none, or they were not counted.
    """
    match token_status(record, now):
        case Status.COMPLETE:
            return _when_complete(record, now, parts_present)
        case Status.RELEASED if record.awaits_delivery:
            return "released by a decision, and not run since: the next delivery runs, if there is one"
        case Status.RELEASED:
            return "released by its function: the next delivery runs, if there is one"
        case Status.HELD:
            return "held for manual review: every delivery is refused (Held) until the token is resolved"
        case Status.OVERDUE:
            late = duration_text(now - record.expected_completion)
            return f"overdue by {late}; whether the work was done is unknown: {_after_lapse(record)}"
        case Status.IN_PROGRESS:
            left = duration_text(record.expected_completion - now)
            return f"in progress, {left} left of its lease: a duplicate is refused (InProgress)"


_UNAVAILABLE: Final = "a duplicate gets ResultUnavailable; on a queue, success"


def _when_complete(record: Record, now: datetime, parts_present: int | None) -> str:
    if record.expired(now):
        return "done, but past its ttl: the next delivery runs again"
    if record.omits_outcome:
        return "done, or failed for good: a duplicate gets the stored result or error"
    if record.error is not None:
        return "failed for good: a duplicate gets the stored error"
    if isinstance(record.stored, Unavailable):
        return f"done, but its result is not stored: {_UNAVAILABLE}"
    if isinstance(record.stored, Parts) and parts_present not in (None, record.stored.count):
        return f"done, but parts of its result are missing: {_UNAVAILABLE}"
    return "done: a duplicate gets the stored result"


def _after_lapse(record: Record) -> str:
    # Only under take_over has an unfinished row a ttl (hold and probe must not let it expire).
    if record.ttl is None:
        return "the next delivery is refused (Held), or calls the probe"
    return "the next delivery runs, if there is one"


GIVEN: Final = "given or accepted by a decision"
"""Of an outcome that ``seal_required=True`` does not refuse, though nobody sealed it (`Record.is_given`)."""


def describe_outcome(record: Record) -> str:
    """Describe the outcome in a complete row: its result by kind and size, or its error; if it is given."""
    if record.omits_outcome:
        return "its result or error was not read"
    what = describe_result(record.stored) if record.error is None else f"the error {record.error.kind}"
    is_closed = isinstance(record.stored, Inline) and is_sealed(record.stored.data)
    return f"{what}, {GIVEN}" if record.is_given and not is_closed else what


def describe_result(stored: Stored) -> str:
    """Return the kind and the size of a stored result."""
    match stored:
        case Inline(str(data)):
            return f"its result is JSON of {len(utf8(data)):,} bytes in the row"
        case Inline(data):
            how = "sealed in" if is_sealed(data) else "compressed to"
            return f"its result is {how} {len(data):,} bytes in the row"
        case Parts(count):
            return f"its result is in {count} part{'' if count == 1 else 's'} beside the row"
        case Unavailable.FORGOTTEN:
            return "its result was forgotten"
        case Unavailable.WITHHELD:
            return "its response is not stored: it sets a cookie or says no-store, and no user is named"
        case Unavailable():
            return "its result could not be stored"
        case None:
            return "its result is null"


def short_memory(record: Record, retention: timedelta) -> str | None:
    """
    Return a warning if an outcome is kept for less time than a queue may redeliver its message.

    *retention* is how long a queue and its dead-letter queue keep a message: 14 days for SQS at most (SQS
    developer guide, MessageRetentionPeriod).
    """
    if record.state is not State.COMPLETE or record.ttl is None or record.actual_completion is None:
        return None
    if is_request(record.token):
        return None  # the clients of an API keep no messages
    keep = time_of_ttl(record.ttl) - record.actual_completion
    if keep + timedelta(seconds=1) >= retention:  # a ttl is in whole seconds
        return None
    return (
        f"kept for only {duration_text(keep)}: a message that a queue or dead-letter queue keeps longer (up "
        f"to {duration_text(retention)}) would run again. Raise keep=, unless the source is not a queue"
    )


# -- what to do next


def log_queries(record: Record) -> dict[str, str]:
    """
    Return queries for CloudWatch Logs Insights: by the request that acquired the token, and by the token.

    Work without a Lambda context has no request id, a durable execution has its ARN in place of one.
    """
    function, slash, request = record.locked_by.partition("/")
    request = request if slash else function
    filters = {"token": f'filter token = "{record.token}"'}
    if request not in ("", "-"):
        filters = {"request": f'filter @message like "{request}"'} | filters
    return {
        name: f"fields @timestamp, @message | {each} | sort @timestamp | limit 1000"
        for name, each in filters.items()
    }


def function_of(record: Record) -> str:
    """Return the name of the Lambda function that acquired the token."""
    return record.locked_by.partition("/")[0]


def next_steps(record: Record, now: datetime) -> tuple[str, ...]:
    """Return the commands that resolve an overdue or held token; none for others."""
    if token_status(record, now) not in STUCK:
        return ()
    return tuple(f"{_resolve(record)} {option} --because '…'" for option in ("--done", "--not-done"))


_BACK: Final = {
    State.IN_PROGRESS: "--hold",
    State.HELD: "--hold",
    State.RELEASED: "--not-done",
    State.COMPLETE: "--done --result backup.json",
}
_OPTION: Final = {Resolve.HOLD: "--hold", Resolve.NOT_DONE: "--not-done"}


def undoing(record: Record) -> str | None:
    """
    Return the command that undoes the last decision, by deciding again; None if an attempt has run since.

    A lapsed token becomes a held one, which only a person releases. What duplicates were answered meanwhile
    stays; nothing brings back a result that was dropped, but the copy that was saved first.
    """
    last = record.standing
    if record.omits_outcome:
        return None  # it depends on the outcome
    if last is None or last.how is Resolve.FORGET or _BACK[last.before] == _OPTION.get(last.how):
        return None
    back = _BACK[last.before]
    if last.how is Resolve.KEEP or _is_kept(record):
        back = "--keep DURATION"
    elif last.before is State.COMPLETE and record.state is State.RELEASED and record.error is not None:
        back = "--failed"  # a release keeps the error
    if "--keep" not in back and record.state is not State.HELD:
        back += " --force --drop-result" if stores_result(record) else " --force"
    return f"{_resolve(record)} {back} --because '…'"


def _resolve(record: Record) -> str:
    return f"lambda-once resolve {quote(record.token)} --attempt {quote(record.attempt_id)}"
