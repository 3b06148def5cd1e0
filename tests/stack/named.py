"""The metrics that alarms and dashboard name, read from the template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .conftest import Template

ALARM = "AWS::CloudWatch::Alarm"
DASHBOARD = "AWS::CloudWatch::Dashboard"
QUERY = "AWS::Logs::QueryDefinition"

INSIGHT = re.compile(
    r"""^SELECT (?:SUM|MAX)\("(?P<metric>\w+)"\) FROM SCHEMA\("(?P<space>[\w/]+)"(?P<names>(?:, "\w+")+)\)$"""
)
_SEARCH = re.compile(
    r"""^(?:SUM\()?SEARCH\('\{(?P<space>[\w/]+),(?P<names>[\w,]+)\} MetricName="(?P<metric>\w+)" """
    r"""\(?(?P<fixed>\w+="[^"]*")(?: OR \w+="[^"]*")*\)?', '\w+', 300\)\)?$"""
)
_VARIABLE = re.compile(r"\$\{([\w:]+)(?:\.(\w+))?\}")


class Named(NamedTuple):
    """One metric as an alarm or a widget names it."""

    where: str
    """Logical id of the alarm, or title of the widget."""
    space: str
    metric: str
    dimensions: frozenset[str]
    fixed: dict[str, str]
    """The dimensions that have one value; a reference is the logical id that it refers to."""


def of_type(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    """Return the properties of each resource of *kind* by its logical id."""
    resources = template["Resources"].items()
    return {name: resource.get("Properties", {}) for name, resource in resources if resource["Type"] == kind}


def target(value: Any) -> Any:
    """Return *value*, a reference as the logical id that it refers to."""
    match value:
        case {"Ref": name} | {"Fn::GetAtt": [name, _]}:
            return name
        case _:
            return value


def expression(query: dict[str, Any]) -> str:
    """Return the expression of an alarm's *query*, each reference replaced by its logical id."""
    found = query["Expression"]
    return substituted(found["Fn::Sub"]) if isinstance(found, dict) else str(found)


def substituted(text: str) -> str:
    """Return *text* of an Fn::Sub, each reference replaced by what could stand there."""
    return _VARIABLE.sub(
        lambda found: f"arn:aws:x:::{found[1]}" if found[2] == "Arn" else found[1].rpartition(":")[2], text
    )


def resolved(value: Any, template: Template) -> Any:
    """Return *value* as CloudFormation makes it of the default parameters; a resource is its logical id."""
    match value:
        case {"Ref": name} if name in template["Parameters"]:
            return template["Parameters"][name]["Default"]
        case {"Ref": _} | {"Fn::GetAtt": _}:
            return target(value)
        case {"Fn::Sub": str(text)}:
            return _VARIABLE.sub(lambda found: str(resolved(_reference(found), template)), text)
        case {"Fn::If": [name, first, second]}:
            return resolved(first if holds(template["Conditions"][name], template) else second, template)
        case dict():
            return {key: resolved(inner, template) for key, inner in value.items()}
        case list():
            return [resolved(inner, template) for inner in value]
        case _:
            return value


def _reference(found: re.Match[str]) -> dict[str, Any]:
    return {"Fn::GetAtt": [found[1], found[2]]} if found[2] else {"Ref": found[1]}


def holds(condition: Any, template: Template) -> bool:
    """Return whether *condition* of *template* is true with the default parameters."""
    match condition:
        case {"Condition": name}:
            return holds(template["Conditions"][name], template)
        case {"Fn::Equals": [one, other]}:
            return str(resolved(one, template)) == str(resolved(other, template))
        case {"Fn::Not": [inner]}:
            return not holds(inner, template)
        case {"Fn::Or": list(parts)}:
            return any(holds(part, template) for part in parts)
        case {"Fn::And": list(parts)}:
            return all(holds(part, template) for part in parts)
        case other:
            raise ValueError(f"this test cannot read the condition {other}")


def dashboard(template: Template) -> list[dict[str, Any]]:
    """Return the widgets of the dashboard. Raises ValueError for a body that is no JSON."""
    widgets: list[dict[str, Any]] = json.loads(body(template))["widgets"]
    return widgets


def body(template: Template) -> str:
    """Return the body of the dashboard, each reference replaced by what could stand there."""
    (properties,) = of_type(template, DASHBOARD).values()
    text, lists = properties["DashboardBody"]["Fn::Sub"]
    for name, value in lists.items():
        between, items = value["Fn::Join"]
        text = text.replace(f"${{{name}}}", between.join(map(_inserted, _spread(items, template))))
    return substituted(text)


def _spread(items: list[Any], template: Template) -> Iterator[Any]:
    """Yield *items* but NoValue, those of a Join of texts with commas one by one."""
    for item in items:
        match item:
            case {"Fn::Join": [",", inner]}:
                yield from _spread(inner, template)
            case {"Fn::If": [name, first, second]}:
                is_true = holds(template["Conditions"][name], template)
                yield from _spread([first if is_true else second], template)
            case {"Ref": "AWS::NoValue"}:
                pass
            case _:
                yield item


def _inserted(item: Any) -> str:
    match item:
        case {"Fn::GetAtt": [name, attribute]}:
            return f"${{{name}.{attribute}}}"
        case _:
            return f"${{{target(item)}}}"


def by_alarms(template: Template) -> list[Named]:
    """Return every metric that an alarm of *template* names."""
    return [named for name, alarm in of_type(template, ALARM).items() for named in _of_alarm(name, alarm)]


def by_dashboard(template: Template) -> list[Named]:
    """Return every metric that a widget of *template*'s dashboard names."""
    return [
        _of_line(widget["properties"]["title"], line)
        for widget in dashboard(template)
        for line in widget["properties"].get("metrics", [])
    ]


def _of_alarm(name: str, alarm: dict[str, Any]) -> Iterator[Named]:
    if "MetricName" in alarm:
        yield _plain(name, alarm)
    for query in alarm.get("Metrics", []):
        if "MetricStat" in query:
            yield _plain(name, query["MetricStat"]["Metric"])
        elif expression(query).startswith("SELECT"):
            yield _matched(name, INSIGHT, expression(query))


def _plain(where: str, metric: dict[str, Any]) -> Named:
    fixed = {dimension["Name"]: target(dimension["Value"]) for dimension in metric["Dimensions"]}
    return Named(where, target(metric["Namespace"]), metric["MetricName"], frozenset(fixed), fixed)


def _of_line(where: str, line: list[Any]) -> Named:
    if isinstance(line[0], dict):
        return _matched(where, _SEARCH, line[0]["expression"])
    space, metric, *pairs = [part for part in line if isinstance(part, str)]
    fixed = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return Named(where, space, metric, frozenset(fixed), fixed)


def _matched(where: str, form: re.Pattern[str], expression: str) -> Named:
    found = form.match(expression)
    if found is None:
        raise ValueError(f"{where}: this test cannot read {expression}")
    fixed = re.findall(r"[^\s='\"]+", found.groupdict().get("fixed", ""))
    return Named(
        where,
        found["space"],
        found["metric"],
        frozenset(re.findall(r"\w+", found["names"])),
        dict(zip(fixed[::2], fixed[1::2], strict=True)),
    )
