"""`once.event`: EventBridge, S3, direct and Step Functions invocations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.core.codec import codec_for
from lambda_once.decorators.handlers import execute, handler_like, marked, with_context
from lambda_once.decorators.identify import Identifier, name_of, result_type
from lambda_once.decorators.validation import check_of_one
from lambda_once.engine.replay import Replayed
from lambda_once.errors import InProgress
from lambda_once.sources import event as source

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.decorators.options import Settings
    from lambda_once.decorators.runtime import Runtime


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
            retried = source.is_async(event)
            units = source.units(event, invocation.request_id)

            def run(n: int, *, may_wait: bool) -> None:
                unit, part = units[n]
                failures.pop(n, None)
                try:
                    call = identifier.call(unit, invocation, arguments=(part,), waits_for_own=retried)
                    outcome = execute(runtime, work, call, part, context, may_wait=may_wait)
                    results[n] = apply_on_replay(settings, outcome)
                except Exception as error:  # noqa: BLE001  (one bad record must not take the others down)
                    failures[n] = error

            for n in range(len(units)):
                run(n, may_wait=len(units) == 1)
            # Those that must wait for another attempt do so when all that need not have run.
            for n in [n for n, error in failures.items() if isinstance(error, InProgress)] * (len(units) > 1):
                run(n, may_wait=True)
        for n in sorted(failures):
            raise failures[n]
        return results[0] if len(results) == 1 else [results[n] for n in sorted(results)]

    return marked(handler_like(function, handle), identifier)


def apply_on_replay(settings: Settings, outcome: Any) -> Any:
    """Return what the caller gets of *outcome*: a replayed one as ``on_replay`` dresses it."""
    if not isinstance(outcome, Replayed):
        return outcome
    return outcome.result if settings.on_replay is None else settings.on_replay(outcome.result, outcome)
