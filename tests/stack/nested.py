"""The sample stack as one template: the stacks nested in it are put in their places."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

Template = dict[str, Any]

NESTED = "AWS::Serverless::Application"
NO_VALUE = {"Ref": "AWS::NoValue"}
_NAMED = re.compile(r"\$\{([\w:.]+)\}")


def parsed(path: Path) -> Template:
    """Return the template at *path*, its short tags spelled out."""
    # Imported here: it takes a second, which workers without these tests need not spend.
    from samtranslator.yaml_helper import yaml_parse

    template: Template = yaml_parse(path.read_text(encoding="utf-8"))
    return template


def flat(path: Path) -> Template:
    """
    Return the template at *path* with the resources and conditions of its nested stacks beside its own.

    A parameter of a nested stack is what it is given, else its default; an output is its value; a condition
    that these decide is gone. Logical ids must differ.
    """
    template = parsed(path)
    outputs: dict[str, Any] = {}
    for name, resource in list(template["Resources"].items()):
        if resource["Type"] != NESTED:
            continue
        child = parsed(path.parent / resource["Properties"]["Location"])
        values = _given(child, resource["Properties"]["Parameters"])
        del template["Resources"][name]
        resources, conditions, outcomes = _decided(child, values, template["Parameters"])
        for section, own in (("Resources", resources), ("Conditions", conditions)):
            assert not template.setdefault(section, {}).keys() & own.keys(), "an id is in two templates"
            template[section] |= own
        outputs |= {
            f"{name}.Outputs.{key}": chosen(replaced(each["Value"], values), outcomes)
            for key, each in child["Outputs"].items()
        }
    while (resolved := replaced(template, outputs)) != template:  # an output may be given to another stack
        template = resolved
    return template


def decided(template: Template, **given: str) -> Template:
    """Return *template* as CloudFormation deploys it with these parameters, else their defaults."""
    named = {name: f"<{name}>" for name, each in template["Parameters"].items() if "Default" not in each}
    resources, conditions, outcomes = _decided(template, _given(template, named | given), {})
    assert conditions == {}, "a condition is of something else"
    outputs = chosen(template.get("Outputs", {}), outcomes)
    return template | {"Conditions": {}, "Resources": resources, "Outputs": outputs}


def replaced(value: Any, instead: dict[str, Any]) -> Any:
    """Return *value* with *instead* of what Ref, GetAtt and variables of a Sub refer to by these names."""
    match value:
        case {"Ref": str(name)} if name in instead:
            return instead[name]
        case {"Fn::GetAtt": [str(name), str(attribute)]} if f"{name}.{attribute}" in instead:
            return instead[f"{name}.{attribute}"]
        case {"Fn::Sub": str(text)}:
            filled = _NAMED.sub(lambda found: _text(found[1], instead), text)
            return {"Fn::Sub": filled} if "${" in filled else filled
        case {"Fn::Sub": [text, own]}:
            sub = replaced({"Fn::Sub": text}, {key: each for key, each in instead.items() if key not in own})
            return {"Fn::Sub": [sub["Fn::Sub"] if isinstance(sub, dict) else sub, replaced(own, instead)]}
        case dict():
            return {key: replaced(each, instead) for key, each in value.items()}
        case list():
            return [replaced(each, instead) for each in value]
        case _:
            return value


def _given(child: Template, given: dict[str, Any]) -> dict[str, Any]:
    """Return what each parameter of *child* is. Raises AssertionError for one unknown or missing."""
    parameters = child["Parameters"]
    assert given.keys() <= parameters.keys()
    values = {name: each["Default"] for name, each in parameters.items() if "Default" in each} | given
    assert values.keys() == parameters.keys()
    lists = {name for name, each in parameters.items() if each["Type"] == "CommaDelimitedList"}
    return {name: value["Fn::Join"][1] if name in lists else value for name, value in values.items()}


def _decided(
    child: Template, values: dict[str, Any], parameters: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return resources and conditions of *child*, without those that *values* decide; and what all are."""
    # What is no parameter of the parent is not known before the deployment, and not empty.
    known = {
        name: value if not isinstance(value, dict) or value.get("Ref") in parameters else f"<{name}>"
        for name, value in values.items()
    }
    found: dict[str, Any] = {}
    for name, condition in child.get("Conditions", {}).items():
        found[name] = _outcome(replaced(condition, known), found)
    resources: dict[str, Any] = {}
    for name, resource in child["Resources"].items():
        condition = found.get(resource.get("Condition"), True)
        if condition is not False:
            kept = chosen(replaced(resource, values), found)
            if condition is True:
                kept.pop("Condition", None)
            resources[name] = kept
    return resources, {name: each for name, each in found.items() if not isinstance(each, bool)}, found


def _outcome(condition: Any, others: dict[str, Any]) -> Any:
    """Return what *condition* is, True or False, or else the condition that is left of it."""
    match condition:
        case {"Condition": name}:
            return others[name] if isinstance(others[name], bool) else condition
        case {"Fn::Equals": [(str() | int()) as one, (str() | int()) as other]}:
            return str(one) == str(other)
        case {"Fn::Not": [inner]}:
            left = _outcome(inner, others)
            return not left if isinstance(left, bool) else {"Fn::Not": [left]}
        case {"Fn::Or": [one, other]}:
            either = (_outcome(one, others), _outcome(other, others))
            left = [each for each in either if each is not False]
            return True if True in left else {"Fn::Or": left} if len(left) > 1 else (left or [False])[0]
        case {"Fn::And": [one, other]}:
            both = (_outcome(one, others), _outcome(other, others))
            left = [each for each in both if each is not True]
            return False if False in left else {"Fn::And": left} if len(left) > 1 else (left or [True])[0]
        case _:
            return condition


def chosen(value: Any, conditions: dict[str, Any]) -> Any:
    """Return *value* without each Fn::If whose condition is True or False in *conditions*."""
    match value:
        case {"Fn::If": [name, first, second]} if isinstance(conditions.get(name), bool):
            return chosen(first if conditions[name] else second, conditions)
        case {"Fn::If": [name, first, second]}:
            return {"Fn::If": [name, chosen(first, conditions), chosen(second, conditions)]}
        case dict():
            inner = {key: chosen(each, conditions) for key, each in value.items()}
            return {key: each for key, each in inner.items() if each != NO_VALUE}
        case list():
            return [each for each in (chosen(each, conditions) for each in value) if each != NO_VALUE]
        case _:
            return value


def _text(name: str, instead: dict[str, Any]) -> str:
    """Return the value of ``${name}`` in a Sub."""
    match instead.get(name, {"Ref": name}):
        case {"Ref": other}:
            return f"${{{other}}}"
        case {"Fn::GetAtt": [other, attribute]}:
            return f"${{{other}.{attribute}}}"
        case value:
            return str(value)
