"""
The public surface, one line a name: what callers, operators and their alarms rely on.

``make surface`` writes it to tests/golden/surface.txt. Tested elsewhere: the form of a row (tests/stores),
the watchdog's answer (tests/operations), what ``resolve`` and ``redrive`` print (tests/cli).
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_origin

import click

from lambda_once import MemoryStore, Misconfigured, Once
from lambda_once.core.lifecycle import Decider, Decision, Failure, Record, Resolve, State
from lambda_once.core.results import Inline
from lambda_once.observability.events import Event
from lambda_once.operations.listing import Counts
from lambda_once.settings import Settings
from lambda_once_tools.cli.app import app
from lambda_once_tools.cli.explain import comparison_json, unit_json
from lambda_once_tools.cli.lists import Round, counts_json
from lambda_once_tools.cli.render import story_json
from lambda_once_tools.explain.comparison import ComparedPart, Comparison, Verdict
from lambda_once_tools.explain.explanation import Explanation
from tests.observability import emissions

ROOT: Final = Path(__file__).parents[1]
COMMITTED: Final = ROOT / "tests" / "golden" / "surface.txt"
MODULES: Final = (
    *("lambda_once", "lambda_once.dynamodb", "lambda_once.patterns", "lambda_once.patterns.fifo"),
    "lambda_once.testing",
)
BESIDE: Final = (
    ("lambda_once.integrations.durable", "retry_strategy"),
    ("lambda_once.operations.watchdog", "watchdog"),
    ("lambda_once.patterns.results", "*"),
    ("lambda_once.stores.contract", "*"),
)
"""Public names of modules that have no ``__all__``; a star: all that are their own."""
DECORATORS: Final = tuple(name for name, value in vars(Once).items() if isinstance(value, property))
"""What names its options where it is given one that does not exist; its own signature has none."""
REQUIRED: Final = " required"
STARS: Final[Mapping[object, str]] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
NOW: Final = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)


def surface() -> list[str]:
    """Return the lines, sorted, each once."""
    return sorted(
        {*_names(), *_options(), *_defaults(), *_events(), *_environment(), *_commands(), *_outputs()}
    )


def changes(committed: list[str], found: list[str]) -> tuple[list[str], list[str]]:
    """
    Return what breaks those who rely on *committed*, and what is merely new in *found*.

    A line that is gone breaks them, unless a parameter is merely required no more, and so does a parameter
    that is new and required of something that was there.
    """
    known = set(map(_owner, committed))
    gone = [line for line in committed if line not in found and line.removesuffix(REQUIRED) not in found]
    new = [line for line in found if line not in committed]
    required = [line for line in new if line.endswith(REQUIRED) and _owner(line) in known]
    return gone + required, [line for line in new if line not in required]


def _owner(line: str) -> str:
    return line.partition("(")[0]


# -- names, parameters, errors


def _names() -> Iterator[str]:
    described: list[Any] = []
    for module, name in _exported():
        value = getattr(module, name)
        if any(value is each for each in described):  # another name of the same
            yield f"name {module.__name__}.{name}"
        else:
            described.append(value)
            yield from _of(f"{module.__name__}.{name}", value)


def _exported() -> Iterator[tuple[ModuleType, str]]:
    for module in map(importlib.import_module, MODULES):
        yield from ((module, name) for name in module.__all__)
    for home, wanted in BESIDE:
        module = importlib.import_module(home)
        own = [name for name in vars(module) if getattr(getattr(module, name), "__module__", "") == home]
        yield from ((module, name) for name in own if name == wanted or (wanted == "*" and name[0] != "_"))


def _of(path: str, value: Any) -> Iterator[str]:
    yield f"name {path}"
    if not inspect.isclass(value):
        yield from _parameters(path, value)
        return
    if issubclass(value, Enum):
        yield from (f"name {path}.{member}" for member in value.__members__)
        return
    for base in value.__mro__[1:]:
        if issubclass(base, Exception) and base.__module__.startswith("lambda_once"):
            yield f"error {path} is a {base.__name__}"
    if not issubclass(value, BaseException) and not getattr(value, "_is_protocol", False):
        yield from _parameters(path, value)
    for name in dir(value):
        home = next((each for each in value.__mro__ if name in vars(each)), object)
        if not name.startswith(("_", "test_")) and home.__module__.startswith("lambda_once"):
            yield f"name {path}.{name}"
            if inspect.isroutine(getattr(value, name)):
                yield from _parameters(f"{path}.{name}", getattr(value, name))


def _parameters(path: str, value: Any) -> Iterator[str]:
    if not callable(value) or get_origin(value):
        return
    given = [each for each in inspect.signature(value).parameters.values() if each.name != "self"]
    for position, parameter in enumerate(given, 1):
        stars = STARS.get(parameter.kind, "")
        by = " by keyword" if parameter.kind is parameter.KEYWORD_ONLY else f" at {position}"
        required = REQUIRED if parameter.default is parameter.empty and not stars else ""
        yield f"parameter {path}({stars}{parameter.name}){'' if stars else by}{required}"


def _options() -> Iterator[str]:
    once = Once(store=MemoryStore(), service="surface")
    for name in DECORATORS:
        try:
            getattr(once, name)(no_such_option=1)
        except Misconfigured as error:
            for option in str(error).rpartition("the options are ")[2].split(", "):
                yield f"option once.{name}({option}=)"


def _defaults() -> Iterator[str]:
    for row in fields(Settings):
        yield f"default {row.name}={row.default!r}"


# -- what operators select: events, metrics, variables, the command line


def _events() -> Iterator[str]:
    yield from emissions.every_line()
    yield from (f"metric {event.metric} counts {event.value}" for event in Event if event.metric)


def _environment() -> Iterator[str]:
    for module in (*(ROOT / "src").rglob("*.py"), *(ROOT / "tools" / "src").rglob("*.py")):
        for found in re.findall(r"LAMBDA_ONCE_[A-Z_]*[A-Z]", module.read_text(encoding="utf-8")):
            yield f"environment variable {found}"


def _commands() -> Iterator[str]:
    context = click.Context(app)
    for parameter in app.params:
        yield from (f"lambda-once {option}" for option in parameter.opts)
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        yield f"lambda-once {name}"
        for parameter in command.params:
            options = (*parameter.opts, *parameter.secondary_opts)
            yield from (f"lambda-once {name} {option}" for option in options)


def _outputs() -> Iterator[str]:
    """The names in the JSON that commands print."""
    record = Record(
        token="orders/charge/5",
        state=State.HELD,
        attempt_id="0" * 32,
        fence=1,
        locked_by="orders/request",
        created=NOW,
        expected_completion=NOW,
        actual_completion=NOW,
        error=Failure("ValueError", "no such order"),
        decisions=(Decision(NOW, Decider.PERSON, "ann", "seen", State.HELD, Resolve.HOLD, "0" * 32),),
        stored=Inline("5"),
    )
    explanation = Explanation(decorator="once.sqs", source="sqs", service="s", name="n", payload="its body")
    comparison = Comparison(Verdict.SAME, (ComparedPart("key", "1", "2", counts=True),))
    counted = Round(Counts({}, {}, None), None, NOW, scan=False)
    for command, value in {
        "show": story_json(record, NOW + timedelta(hours=1), None, None),
        "watch": counts_json(counted),
        "watch --scan": counts_json(counted._replace(scan=True)),
        "explain": unit_json(explanation, full=True) | comparison_json(comparison, full=True),
    }.items():
        yield from (f"lambda-once {command} prints {path}" for path in _paths(value))


def _paths(value: Any, above: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield f"{above}{name}"
            yield from _paths(each, f"{above}{name}.")
    elif isinstance(value, list) and value:
        yield from _paths(value[0], above)


if __name__ == "__main__":
    COMMITTED.write_text("".join(f"{line}\n" for line in surface()), encoding="utf-8")
