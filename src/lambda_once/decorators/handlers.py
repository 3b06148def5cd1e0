"""What all Lambda handlers have in common: how they look, and how they are called; and `once.event`."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.codec import codec_for
from lambda_once.core.signatures import title
from lambda_once.decorators.identify import Identifier, name_of, result_type
from lambda_once.decorators.validation import check_of_one, takes_context
from lambda_once.engine.replay import Replayed
from lambda_once.engine.waiting import run_coroutine
from lambda_once.errors import InProgress, Misconfigured
from lambda_once.sources import event as source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lambda_once.decorators.options import Settings
    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.invocation import Call

_SIGNATURE = inspect.Signature(
    [
        inspect.Parameter("event", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None),
    ]
)
_MISSING: Final = object()
"""No event was given: `None` may be one."""


def marked(function: Callable[..., Any], identifier: object) -> Callable[..., Any]:
    """Return *function* with *identifier* as its ``__once__``, which `explain` reads."""
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
                "For the record_handler of Powertools' BatchProcessor use once.function"
            )
        return handle(event, context)

    handler.__signature__ = _SIGNATURE  # type: ignore[attr-defined]
    handler.__annotations__ = {}
    return marked(handler, identifier)


def with_context(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return *function* as one of two arguments, whether or not it takes the context (`takes_context`)."""
    if takes_context(function):
        return function
    if inspect.iscoroutinefunction(function):

        async def awaiting(argument: Any, _context: Any) -> Any:
            return await function(argument)

        return awaiting
    return lambda argument, _context: function(argument)


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
    """Return the result in *outcome*, passed through ``on_replay`` if it is a replay."""
    if not isinstance(outcome, Replayed):
        return outcome
    return outcome.result if settings.on_replay is None else settings.on_replay(outcome.result, outcome)


def event_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the Lambda handler that runs *function* once for each unit of its event."""
    work = with_context(function)
    check_of_one(settings, "the event")
    plan = settings.plan(codec_for(result_type(function, settings)))
    identifier = Identifier(runtime, settings, plan, name_of(function))

    def handle(event: Any, context: Any) -> Any:
        results: dict[int, Any] = {}
        failures: dict[int, Exception] = {}
        with runtime.invocation(context) as invocation:
            retried = source.is_asynchronous(event)
            units = source.units(event, invocation.request_id)

            def run(n: int, *, may_wait: bool) -> None:
                unit, part = units[n]
                failures.pop(n, None)
                try:
                    call = identifier.call(unit, invocation, arguments=(part,), waits_for_own=retried)
                    outcome = execute(runtime, work, call, part, context, may_wait=may_wait)
                    results[n] = apply_on_replay(settings, outcome)
                except Exception as error:  # noqa: BLE001  (one bad record must not fail the others)
                    failures[n] = error

            for n in range(len(units)):
                run(n, may_wait=len(units) == 1)
            # Those that must wait for another attempt do so after all that need not have run.
            for n in [n for n, error in failures.items() if isinstance(error, InProgress)] * (len(units) > 1):
                run(n, may_wait=True)
        for n in sorted(failures):
            raise failures[n]
        return results[0] if len(results) == 1 else [results[n] for n in sorted(results)]

    return handler_like(function, handle, identifier)
