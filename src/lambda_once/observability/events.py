"""The log events: stable names, each with its level and its metric."""

from __future__ import annotations

from enum import StrEnum
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Final, Self


class Event(StrEnum):
    """
    What happened: the message of the log line, and what alarms and queries select.

    A ``started`` attempt ends as ``completed``, ``released``, ``stored`` or ``held``.
    """

    level: int
    metric: str | None

    def __new__(cls, name: str, level: int, metric: str | None = None) -> Self:
        """*metric* is counted with each event of the name."""
        event = str.__new__(cls, name)
        event._value_, event.level, event.metric = name, level, metric
        return event

    # an attempt, from its acquisition to its finish
    ACQUIRED = "once.acquired", DEBUG, "started"
    TAKEN_OVER = "once.taken_over", WARNING, "takenOver"  # beside acquired: another attempt lapsed
    RETURNED = "once.returned", INFO
    FAILED = "once.failed", WARNING, "errors"
    RAISED = "once.raised", ERROR  # an exception that ends in a batch, with its traceback
    COMPLETED = "once.completed", INFO, "completed"
    RELEASED = "once.released", INFO, "released"
    STORED = "once.stored", INFO, "stored"
    HELD = "once.held", ERROR, "held"  # by an attempt; a duplicate is refused
    FENCED = "once.fenced", ERROR, "fenced"
    COMPLETION_FAILED = "once.completion_failed", ERROR, "completionFailed"
    RESULT_UNAVAILABLE = "once.result_unavailable", ERROR, "resultUnavailable"
    RESULT_CHANGED = "once.result_changed", WARNING  # once per function and environment
    LAZY_RESULT = "once.lazy_result", ERROR  # WARNING if inside a result; once per function and environment
    RESULT_NOT_STORED = "once.result_not_stored", INFO  # of a record; once per function and environment
    # a duplicate
    REPLAYED = "once.replayed", INFO, "replayed"
    SAME_CONTENT = "once.same_content", WARNING, "sameContent"
    IN_PROGRESS = "once.in_progress", INFO, "inProgress"
    KEY_REUSED = "once.key_reused", WARNING, "keyReused"
    NOT_COMPARED = "once.not_compared", WARNING  # once per function, path and environment
    REFUSED = "once.refused", WARNING  # Held, StoredError, ResultUnavailable, OtherCaller
    # a request that could not be judged
    STORE_UNAVAILABLE = "once.store_unavailable", ERROR, "storeUnavailable"
    MISCONFIGURED = "once.misconfigured", ERROR, "misconfigured"  # table, permission, a callable key=
    KEY_MISSING = "once.key_missing", WARNING, "keyMissing"
    CALLER_MISSING = "once.caller_missing", WARNING, "callerMissing"
    BAD_RECORD = "once.bad_record", ERROR, "badRecord"
    GIVEN_UP = "once.given_up", WARNING, "givenUp"  # on_give_up has taken a record of a stream, which goes on
    PROBE_FAILED = "once.probe_failed", ERROR, "probeFailed"
    POLICY_FAILED = "once.policy_failed", ERROR, "policyFailed"  # on_error raised, or returned no policy
    DISABLED = "once.disabled", WARNING, "disabled"
    UNSCOPED = "once.unscoped", WARNING  # once per environment
    NOT_PROTECTED = "once.not_protected", WARNING  # once per route and environment
    UNPROTECTED = "once.unprotected", WARNING, "unprotected"  # logged once per function and environment
    NOT_STORED = "once.not_stored", WARNING  # once per route and environment
    FRAMED_VALUE = "once.framed_value", WARNING  # Kafka's first value; once per function and environment
    SHARED_NAME = "once.shared_name", ERROR  # once per function and environment
    NO_LAMBDA_CONTEXT = "once.no_lambda_context", WARNING
    NO_SERVICE = "once.no_service", WARNING
    POWERTOOLS_DISABLED = "once.powertools_disabled", WARNING
    BATCHES_OFF = "once.batches_off", WARNING
    PARTS_DENIED = "once.parts_denied", ERROR  # large results are not stored as they should be
    CLIENT_LIMITS = "once.client_limits", INFO  # of a client that is given; once per environment
    CRT_DECLINED = "once.crt_declined", WARNING
    REPORT_FAILED = "once.report_failed", WARNING  # a hook, metric or segment raised
    # a pattern; another content under one key is key_reused
    APPLIED = "once.applied", DEBUG, "applied"
    DUPLICATE = "once.duplicate", DEBUG, "duplicate"
    STALE = "once.stale", DEBUG, "stale"
    BELOW_FLOOR = "once.below_floor", DEBUG, "refused"
    CONFLICT = "once.conflict", WARNING, "conflict"
    FULL = "once.full", ERROR, "full"
    NO_ID = "once.no_id", WARNING  # once for each ledger
    TOO_FAR_AHEAD = "once.too_far_ahead", ERROR, "tooFarAhead"
    FELL_BACK = "once.fell_back", WARNING, "fellBack"
    UNSENT = "once.unsent", ERROR, "unsent"
    # the watchdog; its metrics are measured, not counted: `operations.watchdog`
    OVERDUE = "once.overdue", WARNING  # at every run, until it is resolved
    STREAM_GAP = "once.stream_gap", WARNING  # when records of the stream may be missing, and when none are
    COUNT_TRUNCATED = "once.count_truncated", WARNING
    MALFORMED_ROW = "once.malformed_row", ERROR  # then the run fails, once all others were checked
    CLOCK_SKEW = "once.clock_skew", WARNING


MUST_SURVIVE: Final = frozenset({Event.RETURNED, Event.FAILED})
"""Logged before the token is written: the only record of the work if that write fails."""

SAMPLED: Final = frozenset({Event.KEY_MISSING, Event.CALLER_MISSING})
"""Logged the first, second, fourth, eighth … time in an environment, and counted every time."""
