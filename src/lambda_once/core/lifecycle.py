"""
The row of one token, as a value, and what a request may do, given that row.

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
    complete by another attempt, and nothing proves our caller        OTHER_CALLER
    another fingerprint, both have one                                KEY_REUSED
    complete with a result                                            REPLAY
    complete, its result unavailable                                  RESULT_UNAVAILABLE
    complete with an error                                            STORED_ERROR
    error                                                             HELD
    in progress, lease alive                                          IN_PROGRESS
    in progress, lapsed                                               RUN, HELD or ASK, by OnLapse
    released by ourselves                                             IN_PROGRESS (retry later)

`decide` has no clock and no I/O. The store repeats it as its write condition, so a stale record costs a round
trip, never a second run.
"""

from __future__ import annotations

import hmac
import os
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from lambda_once.core.results import (
    NotSerialisable,
    Seal,
    Stored,
    Unavailable,
    check_plain,
    unsealed,
    utf8,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


# ------------------------------------------------------------------ the row


def new_attempt_id() -> str:
    """Return 128 random bits in hex, from the kernel at each call: no two restored snapshots share one."""
    return os.urandom(16).hex()


class State(Enum):
    """The state of a token."""

    IN_PROGRESS = "inProgress"
    COMPLETE = "complete"
    HELD = "error"
    """Needs manual review."""
    RELEASED = "released"
    """The next delivery may retry. The index lists what a decision released (`Record.awaits_delivery`)."""


class Presented(NamedTuple):
    """What a request presents of its caller, compared with the first request's. Its repr does not show it."""

    credential: str | None
    """None: the request could have had one, and has none."""
    proof: bool = True
    """
    False: nothing proves who sent the request, and something says that users differ. No outcome is returned
    to it; it may run where there is none yet, for then the handler checks the caller.
    """
    advice: str | None = None
    """What the developer can do about a refusal, for the log; None: no more than the usual."""

    def __repr__(self) -> str:
        return "Presented(…)"

    @property
    def is_compared(self) -> bool:
        """Whether a row of this request has a mark, which a duplicate must match."""
        return self.credential is not None or not self.proof

    def mark(self, salt: str) -> str | None:
        """
        Return the mark that a row stores: *salt*, an attempt id, and the HMAC under it. None without one.

        Without proof it is a word in place of the HMAC, which no credential matches.

        The mark contains the salt, because resolving a token changes its attempt id. Two rows never have the
        same mark, so marks do not reveal which callers are the same.
        """
        if not self.proof:
            return f"{salt}.unverified"
        if self.credential is None:
            return None
        text = self.credential.encode("utf-8", "surrogatepass")
        return f"{salt}.{hmac.digest(salt.encode(), text, 'sha256').hex()}"


MESSAGE_LIMIT = 1024
"""Characters of an error's message that are stored: a row stays small."""


class Failure(NamedTuple):
    """An exception as a row stores it: the name of its class, and its message."""

    kind: str
    message: str
    sealed: bytes | None = None
    """
    The message sealed, for this kind; *message* is a placeholder then. The kind itself is readable, for
    operators.
    """

    @classmethod
    def of(cls, error: BaseException, seal: Seal | None = None) -> Failure:
        """
        Return *error* as it is stored, sealed by *seal*; a message that cannot be sealed is not stored.

        A lone surrogate, which a client can send in JSON, becomes its escape: a row is written in UTF-8.
        """
        kind = type(error).__name__
        try:
            message = utf8(str(error)[:MESSAGE_LIMIT]).decode()[:MESSAGE_LIMIT]
        except Exception:  # noqa: BLE001  (the user's __str__ failed: the attempt must still be finished)
            message = "message unavailable: __str__ raised"
        if seal is None:
            return cls(kind, message)
        try:
            return cls(kind, "(sealed)", seal.close(utf8(message), _sealed_as(kind)))
        except NotSerialisable as problem:
            return cls(kind, f"message unavailable: {problem}")

    def text(self, seal: Seal | None) -> str:
        """Return the message, opened by *seal* if it is sealed. Raises as `core.results.unsealed`."""
        if self.sealed is None:
            check_plain(seal)
            return self.message
        return unsealed(self.sealed, seal, _sealed_as(self.kind)).decode(errors="replace")


def _sealed_as(kind: str) -> str:
    return f"error:{kind}"


class Decider(Enum):
    """Who decides about a token without being its attempt."""

    PERSON = "person"
    WATCHDOG = "watchdog"
    """As it was configured."""
    PROBE = "probe"
    """By what the probe answered."""


class Resolve(Enum):
    """How a token is resolved."""

    DONE = "done"
    NOT_DONE = "not-done"
    FAILED = "failed"
    """For good: duplicates get a stored error."""
    HOLD = "hold"
    KEEP = "keep"
    """Only until when the outcome of a complete token is replayed."""
    FORGET = "forget"
    """Only what the row stores: no result, no message."""


class Decision(NamedTuple):
    """What a third party decided about a token, and why. Attempts leave it on the row."""

    at: datetime
    kind: Decider
    by: str
    """The name that a person gave, or that of the function that decided."""
    because: str
    before: State
    """Of the row that it was made about."""
    how: Resolve
    attempt_id: str
    """The row's attempt id after the decision: the decision stands while the row has it."""
    caller: str | None = None
    """The ARN of the credentials with which a person wrote, by STS; None: unverified."""
    times: int = 1
    """How often in a row watchdog and probes have decided the same: the watchdog's releases are limited."""

    def gave(self, attempt_id: str) -> bool:
        """Whether it gave the outcome of a row that has *attempt_id*, or accepted the one that was there."""
        return self.how in (Resolve.DONE, Resolve.FAILED) and self.attempt_id == attempt_id


MOST_DECISIONS: Final = 10
"""Decisions that a row keeps: the last ones."""
DECISIONS_LIMIT: Final = 4_096
"""Bytes of all decisions of a row. Each later write of the row costs a write unit more for each 1,024."""
_DECISION_OVERHEAD: Final = 176
"""Bytes of an entry beside its texts: names, times, states, the attempt id (DynamoDB guide, item sizes)."""


def with_decision(earlier: Sequence[Decision], decision: Decision) -> tuple[Decision, ...]:
    """
    Return the decisions of a row after *decision*: the last `MOST_DECISIONS`, of `DECISIONS_LIMIT` bytes.

    The same decision of a watchdog or probe again replaces the one before, so that no repetition drives a
    person's out; ``times`` counts them. The one that gave the outcome stays as long as that does.
    """
    last = earlier[-1] if earlier else None
    kept = tuple(earlier)
    if last is not None and Decider.PERSON not in (last.kind, decision.kind) and last.how is decision.how:
        decision = decision._replace(times=last.times + 1)
        if last == decision._replace(at=last.at, attempt_id=last.attempt_id, times=last.times):
            kept = kept[:-1]
    found = [*kept, decision]
    giving = next((each for each in reversed(found) if each.gave(decision.attempt_id)), None)
    while len(found) > MOST_DECISIONS or sum(map(_size, found)) > DECISIONS_LIMIT:
        oldest = next((each for each in found[:-1] if each is not giving), None)
        if oldest is None:
            break
        found.remove(oldest)
    return tuple(found)


def _size(decision: Decision) -> int:
    texts = (decision.by, decision.because, decision.caller or "")
    return _DECISION_OVERHEAD + sum(len(utf8(text)) for text in texts)


class Record(NamedTuple):
    """One row: the token, its latest attempt, and its outcome."""

    token: str
    state: State
    attempt_id: str
    fence: int
    locked_by: str
    created: datetime
    expected_completion: datetime
    actual_completion: datetime | None = None
    delivery: str | None = None
    fingerprint: str | None = None
    ttl: int | None = None
    stored: Stored = None
    error: Failure | None = None
    decisions: tuple[Decision, ...] = ()
    """What third parties decided, the oldest first (`with_decision`)."""
    fields: bytes | None = None
    """Checksums of the payload's fields (`core.fields`), for messages only."""
    write_id: str | None = None
    """The id of the write that ended it; None in progress."""
    caller: str | None = None
    """The mark of the credential (`Presented.mark`); None: there was none, or none counts."""
    trace: str | None = None
    """The ``traceparent`` of the acquisition's span, for links; None: it was not traced, or not sampled."""
    generation: str | None = None
    """
    What downstream keys are made of, beside the token: random, set by the first acquisition.

    Releases, take-overs and holds keep it, so that every attempt at one piece of work shows the next system
    the same key; the completion removes it, so that the same payload, once it is new work, shows another.
    """
    omits_outcome: bool = False
    """Whether result and error were left out, because the reader may not have them: both are None then."""

    def expired(self, now: datetime) -> bool:
        """
        Return whether the row counts as absent: complete or released, and past its ttl.

        DynamoDB may delete such a row up to two days late (developer guide, time to live). A row in progress
        or held never expires here, whatever its ttl.
        """
        ended = self.state in (State.COMPLETE, State.RELEASED)
        return ended and self.ttl is not None and self.ttl <= now.timestamp()

    @property
    def standing(self) -> Decision | None:
        """The last decision, if no attempt has run since; None: there is none, or one has."""
        last = self.decisions[-1] if self.decisions else None
        return last if last is not None and last.attempt_id == self.attempt_id else None

    @property
    def is_given(self) -> bool:
        """Whether a decision gave the outcome, which nobody seals, and no attempt has run since."""
        return any(each.gave(self.attempt_id) for each in self.decisions)

    @property
    def awaits_delivery(self) -> bool:
        """
        Whether a decision released it, and it has not run since.

        The index lists such a row, and it has no ttl, so that work that nobody delivers again is seen.
        """
        return self.state is State.RELEASED and self.ttl is None

    @property
    def is_listed(self) -> bool:
        """Whether the sparse index has it: in progress, held, or released by a decision."""
        return self.state in (State.IN_PROGRESS, State.HELD) or self.awaits_delivery

    def lapsed(self, now: datetime) -> bool:
        """Return whether it is in progress and its lease is over: whether the work happened is unknown."""
        return self.state is State.IN_PROGRESS and self.expected_completion < now

    def in_progress_by(self, attempt: str) -> bool:
        """Return whether *attempt* holds the row: what refuses its acquisition is that acquisition itself."""
        return self.state is State.IN_PROGRESS and self.attempt_id == attempt

    def clashes(self, fingerprint: str | None) -> bool:
        """Return whether the row has another fingerprint than *fingerprint*; False without either."""
        return fingerprint is not None and self.fingerprint is not None and fingerprint != self.fingerprint

    def is_of_another(self, presented: Presented | None) -> bool:
        """Return whether *presented* is another credential than the row's; False without either."""
        if presented is None or self.caller is None:
            return False
        mark = presented.mark(self.caller.partition(".")[0])
        return mark is None or not hmac.compare_digest(self.caller.encode(), mark.encode())


# ------------------------------------------------------------------ the decision


class OnLapse(Enum):
    """What a request may do with a lapsed token."""

    TAKE_OVER = "take_over"
    HOLD = "hold"
    PROBE = "probe"


class Course(Enum):
    """What a request may do, or gets."""

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

    attempt_id: str
    fingerprint: str | None
    on_lapse: OnLapse
    presented: Presented | None = None


def decide(record: Record | None, request: Request, now: datetime) -> Course:
    """Decide what *request* may do, given what is stored. Pure; see the table above."""
    if record is None or record.expired(now) or _released_by_another(record, request):
        return Course.RUN
    if record.in_progress_by(request.attempt_id):
        return Course.RUN
    if record.is_of_another(request.presented):
        return Course.OTHER_CALLER
    if record.state is State.COMPLETE and _is_unproven(record, request):
        return Course.OTHER_CALLER
    if record.clashes(request.fingerprint):
        return Course.KEY_REUSED
    match record.state:
        case State.COMPLETE:
            return _completed(record)
        case State.HELD:
            return Course.HELD
        case State.IN_PROGRESS:
            return _lapsed(request.on_lapse) if record.lapsed(now) else Course.IN_PROGRESS
        case State.RELEASED:
            return Course.IN_PROGRESS
        case _ as unreachable:
            assert_never(unreachable)


def _released_by_another(record: Record, request: Request) -> bool:
    return record.state is State.RELEASED and record.attempt_id != request.attempt_id


def _is_unproven(record: Record, request: Request) -> bool:
    """Return whether the outcome is another attempt's, and nothing proves whose *request* is."""
    unproven = request.presented is not None and not request.presented.proof
    return unproven and record.attempt_id != request.attempt_id


def _completed(record: Record) -> Course:
    if record.error is not None:
        return Course.STORED_ERROR
    return Course.RESULT_UNAVAILABLE if isinstance(record.stored, Unavailable) else Course.REPLAY


def _lapsed(on_lapse: OnLapse) -> Course:
    match on_lapse:
        case OnLapse.TAKE_OVER:
            return Course.RUN
        case OnLapse.HOLD:
            return Course.HELD
        case OnLapse.PROBE:
            return Course.ASK
        case _ as unreachable:
            assert_never(unreachable)
