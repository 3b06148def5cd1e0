"""``lambda-once explain``: which token an event gets, and why two were not the same."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lambda_once.cli.addressed import explain_at
from lambda_once.cli.explained import as_json, comparison_as_json, drawn
from lambda_once.cli.options import with_output
from lambda_once.errors import Misconfigured
from lambda_once.explain.comparison import Comparison, Verdict, compared

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lambda_once.cli.render import Output
    from lambda_once.explain.explanation import Explanation

FUNCTION = "AWS_LAMBDA_FUNCTION_NAME"
SERVICE = "POWERTOOLS_SERVICE_NAME"
STANDARD_INPUT = "-"


@click.command("explain")
@click.option(
    "--handler",
    "address",
    metavar="MODULE:FUNCTION",
    required=True,
    help="The protected function; for an Event Handler the function of the route.",
)
@click.argument("first", metavar="EVENT.json")
@click.argument("second", metavar="[EVENT2.json]", required=False)
@click.option(
    "--function-name",
    metavar="NAME",
    envvar=FUNCTION,
    show_envvar=True,
    help="The function's name in Lambda: the default name of a token begins with it.",
)
@click.option(
    "--service", metavar="NAME", envvar=SERVICE, show_envvar=True, help="The service of its tokens."
)
@click.option("--full", is_flag=True, help="Show long texts whole.")
@with_output
def command(
    output: Output,
    address: str,
    first: str,
    second: str | None,
    function_name: str | None,
    service: str | None,
    *,
    full: bool,
) -> None:
    """
    Explain which token an event gets: source, payload, key, what is hashed and what is ignored.

    With two events: whether they are the same, and where they differ. The handler is imported but not run;
    nothing is stored, and no table is needed. - is standard input. For a function that is not a handler the
    file has {"args": [...], "kwargs": {...}}.

    Exit code: 0 it would run, or the two are the same; 1 it would be refused, or they differ; 2 bad input.
    """
    files = [first] if second is None else [first, second]
    events = [(file, _event(file)) for file in files]
    with _environment({FUNCTION: function_name, SERVICE: service}):
        explain = explain_at(address)
        explained = [(file, explain(event)) for file, event in events]
    comparisons = [] if second is None else compared(explained[0][1], explained[1][1])
    output.one(_as_json(explained, comparisons, full=full), drawn(explained, comparisons, full=full))
    if function_name is None and any(unit.token for _, units in explained for unit in units):
        output.say("note: in Lambda the name may begin with the function's: give --function-name")
    if not _is_well(explained, comparisons):
        raise click.exceptions.Exit(1)


def _is_well(explained: list[tuple[str, list[Explanation]]], comparisons: list[Comparison]) -> bool:
    refused = any(unit.problem is not None for _, units in explained for unit in units)
    return not refused and all(each.verdict is Verdict.SAME for each in comparisons)


def _as_json(
    explained: list[tuple[str, list[Explanation]]], comparisons: list[Comparison], *, full: bool
) -> Mapping[str, Any]:
    return {
        "events": [
            {"file": file, "units": [as_json(unit, full=full) for unit in units]} for file, units in explained
        ],
        "comparisons": [comparison_as_json(each, full=full) for each in comparisons],
    }


def _event(file: str) -> Any:
    """Read an event. Raises `Misconfigured` for an unreadable file, and for the place of invalid JSON."""
    name = "standard input" if file == STANDARD_INPUT else file
    try:
        data = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        return json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise Misconfigured(
            f"{name}, line {error.lineno}, column {error.colno}: not JSON ({error.msg})"
        ) from None
    except UnicodeDecodeError as error:
        raise Misconfigured(f"{name} is not UTF-8, at byte {error.start}: give an event as JSON") from None
    except RecursionError:
        raise Misconfigured(f"{name} is JSON nested too deeply to be read") from None
    except OSError as error:
        raise Misconfigured(f"{name} cannot be read: {error.strerror}") from None


@contextmanager
def _environment(given: Mapping[str, str | None]) -> Iterator[None]:
    """Set the variables of *given* that have a value, and put back what was there before."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update({name: each for name, each in given.items() if each is not None})
    try:
        yield
    finally:
        for name, each in before.items():
            if each is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = each
