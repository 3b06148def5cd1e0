"""Whether anything in a template invokes a scheduled function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lambda_once_tools.check import intrinsics
from lambda_once_tools.check.deployment import UNKNOWN, Idle, Unknown
from lambda_once_tools.check.intrinsics import computed, known, mapping
from lambda_once_tools.check.stacks import Resource, items_of, truth, whole


def idle(function: Resource, everything: Sequence[Resource]) -> Idle | Unknown | None:
    """Return why *function* never runs; None if something invokes it, `UNKNOWN` if something may."""
    if whole(function.properties.get("ReservedConcurrentExecutions"), 1) == 0:
        return Idle.RESERVED
    names = _names(function, everything)
    found = [*_events(function), *_schedules(names, everything)]
    if True in found:
        return None
    if UNKNOWN in found or (not found and _is_callable(names, everything)):
        return UNKNOWN
    return Idle.DISABLED if found else Idle.UNSCHEDULED


def _names(function: Resource, everything: Sequence[Resource]) -> set[str]:
    """Return what *function* and its aliases are called in a template."""
    names = {function.physical, function.arn}
    aliases = (each for each in everything if each.kind == "AWS::Lambda::Alias")
    its = [each for each in aliases if _is_named(each.properties.get("FunctionName"), names)]
    return names | {each.physical for each in its}


def _events(function: Resource) -> Iterator[bool | Unknown]:
    """Yield whether each of SAM's events invokes it; they are not translated."""
    given = computed(function.written.get("Events", {}), function.stack.scope)
    if not isinstance(given, dict):
        yield UNKNOWN
        return
    for each in given.values():
        is_schedule = mapping(each).get("Type") in ("Schedule", "ScheduleV2")
        yield is_on(mapping(each).get("Properties")) if is_schedule else True


def _schedules(names: set[str], everything: Sequence[Resource]) -> Iterator[bool | Unknown]:
    """Yield whether each rule or schedule that has, or may have, the function as its target is on."""
    for each in everything:
        targets: list[Any] = []
        if each.kind == "AWS::Events::Rule":
            targets = items_of(each.properties.get("Targets", [{"Arn": UNKNOWN}]))
        elif each.kind == "AWS::Scheduler::Schedule":
            targets = [each.properties.get("Target")]
        arns = [mapping(target).get("Arn", UNKNOWN) for target in targets]
        if any(_is_named(arn, names) for arn in arns):
            yield is_on(each.properties)
        elif any(not isinstance(arn, str) or intrinsics.OPEN in arn for arn in arns):
            yield UNKNOWN


def is_on(properties: object) -> bool | Unknown:
    """Whether a rule, a schedule or an event of SAM with these *properties* is enabled."""
    given = mapping(properties)
    enabled, state = truth(given.get("Enabled"), default=True), given.get("State", "ENABLED")
    if enabled is False or state == "DISABLED":
        return False
    return UNKNOWN if UNKNOWN in (enabled, known(state)) else True


def _is_callable(names: set[str], everything: Sequence[Resource]) -> bool:
    """Whether something elsewhere may invoke the function."""
    return any(
        _is_named(each.properties.get("FunctionName", UNKNOWN), names)
        for each in everything
        if each.kind in ("AWS::Lambda::Permission", "AWS::Lambda::EventSourceMapping")
    )


def _is_named(target: object, names: set[str]) -> bool:
    """Whether *target* is the function, or a version of it."""
    return isinstance(target, str) and (target in names or target.rpartition(":")[0] in names)
