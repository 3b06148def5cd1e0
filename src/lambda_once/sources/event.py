"""
`once.event`: what happens to an event of EventBridge or S3, of Step Functions, or of your own.

The event as it came is the payload; its source decides which fields count (`envelopes`, `services`). Each
record of an S3 event is a unit of its own. If one unit fails, the others still run; then the first error is
raised, and the whole event comes again.

What we're not happy with: a direct invocation may be synchronous or not, and its event doesn't show which. It
counts as asynchronous, as it's retried under the same request id then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.identity import NOTHING, Content, Flaw, Identity, Refused, whole
from lambda_once.core.unit import Delivered, Unit
from lambda_once.decorators.handlers import (
    apply_on_replay,
    execute,
    handler_like,
    unprotected,
    with_context,
)
from lambda_once.decorators.identify import Identifier, handler_codec
from lambda_once.decorators.names import name_of
from lambda_once.decorators.selectors import with_selectors_of_one
from lambda_once.decorators.validation import check_of_one
from lambda_once.engine.invocation import Invocation, Output, Receiver, Redelivery
from lambda_once.errors import CallerMissing, InProgress, Misconfigured
from lambda_once.observability.events import Event
from lambda_once.sources.attributes import GATEWAY, TOOL, counted_context
from lambda_once.sources.caller import NO_CALLER, by_option, of_cognito
from lambda_once.sources.envelopes import (
    Parsed,
    at,
    eventbridge_content,
    is_eventbridge,
    of_eventbridge,
    s3_content,
    text_at,
)
from lambda_once.sources.services import service_of
from lambda_once.sources.source import OF_SERVICES, Source, as_sent, misplaced, source_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings

_ASYNC: Final = frozenset({Source.SNS, Source.EVENTBRIDGE, Source.S3})
_NONE: Final[Mapping[str, object]] = {}


def read(event: Any, request_id: str | None, callers: CallerLookup | None = None) -> list[Unit]:
    """
    Return each unit of *event*; *callers* adds who asked.

    *event* may be Powertools' data class, or a model that its parser made: it is recognised by what it was
    made of, and passed on unchanged. Each record of an S3 event is a unit, and an event of one record.
    Raises `Misconfigured` for an event of a source that has another decorator, or none yet, and for one whose
    response must not be replayed (`SERVICES`).
    """
    sent = _sent(event)
    source, records = source_of(sent), at(sent, "Records")
    if source is Source.S3 and isinstance(records, list):
        units: list[Unit] = []
        for n, record in enumerate(records):
            alone = {"Records": [record]}
            part = _event_of_record(event, alone, n)
            try:
                identity = _identify(alone, part, callers)
            except CallerMissing as error:  # it fails alone
                identity = identity_of(alone)
                identity = identity._replace(content=identity.content._replace(flaw=Refused(error)))
            units.append(_unit(identity, alone, part, _request_id(alone)))
        return units
    identity = _identify(sent, event, callers)
    delivery = request_id
    if source is Source.EVENTBRIDGE:
        delivery = str(at(sent, "id"))
    elif source is Source.S3:
        delivery = _request_id(sent)
    return [_unit(identity, sent, event, delivery)]


def _identify(sent: object, argument: object, callers: CallerLookup | None) -> Identity:
    """Return the identity of *sent*, an event that the function gets as *argument*, with its caller."""
    identity = identity_of(sent)
    if callers is not None and (source_of(sent) in OF_SERVICES or callers.settings.caller is not None):
        return callers.with_caller(identity, sent, argument)
    return identity


def identity_of(sent: object, decorator: str = "once.event") -> Identity:
    """Return the identity of *sent*, an event. Raises as `read`, in the name of *decorator*."""
    match source_of(sent):
        case Source.EVENTBRIDGE if is_eventbridge(sent):
            return of_eventbridge(sent, Content(_payload(sent), eventbridge_content))
        case Source.S3 if isinstance(sent, Mapping):
            return whole(Content(_payload(sent), s3_content))
        case source if source in OF_SERVICES:
            return _of_service(sent, decorator)
        case other:
            raise misplaced(decorator, other, sent)


def is_asynchronous(event: object) -> bool:
    """
    Whether *event* comes from a source that invokes asynchronously.

    Lambda then retries a failed invocation twice, under the same request id (AWS Lambda developer guide,
    "Asynchronous invocation"). A direct invocation counts as asynchronous: its event does not show whether it
    is.
    """
    sent = _sent(event)
    source = source_of(sent)
    if source not in OF_SERVICES:
        return source in _ASYNC
    service = service_of(sent)
    return service is None or service.asynchronous


def _sent(event: object) -> object:
    sent = as_sent(event)
    return event if sent is None else sent


def _event_of_record(event: Any, alone: dict[str, Any], n: int) -> Any:
    """Return *alone*, an event of record *n* of *event*, in the form of *event*."""
    if isinstance(event, dict):
        return alone
    if isinstance(event, Mapping):
        return type(event)(alone)  # type: ignore[call-arg]  # Powertools' data class
    return event.model_copy(update={"Records": [event.Records[n]]})


def _unit(identity: Identity, sent: Any, argument: Any, delivery: str | None) -> Unit:
    """Return *sent* as a unit for a function that gets *argument*; expressions see it if a parser made it."""
    if argument is not sent and (isinstance(sent, Parsed) or not isinstance(argument, Mapping)):
        identity = identity._replace(content=identity.content._replace(view=argument, parsed=False))
        return Unit(identity, Delivered(argument, argument, delivery))
    return Unit(identity, Delivered(argument, sent if isinstance(sent, Mapping) else _NONE, delivery))


def _request_id(event: Any) -> str | None:
    """Return the id of the request that caused an S3 *event*."""
    request_id = at(event["Records"][0], "responseElements", "x-amz-request-id")
    return request_id if isinstance(request_id, str) else None


def _of_service(sent: object, decorator: str) -> Identity:
    """Return the identity of *sent*, an event of a service in the table, or a direct invocation."""
    service, parsed = service_of(sent), _is_json(sent)
    if service is None:
        flaw = None if parsed else Flaw(Misconfigured(_unknown(sent)))
        return whole(Content(_payload(sent), parsed=parsed, flaw=flaw))
    if service.refused is not None:
        raise service.misplaced(decorator)
    name = None if service.operation is None else service.operation(_first(sent))
    operation = NOTHING if name is None else (name,)
    if service.identity is None or not isinstance(sent, Mapping):
        return whole(Content(_payload(sent), service.content, parsed, flaw=service.flaw), operation)
    key = service.identity(sent)
    counted = service.content if service.reads is not None else lambda _: key
    return whole(Content(_payload(sent), counted, parsed), operation, key)


def _payload(sent: object) -> object:
    return sent.fields if isinstance(sent, Parsed) else sent


def _first(sent: Any) -> Any:
    """Return *sent*, or the first of AppSync's batch: one field, asked for by one caller."""
    return sent[0] if isinstance(sent, list) else sent


class CallerLookup(NamedTuple):
    """Finds who asked for an event, by the invocation's context and the options about callers."""

    context: object
    settings: Settings
    warn: Callable[[str], None] = lambda _: None

    def with_caller(self, identity: Identity, sent: object, event: object) -> Identity:
        """
        Return *identity*, that of *sent*, with who asked for it and by which tool. The function gets *event*.

        Raises `CallerMissing` if ``caller=`` selects nothing, or ``unscoped="refuse"`` and nobody is named.
        """
        custom = getattr(getattr(self.context, "client_context", None), "custom", None)
        service = service_of(sent)
        selector = self.settings.caller
        if selector is not None:
            caller = by_option(selector, event, self.context, sent)
        elif service is None:
            caller = of_cognito(getattr(self.context, "identity", None))
        else:
            caller = NO_CALLER if service.caller is None else service.caller(_first(sent))
        if caller.is_nobody and self.settings.unscoped == "refuse":
            raise CallerMissing(caller.refusal)
        if caller.warning is not None:
            self.warn(caller.warning)
        if source_of(sent) is not Source.DIRECT or service is not None or not isinstance(custom, Mapping):
            return identity._replace(who=caller.who)
        # A tool's name is target___tool (Bedrock AgentCore developer guide, "Lambda function targets").
        tool, gateway = text_at(custom, TOOL), text_at(custom, GATEWAY)
        return identity._replace(
            who=caller.who,
            operation=(tool,) if tool else NOTHING,
            origin=[gateway] if gateway else NOTHING,
            attributes=counted_context(custom),
        )


def _unknown(event: object) -> str:
    kind = type(next(iter(event), event) if isinstance(event, list) else event).__qualname__
    several = "a list of " if isinstance(event, list) else "a "
    return (
        f"once.event received {several}{kind}, which does not show what it was made of. Nothing ran. "
        f"Pass key=; for messages put once.sqs(model={kind}) in place of the parser."
    )


def _is_json(event: object) -> bool:
    """Whether *event* is as Lambda delivers it, not a model, or a list of models, that a parser made."""
    if isinstance(event, list):
        return all(part is None or isinstance(part, Mapping | list | str | int | float) for part in event)
    return event is None or isinstance(event, Mapping | str | int | float)


def _read_units(identifier: Identifier, event: Any, context: object, invocation: Invocation) -> list[Unit]:
    """Return `read` of *event*. A `CallerMissing` is reported and raised, unless nothing is protected."""

    def warn(reason: str) -> None:
        identifier.runtime.reporter.warn_once(Event.UNSCOPED, reason, identifier)

    try:
        return read(event, invocation.request_id, CallerLookup(context, identifier.settings, warn))
    except CallerMissing as error:
        if not identifier.runtime.disabled:
            identifier.refused(error, invocation, invocation.request_id)
            raise
    return read(event, invocation.request_id)


def event_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the Lambda handler that runs *function* once for each unit of its event."""
    work = with_context(function)
    check_of_one(settings, "the event")
    settings = with_selectors_of_one(settings, "the event")
    codec, output = handler_codec(function, settings), Output(receiver=Receiver.LAMBDA)
    identifier = Identifier(runtime, settings, codec, name_of(function), output)

    def handle(event: Any, context: Any) -> Any:
        results: dict[int, Any] = {}
        failures: dict[int, Exception] = {}
        with runtime.invocation(context) as invocation:
            redelivery = Redelivery.SAME_REQUEST if is_asynchronous(event) else Redelivery.ANY
            units = _read_units(identifier, event, context, invocation)
            if settings.history is not None and len(units) > 1:
                raise Misconfigured(
                    f"history= expects one record an event, as Powertools has keyed it; this has {len(units)}"
                )

            def run(n: int, *, may_wait: bool) -> None:
                unit, part = units[n], units[n].record.argument
                failures.pop(n, None)
                try:
                    call = identifier.call(unit, invocation, arguments=(part,), redelivery=redelivery)
                    if call is None:
                        results[n] = unprotected(work, part, context)
                        return
                    outcome = execute(runtime, work, call, part, context, may_wait=may_wait)
                    results[n] = apply_on_replay(settings, outcome)
                except Exception as error:  # noqa: BLE001  (one bad record must not fail the others)
                    failures[n] = error

            for n in range(len(units)):
                run(n, may_wait=len(units) == 1)
            # Units that must wait for another attempt do so after all others have run.
            for n in [n for n, error in failures.items() if isinstance(error, InProgress)] * (len(units) > 1):
                run(n, may_wait=True)
        for n in sorted(failures):
            raise failures[n]
        return results[0] if len(results) == 1 else [results[n] for n in sorted(results)]

    return handler_like(function, handle, identifier)
