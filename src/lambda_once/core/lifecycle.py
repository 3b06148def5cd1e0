"""
What a request may do, given what is stored.

Theory of operation. A token is a row; the row names one attempt. An attempt gets the row by one conditional
write, the *acquisition*; each of its later writes requires that the row still names it and is still in
progress. So at most one of any number of attempts holds the token, and one that lost it cannot overwrite its
successor. An attempt is assumed to be alive until its *lease* ends; then it has *lapsed*, and whether it did
its work is unknown: `OnLapse` decides.

`decide` reads this table from the top; the first match counts:

    stored                                                            the request gets
    nothing; past its ttl; released by another attempt                RUN
    in progress, attempt id is ours                                   RUN (only our response was lost)
    another caller's, both have a credential to compare               OTHER_CALLER
    another fingerprint, both have one                                KEY_REUSED
    complete with a result                                            REPLAY
    complete, its result unavailable                                  RESULT_UNAVAILABLE
    complete with an error                                            STORED_ERROR
    error                                                             HELD
    in progress, lease alive                                          IN_PROGRESS
    in progress, lapsed                                               RUN, HELD or ASK, by OnLapse
    released by ourselves                                             IN_PROGRESS (retry later)

No clock and no I/O. The store repeats the test as its write condition, so a stale record costs a round trip,
never a second run.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, assert_never

from lambda_once.core.record import Record, State
from lambda_once.core.results import Unavailable

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.record import Presented


class OnLapse(Enum):
    """What a request may do with a lapsed token."""

    TAKE_OVER = "take_over"
    HOLD = "hold"
    PROBE = "probe"


class Decision(Enum):
    """What the request gets."""

    RUN = "run"
    REPLAY = "replay"
    OTHER_CALLER = "other caller"
    KEY_REUSED = "key reused"
    RESULT_UNAVAILABLE = "result unavailable"
    STORED_ERROR = "stored error"
    HELD = "held"
    IN_PROGRESS = "in progress"
    ASK = "ask the probe"


class Request(NamedTuple):
    """What the decision about a request depends on."""

    attempt: str
    fingerprint: str | None
    on_lapse: OnLapse
    presented: Presented | None = None


def decide(record: Record | None, request: Request, now: datetime) -> Decision:
    """Decide what *request* may do, given what is stored. Pure; see the table above."""
    if record is None or record.expired(now) or _released_by_another(record, request):
        return Decision.RUN
    if record.state is State.IN_PROGRESS and record.attempt == request.attempt:
        return Decision.RUN
    if record.is_of_another(request.presented):
        return Decision.OTHER_CALLER
    if record.clashes(request.fingerprint):
        return Decision.KEY_REUSED
    match record.state:
        case State.COMPLETE:
            return _completed(record)
        case State.HELD:
            return Decision.HELD
        case State.IN_PROGRESS:
            return _lapsed(request.on_lapse) if record.lapsed(now) else Decision.IN_PROGRESS
        case State.RELEASED:
            return Decision.IN_PROGRESS
        case _ as unreachable:
            assert_never(unreachable)


def _released_by_another(record: Record, request: Request) -> bool:
    return record.state is State.RELEASED and record.attempt != request.attempt


def _completed(record: Record) -> Decision:
    if record.error is not None:
        return Decision.STORED_ERROR
    return Decision.RESULT_UNAVAILABLE if isinstance(record.stored, Unavailable) else Decision.REPLAY


def _lapsed(on_lapse: OnLapse) -> Decision:
    match on_lapse:
        case OnLapse.TAKE_OVER:
            return Decision.RUN
        case OnLapse.HOLD:
            return Decision.HELD
        case OnLapse.PROBE:
            return Decision.ASK
        case _ as unreachable:
            assert_never(unreachable)
