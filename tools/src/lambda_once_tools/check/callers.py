"""Who invokes the functions of a deployment, and what becomes of events that fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from lambda_once_tools.check import intrinsics
from lambda_once_tools.check.deployment import UNKNOWN, Pipe, Unknown
from lambda_once_tools.check.documents import POLLED
from lambda_once_tools.check.schedules import is_on
from lambda_once_tools.check.stacks import Resource, inside, items_of, mapping


def names_of(functions: Iterable[Resource]) -> dict[str | Unknown, str]:
    """Return *functions* by what names them in a template."""
    return {
        text: each.name
        for each in functions
        for text in (
            intrinsics.physical(each.id, each.stack.scope),
            intrinsics.arn(each.id, each.stack.scope),
        )
    }


def function_of(target: object, names: Mapping[str | Unknown, str]) -> str | None:
    """Return the function that *target* names, itself or by an alias or a version."""
    if not isinstance(target, str):
        return None
    return names.get(target) or names.get(target.rpartition(":")[0])


# -- asynchronous events


def callers_of(everything: Sequence[Resource], functions: Iterable[Resource]) -> dict[str, tuple[str, ...]]:
    """Return what invokes each function: services, the events of SAM, and other functions' destinations."""
    names = names_of(functions)
    rules = {
        intrinsics.arn(each.id, each.stack.scope) for each in everything if each.kind == "AWS::Events::Rule"
    }
    found: dict[str, set[str]] = {each.name: {*_events_that_are_on(each)} for each in functions}
    for each in everything:
        if each.properties.get("SourceArn") in rules:
            continue  # a permission of a rule that is here, and says itself whether it is on
        for target, caller in _invocations(each):
            function = function_of(target, names)
            if function is not None and isinstance(caller, str):
                found[function].add("an URL" if caller == "*" else caller)
    return {function: tuple(sorted(callers)) for function, callers in found.items()}


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


def _events_that_are_on(function: Resource) -> Iterator[str]:
    for kind, properties in _events(function).values():
        if is_on(properties) is not False:
            yield kind


def keep_failures(everything: Iterable[Resource], functions: Sequence[Resource]) -> dict[str, bool | Unknown]:
    """Return of each function whether its failed asynchronous events go anywhere; by an alias counts, too."""
    names = names_of(functions)
    answers: dict[str, set[bool | Unknown]] = {
        each.name: {_has(each.properties.get("DeadLetterConfig", {}), "TargetArn")} for each in functions
    }
    for each in everything:
        if each.kind == "AWS::Lambda::EventInvokeConfig":
            target = each.properties.get("FunctionName")
            function = function_of(target, names)
            config = each.properties.get("DestinationConfig", {})
            failed = config if isinstance(config, Unknown) else mapping(config).get("OnFailure", {})
            if function is not None:
                answers[function].add(_has(failed, "Destination"))
            elif not isinstance(target, str) or intrinsics.OPEN in target:
                for of_function in answers.values():
                    of_function.add(UNKNOWN)
    return {
        function: True if True in found else UNKNOWN if UNKNOWN in found else False
        for function, found in answers.items()
    }


def _has(given: object, name: str) -> bool | Unknown:
    if isinstance(given, Unknown):
        return UNKNOWN
    found = mapping(given).get(name)
    return UNKNOWN if isinstance(found, Unknown) else bool(found)


# -- pipes


def pipes_into(everything: Iterable[Resource], functions: Iterable[Resource]) -> Iterator[Pipe]:
    """Yield the pipes whose target is one of *functions*."""
    names = names_of(functions)
    for each in everything:
        function = function_of(each.properties.get("Target"), names) if each.kind == PIPE else None
        if function is not None:
            yield Pipe(
                each.name, function, _has(each.properties.get("TargetParameters", {}), "InputTemplate")
            )


PIPE: Final = "AWS::Pipes::Pipe"


def _waits(pipe: Resource) -> bool:
    """Whether a pipe waits for its target's response (by default it does: EventBridge user guide)."""
    parameters = mapping(pipe.properties.get("TargetParameters"))
    kind = mapping(parameters.get("LambdaFunctionParameters")).get("InvocationType", "REQUEST_RESPONSE")
    return bool(kind != "FIRE_AND_FORGET")


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
    apis = {
        intrinsics.physical(each.id, each.stack.scope): each for each in everything if each.kind == _HTTP_API
    }
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
    raw = mapping(mapping(function.stack.raw["Resources"].get(function.id)).get("Properties"))
    given = intrinsics.computed(raw.get("Events", {}), function.stack.scope)
    return {
        name: (event["Type"], event.get("Properties"))
        for name, event in mapping(given).items()
        if isinstance(mapping(event).get("Type"), str) and event["Type"] not in POLLED
    }
