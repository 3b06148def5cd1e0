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
    made for a credential, and the request has another or none        OTHER_CALLER
    complete by another attempt, and nothing proves our caller        OTHER_CALLER
    another fingerprint, both have one                                KEY_REUSED
    complete with a result                                            REPLAY
    complete, its result unavailable                                  RESULT_UNAVAILABLE
    complete with an error                                            STORED_ERROR
    error                                                             HELD
    in progress, lease alive                                          IN_PROGRESS
    in progress, lapsed                                               RUN, HELD or ASK, by OnLapse
    released by ourselves                                             IN_PROGRESS (retry later)

`decide` has no clock and no I/O. The store repeats its test as the condition of the write, so a stale record
costs a round trip, never a second run.
"""

from __future__ import annotations

import hmac
import os
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from lambda_once.core.identity import Presented, differing
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
    """Return 128 random bits in hex, always from the kernel, so restored snapshots get different ids."""
    return os.urandom(16).hex()


class State(Enum):
    """The state of a token."""

    IN_PROGRESS = "inProgress"
    COMPLETE = "complete"
    HELD = "error"
    """Needs manual review."""
    RELEASED = "released"
    """The next delivery may retry. Listed in the index after a decision (`Record.awaits_delivery`)."""


MESSAGE_LIMIT = 1024
"""Most characters of an error message that are stored, to keep the row small."""


class Failure(NamedTuple):
    """An exception in its stored form: the class name and the message."""

    kind: str
    message: str
    sealed: bytes | None = None
    """
    The sealed message; *message* is then a placeholder. The kind stays readable for operators.
    """

    @classmethod
    def of(cls, error: BaseException, seal: Seal | None = None) -> Failure:
        """
        Return the stored form of *error*, sealed by *seal*. A message that cannot be sealed is not stored.

        A lone surrogate, which a client can send in JSON, becomes its escape, as rows are UTF-8.
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
        """Return the message, opened by *seal* if it is sealed. Raises as `core.results.unsealed` does."""
        if self.sealed is None:
            check_plain(seal)
            return self.message
        return unsealed(self.sealed, seal, _sealed_as(self.kind)).decode(errors="replace")


def _sealed_as(kind: str) -> str:
    return f"error:{kind}"


class Decider(Enum):
    """Who made a decision about a token."""

    PERSON = "person"
    WATCHDOG = "watchdog"
    """By its configuration."""
    PROBE = "probe"
    """By the probe's answer."""


class Resolve(Enum):
    """How a token is resolved."""

    DONE = "done"
    NOT_DONE = "not-done"
    FAILED = "failed"
    """Failed for good: duplicates get a stored error."""
    HOLD = "hold"
    KEEP = "keep"
    """Change only how long the outcome of a complete token is replayed."""
    FORGET = "forget"
    """Erase only the stored result or message."""


class Decision(NamedTuple):
    """A third party's decision about a token, and its reason. Later attempts keep it in the row."""

    at: datetime
    kind: Decider
    by: str
    """The name that a person gave, or the name of the function that decided."""
    because: str
    before: State
    """The state of the row before the decision."""
    how: Resolve
    attempt_id: str
    """The row's attempt id after the decision. The decision applies as long as the row has this id."""
    caller: str | None = None
    """The ARN of the person's credentials, from STS; None: unverified."""
    times: int = 1
    """How many times in succession watchdog or probes decided the same. It limits the watchdog's releases."""

    def gave(self, attempt_id: str) -> bool:
        """Whether it set or accepted the outcome of a row with *attempt_id*."""
        return self.how in (Resolve.DONE, Resolve.FAILED) and self.attempt_id == attempt_id


MOST_DECISIONS: Final = 10
"""Most decisions that a row keeps: the latest ones."""
DECISIONS_LIMIT: Final = 4_096
"""Most bytes of all decisions of a row. Every 1,024 bytes add a write unit to each later write of the row."""
_DECISION_OVERHEAD: Final = 176
"""Bytes of an entry without its texts: names, times, states, the attempt id (DynamoDB guide, item sizes)."""


def with_decision(earlier: Sequence[Decision], decision: Decision) -> tuple[Decision, ...]:
    """
    Return the decisions of a row after *decision*: at most `MOST_DECISIONS` and `DECISIONS_LIMIT` bytes.

    If a watchdog or probe repeats its last decision, the new one replaces it and ``times`` is increased, so
    repetitions do not push out a person's decision. The decision that gave the current outcome always stays.
    """
    last = earlier[-1] if earlier else None
    decisions = [*earlier]
    if last is not None and Decider.PERSON not in (last.kind, decision.kind) and last.how is decision.how:
        decision = decision._replace(times=last.times + 1)
        if last == decision._replace(at=last.at, attempt_id=last.attempt_id, times=last.times):
            decisions.pop()
    decisions.append(decision)
    giving = next((each for each in reversed(decisions) if each.gave(decision.attempt_id)), None)
    while len(decisions) > MOST_DECISIONS or sum(map(_size, decisions)) > DECISIONS_LIMIT:
        oldest = next((each for each in decisions[:-1] if each is not giving), None)
        if oldest is None:
            break
        decisions.remove(oldest)
    return tuple(decisions)


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
    """Decisions of third parties, oldest first (`with_decision`)."""
    fields: bytes | None = None
    """Checksums of the payload's fields (`core.fields`), for messages only."""
    write_id: str | None = None
    """The id of the write that ended the attempt; None while in progress."""
    caller: str | None = None
    """The mark of the credential (`Presented.mark`); None: there was none, or it is not compared."""
    trace: str | None = None
    """The ``traceparent`` of the acquisition's span, for links; None: not traced, or not sampled."""
    generation: str | None = None
    """
    Input of downstream keys, with the token: random, set by the first acquisition.

    Releases, take-overs and holds keep it, so that all attempts at the same work use the same downstream
    key. Completion removes it, so that the same payload, as new work after ``keep``, uses another one.
    """
    omits_outcome: bool = False
    """Whether result and error were left out because the reader lacks permission; both are None then."""

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
        """The last decision; None if there is none, or if an attempt has run since."""
        last = self.decisions[-1] if self.decisions else None
        return last if last is not None and last.attempt_id == self.attempt_id else None

    @property
    def is_given(self) -> bool:
        """Whether a decision gave the current outcome, which is then not sealed."""
        return any(each.gave(self.attempt_id) for each in self.decisions)

    @property
    def awaits_delivery(self) -> bool:
        """
        Whether a decision released it and no attempt has run since.

        Such a row is in the index and has no ttl, so that work that is never redelivered stays visible.
        """
        return self.state is State.RELEASED and self.ttl is None

    @property
    def is_listed(self) -> bool:
        """Whether the sparse index has it: in progress, held, or released by a decision."""
        return self.state in (State.IN_PROGRESS, State.HELD) or self.awaits_delivery

    def lapsed(self, now: datetime) -> bool:
        """Return whether it is in progress with an expired lease; whether the work was done is unknown."""
        return self.state is State.IN_PROGRESS and self.expected_completion < now

    def in_progress_by(self, attempt: str) -> bool:
        """Return whether *attempt* holds the row. If so, a refusal means that a response was lost."""
        return self.state is State.IN_PROGRESS and self.attempt_id == attempt

    def clashes(self, fingerprint: str | None) -> bool:
        """Return whether *fingerprint* and the row's are both there, and differ in a part that both have."""
        stored = self.fingerprint
        return fingerprint is not None and stored is not None and bool(differing(stored, fingerprint))

    def is_of_another(self, presented: Presented | None) -> bool:
        """Return whether the row has a credential, and *presented* is another one, or none."""
        if self.caller is None:
            return False
        mark = None if presented is None else presented.mark(self.caller.partition(".")[0])
        return mark is None or not hmac.compare_digest(self.caller.encode(), mark.encode())


# ------------------------------------------------------------------ the decision


class OnLapse(Enum):
    """What a request may do with a lapsed token."""

    TAKE_OVER = "take_over"
    HOLD = "hold"
    PROBE = "probe"


class Course(Enum):
    """The result of `decide`: what a request may do, or what it gets."""

    RUN = "run"
    REPLAY = "replay"
    OTHER_CALLER = "other caller"
    KEY_REUSED = "key reused"
    RESULT_UNAVAILABLE = "result unavailable"
    STORED_ERROR = "stored error"
    HELD = "held"
    IN_PROGRESS = "in progress"
    ASK = "ask the probe"


def decide(
    record: Record | None,
    now: datetime,
    attempt_id: str,
    fingerprint: str | None,
    on_lapse: OnLapse,
    presented: Presented | None = None,
) -> Course:
    """Decide what *attempt_id* of a call may do, given what is stored. Pure; see the table above."""
    if record is None or record.expired(now):
        return Course.RUN
    is_ours = record.attempt_id == attempt_id
    if record.state is State.IN_PROGRESS if is_ours else record.state is State.RELEASED:
        return Course.RUN
    if record.is_of_another(presented):
        return Course.OTHER_CALLER
    if record.state is State.COMPLETE and not is_ours and _is_unproven(presented):
        return Course.OTHER_CALLER
    if record.clashes(fingerprint):
        return Course.KEY_REUSED
    match record.state:
        case State.COMPLETE:
            return _completed(record)
        case State.HELD:
            return Course.HELD
        case State.IN_PROGRESS:
            return _on_lapse(on_lapse) if record.lapsed(now) else Course.IN_PROGRESS
        case State.RELEASED:
            return Course.IN_PROGRESS
        case _ as unreachable:
            assert_never(unreachable)


def _is_unproven(presented: Presented | None) -> bool:
    """Return whether nothing proves who sent the request, although users differ."""
    return presented is not None and not presented.proof


def _completed(record: Record) -> Course:
    if record.error is not None:
        return Course.STORED_ERROR
    return Course.RESULT_UNAVAILABLE if isinstance(record.stored, Unavailable) else Course.REPLAY


def _on_lapse(on_lapse: OnLapse) -> Course:
    match on_lapse:
        case OnLapse.TAKE_OVER:
            return Course.RUN
        case OnLapse.HOLD:
            return Course.HELD
        case OnLapse.PROBE:
            return Course.ASK
        case _ as unreachable:
            assert_never(unreachable)
