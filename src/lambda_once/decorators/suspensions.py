"""
Detect AWS durable executions without importing their SDK (``aws-durable-execution-sdk-python``).

A durable handler is suspended by `SuspendExecution`, a BaseException, and later runs again from the start. A
decorator around it would take that for an abandoned attempt, so such handlers are refused: when decorated or
called if they can be recognised then, else by the guard of their call. We go by the names of modules and
classes, which is all there is without an import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.clock import Waits

SDK: Final = "aws_durable_execution_sdk_python"
"""While this module is not loaded, there is nothing to check."""
_WAYS: Final = (
    "Protect what starts the execution (DurableExecutionName=attempt.downstream_key()), or a step "
    "(once.function or once.run inside context.step), or the whole execution (once.execution); "
    "see docs/durable.md"
)


def is_durable_context(value: object) -> bool:
    """Return whether *value* is the `DurableContext` of a durable handler."""
    return any(each.__name__ == "DurableContext" and _is_of_sdk(each) for each in type(value).__mro__)


def is_suspension(error: BaseException) -> bool:
    """Return whether *error* suspends a durable execution."""
    if isinstance(error, Exception):
        return False
    return any(each.__name__ == "SuspendExecution" and _is_of_sdk(each) for each in type(error).__mro__)


def check_context(context: object) -> None:
    """Raise `Misconfigured` if *context* is a `DurableContext`."""
    if is_durable_context(context):
        raise Misconfigured(f"the context is a DurableContext, whose handler runs again and again. {_WAYS}")


def check_arguments(name: str, arguments: Mapping[str, object]) -> None:
    """Raise `Misconfigured` if an argument of function *name* is a `DurableContext`."""
    if any(map(is_durable_context, arguments.values())):
        raise Misconfigured(f"{name} gets a DurableContext, by which it could be suspended. {_WAYS}")


def check_function(name: str, function: object) -> None:
    """Raise `Misconfigured` if *function* is wrapped by ``@durable_execution``."""
    wrapped: Any = function
    while wrapped is not None:
        if str(getattr(wrapped, "__globals__", {}).get("__name__")).partition(".")[0] == SDK:
            raise Misconfigured(f"{name} is a durable execution, which runs again and again. {_WAYS}")
        wrapped = getattr(wrapped, "__wrapped__", None)


def check_event(event: object) -> None:
    """Raise `Misconfigured` if *event* is Lambda's invocation of a durable execution."""
    is_one = (
        "CheckpointToken" in event and "DurableExecutionArn" in event
        if isinstance(event, dict)
        else (_is_of_sdk(type(event)))
    )
    if is_one:
        raise Misconfigured(f"the event is an invocation of a durable execution. {_WAYS}")


class Suspensions:
    """The guard of calls while the SDK is loaded: suspended work would resume without its token."""

    asks = False
    attempt_id: str | None = None

    def __init__(self, attempt_id: str | None = None) -> None:
        """*attempt_id*: the one that a durable execution has recorded."""
        self.attempt_id = attempt_id

    def before(self, ownership: Any, finisher: Any) -> Waits[Any]:
        """Return *ownership*: the work may start."""
        del finisher
        yield from ()
        return ownership

    def wrong(self, call: Any, error: BaseException) -> Misconfigured | None:
        """Return the error for work that suspended its durable execution."""
        if not is_suspension(error):
            return None
        message = f"the work of token {call.token} suspended its durable execution. {_WAYS}"
        return Misconfigured(message, token=call.token)

    def succeeded(self, call: Any, value: Any, whose: Any = None) -> None: ...
    def undone(self, call: Any, now: datetime) -> None: ...


def _is_of_sdk(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == SDK
