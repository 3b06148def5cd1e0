"""What the Lambda handlers of all decorators have in common: how they are called, and how they look."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.signatures import title
from lambda_once.decorators.validation import takes_context
from lambda_once.engine import loops
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.call import Call

_SIGNATURE = inspect.Signature(
    [
        inspect.Parameter("event", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None),
    ]
)


_MISSING: Final = object()
"""No event was given: `None` may be one."""


def marked(handler: Callable[..., Any], identifier: object) -> Callable[..., Any]:
    """Return *handler* with *identifier* as its ``__once__``, by which `explain` tells its tokens."""
    handler.__dict__["__once__"] = identifier
    return handler


def handler_like(function: Callable[..., Any], handle: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return *handle* as a Lambda handler with the names and docs of *function*, and its own signature."""

    @functools.wraps(function)
    def handler(event: Any = _MISSING, context: Any = None, **others: Any) -> Any:
        if event is _MISSING or others:
            raise Misconfigured(
                f"{title(function)} is decorated as a Lambda handler; call it with event and context. "
                "For the record_handler of Powertools' BatchProcessor use once.function"
            )
        return handle(event, context)

    handler.__signature__ = _SIGNATURE  # type: ignore[attr-defined]
    handler.__annotations__ = {}
    return handler


def with_context(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return *function* as one of two arguments, whether or not it takes the context (`takes_context`)."""
    if takes_context(function):
        return function
    if inspect.iscoroutinefunction(function):

        async def awaiting(subject: Any, _context: Any) -> Any:
            return await function(subject)

        return awaiting
    return lambda subject, _context: function(subject)


def execute(runtime: Runtime, work: Callable[..., Any], call: Call, *args: Any, may_wait: bool = True) -> Any:
    """Execute *call* as `Engine.execute` does, plainly even where *work* is a coroutine function."""
    if inspect.iscoroutinefunction(work):

        async def awaiting() -> Any:
            return await runtime.engine.execute_async(call, lambda: work(*args), may_wait=may_wait)

        return loops.run(awaiting())
    return runtime.engine.execute(call, lambda: work(*args), may_wait=may_wait)


def called(work: Callable[..., Any], *args: Any) -> Any:
    """Call *work* unprotected, plainly even where it is a coroutine function."""
    result = work(*args)
    return loops.run(_awaited(result)) if inspect.iscoroutinefunction(work) else result


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result
