"""JMESPath with Powertools' functions, and an error for a missing part of a multi-select."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import jmespath
from aws_lambda_powertools.utilities.jmespath_utils import PowertoolsFunctions
from jmespath.exceptions import JMESPathError, ParseError
from jmespath.functions import signature
from jmespath.visitor import TreeInterpreter

from lambda_once.core.fields import closest
from lambda_once.errors import Misconfigured

Node = Any  # a dict of the parsed expression; jmespath has no public name for it
"""A node of JMESPath's syntax tree: type, children, value."""

_CHOOSES_AMONG_ITS_ARGUMENTS = "not_null"
_TAKE = frozenset(
    {
        *("and_expression", "current", "field", "identity", "index", "index_expression"),
        *("or_expression", "pipe", "subexpression"),
    }
)
"""Nodes that select a part of the payload, or a child's value, and build nothing new."""


_NAME = re.compile(r"[\w$@:/-]*\w[\w$@:/-]*")
"""A probable field name, perhaps one that needs quotes."""


_PLAIN = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
"""A name that an expression has without quotes, and a message in full."""
_OF_A_RECORD = re.compile(r"(?:body|powertools_\w+\(.*\))\.(.+)")
"""An expression for a whole record, whose body is text: what it selects of the body."""


class PartMissing(LookupError):
    """A part of a multi-select in the result is missing. The message is the name of that part."""


class _Functions(PowertoolsFunctions):
    """Powertools' functions; `powertools_json` returns parsed values unchanged."""

    @signature({"types": []})  # type: ignore[untyped-decorator]  # jmespath ships no types
    def _func_powertools_json(self, value: object) -> object:
        return json.loads(value) if isinstance(value, str) else value


def parsed(expression: str, *, may_be_null: bool = False) -> Callable[[object], object]:
    """
    Return a function that searches a plain payload; it raises what JMESPath and its functions raise.

    Unless the result *may be null*, it also raises PartMissing. Raises Misconfigured for an expression that
    cannot be parsed, and for an unknown function.
    """
    root = _compiled(expression)
    for name in _functions(root):
        if name not in _Functions.FUNCTION_TABLE:
            raise Misconfigured(f"{expression!r}: unknown JMESPath function {name}(); correct the name")
    options = jmespath.Options(custom_functions=_Functions())
    selects = () if may_be_null else _selects(root, projected=False)
    required = {id(select): projected for select, projected in selects}
    # A new interpreter for each search, as it has state. The closure keeps the tree alive and its ids unique.
    return lambda payload: _Interpreter(options, required).visit(root, payload)


def builds(expression: str) -> bool:
    """Return whether *expression* builds its result, rather than selecting a part of the payload."""
    return any(node["type"] not in _TAKE for node in _nodes(_compiled(expression)))


def labels(expression: str) -> tuple[str, ...]:
    """
    Return names for the parts of the result of *expression*.

    A part of a multi-select list is named by its path, or its index; any other result by the expression.
    """
    root: Node = jmespath.compile(expression).parsed
    if root["type"] != "multi_select_list":
        return (expression,)
    return tuple(_path(child) or f"[{n}]" for n, child in enumerate(root["children"]))


def meant(expression: str, payload: object, what: str) -> str:
    """
    Return what was probably meant by *expression*, the option *what*, which selects nothing of *payload*.

    The text goes on behind a list of the payload's fields. It is empty if nothing is known.
    """
    below = _OF_A_RECORD.fullmatch(expression)
    with suppress(Exception):  # a search on foreign data
        if below is not None and not _is_nothing(parsed(below[1])(payload)):
            return f"; {what}= sees the parsed body: did you mean {below[1]}?"
    root = _compiled(expression)
    for node in root["children"] if root["type"] == "multi_select_list" else [root]:
        likely = _likely(_steps(node) or [], payload)
        if likely is not None:
            return f"; did you mean {likely}?"
    return ""


def _likely(steps: list[str], payload: object) -> str | None:
    """Return the path *steps* with names that *payload* has; None if it lacks none, or has none like it."""
    corrected = []
    for step in steps:
        if not isinstance(payload, dict):
            return None
        name = step if step in payload else closest(step, filter(_PLAIN.fullmatch, map(str, payload)))
        if name is None:
            return None
        corrected.append(name)
        payload = payload[name]
    return None if corrected == steps or _is_nothing(payload) else ".".join(corrected)


def _path(node: Node) -> str | None:
    steps = _steps(node)
    return None if steps is None else ".".join(steps)


def _steps(node: Node) -> list[str] | None:
    """Return the names of *node*, a path; None if it is something else."""
    match node["type"]:
        case "field":
            return [str(node["value"])]
        case "subexpression":
            steps = [_steps(child) for child in node["children"]]
            return None if None in steps else [name for each in steps for name in each or ()]
        case _:
            return None


def _compiled(expression: str) -> Node:
    try:
        return jmespath.compile(expression).parsed
    except JMESPathError as error:
        where = f" at position {error.lex_position}" if isinstance(error, ParseError) else ""
        raise Misconfigured(
            f"{expression!r} is not a JMESPath expression{where}; {_correction(expression)}"
        ) from None


def _correction(expression: str) -> str:
    """Return how to correct *expression*: names that are not identifiers need quotes."""
    steps = expression.split(".")
    if not all(map(_NAME.fullmatch, steps)):
        return "correct it"
    quoted = ".".join(step if step.isidentifier() else f'"{step}"' for step in steps)
    return f"quote such a name: '{quoted}'"


class _Interpreter(TreeInterpreter):  # type: ignore[misc]  # jmespath ships no types
    """Raises PartMissing if a part of the result would be missing."""

    def __init__(self, options: jmespath.Options, required: Mapping[int, bool]) -> None:
        super().__init__(options)
        self._required = required

    def visit_multi_select_list(self, node: Node, value: object) -> Any:
        found = super().visit_multi_select_list(node, value)
        self._check(node, found, (_path(child) or f"[{n}]" for n, child in enumerate(node["children"])))
        return found

    def visit_multi_select_dict(self, node: Node, value: object) -> Any:
        found = super().visit_multi_select_dict(node, value)
        names = (str(child["value"]) for child in node["children"])
        self._check(node, None if found is None else [*found.values()], names)
        return found

    def _check(self, node: Node, parts: list[object] | None, names: Iterator[str]) -> None:
        projected = self._required.get(id(node))
        if projected is None:
            return
        # Selecting from null gives null: a projection drops it, elsewhere it is a missing key, or the reason
        # for the other side of an "or".
        if parts is None and projected:
            raise PartMissing("an element of a list")
        for name, part in zip(names, parts or (), strict=False):
            if _is_nothing(part):
                raise PartMissing(name)


def _is_nothing(part: object) -> bool:
    return part is None or part in ("", [], {})


def _selects(node: Node, *, projected: bool) -> Iterator[tuple[Node, bool]]:
    """
    Yield the multi-selects whose parts are in the result, and whether each is in a projection.

    They are at the tail of an expression.
    """
    children: list[Node] = node["children"]
    match node["type"]:
        case "multi_select_list" | "multi_select_dict":
            yield node, projected
            tails, projected = children, False
        case "subexpression" | "pipe" | "index_expression" | "and_expression":
            tails = children[-1:]
        case "projection" | "value_projection" if children[1]["type"] == "identity":
            tails = children[:1]  # [a, b][]: the list itself goes on
        case "projection" | "value_projection" | "filter_projection":
            tails, projected = children[1:2], True
        case "or_expression":
            tails, projected = children, False
        case "key_val_pair" | "flatten" | "expref":
            tails = children
        case "function_expression" if node["value"] != _CHOOSES_AMONG_ITS_ARGUMENTS:
            tails = children
        case _:
            tails = []
    for tail in tails:
        yield from _selects(tail, projected=projected)


def _functions(root: Node) -> Iterator[str]:
    return (node["value"] for node in _nodes(root) if node["type"] == "function_expression")


def _nodes(node: object) -> Iterator[Node]:
    if isinstance(node, dict):  # children of an index or a slice are numbers
        yield node
        for child in node["children"]:
            yield from _nodes(child)


def root_names(expression: str) -> frozenset[str]:
    """
    Return the names that *expression* requires at the root of a payload.

    Names on a side of ``||`` or in ``not_null`` are optional. Raises `Misconfigured` as `parsed` does.
    """
    return frozenset(_root_names(_compiled(expression)))


def _root_names(node: Node) -> Iterator[str]:
    children: list[Node] = node["children"]
    match node["type"]:
        case "field":
            yield node["value"]
            return
        case "subexpression" | "pipe" | "index_expression" | "flatten":
            heads = children[:1]
        case "projection" | "value_projection" | "filter_projection":
            heads = children[:1]
        case "multi_select_list" | "multi_select_dict" | "key_val_pair":
            heads = children
        case "function_expression" if node["value"] != _CHOOSES_AMONG_ITS_ARGUMENTS:
            heads = children
        case _:
            heads = []
    for head in heads:
        yield from _root_names(head)
