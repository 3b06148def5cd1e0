"""
Values of a template's intrinsic functions before it is deployed.

What is known only afterwards is a mark in a text, a name between U+2039 and U+203A: ``Queue`` for the name
that CloudFormation gives the resource Queue, ``Stack.Queue`` for that of one in a nested stack. Equal marks
are equal values. A mark that begins with ``?`` is text of which nothing is known: a parameter without a
value, an import. Where not even a text is certain, the value is `UNKNOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from lambda_once_tools.check.deployment import UNKNOWN, Answer, Unknown, all_of, any_of, negated

Template = Mapping[str, Any]

MARK: Final = re.compile("\u2039[^\u203a]*\u203a")
OPEN: Final = "\u2039?"
"""How the mark of a value begins that a template does not decide."""
MARK_OF_PARAMETER: Final = re.compile("\u2039\\?(\\w+)\u203a", re.ASCII)
SSM: Final = "AWS::SSM::Parameter::Value"
"""How the type of a parameter begins whose value is in the Parameter Store."""
REGION, ACCOUNT, STACK = "\u2039region\u203a", "\u2039account\u203a", "\u2039stack\u203a"
PSEUDO: Final[Mapping[str, Any]] = {
    "AWS::AccountId": ACCOUNT,
    "AWS::NotificationARNs": UNKNOWN,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackId": "\u2039stack id\u203a",
    "AWS::StackName": STACK,
    "AWS::URLSuffix": "amazonaws.com",
}
"""The pseudo parameters. Partitions differ in the ARNs of all resources alike: any one will do."""


class NoValue(Enum):
    """The type of `NO_VALUE`."""

    NO_VALUE = "no value"


NO_VALUE: Final = NoValue.NO_VALUE
"""AWS::NoValue: the property is not there."""


def mark_of(name: str) -> str:
    return f"\u2039{name}\u203a"


def unmarked(text: str) -> str:
    """Return *text* for a reader: without marks."""
    return text.replace(OPEN, "<").replace("\u2039", "").replace("\u203a", "")


def is_known(text: str) -> bool:
    """Whether *text* has no mark."""
    return MARK.search(text) is None


def known(value: object) -> str | Unknown:
    """Return *value* if it is a text that a template decides."""
    return value if isinstance(value, str) and is_known(value) else UNKNOWN


def may_be(one: str, other: str) -> bool:
    """Whether the deployed texts may match, with wildcards in both. Names of two resources do not."""
    named = [{mark for mark in MARK.findall(each) if _is_resource(mark)} for each in (one, other)]
    if all(named) and not named[0] & named[1]:
        return False
    first, second = _parts(one), _parts(other)
    while first and second and first[0] == second[0] != "*":  # equal marks are equal values
        first, second = first[1:], second[1:]
    return _overlap(_pieces("".join(first)), _pieces("".join(second)))


def _parts(text: str) -> list[str]:
    """Return *text* as marks and characters."""
    return re.findall(f"{MARK.pattern}|.", text, re.DOTALL)


def _is_resource(mark: str) -> bool:
    return mark not in (REGION, ACCOUNT, STACK) and mark[1] != "?"


def _pieces(text: str) -> tuple[str, ...]:
    """Return *text* as characters, marks and runs of wildcards as ``*``."""
    characters = MARK.sub("*", text)
    return tuple(each for n, each in enumerate(characters) if (each, characters[n - 1 : n]) != ("*", "*"))


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether a text exists that fits both patterns of ``*`` and ``?``."""
    reached = {0}
    for each in one:
        reached = _skipped(reached, other)
        if each == "*":
            reached = set(range(min(reached), len(other) + 1)) if reached else set()
            continue
        reached = {
            n if other[n] == "*" else n + 1
            for n in reached
            if n < len(other) and (other[n] in ("*", "?", each) or each == "?")
        }
    return len(other) in _skipped(reached, other)


def _skipped(reached: set[int], pattern: tuple[str, ...]) -> set[int]:
    """Return *reached* with the places behind a ``*``, which may be no text."""
    return reached | {n + 1 for n in reached if n < len(pattern) and pattern[n] == "*"}


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# -- where names are looked up


@dataclass(frozen=True, slots=True)
class Scope:
    """One template: its parameters' values, and what its names refer to."""

    template: Template
    values: Mapping[str, Any]
    """Of parameters and pseudo parameters."""
    path: str = ""
    """Of a nested stack: its logical id and a dot, behind those of the stacks around it."""
    outputs: dict[str, Mapping[str, Any] | Unknown] = field(default_factory=dict)
    """Of each nested stack that was read, its outputs."""
    _decided: dict[str, bool | Unknown] = field(default_factory=dict)

    @property
    def resources(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.template["Resources"]
        return found

    def section(self, name: str) -> Mapping[str, Any]:
        return mapping(self.template.get(name))


def parameter_values(template: Template, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of *template*'s parameters, *given* or by default, and the pseudo parameters'."""
    values = dict(PSEUDO)
    for name, each in mapping(template.get("Parameters")).items():
        kind = str(mapping(each).get("Type", "String"))
        value = given.get(name, mapping(each).get("Default"))
        if value is None or kind.startswith(SSM):
            values[name] = mark_of(f"?{name}")
        elif isinstance(value, Unknown | list):
            values[name] = value
        else:
            is_list = kind == "CommaDelimitedList" or kind.startswith("List<")
            values[name] = [part.strip() for part in str(value).split(",")] if is_list else _text(value)
    return values | {name: each for name, each in given.items() if name in PSEUDO}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# -- values


def computed(value: Any, scope: Scope) -> Any:
    """Return *value* with its functions replaced by what they come to."""
    match value:
        case dict() if len(value) == 1 and (name := next(iter(value))) in FUNCTIONS:
            return FUNCTIONS[name](value[name], scope)
        case dict() if len(value) == 1 and str(next(iter(value))).startswith("Fn::"):
            return UNKNOWN
        case dict():
            found = {str(key): computed(each, scope) for key, each in value.items()}
            return {key: each for key, each in found.items() if each is not NO_VALUE}
        case list():
            return [each for each in (computed(each, scope) for each in value) if each is not NO_VALUE]
        case str() if "{{resolve:" in value:
            return re.sub(r"\{\{(resolve:[^}]*)\}\}", lambda found: mark_of(f"?{found[1]}"), value)
        case _:
            return value


def _ref(name: Any, scope: Scope) -> Any:
    if not isinstance(name, str):
        return UNKNOWN
    if name == "AWS::NoValue":
        return NO_VALUE
    if name in scope.values:
        return scope.values[name]
    resource = scope.resources.get(name)
    if not isinstance(resource, Mapping):
        return UNKNOWN
    match resource.get("Type"):
        case "AWS::SQS::Queue":
            return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{physical(name, scope)}"
        case "AWS::Lambda::Alias" | "AWS::Lambda::Version":
            of = computed(mapping(resource.get("Properties")).get("FunctionName"), scope)
            return f"{of}:{mark_of(scope.path + name)}" if isinstance(of, str) else UNKNOWN
        case "AWS::Kinesis::StreamConsumer":
            return f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/consumer/{mark_of(scope.path + name)}"
        case "AWS::Lambda::LayerVersion" | "AWS::IAM::ManagedPolicy" | "AWS::SNS::Topic":
            return mark_of(scope.path + name)
        case _:
            return physical(name, scope)


NAMES: Final = {
    "AWS::DynamoDB::Table": ("TableName", "dynamodb:{region}:{account}:table/{name}"),
    "AWS::DynamoDB::GlobalTable": ("TableName", "dynamodb:{region}:{account}:table/{name}"),
    "AWS::IAM::Role": ("RoleName", "iam::{account}:role/{name}"),
    "AWS::Kinesis::Stream": ("Name", "kinesis:{region}:{account}:stream/{name}"),
    "AWS::Lambda::Function": ("FunctionName", "lambda:{region}:{account}:function:{name}"),
    "AWS::SQS::Queue": ("QueueName", "sqs:{region}:{account}:{name}"),
}
"""By type of resource, the property with its name, and its ARN behind ``arn:aws:``."""


def physical(name: str, scope: Scope) -> str:
    """Return the name of a resource: as the template gives it, else in marks."""
    resource = scope.resources[name]
    attribute, _ = NAMES.get(str(resource.get("Type")), ("", ""))
    given = computed(mapping(resource.get("Properties")).get(attribute), scope)
    return given if isinstance(given, str) and given else mark_of(scope.path + name)


def arn(name: str, scope: Scope) -> str:
    """Return the ARN of a resource."""
    form = NAMES.get(str(scope.resources[name].get("Type")))
    if form is None:
        return mark_of(f"{scope.path}{name}.Arn")
    return "arn:aws:" + form[1].format(region=REGION, account=ACCOUNT, name=physical(name, scope))


def _attribute(argument: Any, scope: Scope) -> Any:
    parts = argument.split(".", 1) if isinstance(argument, str) else argument
    if not isinstance(parts, list) or len(parts) < 2:  # noqa: PLR2004 - a resource, and its attribute
        return UNKNOWN
    name, attribute = parts[0], ".".join(map(str, parts[1:]))
    resource = scope.resources.get(name) if isinstance(name, str) else None
    if not isinstance(resource, Mapping):
        return UNKNOWN
    if attribute.startswith("Outputs."):
        outputs = scope.outputs.get(name, UNKNOWN)
        key = attribute.removeprefix("Outputs.")
        return UNKNOWN if isinstance(outputs, Unknown) else outputs.get(key, UNKNOWN)
    match attribute:
        case "Arn":
            return arn(name, scope)
        case "StreamArn":
            return f"{arn(name, scope)}/stream/{mark_of(scope.path + name + '.Stream')}"
        case "QueueName":
            return physical(name, scope)
        case "QueueUrl" | "ConsumerARN" | "PolicyArn" | "LayerVersionArn" | "TopicArn":
            return _ref(name, scope)
        case _:
            return mark_of(f"{scope.path}{name}.{attribute}")


_VARIABLE: Final = re.compile(r"\$\{(!?)([^}]*)\}")


def _sub(argument: Any, scope: Scope) -> Any:
    text, own = argument if isinstance(argument, list) and len(argument) == 2 else (argument, {})  # noqa: PLR2004
    if not isinstance(text, str) or not isinstance(own, Mapping):
        return UNKNOWN
    missing: list[object] = []

    def value(found: re.Match[str]) -> str:
        literal, name = found[1], found[2].strip()
        if literal:
            return f"${{{name}}}"
        if name in own:
            each = computed(own[name], scope)
        else:
            each = _attribute(name, scope) if "." in name else _ref(name, scope)
        if isinstance(each, Unknown | NoValue | list | dict):
            missing.append(each)
            return ""
        return _text(each)

    filled = _VARIABLE.sub(value, text)
    return UNKNOWN if missing else computed(filled, scope)


def _join(argument: Any, scope: Scope) -> Any:
    match argument:
        case [str(between), parts]:
            found = computed(parts, scope)
            if isinstance(found, list) and not any(isinstance(each, Unknown | list | dict) for each in found):
                return between.join(map(_text, found))
            is_a_list = between == "," and isinstance(found, str) and found.startswith(OPEN)
            return found if is_a_list else UNKNOWN  # a parameter without a value, as it is given to a stack
        case _:
            return UNKNOWN


def _select(argument: Any, scope: Scope) -> Any:
    match computed(argument, scope):
        case [place, list(items)] if str(place).isdigit() and int(place) < len(items):
            return items[int(place)]
        case _:
            return UNKNOWN


def _split(argument: Any, scope: Scope) -> Any:
    # A mark of unknown text may have the separator in it; names of resources, regions and accounts have none.
    match computed(argument, scope):
        case [str(between), str(text)] if between and OPEN not in text:
            return text.split(between)
        case _:
            return UNKNOWN


def _if(argument: Any, scope: Scope) -> Any:
    match argument:
        case [str(name), first, second]:
            answer = holds(name, scope)
            if not isinstance(answer, Unknown):
                return computed(first if answer else second, scope)
            either = [computed(each, scope) for each in (first, second)]
            return either[0] if either[0] == either[1] else UNKNOWN
        case _:
            return UNKNOWN


def _find_in_map(argument: Any, scope: Scope) -> Any:
    match computed(argument, scope):
        case [str(name), first, second, *default]:
            found = scope.section("Mappings").get(name, {}).get(str(first), {})
            if str(second) in found:
                return found[str(second)]
            decided = is_known(str(first)) and is_known(str(second))
            given = default[0] if default and isinstance(default[0], dict) else {}
            return given.get("DefaultValue", UNKNOWN) if decided else UNKNOWN
        case _:
            return UNKNOWN


def _import(argument: Any, scope: Scope) -> Any:
    name = computed(argument, scope)
    return mark_of(f"?import {unmarked(name)}") if isinstance(name, str) else UNKNOWN


FUNCTIONS: Final[Mapping[str, Callable[[Any, Scope], Any]]] = {
    "Ref": _ref,
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAtt": _attribute,
    "Fn::If": _if,
    "Fn::ImportValue": _import,
    "Fn::Join": _join,
    "Fn::Select": _select,
    "Fn::Split": _split,
    "Fn::Sub": _sub,
}
"""Others, such as Fn::Transform, are UNKNOWN."""


# -- conditions


def holds(name: str, scope: Scope) -> Answer:
    """Return whether the condition *name* holds."""
    if name not in scope._decided:  # noqa: SLF001 - its own module's
        scope._decided[name] = UNKNOWN  # noqa: SLF001 - what one that refers to itself is
        scope._decided[name] = _holds(scope.section("Conditions").get(name), scope)  # noqa: SLF001
    return scope._decided[name]  # noqa: SLF001


def _holds(condition: Any, scope: Scope) -> Answer:
    match condition:
        case {"Condition": str(name)}:
            return holds(name, scope)
        case {"Fn::Equals": [one, other]}:
            return _equal(computed(one, scope), computed(other, scope))
        case {"Fn::Not": [inner]}:
            return negated(_holds(inner, scope))
        case {"Fn::And": list(inner)}:
            return all_of(_holds(each, scope) for each in inner)
        case {"Fn::Or": list(inner)}:
            return any_of(_holds(each, scope) for each in inner)
        case _:
            return UNKNOWN


def _equal(one: Any, other: Any) -> Answer:
    """Compare texts. Of a resource nothing is known, but that it has a name."""
    if any(isinstance(each, Unknown | NoValue | list | dict) for each in (one, other)):
        return UNKNOWN
    first, second = _text(one), _text(other)
    if is_known(first) and is_known(second):
        return first == second
    if first == second:
        return True
    mixed = first if not is_known(first) else second
    if "" in (first, second) and (MARK.sub("", mixed) or OPEN not in mixed):
        return False
    return UNKNOWN
