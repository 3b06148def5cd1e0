"""Templates and the stacks nested in them: which resources there are, and their properties."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Final, NamedTuple

from lambda_once_tools.check import intrinsics
from lambda_once_tools.check.deployment import UNKNOWN, CannotCheck, Loop, NotChecked, Unknown
from lambda_once_tools.check.documents import (
    SERVERLESS,
    Template,
    document,
    expanded,
    is_serverless,
    resources,
)
from lambda_once_tools.check.intrinsics import Scope, computed, mapping, mark_of
from lambda_once_tools.check.loops import unrolled

ASSET: Final = "aws:asset:path"
"""The CDK's metadata: where what it uploads is, beside the template."""
MOST_STACKS: Final = 50
_KNOWN_MACROS: Final = {
    "AWS::Serverless-2016-10-31",
    "AWS::LanguageExtensions",
    "AWS::SecretsManager-2020-07-23",
}


class Stack(NamedTuple):
    """One template, and what its transform does not leave in it."""

    scope: Scope
    raw: Template
    """As written, its loops unrolled."""
    loops: tuple[Loop, ...]
    """Those that are still in it."""
    folder: Path
    assets: Mapping[str, str]


class Resource(NamedTuple):
    """A resource of a template, its functions computed."""

    stack: Stack
    id: str
    kind: str
    properties: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.stack.scope.path + self.id

    @property
    def physical(self) -> str:
        """What it is called once it is deployed: as the template says, else in marks."""
        return intrinsics.physical(self.id, self.stack.scope)

    @property
    def arn(self) -> str:
        return intrinsics.arn(self.id, self.stack.scope)

    @property
    def metadata(self) -> Mapping[str, Any]:
        return mapping(self.stack.scope.resources[self.id].get("Metadata"))

    @property
    def raw(self) -> Mapping[str, Any]:
        """The resource as it is written; empty if SAM makes it."""
        return mapping(self.stack.raw["Resources"].get(self.id))

    @property
    def written(self) -> Mapping[str, Any]:
        """Its properties as they are written."""
        return mapping(self.raw.get("Properties"))

    @property
    def shared(self) -> Mapping[str, Any]:
        """The properties that its template's Globals give SAM's functions."""
        return mapping(mapping(self.stack.raw.get("Globals")).get("Function"))

    @property
    def is_serverless(self) -> bool:
        """Whether it is written as a function of SAM's."""
        return self.raw.get("Type") == f"{SERVERLESS}Function"


class Opening(NamedTuple):
    """A template to be read: where, with which parameters, under which name, inside of which files."""

    path: Path
    given: dict[str, Any]
    prefix: str
    above: tuple[Path, ...]


def opened(opening: Opening, stacks: list[Stack], notes: list[NotChecked]) -> Scope:
    """Read a template and those nested in it; return its scope."""
    path, given, prefix, _ = opening
    written = document(path)
    _expect(given, written, path)
    values = intrinsics.parameter_values(written, given)
    if prefix and "AWS::StackName" not in given:
        values["AWS::StackName"] = f"{intrinsics.STACK}-{prefix[:-1]}-{mark_of(prefix[:-1])}"
    try:
        raw, loops = unrolled(written, values)
    except CannotCheck as error:
        raise CannotCheck(f"{path}: {error}") from None
    template = expanded(raw, values, path) if is_serverless(raw) else raw
    scope = Scope(template, values, prefix)
    notes += _unseen(raw, prefix or str(path))
    left = tuple(each._replace(resource=f"{prefix}{each.resource}") for each in loops)
    stack = Stack(scope, raw, left, path.parent, _assets(path.parent))
    stacks.append(stack)
    if len(stacks) > MOST_STACKS:
        raise CannotCheck(f"{path}: more than {MOST_STACKS} nested stacks; check them one by one")
    for each in _nested(stack):
        scope.outputs[each.id] = _outputs(each, opening, stacks, notes)
    return scope


def _expect(given: Mapping[str, Any], template: Template, path: Path) -> None:
    known = {*mapping(template.get("Parameters")), *intrinsics.PSEUDO}
    for name in sorted(given.keys() - known):
        raise CannotCheck(f"{path} has no parameter {name}; it has {', '.join(sorted(known)) or 'none'}")


def _unseen(template: Template, name: str) -> Iterator[NotChecked]:
    transforms = template.get("Transform")
    for each in transforms if isinstance(transforms, list) else [transforms]:
        macro = each.get("Name") if isinstance(each, Mapping) else each
        if isinstance(macro, str) and macro not in _KNOWN_MACROS:
            yield NotChecked(name, f"what the macro {macro} makes")


def existing(stack: Stack) -> Iterator[Resource]:
    """Yield the resources of a template, but those whose condition does not hold."""
    scope = stack.scope
    for name, each in resources(stack.scope.template):  # type: ignore[arg-type]
        condition = each.get("Condition")
        if isinstance(condition, str) and intrinsics.holds(condition, scope) is False:
            continue
        properties = computed(each.get("Properties", {}), scope)
        yield Resource(stack, name, each["Type"], properties if isinstance(properties, dict) else {})


def _nested(stack: Stack) -> Iterator[Resource]:
    """Yield nested stacks, each after those whose outputs it is given."""
    names = {each.id for each in existing(stack) if each.kind == "AWS::CloudFormation::Stack"}
    graph = {name: _mentioned(stack.scope.resources[name], names - {name}) for name in sorted(names)}
    try:
        order = tuple(TopologicalSorter(graph).static_order())
    except CycleError:
        order = tuple(graph)
    for name in order:  # computed one by one: outputs of the last one are known by now
        yield next(each for each in existing(stack) if each.id == name)


def _mentioned(resource: Any, names: set[str]) -> set[str]:
    text = json.dumps(resource, default=str)
    return {name for name in names if re.search(rf'"{name}[".]|\$\{{{name}\.', text)}


def _outputs(
    nested: Resource, opening: Opening, stacks: list[Stack], notes: list[NotChecked]
) -> Mapping[str, Any] | Unknown:
    path = _location(nested)
    if isinstance(path, Unknown) or not path.is_file():
        notes.append(NotChecked(nested.name, "a nested stack whose template is not a file here"))
        return UNKNOWN
    above = (*opening.above, opening.path.resolve())
    if path.resolve() in above:
        raise CannotCheck(f"{opening.path}: {nested.name} nests a template in itself; correct it")
    given = dict(mapping(nested.properties.get("Parameters")))
    scope = opened(Opening(path, given, f"{nested.name}.", above), stacks, notes)
    return {
        name: computed(each.get("Value"), scope)
        for name, each in scope.section("Outputs").items()
        if isinstance(each, Mapping)
    }


def _location(nested: Resource) -> Path | Unknown:
    given = nested.written
    return path_of(nested, next((given[key] for key in ("Location", "TemplateURL") if key in given), None))


def path_of(resource: Resource, given: object) -> Path | Unknown:
    """Return the file or folder that *given* names, a path or what the CDK has uploaded, if it is here."""
    stack = resource.stack
    location = computed(given, stack.scope)
    if isinstance(location, Mapping):
        location = location.get("S3Key", UNKNOWN)
    asset = resource.metadata.get(ASSET)
    if isinstance(asset, str):
        location = asset
    elif isinstance(location, str) and (key := location.rpartition("/")[2]) in stack.assets:
        location = stack.assets[key]
    if not isinstance(location, str) or not intrinsics.is_known(location) or "://" in location:
        return UNKNOWN
    path = stack.folder / location
    return path if path.exists() else UNKNOWN


def _assets(folder: Path) -> dict[str, str]:
    """Return the files that the CDK uploads out of *folder*, by their keys in S3."""
    found: dict[str, str] = {}
    for manifest in sorted(folder.glob("*.assets.json")):
        try:
            files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
            for each in files.values():
                keys = [to["objectKey"] for to in each["destinations"].values()]
                found |= dict.fromkeys(keys, each["source"]["path"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # not the CDK's
    return found


# -- plain values


def whole(value: object, default: int) -> int | Unknown:
    match value:
        case None:
            return default
        case bool():
            return UNKNOWN
        case int() | float():
            return int(value)
        case str() if re.fullmatch(r"-?\d{1,9}", value):
            return int(value)
        case _:
            return UNKNOWN


def truth(value: object, *, default: bool) -> bool | Unknown:
    match value:
        case None:
            return default
        case bool():
            return value
        case "true" | "false":
            return value == "true"
        case _:
            return UNKNOWN


def items_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def inside(value: Mapping[str, Any], name: str, inner: str) -> Any:
    """Return *inner* of the map *name*; `UNKNOWN` if that is not known."""
    found = value.get(name)
    return UNKNOWN if isinstance(found, Unknown) else mapping(found).get(inner)
