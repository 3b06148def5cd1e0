"""JMESPath with Powertools' functions, and what the syntax tree of an expression says about its result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
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

_TAKE = frozenset(
    {
        *("and_expression", "current", "field", "identity", "index", "index_expression"),
        *("or_expression", "pipe", "subexpression"),
    }
)
"""Nodes that select a part of the payload, or a child's value, and build nothing new."""


_SEE_THE_SAME = frozenset(
    {
        *("function_expression", "key_val_pair", "multi_select_dict", "multi_select_list"),
        *("and_expression", "not_expression", "or_expression"),
    }
)
"""Nodes whose children see the value that they see."""

_NAME = re.compile(r"[\w$@:/-]*\w[\w$@:/-]*")
"""A probable field name, perhaps one that needs quotes."""


_PLAIN = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
"""A name that an expression has without quotes, and a message in full."""
_OF_A_RECORD = re.compile(r"(?:body|powertools_\w+\(.*\))\.(.+)")
"""An expression for a whole record, whose body is text: what it selects of the body."""
_NOTHING: tuple[object, ...] = (None, "", [], {})


class _Functions(PowertoolsFunctions):
    """Powertools' functions; `powertools_json` returns parsed values unchanged."""

    @signature({"types": []})  # type: ignore[untyped-decorator]  # jmespath ships no types
    def _func_powertools_json(self, value: object) -> object:
        return json.loads(value) if isinstance(value, str) else value


class _Comparing(_Functions):
    """Those of ``fingerprint=``: text that isn't there fails, or payloads that differ in it were equal."""

    @signature({"types": []})  # type: ignore[untyped-decorator]  # as above
    def _func_powertools_json(self, value: object) -> object:
        if value is None:
            raise TypeError("no text to parse")
        return super()._func_powertools_json(value)


def parsed(expression: str, *, compares: bool = False) -> Callable[[object], object]:
    """
    Return a function that searches a plain payload; it raises what JMESPath and its functions raise.

    *compares*: it is a fingerprint's. Raises Misconfigured for an expression that cannot be parsed, and for
    an unknown function.
    """
    compiled = _compiled(expression)
    for node in _nodes(compiled.parsed):
        if node["type"] == "function_expression" and node["value"] not in _Functions.FUNCTION_TABLE:
            raise Misconfigured(
                f"{expression!r}: unknown JMESPath function {node['value']}(); correct the name"
            )
    functions = _Comparing() if compares else _Functions()
    return partial(compiled.search, options=jmespath.Options(custom_functions=functions))


def builds(expression: str) -> bool:
    """Return whether *expression* builds its result, rather than selecting a part of the payload."""
    return any(node["type"] not in _TAKE for node in _nodes(_compiled(expression).parsed))


def labels(expression: str) -> tuple[str, ...]:
    """
    Return names for the parts of the result of *expression*; none if it does not end in a multi-select.

    A part of a list is named by its path, or its index.
    """
    node: Node = _compiled(expression).parsed
    while node["type"] in ("subexpression", "pipe"):
        node = node["children"][-1]
    match node["type"]:
        case "multi_select_list":
            return tuple(_path(child) or f"[{n}]" for n, child in enumerate(node["children"]))
        case "multi_select_dict":
            return tuple(child["value"] for child in node["children"])
        case _:
            return ()


def meant(expression: str, payload: object, what: str) -> str:
    """
    Return what was probably meant by *expression*, the option *what*, which selects nothing of *payload*.

    The text goes on behind a list of the payload's fields. It is empty if nothing is known.
    """
    below = _OF_A_RECORD.fullmatch(expression)
    with suppress(Exception):  # a search on foreign data
        if below is not None and parsed(below[1])(payload) not in _NOTHING:
            return f"; {what}= sees the parsed body: did you mean {below[1]}?"
    root: Node = _compiled(expression).parsed
    for node in root["children"] if root["type"] == "multi_select_list" else [root]:
        likely = _likely(_steps(node) or [], payload)
        if likely is not None:
            return f"; did you mean {likely}?"
    return ""


def failing(expression: str, payload: object) -> str:
    """
    Return which function of *expression* fails on *payload*, and on what, to go on behind the error.

    It has names and types, and no value. It is empty if no function fails.
    """
    interpreter = _Failing(jmespath.Options(custom_functions=_Functions()))
    with suppress(Exception):  # that of the expression
        interpreter.visit(_compiled(expression).parsed, payload)
    if interpreter.failed is None:
        return ""
    node, value = interpreter.failed
    kinds = {path: _kind(interpreter.visit(part, value)) for path, part in _paths(node)}
    nothing = [path for path, kind in kinds.items() if kind == "null"]
    named = [f"{path} is null" for path in nothing] or [f"{path} is {kind}" for path, kind in kinds.items()]
    return f" in {node['value']}(){', where ' if named else ''}{', '.join(named)}"


def _paths(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the paths that *node* reads from what it sees itself, each with its node."""
    path = _path(node)
    if path is not None:
        yield path, node
    elif node["type"] in _SEE_THE_SAME:
        for child in node["children"]:
            yield from _paths(child)


class _Failing(TreeInterpreter):  # type: ignore[misc]  # jmespath has no types
    """Remembers the innermost function that fails, and the value that it sees."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.failed: tuple[Node, object] | None = None

    def visit_function_expression(self, node: Node, value: object) -> object:
        try:
            return super().visit_function_expression(node, value)
        except Exception:
            self.failed = self.failed or (node, value)
            raise


def _kind(value: object) -> str:
    """Return JSON's name of the type of *value*."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "text"
        case list() | tuple():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "a number"


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
    return None if corrected == steps or payload in _NOTHING else ".".join(corrected)


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


def _compiled(expression: str) -> Any:
    try:
        return jmespath.compile(expression)
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


def _nodes(node: object) -> Iterator[Node]:
    if isinstance(node, dict):  # children of an index or a slice are numbers
        yield node
        for child in node["children"]:
            yield from _nodes(child)


class _Arguments(dict[str, bool]):
    """A payload of the names of arguments; remembers other names that it is asked for."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(names, True))
        self.unknown: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self.unknown.add(name)
        return super().get(name, default)


def unknown_names(expression: str, names: Iterable[str]) -> list[str]:
    """Return the names that *expression* reads from the root of a payload which only has *names*, sorted."""
    arguments = _Arguments(names)
    with suppress(Exception):  # a function that does not accept such a value
        parsed(expression)(arguments)
    return sorted(arguments.unknown)


def corrected(expression: str, unknown: Iterable[str], names: Collection[str]) -> str | None:
    """
    Return *expression* with *names* in place of the *unknown* ones, which are typos of them; else None.

    ``order_id`` is no typo of ``order``, but a field of it.
    """
    for wrong in unknown:
        name = closest(wrong, names)
        more = "" if name is None else wrong.removeprefix(name)
        if name is None or (more != wrong and not more[0].islower()):
            return None
        expression = re.sub(rf"(?<![\w.\"'`]){re.escape(wrong)}(?!\w)", name, expression)
    return None if unknown_names(expression, names) else expression


def belonging_to(name: str, expression: str) -> str:
    """Return *expression*, on fields of the argument *name*, as one on all arguments."""
    dotted = f"{name}.{expression}"
    with suppress(Misconfigured):  # it need not be an expression
        parsed(dotted)
        if not unknown_names(dotted, [name]):
            return dotted
    return f"{name} | {expression}"


_ROOT = r"[\s(\[]*(?:powertools_\w+\(\s*)?(body|headers|requestContext)(?!\w)"
"""How an expression for a whole HTTP event begins, as Powertools' examples do."""
_PARSED_BODY = r"powertools_json\(\s*body\s*\)(\s*\.\s*)?"
_OF_BODY = r"(?<![\w.@])body\."


def of_a_body(expression: str, what: str) -> str | None:
    """
    Return what to write for *expression*, the option *what*, if it is for a whole HTTP event; None if not.

    The last sentence is for a body that has a field of that name, where it was meant.
    """
    found = re.match(_ROOT, expression)
    if found is None:
        return None
    root, start = found[1], found.start(1)
    if root == "body":
        selected = re.sub(_PARSED_BODY, lambda part: "" if part[1] else "@", expression)
        instead = f"write {what}={'@' if selected == root else re.sub(_OF_BODY, '', selected)!r}"
    elif what == "fingerprint":
        instead = "leave it out"
    elif root == "headers" and "idempotency-key" in expression.lower():
        instead = "leave it out, the header Idempotency-Key is the key"
    else:
        instead = f'write a function of the event, such as key=lambda event: event["{root}"]["id"]'
    literal = f"{expression[:start]}@.{expression[start:]}"
    return f"{instead}. For a JSON body with a field {root}, write {what}={literal!r}"
