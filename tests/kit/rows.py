"""Rows of the token table as records: one attempt's, at one time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from lambda_once.core.lifecycle import Failure, Record, State

NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
ALIVE = NOW + timedelta(seconds=30)
LAPSED = NOW - timedelta(milliseconds=1)
SECONDS = int(NOW.timestamp())
BROKEN = Failure("ValueError", "no such order")


def row(state: State, **changes: Any) -> Record:
    """The row of attempt ``a1``, its lease alive, in *state*."""
    given: dict[str, Any] = {
        "token": "t",
        "attempt_id": "a1",
        "fence": 7,
        "locked_by": "orders/r1",
        "created": NOW - timedelta(seconds=1),
        "expected_completion": ALIVE,
        "actual_completion": NOW if state in (State.COMPLETE, State.HELD) else None,
    }
    return Record(state=state, **given | changes)
