"""`once.event`: events that contain one or several units of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.decorators.handlers import apply_on_replay, execute, handler_like, with_context
from lambda_once.decorators.identify import Identifier, codec_of
from lambda_once.decorators.names import name_of
from lambda_once.decorators.validation import check_of_one
from lambda_once.engine.invocation import Receiver, Redelivery
from lambda_once.errors import InProgress, Misconfigured
from lambda_once.sources import event as source

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings


def event_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the Lambda handler that runs *function* once for each unit of its event."""
    work = with_context(function)
    check_of_one(settings, "the event")
    identifier = Identifier(
        runtime, settings, codec_of(function, settings), name_of(function), receiver=Receiver.LAMBDA
    )

    def handle(event: Any, context: Any) -> Any:
        results: dict[int, Any] = {}
        failures: dict[int, Exception] = {}
        with runtime.invocation(context) as invocation:
            is_asynchronous = source.is_asynchronous(event)
            redelivery = Redelivery.SAME_REQUEST if is_asynchronous else Redelivery.ANY
            units = source.units(event, invocation.request_id)
            if settings.history is not None and len(units) > 1:
                raise Misconfigured(
                    f"history= expects one record an event, as Powertools has keyed it; this has {len(units)}"
                )

            def run(n: int, *, may_wait: bool) -> None:
                unit, part = units[n]
                failures.pop(n, None)
                try:
                    call = identifier.call(unit, invocation, arguments=(part,), redelivery=redelivery)
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
