"""
Resolve a token: what an operator or the watchdog decides about it, as one conditional write.

The write requires the row as it was read, and gets an attempt id of its own: an attempt that wakes up later
is fenced off, and never takes the decision for its own work. Who decided, when and why stays in the row.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from lambda_once.core.clock import epoch_seconds, stamp
from lambda_once.core.lifecycle import Decider, Decision, Failure, Record, Resolve, State
from lambda_once.core.results import Inline, Parts, Unavailable, pack, utf8
from lambda_once.core.writes import Change, Complete, End, Hold, Keep, Release, Write, resolving
from lambda_once.errors import Misconfigured, OnceError
from lambda_once.operations.listing import confirmed, unfinished
from lambda_once.operations.tokens import STATUS, Filter, Status, token_status
from lambda_once.stores.contract import Refused, Unanswered, Written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lambda_once.operations.table import TokenTable

KEEP = timedelta(days=28)
"""
How long the outcome of a resolved token is replayed: a held message is in a dead-letter queue for up to 14
days, and a redrive from there makes it a new message, for 14 more (SQS' longest retention).
"""
LONGEST_RETENTION_DAYS = 14
"""How long SQS keeps a message at most (developer guide, message retention period)."""
WATCHDOG = "watchdog"
LONGEST_REASON = 256
LONGEST_NAME = 128
LONGEST_ARN = 256
"""Bytes of a decision's texts on the row, which each later write of the row rewrites."""
FAILURE = "Failed"
"""The kind of the error that ``--failed`` stores; its message is the reason."""
HELD = frozenset({Status.HELD})


class Author(NamedTuple):
    """Who decides, and why."""

    by: str
    because: str
    kind: Decider = Decider.PERSON
    caller: str | None = None
    """The ARN of the credentials, by STS; None: unverified."""


def decided(
    record: Record,
    how: Resolve,
    author: Author,
    now: datetime,
    *,
    result: str | Unavailable | None = None,
    keep: timedelta | None = None,
) -> Write:
    """
    Return the write that resolves *record*; refused if the row has changed since it was read.

    It has a new attempt id and fence + 1: an attempt that wakes up can neither overwrite it nor take it
    for its own. *result* is the JSON text that duplicates of done work get; None: they get None, or what a
    complete token has; `Unavailable`: they get `ResultUnavailable`. Duplicates of failed work get an error of
    kind `FAILURE`, whose message is the reason. The *author* is kept on the row, texts cut to
    `LONGEST_REASON`, `LONGEST_NAME` and `LONGEST_ARN` bytes. *keep* is `KEEP` by default, and as long as the
    row had it where its outcome stays; what is held or released has no ttl. Raises ValueError for an outcome
    to keep where there is none, and to forget what is in progress, and `NotSerialisable` for a *result* that
    is too large.
    """
    change = _change(record, how, author.because, result)
    decision = _decision(record, how, author, now)
    if how is Resolve.FORGET:
        earlier = tuple(each._replace(because=FORGOTTEN) for each in record.decisions)
        erased = record._replace(decisions=earlier)  # a reason may quote what is erased
        ended = record.expected_completion if record.awaits_delivery else record.actual_completion
        return resolving(erased, change, record.ttl, ended or now, decision)  # its end stays
    return resolving(record, change, _ttl(record, change, now, keep), now, decision)


def _ttl(record: Record, change: End | Keep, now: datetime, keep: timedelta | None) -> int | None:
    if isinstance(change, Hold | Release):
        return None
    ttl = epoch_seconds(now + (KEEP if keep is None else keep))
    return max(ttl, record.ttl or 0) if isinstance(change, Keep) and keep is None else ttl


def _decision(record: Record, how: Resolve, author: Author, now: datetime) -> Decision:
    """Return the decision about *record*, texts cut to their limits; the write gives it its attempt id."""
    return Decision(
        now,
        author.kind,
        _cut(author.by, LONGEST_NAME),
        _cut(author.because, LONGEST_REASON),
        record.state,
        how,
        attempt_id="",
        caller=None if author.caller is None else _cut(author.caller, LONGEST_ARN),
    )


def _cut(text: str, most: int) -> str:
    return utf8(text)[:most].decode(errors="ignore")


def _change(record: Record, how: Resolve, because: str, result: str | Unavailable | None) -> End | Keep:
    match how:
        case Resolve.DONE if result is None and is_done(record):
            return _keep(record)
        case Resolve.KEEP:
            return _keep(record)
        case Resolve.DONE:
            return Complete(pack(result) if isinstance(result, str) else result)
        case Resolve.NOT_DONE:
            return Release(record.error)
        case Resolve.FAILED:
            return Complete(None, Failure(FAILURE, _cut(because, LONGEST_REASON)))
        case Resolve.HOLD:
            return Hold(record.error or Failure("Held", _cut(because, LONGEST_REASON)))
        case Resolve.FORGET:
            return _forgotten(record)
        case _ as unreachable:
            assert_never(unreachable)


def _keep(record: Record) -> Keep:
    if record.state is not State.COMPLETE:
        raise ValueError(f"token {record.token} is {record.state.value}: it has no outcome")
    return Keep(record.write_id, record.stored.count if isinstance(record.stored, Parts) else 0)


def is_done(record: Record) -> bool:
    """Whether *record* is complete, and not with an error: then ``--done`` changes no outcome."""
    return record.state is State.COMPLETE and record.error is None


def decided_by_person(record: Record) -> bool:
    """
    Whether a person's decision stands on *record*: no attempt has run since (guarantee 13).

    It never does on a token in progress, so the watchdog, which resolves only those, does not ask.
    """
    last = record.standing
    return last is not None and last.kind is Decider.PERSON


# -- before and after the decision


_ENDED: Final = {
    Status.COMPLETE: "it is complete: duplicates get its outcome",
    Status.RELEASED: "it is already released: the next delivery runs",
}


def objection(record: Record, now: datetime) -> str | None:
    """Return an objection to resolving *record*; None if it is overdue or held."""
    status = token_status(record, now)
    if status is Status.IN_PROGRESS:
        lease = stamp(record.expected_completion)
        return f"it is in progress, with a lease until {lease}: an attempt may be running"
    return _ENDED.get(status)


def drops_result(record: Record, change: Change) -> bool:
    """Whether *change* would lose a result that *record* has."""
    return stores_result(record) and not isinstance(change, Keep)


def stores_result(record: Record) -> bool:
    return isinstance(record.stored, Inline | Parts)


def next_delivery(how: Resolve, until: datetime, *, with_result: bool, kept: Record | None) -> str:
    """Describe what the next delivery gets; an outcome, also that of *kept*, is replayed *until* then."""
    if kept is not None:
        is_lost = isinstance(kept.stored, Unavailable)
        what = "ResultUnavailable (on a queue, success)" if is_lost else "the stored outcome"
        return f"does not run again; it gets {what} until {stamp(until)}"
    match how:
        case Resolve.DONE | Resolve.KEEP:
            what = "the given result" if with_result else "None (no result was given)"
            return f"does not run again; it gets {what} until {stamp(until)}"
        case Resolve.NOT_DONE:
            return "runs, as a new attempt; under history=, only if the old version has not done it"
        case Resolve.FAILED:
            return f"does not run again; it gets StoredError (Failed, with the reason) until {stamp(until)}"
        case Resolve.HOLD:
            return "is refused (Held) until the token is resolved"
        case Resolve.FORGET:
            return "is answered as before, without what was stored"
        case _ as unreachable:
            assert_never(unreachable)


_REPLAYED: Final = "not needed; a message in a dead-letter queue may be deleted, or redriven: it is replayed"
REDRIVE: Final = {
    Resolve.DONE: _REPLAYED,
    Resolve.KEEP: _REPLAYED,
    Resolve.NOT_DONE: "needed if the message is in a dead-letter queue: redrive that queue to its source; a "
    "message that is still in its own queue is redelivered by SQS",
    Resolve.FAILED: "not needed; a message in a dead-letter queue may be deleted: redriven, it fails again "
    "with the stored error",
    Resolve.HOLD: "not yet: a message that is redriven now ends in the dead-letter queue again",
    Resolve.FORGET: "not needed",
}
"""Whether messages must be redriven from a dead-letter queue."""


# -- forget what a token stores; it stays, so nothing runs again, and a duplicate gets `ResultUnavailable`

FORGOTTEN: Final = "(forgotten)"
"""The message of an error that was forgotten; its kind, the name of a class, stays."""


def forget_objection(record: Record) -> str | None:
    """Return an objection to forgetting *record*; None if there is none."""
    if record.state is State.IN_PROGRESS:
        lease = stamp(record.expected_completion)
        return f"it is in progress, with a lease until {lease}: forget it once it is finished, or resolve it"
    has_message = record.error is not None and record.error.message != FORGOTTEN
    has_reason = any(_quotes(decision) for decision in record.decisions)
    if stores_result(record) or has_message or has_reason or record.fields is not None:
        return None
    return "it stores no result, no message, no checksums of fields and no reason of an earlier decision"


def _quotes(decision: Decision) -> bool:
    """Whether its reason may quote the data to be erased: a person's may, but not that of ``forget``."""
    is_ours = decision.kind is not Decider.PERSON or decision.how is Resolve.FORGET
    return not is_ours and decision.because != FORGOTTEN


def delete_objection(record: Record) -> str | None:
    """Return an objection to deleting the row of *record*; None if its work is done."""
    if record.state is State.COMPLETE:
        return None
    return (
        f"it is {STATUS[record.state].words}: deleted, its work could be done twice without a trace; "
        "resolve it first (--done or --failed)"
    )


def _forgotten(record: Record) -> Complete | Hold | Release:
    failure = None if record.error is None else Failure(record.error.kind, FORGOTTEN)
    match record.state:
        case State.COMPLETE:
            return Complete(Unavailable.FORGOTTEN) if failure is None else Complete(None, failure)
        case State.HELD:
            return Hold(failure or Failure("Held", FORGOTTEN))
        case State.RELEASED:
            return Release(failure)
        case State.IN_PROGRESS:
            raise ValueError(f"token {record.token} is in progress")
        case _ as unreachable:
            assert_never(unreachable)


def is_forgotten(record: Record) -> bool:
    """Whether an operator has erased the outcome of *record*."""
    if record.error is not None:
        return record.error.message == FORGOTTEN
    return record.stored is Unavailable.FORGOTTEN


# -- many tokens


class RedriveOutcome(Enum):
    """The outcome of one release."""

    RELEASED = "released"
    REFUSED = "refused"
    """The row has changed since it was shown."""
    UNANSWERED = "unanswered"
    """The table did not respond, so the outcome is unknown."""
    LEFT = "left"
    """Not tried, because the releases stopped before."""
    SKIPPED = "skipped"
    """Not tried, because a decision of a person stands."""


def to_release(
    table: TokenTable, wanted: Filter, status: Status, now: datetime, malformed: list[Misconfigured]
) -> Iterator[Record]:
    """
    Yield the held or overdue rows that match *wanted*, the earliest lease first, each read consistently.

    *malformed* gets the errors of rows that cannot be read. Raises `StoreUnavailable` and `Misconfigured`.
    """
    only = frozenset({status})
    listed = unfinished(table, only, now, malformed)
    matching = (entry for entry in listed if wanted.matches(entry.record, now))
    rows = (entry.record for entry in confirmed(table, matching, now, malformed, only))
    return (record for record in rows if wanted.matches(record, now))


def release(
    table: TokenTable, records: Iterable[Record], author: Author, stopped: list[BaseException]
) -> Iterator[tuple[Record, RedriveOutcome]]:
    """
    Release each of *records* unless its row has changed since it was read; yield the outcomes.

    After a release without a response no more are tried, nor after a Ctrl-C or an error, such as that of
    credentials that have expired: *stopped* gets it, and every record its outcome.
    """
    answered = True
    for record in records:
        outcome = RedriveOutcome.LEFT
        if answered and not stopped:
            try:
                outcome = _released(table, record, author)
            except OnceError as error:  # not written
                stopped.append(error)
            except KeyboardInterrupt as interrupt:
                stopped.append(interrupt)
                outcome = RedriveOutcome.UNANSWERED
        answered = answered and outcome is not RedriveOutcome.UNANSWERED
        yield record, outcome


def _released(table: TokenTable, record: Record, author: Author) -> RedriveOutcome:
    answer = table.write(decided(record, Resolve.NOT_DONE, author, table.now()))
    match answer:
        case Written():
            return RedriveOutcome.RELEASED
        case Refused():
            return RedriveOutcome.REFUSED
        case Unanswered():
            return RedriveOutcome.UNANSWERED
        case Misconfigured() as error:
            raise error
        case _ as unreachable:
            assert_never(unreachable)
