"""
Writes each option's parameter into `_signatures.py` and `_once.py`, from the table in `settings.py`.

``make surface`` runs it. The table has an option's name, type, default, and where it's accepted. Parameters
in `NARROWER` keep the type that they have: ``key`` gets the record that it selects from.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from typing import Any, Final, NamedTuple

from lambda_once.policies import RELEASE
from lambda_once.settings import AS_ONCE, Where, signature_of_options

PACKAGE: Final = Path(__file__).parents[1] / "src" / "lambda_once"
FILES: Final = (PACKAGE / "_signatures.py", PACKAGE / "_once.py")
PLACES: Final = {
    "MessageDecorator.__call__": Where.MESSAGES,
    "QueueDecorator.__call__": Where.QUEUE,
    "StreamDecorator.__call__": Where.STREAM,
    "KafkaDecorator.__call__": Where.STREAM,
    "EventDecorator.__call__": Where.EVENT,
    "ApiDecorator.__call__": Where.API,
    "FunctionDecorator.__call__": Where.CALL,
    "Once.__init__": Where.ONCE,
    "Once.route": Where.API,
    "Once.begin": Where.BLOCK,
    "Once.execution": Where.EXECUTION,
    "Once.outcome": Where.OUTCOME,
    "Once.aoutcome": Where.OUTCOME,
}
"""What lists the options of a place as parameters; overloads with ``**options`` have a TypedDict for them."""
DICTS: Final = {
    "RecordOptions": (Where.MESSAGES, Where.QUEUE, Where.STREAM),
    "MessageOptions": (Where.MESSAGES, Where.QUEUE),
    "QueueOptions": (Where.QUEUE,),
    "StreamOptions": (Where.STREAM,),
}
"""The TypedDicts, each with the places that accept its options; the first ones are inherited from."""
BESIDE_DICTS: Final = frozenset({"key", "model", "on_give_up"})
"""Options that the overloads with a TypedDict list beside it."""
OWN: Final = frozenset(
    {
        *("table", "client", "store", "service", "listing", "metrics", "logger", "tracer"),
        *("hooks", "require_key"),
        *("schema", "async_resolver", "key", "scope", "tenant", "payload"),
    }
)
"""Parameters that are no options, or no options there."""
NARROWER: Final = frozenset(
    {
        *("key", "scope", "caller", "model", "on_give_up", "on_replay", "problem", "without_key"),
        *("name", "lease", "returns"),
    }
)
"""Options typed by what a decorator passes or takes, or required where work is no function."""
NAMES: Final = ((AS_ONCE, "AS_ONCE"), (RELEASE, "RELEASE"))
"""Defaults whose `repr` is no code."""


class Lines(NamedTuple):
    """What takes the place of the lines from *first* up to *end*, numbered from 0."""

    first: int
    end: int
    new: list[str]


def written(source: str) -> str:
    """Return *source*, one of `FILES`, with the options of the table."""
    lines = source.splitlines(keepends=True)
    for part in reversed([*_parts(source)]):
        lines[part.first : part.end] = part.new
    return "".join(lines)


def _parts(source: str) -> Iterator[Lines]:
    for kind in ast.parse(source).body:
        if not isinstance(kind, ast.ClassDef):
            continue
        if kind.name in DICTS:
            yield _fields(source, kind)
        for function in kind.body:
            if isinstance(function, ast.FunctionDef) and f"{kind.name}.{function.name}" in PLACES:
                where = PLACES[f"{kind.name}.{function.name}"]
                if function.args.kwonlyargs and getattr(function.args.kwarg, "arg", "") != "options":
                    yield _parameters(source, function, _options(where))


def _options(where: Where) -> dict[str, Parameter]:
    """Return the options that are accepted at *where*, as the table has them."""
    options = [each for name, each in signature_of_options(where).parameters.items() if name != "f"]
    # Annotations are text, in which Python has made every quote a single one.
    return {each.name: each.replace(annotation=str(each.annotation).replace("'", '"')) for each in options}


def _parameters(source: str, function: ast.FunctionDef, options: dict[str, Parameter]) -> Lines:
    """Return the keyword parameters of *function*: its own, then the options."""
    given = {each.arg: each for each in function.args.kwonlyargs}
    defaults = dict(zip(given, function.args.kw_defaults, strict=True))
    text = {name: _source(source, each.annotation) for name, each in given.items()}
    own = {
        name: f"{text[name]}{'' if defaults[name] is None else f' = {_source(source, defaults[name])}'}"
        for name in given
        if name in OWN - options.keys()
    }
    wanted = {}
    for name, option in options.items():
        kept = name in given and name in NARROWER
        default = "" if kept and defaults[name] is None else f" = {_code(option.default)}"
        wanted[name] = f"{text[name] if kept else option.annotation}{default}"
    last = function.args.kwonlyargs[-1]
    end = max(last.end_lineno or 0, getattr(defaults[last.arg], "end_lineno", 0) or 0)
    new = [f"        {name}: {each},\n" for name, each in {**own, **wanted}.items()]
    return Lines(function.args.kwonlyargs[0].lineno - 1, end, new)


def _fields(source: str, kind: ast.ClassDef) -> Lines:
    """Return the fields of the TypedDict *kind*: the options of its places, without those it inherits."""
    (base,) = kind.bases
    inherited = _names(base.id) if isinstance(base, ast.Name) else ()
    table = _options(DICTS[kind.name][0])
    here = [each for each in kind.body if isinstance(each, ast.AnnAssign)]
    types = {_source(source, each.target): _source(source, each.annotation) for each in here}
    new = [
        f"    {name}: {types[name] if name in NARROWER & types.keys() else table[name].annotation}\n"
        for name in _names(kind.name)
        if name not in inherited
    ]
    return Lines(here[0].lineno - 1, here[-1].end_lineno or 0, new)


def _names(kind: str) -> list[str]:
    """Return the options in the TypedDict *kind*, inherited ones included; none of another class."""
    first, *others = [_options(where) for where in DICTS.get(kind, ())] or [{}]
    return [name for name in first if name not in BESIDE_DICTS and all(name in each for each in others)]


def _source(source: str, node: ast.expr | None) -> str:
    assert node is not None
    return ast.get_source_segment(source, node) or ""


def _code(default: Any) -> str:
    for value, name in NAMES:
        if default is value:
            return name
    return json.dumps(default) if isinstance(default, str) else repr(default)


if __name__ == "__main__":
    for file in FILES:
        file.write_text(written(file.read_text(encoding="utf-8")), encoding="utf-8")
