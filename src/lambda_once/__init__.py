"""Idempotency for AWS Lambda: a handler takes effect once, and every duplicate gets the same result."""

from typing import TYPE_CHECKING, Any

from lambda_once._once import Once
from lambda_once.engine.attempt import Attempt
from lambda_once.engine.outcome import Outcome
from lambda_once.engine.replay import Replayed
from lambda_once.errors import (
    CallerMissing,
    Fenced,
    GiveUp,
    Held,
    InProgress,
    KeyMissing,
    KeyReused,
    Misconfigured,
    OnceError,
    OtherCaller,
    ResultUnavailable,
    RetryLater,
    StoredError,
    StoreUnavailable,
)
from lambda_once.policies import HOLD, NOT_DONE, RELEASE, STORE, UNKNOWN, Answer, Done, ErrorResponse, Lapsed
from lambda_once.stores.memory import MemoryStore

if TYPE_CHECKING:
    from lambda_once.integrations.powertools_history import PowertoolsHistory

__all__ = [
    "HOLD",
    "NOT_DONE",
    "RELEASE",
    "STORE",
    "UNKNOWN",
    "Answer",
    "Attempt",
    "CallerMissing",
    "Done",
    "ErrorResponse",
    "Fenced",
    "GiveUp",
    "Held",
    "InProgress",
    "KeyMissing",
    "KeyReused",
    "Lapsed",
    "MemoryStore",
    "Misconfigured",
    "Once",
    "OnceError",
    "OtherCaller",
    "Outcome",
    "PowertoolsHistory",
    "Replayed",
    "ResultUnavailable",
    "RetryLater",
    "StoreUnavailable",
    "StoredError",
]


def __getattr__(name: str) -> Any:
    if name == "PowertoolsHistory":  # it imports boto3
        from lambda_once.integrations.powertools_history import PowertoolsHistory

        return PowertoolsHistory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
