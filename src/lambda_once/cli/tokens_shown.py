"""Tokens as a list on a terminal: state, token, times and age; on a narrow one a few lines each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import parse_stamp
from lambda_once.operations.spans import moment, spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from rich.console import RenderableType
    from rich.text import Text

    Row = Mapping[str, Any]
    Cells = Mapping[str, Text]

HEADS: Final = ("state", "token", "locked by", "created", "expected", "age", "reason")
LEAST: Final = {"reason": 24}
"""Columns that may be folded, and how much they need at least; all others stay whole."""
BETWEEN: Final = 2
"""Blanks between two columns."""
WORDS: Final = {"inProgress": "in progress"}
COLOURS: Final = {"overdue": "bold red", "held": "yellow", "inProgress": "cyan", "complete": "green"}


def drawn_at(now: datetime) -> Callable[[Sequence[Row], int], RenderableType]:
    """
    Return what draws rows, each as `Entry.row` has it, on so many columns.

    A token is never broken: it is what the next command is given. Where there is no room for all, the column
    ``locked by`` is left out, and then each row takes several lines.
    """

    def drawn(rows: Sequence[Row], width: int) -> RenderableType:
        cells = [_cells(row, now) for row in rows]
        heads = tuple(head for head in HEADS if any(each[head] for each in cells))
        for left_out in ((), ("locked by",)):
            shown = tuple(head for head in heads if head not in left_out)
            if _width(shown, cells) <= width:
                return _table(shown, cells)
        return _stacked(heads, cells)

    return drawn


def printable(text: str) -> str:
    """Return *text* without what a terminal would obey, or break the line at."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _cells(row: Row, now: datetime) -> Cells:
    from rich.text import Text

    created, expected = parse_stamp(row["created"]), parse_stamp(row["expectedCompletion"])
    status: str = row["status"]
    error = row.get("error")
    reason = "" if error is None else printable(f"{error['kind']}: {error['message']}")
    return {
        "state": Text(WORDS.get(status, status), style=COLOURS.get(status, "")),
        "token": Text(row["lockToken"]),
        "locked by": Text(row["lockedBy"]),
        "created": Text(moment(created, now)),
        "expected": Text(moment(expected, now)),
        "age": Text(spoken(now - created)),
        "reason": Text(reason),
    }


def _width(heads: Sequence[str], cells: Sequence[Cells]) -> int:
    columns = (max(len(head), *(each[head].cell_len for each in cells)) for head in heads)
    needed = (min(LEAST.get(head, width), width) for head, width in zip(heads, columns, strict=True))
    return sum(needed) + BETWEEN * (len(heads) - 1)


def _table(heads: Sequence[str], cells: Sequence[Cells]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=head not in LEAST, overflow="fold")
    for each in cells:
        table.add_row(*(each[head] for head in heads))
    return table


def _stacked(heads: Sequence[str], cells: Sequence[Cells]) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    lines: list[RenderableType] = []
    for each in cells:
        # The terminal breaks it, and knows that it is one line.
        lines.append(Text.assemble(each["state"], "  ", each["token"], no_wrap=True, overflow="ignore"))
        lines += [
            Padding(Text.assemble((f"{head} ", "dim"), each[head], overflow="fold"), (0, 0, 0, BETWEEN))
            for head in heads
            if head not in ("state", "token", "locked by") and each[head]
        ]
    return Group(*lines)
