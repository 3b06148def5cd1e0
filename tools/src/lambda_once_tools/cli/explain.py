"""``lambda-once explain``: which token an event gets, and why two were not the same."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click
from aws_lambda_powertools.event_handler.api_gateway import BaseRouter

from lambda_once.core.canonical import written
from lambda_once.core.identity import CALLER, CREDENTIAL, Standing
from lambda_once.errors import Misconfigured
from lambda_once.integrations.event_handler import Route
from lambda_once.integrations.private import routes_of
from lambda_once_tools.cli.options import environment, with_output
from lambda_once_tools.cli.render import BETWEEN, Output, Paragraph, labelled, line
from lambda_once_tools.explain.comparison import ComparedPart, Comparison, Verdict, compared
from lambda_once_tools.explain.explanation import (
    NOBODY,
    Explanation,
    Part,
    Protected,
    explain,
    identifier_of,
)

if TYPE_CHECKING:
    from types import ModuleType

    from rich.console import RenderableType

    from lambda_once.core.identity import Presented

FUNCTION: Final = "AWS_LAMBDA_FUNCTION_NAME"
SERVICE: Final = "POWERTOOLS_SERVICE_NAME"
STANDARD_INPUT: Final = "-"
SHOWN_OF_A_TEXT: Final = 2048
"""Characters that are shown without --full."""
SHOWN_OF_A_PART: Final = 200


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
@click.option(
    "--context",
    "context_file",
    metavar="CONTEXT.json",
    help='What Lambda passes beside the event, such as {"tenant_id": "blue"}.',
)
@click.option("--full", is_flag=True, help="Do not shorten long texts.")
@with_output
def explain_command(
    output: Output,
    address: str,
    first: str,
    second: str | None,
    function_name: str | None,
    service: str | None,
    context_file: str | None,
    *,
    full: bool,
) -> None:
    """
    Explain which token an event gets: source, payload, key, what is hashed and what is ignored.

    With two events: whether they are the same, and where they differ. The handler is imported but not run;
    nothing is stored, and no table is needed. "-" is standard input. For a function that is not a handler the
    file has {"args": [...], "kwargs": {...}}.

    Exit code: 0 it would run, or the two are the same; 1 it would be refused, or they differ; 2 bad input.
    """
    files = [first] if second is None else [first, second]
    events = [(file, _event(file)) for file in files]
    context = None if context_file is None else context_of(_event(context_file), _shown(context_file))
    with environment({FUNCTION: function_name, SERVICE: service}):
        protected = protected_at(address)
        explained = [(file, explain(protected, event, context)) for file, event in events]
    comparisons = [] if second is None else compared(explained[0][1], explained[1][1])
    found = {
        "events": [
            {"file": file, "units": [unit_json(unit, full=full) for unit in units]}
            for file, units in explained
        ],
        "comparisons": [comparison_json(each, full=full) for each in comparisons],
    }
    output.one(found, drawn(explained, comparisons, full=full))
    if function_name is None and any(unit.token for _, units in explained for unit in units):
        output.say("note: in Lambda the name may begin with the function's: pass --function-name")
    refused = any(unit.problem is not None for _, units in explained for unit in units)
    if refused or any(each.verdict is not Verdict.SAME for each in comparisons):
        raise click.exceptions.Exit(1)


# -- the event, and the context

_CONTEXT: Final[dict[str, Any]] = {
    "tenant_id": str,
    "identity": {"cognito_identity_id": str},
    "client_context": {"custom": dict},
}
"""What counts of Lambda's context, by its names there: a type, or the names of an object."""


def _event(file: str) -> Any:
    """Read an event. Raises `Misconfigured` for an unreadable file, and for the place of invalid JSON."""
    name = _shown(file)
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


def _shown(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else file


def context_of(given: object, where: str, names: Mapping[str, Any] = _CONTEXT) -> SimpleNamespace:
    """
    Return *given*, an object of *names*, as Lambda passes it; what it lacks is None.

    Raises `Misconfigured`, in the words of *where* it was found, for other names and for values of other
    types.
    """
    if not isinstance(given, dict):
        raise Misconfigured(f"{where} is not an object: it may have {', '.join(names)}")
    unknown = given.keys() - names.keys()
    if unknown:
        raise Misconfigured(f"{where} has {', '.join(sorted(unknown))}: it may have only {', '.join(names)}")
    found = dict.fromkeys(names) | given
    for name, kind in names.items():
        if isinstance(kind, Mapping) and found[name] is not None:
            found[name] = context_of(found[name], f"{name} in {where}", kind)
        elif found[name] is not None and not isinstance(found[name], kind):
            raise Misconfigured(f"{name} in {where} is {'no text' if kind is str else 'no object'}")
    return SimpleNamespace(**found)


# -- a protected function by its address, ``module:function``, as Lambda finds a handler


def protected_at(address: str) -> Protected:
    """
    Return the identifier of the function at *address*; the working directory is searched first.

    Raises `Misconfigured` if *address* is malformed, the module cannot be imported, or the function does not
    exist or is not protected.
    """
    name, _, path = address.partition(":")
    if not name or not path:
        raise Misconfigured(
            f"{address!r} is not the address of a function: give module:function, such as app.orders:handler"
        )
    module = _imported(name)
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise Misconfigured(f"the module {name} has no {path}; {_protected_in(module)}")
    protected = _identifier_of(found, module)
    if protected is None:
        raise Misconfigured(f"{address} is not protected by lambda-once itself; {_protected_in(module)}")
    return protected


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise Misconfigured(f"no module {name} in {here} or on the Python path") from None
        raise Misconfigured(f"the module {name} needs {error.name}, which is not installed here") from None
    except Exception as error:
        raise Misconfigured(
            f"the module {name} cannot be imported here: {type(error).__name__}: {error}; "
            "set what its environment has in Lambda"
        ) from error


def _protected_in(module: ModuleType) -> str:
    names = [
        name
        for name, each in vars(module).items()
        if callable(each) and _identifier_of(each, module) is not None
    ]
    return f"protected are {', '.join(names)}" if names else "nothing in that module is protected"


def _identifier_of(function: object, module: ModuleType) -> Protected | None:
    """Return the identifier of *function*, itself or under other decorators; None if unprotected."""
    layers = [*_layers(function)]
    found = next((each for each in map(identifier_of, layers) if each is not None), None)
    return _of_route(layers, module) if found is None else found


def _layers(function: object) -> Iterator[object]:
    """Yield *function* and what it wraps, down to the innermost."""
    seen = set[int]()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        yield function
        function = getattr(function, "__wrapped__", None)


def _of_route(layers: Sequence[object], module: ModuleType) -> Protected | None:
    """Return the identifier of the `once.route` among *layers*, or before their route in *module*."""
    routes = chain.from_iterable(
        routes_of(each) for each in vars(module).values() if isinstance(each, BaseRouter)
    )
    middlewares = [
        each for function, before in routes if any(function is layer for layer in layers) for each in before
    ]
    for layer in chain(layers, chain.from_iterable(map(_layers, middlewares))):
        route = getattr(layer, "__self__", None)  # `once.route` returns a method of it, or wraps one
        if isinstance(route, Route):
            return route.identifier
    return None


# -- explanations as JSON, and for a person


def unit_json(unit: Explanation, *, full: bool) -> dict[str, Any]:
    """Return *unit* under the names that the row has, or would have."""
    hashed, presented = unit.hashed, unit.identity.presented
    return {
        "decorator": unit.decorator,
        "source": unit.source,
        "delivery": unit.delivery,
        "payload": unit.payload,
        "tenant": unit.tenant,
        "keyFrom": unit.key_from,
        "key": _jsonable(unit.key),
        "scopeFrom": unit.scope_from,
        "scope": _jsonable(unit.scope),
        "callerFrom": unit.caller_from,
        "callerJoins": unit.caller_joins,
        "callerCompared": presented is not None and presented.is_compared,
        "callerAdvice": None if presented is None else presented.advice,
        "hashedFor": unit.hashed_for,
        "hashed": None if hashed is None else bounded(hashed.text, full=full),
        "parts": {each.name: _part_json(each, full=full) for each in unit.parts},
        "ignored": {each.path: each.places for each in unit.ignored},
        "fingerprint": unit.identity.fingerprint,
        "service": unit.service,
        "name": unit.name,
        "lockToken": unit.token,
        "problem": unit.problem,
        "unprotected": unit.unprotected,
    }


def _part_json(part: Part, *, full: bool) -> dict[str, str | None]:
    text = None if part.text is None else bounded(part.text, full=full)
    return {"standing": part.standing.value, "text": text}


def comparison_json(comparison: Comparison, *, full: bool) -> dict[str, Any]:
    """Return *comparison*: the verdict in a word or two, and each part that differs."""
    return {
        "verdict": comparison.verdict.value,
        "differences": [
            {
                "name": part.name,
                "first": None if part.first is None else bounded(part.first, full=full),
                "second": None if part.second is None else bounded(part.second, full=full),
                "counts": part.counts,
            }
            for part in comparison.parts
        ],
    }


def bounded(text: str, *, full: bool, most: int = SHOWN_OF_A_TEXT) -> str:
    """Return *text*, cut with a note where it is longer than *most* and not wanted in *full*."""
    if full or len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text):,} characters; --full shows all)"


def drawn(
    events: Sequence[tuple[str, Sequence[Explanation]]], comparisons: Sequence[Comparison], *, full: bool
) -> RenderableType:
    """Draw each unit of each event, and below them how the units compare."""
    from rich.console import Group

    parts: list[RenderableType] = []
    for file, units in events:
        for n, unit in enumerate(units, 1):
            place = f"{file}, {n} of {len(units)}" if len(units) > 1 else file
            told = (each for each in _lines(unit, full=full) if each[1])
            parts += [line((place, "bold")), labelled(told, BETWEEN), ""]
        if not units:
            parts += [line((file, "bold")), "no records", ""]
    for n, comparison in enumerate(comparisons, 1):
        place = f"verdict, {n} of {len(comparisons)}" if len(comparisons) > 1 else "verdict"
        parts += [line((place, "bold")), *_comparison(comparison, full=full), ""]
    return Group(*parts[:-1])


def _lines(unit: Explanation, *, full: bool) -> Iterator[tuple[str, str, str]]:
    """Yield what is said of *unit*: a label, a text, which may be empty, and its style."""
    yield "source", f"{unit.source}, handled by {unit.decorator}", ""
    yield "delivery", unit.delivery or "", ""
    yield "payload", unit.payload, ""
    yield "key", _with_origin(unit.key, unit.key_from), ""
    yield "scope", _with_origin(unit.scope, unit.scope_from), ""
    yield "caller", _caller(unit), ""
    for part in unit.parts:
        if part.name not in (CALLER, CREDENTIAL):
            text = "" if part.text is None else f"{bounded(part.text, full=full, most=SHOWN_OF_A_PART)}; "
            yield part.name.removeprefix("@"), f"{text}{part.standing.value}", ""
    for each in unit.ignored:
        where = {0: "nowhere in this delivery", 1: "at 1 place"}.get(each.places, f"at {each.places} places")
        yield "ignored", f"{each.path}: {where}", ""
    if unit.hashed is not None:
        yield "hashed", bounded(unit.hashed.text, full=full), ""
        yield "", f"for {unit.hashed_for}", "dim"
    elif unit.hashed_for is not None:
        yield "hashed", "nothing: there is no fingerprint, any payload is a duplicate under this key", ""
    yield "fingerprint", unit.identity.fingerprint or "", ""
    yield "token", unit.token or "", "green"
    yield "refused", unit.problem or "", "red"
    yield "runs", "" if unit.unprotected is None else f"each time, unprotected: {unit.unprotected}", "yellow"


def _caller(unit: Explanation) -> str:
    standings = {part.name: part.standing for part in unit.parts}
    if unit.caller_from == NOBODY:
        return f"{NOBODY} names the caller{_compared(unit.identity.presented)}"
    if unit.caller_from is None and standings.keys().isdisjoint((CALLER, CREDENTIAL)):
        return ""
    found = [] if unit.caller_from is None else [unit.caller_from]
    if CALLER in standings:
        is_whole = unit.caller_joins in (None, f"SHA-256 of {unit.caller_from}")
        joins = "its SHA-256" if is_whole else unit.caller_joins
        found.append(f"{joins}, {standings[CALLER].value}")
    elif CREDENTIAL not in standings:
        found.append(Standing.LEFT_OUT.value)
    return f"{'; '.join(found)}{_compared(unit.identity.presented)}".removeprefix("; ")


def _compared(presented: Presented | None) -> str:
    if presented is None:
        return ""
    if not presented.is_compared:
        return "; no credential is compared"
    if presented.proof:
        return "; compared: a duplicate must present the same credential"
    return f"; nothing proves it, so a response {presented.advice}"


def _with_origin(found: object, origin: str | None) -> str:
    if found is None:
        return origin or ""
    return f"{written(_jsonable(found))}, by {origin}"


def _jsonable(found: object) -> Any:
    """Return a key or a scope without what has no JSON: its type in place of it."""
    if isinstance(found, dict):
        return {str(name): _jsonable(each) for name, each in found.items()}
    if isinstance(found, list | tuple):
        return [_jsonable(each) for each in found]
    return found if isinstance(found, str | int | float | None) else f"a {type(found).__qualname__}"


def _comparison(comparison: Comparison, *, full: bool) -> Iterator[RenderableType]:
    same = comparison.verdict is Verdict.SAME
    yield Paragraph(comparison.verdict.sentence, "green" if same else "red", indent=BETWEEN)
    yield labelled(((part.name, _change(part, full=full), "") for part in comparison.parts), BETWEEN)


def _change(part: ComparedPart, *, full: bool) -> str:
    sides = [
        "nothing" if side is None else bounded(side, full=full, most=SHOWN_OF_A_PART)
        for side in (part.first, part.second)
    ]
    return f"{' → '.join(sides)}{'' if part.counts else ' (counts for nothing here)'}"
