"""The token table and the functions' configuration, read from the templates of the samples."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "orders"
MINIMAL = ROOT / "examples" / "minimal" / "template.yaml"
"""Its table is the shop's, without conditions."""
TABLE = "TokenTable"
NAME_OF_TABLE = "Tokens.Outputs.TokenTableName"
"""The reference to the table in the shop's template."""


class Unresolved(Exception):
    """The template refers to a resource that the demo does not create."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # yaml ships no types
    """Reads CloudFormation's short tags as the functions that they stand for."""


def _function(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> dict[str, Any]:
    """Construct ``!Ref X`` as ``{"Ref": "X"}``, and ``!GetAtt X`` as ``{"Fn::GetAtt": "X"}``."""
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": value}


_Loader.add_multi_constructor("!", _function)


def _read(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506  (a SafeLoader)
    return parsed


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the template."""

    name: str
    module: str
    handler: str
    """The name of the handler in *module*."""
    timeout: timedelta
    environment: dict[str, str]


class Template:
    """The shop's template, its references resolved to *given* values or the defaults of its parameters."""

    def __init__(self, given: dict[str, str], path: Path = SHOP / "template.yaml") -> None:
        self._path = path
        self._parsed = _read(path)
        self._table = _read(MINIMAL)["Resources"][TABLE]["Properties"]
        defaults = {name: parameter["Default"] for name, parameter in self._parsed["Parameters"].items()}
        self._values: dict[str, Any] = {"AWS::NoValue": None, **defaults, **given}
        if TABLE in given:
            self._values[NAME_OF_TABLE] = given[TABLE]

    def table(self) -> dict[str, Any]:
        """Return the properties of the token table."""
        properties: dict[str, Any] = self._resolved(self._table)
        return properties

    def function(self, resource: str) -> Function:
        """Return the function of that logical id, Globals included."""
        properties = self._parsed["Resources"][resource]["Properties"]
        everyone = self._parsed["Globals"]["Function"]
        name = f"orders-{resource}"
        variables = self._resolved(everyone["Environment"]["Variables"])
        code = (self._path.parent / everyone["CodeUri"]).resolve()
        module, _, handler = properties["Handler"].rpartition(".")
        return Function(
            name=name,
            module=".".join((*code.relative_to(ROOT).parts, module)),
            handler=handler,
            timeout=timedelta(seconds=properties.get("Timeout", everyone["Timeout"])),
            environment={
                **{key: str(value) for key, value in variables.items()},
                "AWS_LAMBDA_FUNCTION_NAME": name,
            },
        )

    def deliveries(self, queue: str) -> int:
        """Return how often SQS delivers a message of *queue* before it goes to the dead-letter queue."""
        count: int = self._parsed["Resources"][queue]["Properties"]["RedrivePolicy"]["maxReceiveCount"]
        return count

    def _resolved(self, value: Any) -> Any:
        """Return *value* with every Ref replaced. Raises `Unresolved` for any other function."""
        match value:
            case {"Ref": str(name)} | {"Fn::GetAtt": str(name)} if name in self._values:
                return self._values[name]
            case {"Ref": _} | {"Fn::GetAtt": _} | {"Fn::Sub": _}:
                raise Unresolved(f"{self._path}: {value} has no value in the demo")
            case dict():
                return {key: self._resolved(inner) for key, inner in value.items()}
            case list():
                return [self._resolved(inner) for inner in value]
            case _:
                return value
