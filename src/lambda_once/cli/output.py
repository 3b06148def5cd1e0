"""What commands print: data to standard output in one of three forms, the story to standard error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console, RenderableType

FORMATS: Final = ("table", "json", "jsonl")
UNBROKEN = 10_000
"""Columns where nobody looks: a row is a line, for grep and awk."""


class Output:
    """One form of output for one command."""

    def __init__(self, form: str) -> None:
        self.form = form

    @property
    def is_table(self) -> bool:
        return self.form == "table"

    def rows(
        self,
        rows: Iterable[Mapping[str, Any]],
        drawn: Callable[[Sequence[Mapping[str, Any]], int], RenderableType] | None = None,
    ) -> int:
        """
        Print *rows*, of which each has JSON values, and return how many there were.

        As jsonl each is printed as it comes; as one JSON list, or as what *drawn* makes of them for so many
        columns, at the end.
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
        elif complete and drawn is not None:
            self.draw(drawn(complete, console().width))
        return len(complete)

    def one(self, value: Mapping[str, Any], drawn: RenderableType) -> None:
        """Print *value* as JSON, or *drawn* where a person reads it."""
        if self.is_table:
            self.draw(drawn)
        else:
            click.echo(json.dumps(value, ensure_ascii=False, indent=2 if self.form == "json" else None))

    def draw(self, drawn: RenderableType) -> None:
        """Draw on the terminal; where none is, print plain lines, without the blanks that fill a column."""
        drawing = console()
        if drawing.is_terminal:
            drawing.print(drawn, crop=False)  # what must be whole is broken by the terminal alone
            return
        with drawing.capture() as captured:
            drawing.print(drawn)
        click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def say(self, text: str) -> None:
        """Tell a person something, on standard error: it is no data."""
        click.echo(text, err=True)


def console() -> Console:
    """Return what draws on standard output: as wide as the terminal; plain, unbroken lines where none is."""
    from rich.console import Console

    found = Console(highlight=False, soft_wrap=False, emoji=False)
    return found if found.is_terminal else Console(highlight=False, emoji=False, width=UNBROKEN)
