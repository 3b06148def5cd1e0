"""Explanations as JSON, and drawn for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.core.canonical import written
from lambda_once.explain.comparison import ComparedPart, Comparison, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from lambda_once.core.lifecycle import Presented
    from lambda_once.explain.explanation import Explanation

BOUND = 2048
"""Characters of a text that are shown without --full."""
OF_A_PART = 200


def as_json(explanation: Explanation, *, full: bool) -> dict[str, Any]:
    """Return *explanation* under the names that the row has, or would have."""
    hashed = explanation.hashed
    return {
        "decorator": explanation.decorator,
        "source": explanation.source,
        "delivery": explanation.delivery,
        "payload": explanation.payload,
        "keyFrom": explanation.key_from,
        "key": _bare(explanation.key),
        "scopeFrom": explanation.scope_from,
        "scope": _bare(explanation.scope),
        "callerFrom": explanation.caller_from,
        "callerJoins": explanation.caller_joins,
        "callerCompared": explanation.presented is not None,
        "callerAdvice": None if explanation.presented is None else explanation.presented.advice,
        "hashedFor": explanation.hashed_for,
        "hashed": None if hashed is None else bounded(hashed.text, full=full),
        "ignored": {each.path: each.places for each in explanation.ignored},
        "fingerprint": explanation.fingerprint,
        "service": explanation.service,
        "name": explanation.name,
        "lockToken": explanation.token,
        "problem": explanation.problem,
        "unprotected": explanation.unprotected,
    }


def comparison_as_json(comparison: Comparison, *, full: bool) -> dict[str, Any]:
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


def bounded(text: str, *, full: bool, most: int = BOUND) -> str:
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
            parts += [_heading(place), _unit(unit, full=full), ""]
        if not units:
            parts += [_heading(file), "no records", ""]
    for n, comparison in enumerate(comparisons, 1):
        place = f"verdict, {n} of {len(comparisons)}" if len(comparisons) > 1 else "verdict"
        parts += [_heading(place), *_comparison(comparison, full=full), ""]
    return Group(*parts[:-1])


def _heading(text: str) -> RenderableType:
    from rich.text import Text

    return Text(text, style="bold")


def _grid(rows: Iterator[tuple[str, str, str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, said, style in rows:
        grid.add_row(Text(f"  {label}", style="dim"), Text(said, style=style))
    return grid


def _unit(unit: Explanation, *, full: bool) -> RenderableType:
    return _grid((label, said, style) for label, said, style in _lines(unit, full=full) if said)


def _lines(unit: Explanation, *, full: bool) -> Iterator[tuple[str, str, str]]:
    """Yield what is said of *unit*: a label, a text, which may be empty, and its style."""
    yield "source", f"{unit.source}, handled by {unit.decorator}", ""
    yield "delivery", unit.delivery or "", ""
    yield "payload", unit.payload, ""
    yield "key", _with_origin(unit.key, unit.key_from), ""
    yield "scope", _with_origin(unit.scope, unit.scope_from), ""
    yield "caller", _caller(unit), ""
    for each in unit.ignored:
        where = {0: "nowhere in this payload", 1: "at 1 place"}.get(each.places, f"at {each.places} places")
        yield "ignored", f"{each.path}: {where}", ""
    if unit.hashed is not None:
        yield "hashed", bounded(unit.hashed.text, full=full), ""
        yield "", f"for {unit.hashed_for}", "dim"
    elif unit.hashed_for is not None:
        yield "hashed", "nothing: there is no fingerprint, any payload is a duplicate under this key", ""
    yield "fingerprint", unit.fingerprint or "", ""
    yield "token", unit.token or "", "green"
    yield "refused", unit.problem or "", "red"
    yield "runs", "" if unit.unprotected is None else f"each time, unprotected: {unit.unprotected}", "yellow"


def _caller(unit: Explanation) -> str:
    if unit.caller_from is None:
        return ""
    joins = f"; {unit.caller_joins or 'nothing of it'} joins the token"
    return f"{unit.caller_from}{joins}{_compared(unit.presented)}"


def _compared(presented: Presented | None) -> str:
    if presented is None:
        return ""
    if presented.proof:
        return "; a duplicate must present the same credential"
    return f"; nothing proves it, so a response {presented.advice}"


def _with_origin(found: object, origin: str | None) -> str:
    if found is None:
        return origin or ""
    return f"{_text(found)}, by {origin}"


def _text(found: object) -> str:
    return written(_bare(found))


def _bare(found: object) -> Any:
    """Return a key or a scope without what has no JSON: its type in place of it."""
    if isinstance(found, dict):
        return {str(name): _bare(each) for name, each in found.items()}
    if isinstance(found, list | tuple):
        return [_bare(each) for each in found]
    return found if isinstance(found, str | int | float | None) else f"a {type(found).__qualname__}"


def _comparison(comparison: Comparison, *, full: bool) -> Iterator[RenderableType]:
    from rich.text import Text

    same = comparison.verdict is Verdict.SAME
    yield Text(f"  {comparison.verdict.sentence}", style="green" if same else "red")
    if comparison.parts:
        yield _grid((part.name, _change(part, full=full), "") for part in comparison.parts)


def _change(part: ComparedPart, *, full: bool) -> str:
    sides = [
        "nothing" if side is None else bounded(side, full=full, most=OF_A_PART)
        for side in (part.first, part.second)
    ]
    return f"{' → '.join(sides)}{'' if part.counts else ' (counts for nothing here)'}"
