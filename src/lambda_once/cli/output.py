"""What commands print: data to standard output in one of three forms, the story to standard error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console, RenderableType

FORMATS: Final = ("table", "json", "jsonl")


class Output:
    """One form of output for one command."""

    def __init__(self, form: str) -> None:
        self.form = form

    @property
    def is_table(self) -> bool:
        return self.form == "table"

    def rows(self, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> int:
        """
        Print *rows*, of which each has a JSON value for each of *columns*, and return how many there were.

        As jsonl each is printed as it comes; as a table or as one JSON list, at the end.
        """
        if self.form == "jsonl":
            count = 0
            for row in rows:
                click.echo(json.dumps(row, ensure_ascii=False))
                count += 1
            return count
        complete = list(rows)
        if self.form == "json":
            click.echo(json.dumps(complete, ensure_ascii=False, indent=2))
        elif complete:
            self.draw(_table(columns, complete))
        return len(complete)

    def one(self, value: Mapping[str, Any], drawn: RenderableType) -> None:
        """Print *value* as JSON, or *drawn* where a person reads it."""
        if self.is_table:
            self.draw(drawn)
        else:
            click.echo(json.dumps(value, ensure_ascii=False, indent=2 if self.form == "json" else None))

    def draw(self, drawn: RenderableType) -> None:
        console().print(drawn)

    def say(self, text: str) -> None:
        """Tell a person something, on standard error: it is no data."""
        click.echo(text, err=True)


def console() -> Console:
    """Return what draws on standard output: as wide as the terminal; plain text where there is none."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if row.get(column) is None else str(row[column]) for column in columns))
    return table
