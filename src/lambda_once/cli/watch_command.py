"""``lambda-once watch``: how much is at work, overdue and held, again and again."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from lambda_once.cli.access import Access, with_table
from lambda_once.cli.output import console
from lambda_once.core.clock import stamp
from lambda_once.errors import StoreUnavailable
from lambda_once.operations.listing import Census, census
from lambda_once.operations.spans import moment, spoken

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime

    from rich.console import RenderableType


@click.command("watch")
@click.option(
    "--interval",
    type=click.FloatRange(1),
    default=5,
    show_default=True,
    metavar="SECONDS",
    help="Between two rounds.",
)
@click.option("--count", type=click.IntRange(1), metavar="NUMBER", help="End after so many rounds.")
@with_table
def command(access: Access, interval: float, count: int | None) -> None:
    """
    Count what is in progress, overdue and held, until Ctrl-C.

    Live on a terminal; elsewhere, and as JSON, a line a round. A round that gets no answer is said, and the
    next one comes. One round asks some 300 questions of the index: reckon half a read unit each.

    Exit code: 0 stopped by Ctrl-C, or nothing was stuck in the last round; 1 something was; 2 bad input or
    no table.
    """
    table, output = access.table, access.output
    last: Census | None = None
    rounds = 0
    try:
        with _screen(access) as screen:
            while True:
                now = table.now()
                try:
                    last = census(table, now)
                    _tell(access, last, now, screen)
                except StoreUnavailable as silent:
                    if rounds == 0:
                        raise
                    output.say(f"{stamp(now)}  no answer: {silent.__cause__ or silent}")
                rounds += 1
                if rounds == count:
                    break
                table.clock.sleep(interval)
    except KeyboardInterrupt:
        return
    if last is not None and (last.overdue or last.held):
        raise click.exceptions.Exit(1)


def _screen(access: Access) -> AbstractContextManager[Any]:
    """Return what shows rounds in one place; None in its stead where lines are written."""
    from rich.live import Live

    drawing = console()
    live = access.output.is_table and drawing.is_terminal
    return Live(console=drawing, auto_refresh=False) if live else nullcontext()


def _tell(access: Access, found: Census, now: datetime, screen: Any) -> None:
    oldest = None if found.oldest is None else now - found.oldest
    if screen is not None:
        screen.update(_drawn(found, now), refresh=True)
    elif access.output.is_table:
        late = "" if oldest is None else f", the oldest by {spoken(oldest)}"
        counts = f"{found.in_progress:,} in progress, {found.overdue:,} overdue{late}, {found.held:,} held"
        click.echo(f"{stamp(now)}  {counts}")
    else:
        row = {
            "at": stamp(now),
            "inProgress": found.in_progress,
            "overdue": found.overdue,
            "held": found.held,
            "oldestOverdueSeconds": None if oldest is None else int(oldest.total_seconds()),
        }
        access.output.rows([row]) if access.output.form == "jsonl" else access.output.one(row, "")
    if found.beyond and access.shards_told:
        access.output.say(
            f"WARNING: {found.beyond:,} rows stand in shards beyond the {access.table.shards} configured"
        )


def _drawn(found: Census, now: datetime) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("at (UTC)", "in progress", "overdue", "held", "oldest overdue"):
        table.add_column(head, justify="left" if head == "at (UTC)" else "right")
    table.add_row(
        moment(now, now),
        f"{found.in_progress:,}",
        f"[bold red]{found.overdue:,}[/]" if found.overdue else "0",
        f"[yellow]{found.held:,}[/]" if found.held else "0",
        "" if found.oldest is None else spoken(now - found.oldest),
    )
    return table
