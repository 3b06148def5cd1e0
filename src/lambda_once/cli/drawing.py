"""Rows of the token table side by side, for a person to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.cli.row_shown import Seen, told
from lambda_once.cli.tokens_shown import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from rich.console import RenderableType

    from lambda_once.cli.output import Output
    from lambda_once.core.record import Record

SHOWN = {
    "lockToken": "token",
    "status": "state",
    "lockedBy": "locked by",
    "attempt": "attempt",
    "created": "created",
    "expectedCompletion": "lease until",
    "actualCompletion": "ended",
    "error": "error",
    "result": "result",
    "resolution": "resolved",
}
"""The fields of a row that who resolves it must see, and their names in a table."""

_TELLING = {"outlook", "story", "logs", "next", "shard"}
LISTED = ("lockToken", "created", "actualCompletion", "lockedBy", "error")
"""Those that stand in a list of many."""


def show(output: Output, drawn: RenderableType) -> None:
    """Show *drawn* to the person at the command, on standard error where the data is JSON."""
    from rich.console import Console

    if output.is_table:
        output.draw(drawn)
    else:
        Console(stderr=True, highlight=False).print(drawn)


def side_by_side(rows: Mapping[str, Record | None], now: datetime) -> RenderableType:
    """Draw *rows*, one a column under its heading; None: there is no row."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=len(rows) > 1, header_style="bold")
    table.add_column("")
    for heading in rows:
        table.add_column(heading, overflow="fold")
    fields = [{} if row is None else fields_of(row, now) for row in rows.values()]
    for field, label in SHOWN.items():
        values = [_said(field, row.get(field)) for row in fields]
        if any(values):
            table.add_row(label, *map(Text, values))
    if None in rows.values():
        table.add_row("", *("there is no row" if row is None else "" for row in rows.values()))
    return table


def listing(records: Sequence[Record], now: datetime) -> RenderableType:
    """Draw *records*, one a line: token, from when to when, by whom, and why."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for field in LISTED:
        table.add_column(SHOWN[field], overflow="fold")
    for record in records:
        row = fields_of(record, now)
        table.add_row(*(Text(_said(field, row[field])) for field in LISTED))
    return table


def fields_of(record: Record, now: datetime) -> dict[str, Any]:
    """Return *record* by the names of its row, as ``show`` tells it, without its story and its result."""
    known = told(Seen(record, now, parts_there=None))
    return {name: value for name, value in known.items() if name not in _TELLING}


def _said(field: str, value: Any) -> str:
    return printable(_text(field, value))


def _text(field: str, value: Any) -> str:
    match field, value:
        case _, None:
            return ""
        case "error", {"kind": kind, "message": message}:
            return f"{kind}: {message}"
        case "result", {"kind": kind}:
            return str(kind)
        case "resolution", {"by": by, "because": because, "at": at}:
            return f"{at} by {by}: {because}"
        case _:
            return str(value)
