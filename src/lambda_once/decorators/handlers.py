"""Lambda handlers: their signature, whether they get the context, and how they call the work."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.signatures import is_async, signature_of, title
from lambda_once.core.threads import run_coroutine
from lambda_once.decorators.suspensions import SDK, check_event
from lambda_once.decorators.validation import CONTEXT_NAMES, check_not_generator, is_self
from lambda_once.engine.invocation import Call
from lambda_once.engine.replay import Replayed
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings

_SIGNATURE = inspect.Signature(
    [
        inspect.Parameter("event", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None),
    ]
)
_MISSING: Final = object()
"""No event was given: `None` may be one."""


def marked(function: Callable[..., Any], identifier: object) -> Callable[..., Any]:
    """Return *function* with *identifier* as its ``__once__``, for `explain`."""
    function.__dict__["__once__"] = identifier
    return function


def handler_like(
    function: Callable[..., Any], handle: Callable[[Any, Any], Any], identifier: object
) -> Callable[..., Any]:
    """Return *handle* as a Lambda handler with the name and docs of *function*, marked by *identifier*."""

    @functools.wraps(function)
    def handler(event: Any = _MISSING, context: Any = None, **others: Any) -> Any:
        if event is _MISSING or others:
            raise Misconfigured(
                f"{title(function)} is decorated as a Lambda handler; call it with event and context. "
                "For the record_handler of Powertools' BatchProcessor use once.function, for a route of an "
                "Event Handler middlewares=[once.route()]"
            )
        if SDK in sys.modules:
            check_event(event)
        return handle(event, context)

    handler.__signature__ = _SIGNATURE  # type: ignore[attr-defined]
    handler.__annotations__ = {}
    return marked(handler, identifier)


def takes_context(handler: Callable[..., Any]) -> bool:
    """
    Whether *handler*, a function of an event or a record, gets the context as well.

    It does if it has a second positional parameter without a default, or named "context". Raises
    `Misconfigured` for methods, and for required parameters that would get no argument.
    """
    check_not_generator(handler)
    parameters = _parameters(handler)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if positional and is_self(positional[0].name):
        raise Misconfigured(
            f"{title(handler)} is a method, and Lambda passes no {positional[0].name}: "
            "decorate a module-level function that calls the method"
        )
    if not positional and not variadic:
        raise Misconfigured(
            f"{title(handler)} must accept the event or record as its first parameter; "
            "for a route of an Event Handler use middlewares=[once.route()]"
        )
    for parameter in (*positional[2:], *(p for p in parameters if p.kind is p.KEYWORD_ONLY)):
        if parameter.name in CONTEXT_NAMES:
            raise Misconfigured(f"{title(handler)}: make {parameter.name} its second positional parameter")
        if parameter.default is parameter.empty:
            raise Misconfigured(
                f"{title(handler)} has a required parameter {parameter.name}, but gets only two arguments: "
                "the event or record, and the context. Give it a default"
            )
    if len(positional) < 2:  # noqa: PLR2004  (the event alone)
        return variadic
    return positional[1].default is inspect.Parameter.empty or positional[1].name in CONTEXT_NAMES


def _parameters(handler: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of *handler*; of the function it wraps, if it accepts any arguments."""
    parameters = [*signature_of(handler, follow_wrapped=False).parameters.values()]
    passes_on = all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    wrapped = getattr(handler, "__wrapped__", None)
    return _parameters(wrapped) if passes_on and wrapped is not None else parameters


def with_context(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """
    Return *function* as one of two arguments, whether or not it takes the context (`takes_context`).

    If it is async, it becomes a coroutine function, which `inspect` recognises at each call; an object with
    an async ``__call__`` isn't one.
    """
    takes_both = takes_context(function)
    if is_async(function):

        async def awaiting(argument: Any, context: Any) -> Any:
            return await (function(argument, context) if takes_both else function(argument))

        return awaiting
    return function if takes_both else lambda argument, _context: function(argument)


def execute(runtime: Runtime, work: Callable[..., Any], call: Call, *args: Any, may_wait: bool = True) -> Any:
    """Execute *call* as `Engine.execute` does; return the result even of a coroutine function."""
    if inspect.iscoroutinefunction(work):

        async def awaiting() -> Any:
            return await runtime.engine.execute_async(call, lambda: work(*args), may_wait=may_wait)

        return run_coroutine(awaiting())
    return runtime.engine.execute(call, lambda: work(*args), may_wait=may_wait)


def unprotected(work: Callable[..., Any], *args: Any) -> Any:
    """Call *work* without a token; return the result even of a coroutine function."""
    result = work(*args)
    return run_coroutine(_awaited(result)) if inspect.iscoroutinefunction(work) else result


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


def apply_on_replay(settings: Settings, outcome: Any) -> Any:
    """Return the result of *outcome*, passed through ``on_replay`` if it is a replay."""
    if not isinstance(outcome, Replayed):
        return outcome
    return outcome.result if settings.on_replay is None else settings.on_replay(outcome.result, outcome)
