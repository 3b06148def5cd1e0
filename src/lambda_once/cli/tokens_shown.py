"""Tokens as a table of the terminal has them: what stands where, in which colour, and how long already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import parse_stamp
from lambda_once.operations.spans import moment, spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from rich.console import RenderableType

HEADS: Final = ("state", "token", "locked by", "created", "expected", "age")
WORDS: Final = {"inProgress": "in progress"}
COLOURS: Final = {"overdue": "bold red", "held": "yellow", "inProgress": "cyan", "complete": "green"}


def cells_at(now: datetime) -> Callable[[Mapping[str, Any]], Sequence[RenderableType]]:
    """Return what makes the cells under `HEADS` of a row as `Entry.row` has it."""
    from rich.text import Text

    def cells(row: Mapping[str, Any]) -> Sequence[RenderableType]:
        created, expected = parse_stamp(row["created"]), parse_stamp(row["expectedCompletion"])
        status: str = row["status"]
        return (
            Text(WORDS.get(status, status), style=COLOURS.get(status, ""), no_wrap=True),
            Text(row["lockToken"]),
            Text(row["lockedBy"]),
            Text(moment(created, now), no_wrap=True),
            Text(moment(expected, now), no_wrap=True),
            Text(spoken(now - created), no_wrap=True),
        )

    return cells
