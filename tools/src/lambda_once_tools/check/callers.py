"""Who invokes the functions of a deployment, and what becomes of events that fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from lambda_once_tools.check import intrinsics
from lambda_once_tools.check.deployment import UNKNOWN, Caller, Pipe, Unknown
from lambda_once_tools.check.documents import POLLED
from lambda_once_tools.check.intrinsics import known, mapping
from lambda_once_tools.check.schedules import is_on
from lambda_once_tools.check.stacks import Resource, inside, items_of, truth


def names_of(resources: Iterable[Resource]) -> dict[str | Unknown, str]:
    """Return *resources* by what names them in a template."""
    return {text: each.name for each in resources for text in (each.physical, each.arn)}


class Target(NamedTuple):
    """What is invoked: a function, and which of its aliases or versions."""

    function: str
    qualifier: str | Unknown


LATEST: Final = "$LATEST"


class Targets:
    """What names functions, their aliases and versions in a template."""

    def __init__(self, everything: Iterable[Resource], functions: Iterable[Resource]) -> None:
        self._functions = names_of(functions)
        self._aliases = {
            intrinsics.mark_of(each.name): each.properties.get("Name", UNKNOWN)
            for each in everything
            if each.kind == "AWS::Lambda::Alias"
        }

    def of(self, given: object) -> Target | None:
        """Return what *given* names; None if it is nothing of the deployment's."""
        if not isinstance(given, str):
            return None
        if given in self._functions:
            return Target(self._functions[given], LATEST)
        name, _, qualifier = given.rpartition(":")
        if name not in self._functions:
            return None
        return Target(self._functions[name], known(self._aliases.get(qualifier, qualifier)))


# -- asynchronous events


def callers_of(
    everything: Sequence[Resource], functions: Sequence[Resource]
) -> dict[str, tuple[Caller, ...]]:
    """Return what invokes each function: services, the events of SAM, and other functions' destinations."""
    targets = Targets(everything, functions)
    rules = {each.arn for each in everything if each.kind == "AWS::Events::Rule"}
    found: dict[str, set[Caller]] = {each.name: {*_events_that_are_on(each)} for each in functions}
    for each in everything:
        of_rule = each.kind == "AWS::Lambda::Permission" and each.properties.get("SourceArn")
        if isinstance(of_rule, str) and of_rule in rules:
            continue  # the rule is here, and says itself whether it is on
        for given, by in _invocations(each):
            target = targets.of(given)
            if target is not None and isinstance(by, str):
                found[target.function].add(Caller("an URL" if by == "*" else by, target.qualifier))
    return {function: tuple(sorted(callers, key=str)) for function, callers in found.items()}


DESTINATION: Final = "a destination"


def _invocations(resource: Resource) -> Iterator[tuple[object, object]]:
    """Yield what *resource* invokes, and by whom."""
    properties = resource.properties
    match resource.kind:
        case "AWS::Lambda::Permission" if properties.get("Principal") != "iot.amazonaws.com":
            yield properties.get("FunctionName"), properties.get("Principal")
        case "AWS::IoT::TopicRule":  # IoT's authorizers have the same principal, and wait
            for action in items_of(inside(properties, "TopicRulePayload", "Actions")):
                yield mapping(mapping(action).get("Lambda")).get("FunctionArn"), "iot.amazonaws.com"
        case "AWS::Events::Rule" if is_on(properties) is not False:  # by a role, without a permission
            for target in items_of(properties.get("Targets")):
                yield mapping(target).get("Arn"), "events.amazonaws.com"
        case "AWS::Scheduler::Schedule" if is_on(properties) is not False:
            yield inside(properties, "Target", "Arn"), "scheduler.amazonaws.com"
        case "AWS::Pipes::Pipe" if not _waits(resource):
            yield properties.get("Target"), "pipes.amazonaws.com"
        case "AWS::Lambda::EventInvokeConfig":
            for end in mapping(properties.get("DestinationConfig")).values():
                yield mapping(end).get("Destination"), DESTINATION
        case _:
            pass


def _events_that_are_on(function: Resource) -> Iterator[Caller]:
    """Yield SAM's events, which invoke the alias that SAM makes, if it makes one."""
    alias = alias_of(function)
    for kind, properties in _events(function).values():
        if is_on(properties) is not False:
            yield Caller(kind, LATEST if alias is None else alias)


def alias_of(function: Resource) -> str | Unknown | None:
    """Return SAM's AutoPublishAlias, of its own or from Globals; None: there is none."""
    given = function.written.get("AutoPublishAlias", function.shared.get("AutoPublishAlias"))
    return None if given is None else known(intrinsics.computed(given, function.stack.scope))


EVERY: Final = "every qualifier"


def kept_on(
    everything: Sequence[Resource], functions: Sequence[Resource]
) -> dict[str, frozenset[str | Unknown]]:
    """
    Return of each function for which qualifiers its failed asynchronous events go anywhere.

    EVERY: it has a dead-letter queue of its own. `UNKNOWN` among them: any may.
    """
    targets = Targets(everything, functions)
    kept: dict[str, set[str | Unknown]] = {each.name: set() for each in functions}
    for each in functions:
        has = _has(each.properties.get("DeadLetterConfig", {}), "TargetArn")
        kept[each.name] |= {UNKNOWN} if isinstance(has, Unknown) else {EVERY} if has else set()
    for each in everything:
        if each.kind != "AWS::Lambda::EventInvokeConfig":
            continue
        config = each.properties.get("DestinationConfig", {})
        has = _has(
            config if isinstance(config, Unknown) else mapping(config).get("OnFailure", {}), "Destination"
        )
        if has is False:
            continue
        given = each.properties.get("FunctionName")
        target = targets.of(given)
        qualifier = known(each.properties.get("Qualifier", UNKNOWN)) if has is True else UNKNOWN
        if target is not None:
            kept[target.function].add(qualifier)
        elif not isinstance(given, str) or intrinsics.OPEN in given:
            for qualifiers in kept.values():
                qualifiers.add(UNKNOWN)
    return {function: frozenset(qualifiers) for function, qualifiers in kept.items()}


def _has(given: object, name: str) -> bool | Unknown:
    if isinstance(given, Unknown):
        return UNKNOWN
    found = mapping(given).get(name)
    return UNKNOWN if isinstance(found, Unknown) else bool(found)


# -- pipes


def pipes_into(everything: Sequence[Resource], functions: Iterable[Resource]) -> Iterator[Pipe]:
    """Yield the pipes whose target is one of *functions*."""
    targets = Targets(everything, functions)
    for each in everything:
        target = targets.of(each.properties.get("Target")) if each.kind == PIPE else None
        if target is not None:
            parameters = each.properties.get("TargetParameters", {})
            yield Pipe(each.name, target.function, _has(parameters, "InputTemplate"))


PIPE: Final = "AWS::Pipes::Pipe"


def _waits(pipe: Resource) -> bool:
    """Whether a pipe waits for its target's response (by default it does: EventBridge user guide)."""
    parameters = mapping(pipe.properties.get("TargetParameters"))
    kind = mapping(parameters.get("LambdaFunctionParameters")).get("InvocationType", "REQUEST_RESPONSE")
    return bool(kind != "FIRE_AND_FORGET")


# -- topics

_TOPIC: Final = "AWS::SNS::Topic"


class Subscription(NamedTuple):
    """What a topic of SNS sends to an endpoint."""

    topic: str
    endpoint: object
    is_raw: bool | Unknown
    """Whether it sends the messages alone, without the envelope that names the topic."""


def subscriptions_in(everything: Sequence[Resource]) -> Iterator[Subscription]:
    """Yield the subscriptions to topics, also those that a topic has in its own properties."""
    topics = {
        text: each.name for each in everything if each.kind == _TOPIC for text in (each.physical, each.arn)
    }
    for each in everything:
        if each.kind == _TOPIC:
            for given in items_of(each.properties.get("Subscription")):
                yield Subscription(each.name, mapping(given).get("Endpoint"), is_raw=False)
        topic = each.properties.get("TopicArn")
        if each.kind == "AWS::SNS::Subscription" and isinstance(topic, str):
            is_raw = truth(each.properties.get("RawMessageDelivery"), default=False)
            yield Subscription(topics.get(topic, topic), each.properties.get("Endpoint"), is_raw)


# -- callers that name no tenant

_HTTP_API: Final = "AWS::ApiGatewayV2::Api"


def nameless_callers(
    everything: Sequence[Resource], functions: Iterable[Resource]
) -> dict[str, tuple[str, ...]]:
    """Return the Function URLs and HTTP APIs of each function, described."""
    names = names_of(functions)
    found = {
        each.name: [
            f"the HTTP API of its event {name}"
            for name, (kind, _) in _events(each).items()
            if kind == "HttpApi"
        ]
        for each in functions
    }
    apis = {each.physical: each for each in everything if each.kind == _HTTP_API}
    for each in everything:
        api, target = each, each.properties.get("Target")
        if each.kind == "AWS::ApiGatewayV2::Integration":
            api, target = (
                apis.get(str(each.properties.get("ApiId")), each),
                each.properties.get("IntegrationUri"),
            )
        if each.kind == "AWS::Lambda::Url":
            target = each.properties.get("TargetFunctionArn")
        elif api.kind != _HTTP_API or api.properties.get("ProtocolType") == "WEBSOCKET":
            continue
        kind = "the HTTP API" if api.kind == _HTTP_API else "its Function URL"
        for text, function in names.items():
            if isinstance(target, str) and isinstance(text, str) and _names(target, text):
                found[function].append(f"{kind} {api.name}")
    return {name: tuple(dict.fromkeys(each)) for name, each in found.items()}


def _names(target: str, function: str) -> bool:
    """Whether *target* is *function*, a name or an ARN, or the address by which API Gateway invokes it."""
    is_invoked = function.startswith("arn:") and f"/{function}/" in target
    return is_invoked or f"{target}:".startswith(f"{function}:")


def _events(function: Resource) -> dict[str, tuple[str, object]]:
    """Return type and properties of SAM's events that are no mapping, by name, as they are written."""
    given = intrinsics.computed(function.written.get("Events", {}), function.stack.scope)
    return {
        name: (event["Type"], event.get("Properties"))
        for name, event in mapping(given).items()
        if isinstance(mapping(event).get("Type"), str) and event["Type"] not in POLLED
    }
