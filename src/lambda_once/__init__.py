"""Idempotency for AWS Lambda: duplicates of completed work get its result."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lambda_once._once import Once
from lambda_once.engine.attempt import Attempt
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
    from lambda_once.engine.outcome import Outcome
    from lambda_once.integrations.powertools_history import PowertoolsHistory
    from lambda_once.sources.caller import role_of

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
    "role_of",
]


_LATER = {
    "Outcome": "lambda_once.engine.outcome",
    "PowertoolsHistory": "lambda_once.integrations.powertools_history",  # it imports boto3
    "role_of": "lambda_once.sources.caller",
}
"""What few functions need is imported when it is asked for."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
