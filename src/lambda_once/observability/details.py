"""What happened, as one frozen value: the log line, the metric and the hooks all read the same."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.clock import stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lambda_once.core.record import Record


class Happening(StrEnum):
    """The stable names of all events: the message of the log line, and what alarms and queries select."""

    ACQUIRED = "once.acquired"
    DONE = "once.done"
    FAILED = "once.failed"
    RAISED = "once.raised"
    COMPLETED = "once.completed"
    REPLAYED = "once.replayed"
    SAME_CONTENT = "once.same_content"
    IN_PROGRESS = "once.in_progress"
    RELEASED = "once.released"
    STORED = "once.stored"
    HELD = "once.held"
    TAKEN_OVER = "once.taken_over"
    FENCED = "once.fenced"
    COMPLETION_FAILED = "once.completion_failed"
    STORE_UNAVAILABLE = "once.store_unavailable"
    KEY_REUSED = "once.key_reused"
    KEY_MISSING = "once.key_missing"
    MISCONFIGURED = "once.misconfigured"
    REFUSED = "once.refused"
    RESULT_UNAVAILABLE = "once.result_unavailable"
    BAD_RECORD = "once.bad_record"
    DISABLED = "once.disabled"
    PROBE_FAILED = "once.probe_failed"
    POLICY_FAILED = "once.policy_failed"
    UNSCOPED = "once.unscoped"
    NO_LAMBDA_CONTEXT = "once.no_lambda_context"
    NO_SERVICE = "once.no_service"
    BATCH_DENIED = "once.batch_denied"
    REPORT_FAILED = "once.report_failed"
    OVERDUE = "once.overdue"
    SHARD_OUT_OF_RANGE = "once.shard_out_of_range"
    CLOCK_SKEW = "once.clock_skew"


class Manner(NamedTuple):
    """How loudly a happening is logged, and the metric it counts."""

    level: int
    metric: str | None = None


MANNERS: Final[Mapping[Happening, Manner]] = {
    # an attempt, from its acquisition to what settles it
    Happening.ACQUIRED: Manner(logging.DEBUG, "started"),
    Happening.TAKEN_OVER: Manner(logging.WARNING, "takenOver"),  # beside acquired: another attempt lapsed
    Happening.DONE: Manner(logging.INFO),
    Happening.FAILED: Manner(logging.WARNING, "errors"),
    Happening.RAISED: Manner(logging.ERROR),  # what a batch swallows, with its traceback
    Happening.COMPLETED: Manner(logging.DEBUG, "completed"),
    Happening.RELEASED: Manner(logging.INFO, "released"),
    Happening.STORED: Manner(logging.INFO, "stored"),
    Happening.HELD: Manner(logging.ERROR, "held"),  # an attempt made it so; a duplicate is refused
    Happening.FENCED: Manner(logging.ERROR, "fenced"),
    Happening.COMPLETION_FAILED: Manner(logging.ERROR, "completionFailed"),
    Happening.RESULT_UNAVAILABLE: Manner(logging.ERROR),
    # a duplicate, and what it was answered
    Happening.REPLAYED: Manner(logging.INFO, "replayed"),
    Happening.SAME_CONTENT: Manner(logging.WARNING, "sameContent"),
    Happening.IN_PROGRESS: Manner(logging.INFO, "inProgress"),
    Happening.KEY_REUSED: Manner(logging.WARNING, "keyReused"),
    Happening.REFUSED: Manner(logging.WARNING),  # Held, StoredError, ResultUnavailable, OtherCaller
    # what kept a request from being judged
    Happening.STORE_UNAVAILABLE: Manner(logging.ERROR, "storeUnavailable"),
    Happening.MISCONFIGURED: Manner(logging.ERROR, "misconfigured"),  # table, permission, a callable key=
    Happening.KEY_MISSING: Manner(logging.WARNING, "keyMissing"),
    Happening.BAD_RECORD: Manner(logging.ERROR),
    Happening.PROBE_FAILED: Manner(logging.ERROR),
    Happening.POLICY_FAILED: Manner(logging.ERROR),  # on_error itself raised, or answered no policy
    Happening.DISABLED: Manner(logging.WARNING, "disabled"),
    Happening.UNSCOPED: Manner(logging.WARNING),  # once per environment
    Happening.NO_LAMBDA_CONTEXT: Manner(logging.WARNING),
    Happening.NO_SERVICE: Manner(logging.WARNING),
    Happening.BATCH_DENIED: Manner(logging.WARNING),
    Happening.REPORT_FAILED: Manner(logging.WARNING),  # a hook, metric or segment raised
    # what the watchdog sees; its metrics are measures, not counts: `operations.watchdog`
    Happening.OVERDUE: Manner(logging.WARNING),  # at every run that looks at it, until it is settled
    Happening.SHARD_OUT_OF_RANGE: Manner(logging.WARNING),
    Happening.CLOCK_SKEW: Manner(logging.WARNING),
}
"""Every happening once. What settles ``started`` is ``completed``, ``released``, ``stored`` or ``held``."""

MUST_SURVIVE: Final = frozenset({Happening.DONE, Happening.FAILED})
"""Said before the token is written, and all that tells what happened if that write never lands."""

SAMPLED: Final = frozenset({Happening.KEY_MISSING})
"""Logged the first, second, fourth, eighth … time in an environment, and counted every time."""

_RENAMED: Final = {"name": "once_name", "created": "acquired"}  # logging refuses them in `extra` (KeyError)


class Details(NamedTuple):
    """
    One happening and what is known about it; None where it is not.

    There is no field for payloads and results: they are never logged, counted or shown to hooks. Of a
    payload there are at most the names of a few fields (`differing`).
    """

    happening: Happening
    token: str | None = None
    name: str | None = None
    """Of the protected function; of the hook or other part that raised in ``once.report_failed``."""
    attempt: str | None = None
    fence: int | None = None
    locked_by: str | None = None
    created: datetime | None = None
    """When the attempt acquired the token; ``acquired`` in the log."""
    expected_completion: datetime | None = None
    delivery: str | None = None
    other_delivery: str | None = None
    """The delivery that the stored outcome came from, where it is another."""
    seconds: float | None = None
    """How long the work took; of what is overdue, how long ago its lease ended."""
    error: str | None = None
    """The kind of an exception, never its message, which may quote data."""
    reason: str | None = None
    """A text of this package: a table, an option or the names of fields may stand in it, never data."""
    differing: str | None = None
    """The names of fields in which a payload differs from the first under its key, never their values."""

    @classmethod
    def of_row(cls, happening: Happening, record: Record, **more: Any) -> Details:
        """Return what *record* tells of its attempt, and *more*."""
        return cls(
            happening,
            record.token,
            attempt=record.attempt,
            fence=record.fence,
            locked_by=record.locked_by,
            created=record.created,
            expected_completion=record.expected_completion,
            **more,
        )

    def fields(self) -> dict[str, object]:
        """
        Return what the log line carries, without what is None.

        Times are text as in the rows, ``2026-11-20T10:12:00.000Z``; ``name`` is ``once_name`` and
        ``created`` is ``acquired``; all other names are the attributes'.
        """
        return {
            label: stamp(value) if isinstance(value, datetime) else value
            for label, value in zip(_LABELS, self[1:], strict=True)
            if value is not None
        }


_LABELS: Final = tuple(_RENAMED.get(attribute, attribute) for attribute in Details._fields[1:])
"""Of all fields but the first, which is the line's message."""


class Tally:
    """Counts what one invocation has to say. Safe to share between threads."""

    __slots__ = ("_counts", "_lock", "interrupted")

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = Lock()
        self.interrupted: BaseException | None = None
        """A SystemExit, KeyboardInterrupt or the like, raised when the tokens at work are settled."""

    def interrupt(self, error: BaseException) -> None:
        """Keep *error* for `raise_interruption`; the first of several is kept."""
        self.interrupted = self.interrupted or error

    def raise_interruption(self) -> None:
        """Raise what was kept, once."""
        error, self.interrupted = self.interrupted, None
        if error is not None:
            raise error

    def count(self, metric: str) -> None:
        with self._lock:
            self._counts[metric] += 1

    def drain(self) -> dict[str, int]:
        """Return what was counted since the last time, each count once."""
        with self._lock:
            counts = dict(self._counts)
            self._counts.clear()
        return counts
