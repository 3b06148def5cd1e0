"""``lambda-once watch``: count tokens in progress, overdue and held, again and again."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from lambda_once.cli.options import Access, with_table
from lambda_once.cli.render import console
from lambda_once.core.clock import stamp
from lambda_once.errors import StoreUnavailable
from lambda_once.operations.clock import duration_text, time_text
from lambda_once.operations.listing import Counts, count_unfinished
from lambda_once.operations.tokens import Status

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType


@click.command("watch")
@click.option(
    "--interval",
    type=click.FloatRange(1),
    default=5,
    show_default=True,
    metavar="SECONDS",
    help="Pause between two rounds.",
)
@click.option("--count", type=click.IntRange(1), metavar="NUMBER", help="Stop after so many rounds.")
@with_table
def command(access: Access, interval: float, count: int | None) -> None:
    """
    Count what is in progress, overdue and held, until Ctrl-C.

    Live on a terminal; elsewhere, and as JSON, one line per round. A round without a response is reported,
    and the next one follows. One round sends about 300 queries to the index, of half a read unit each.

    Exit code: 0 stopped by Ctrl-C, or nothing was overdue or held in the last round; 1 something was; 2 bad
    input or no table.
    """
    table, output = access.table, access.output
    last: Counts | None = None
    rounds = 0
    try:
        with _screen(access) as screen:
            while True:
                now = table.now()
                try:
                    last = count_unfinished(table, now)
                    _print(access, last, now, screen)
                except StoreUnavailable as silent:
                    if rounds == 0:
                        raise
                    output.say(f"{stamp(now)}  no response: {silent.__cause__ or silent}")
                rounds += 1
                if rounds == count:
                    break
                table.clock.sleep(interval)
    except KeyboardInterrupt:
        return
    if last is not None and (last.overdue or last.held):
        raise click.exceptions.Exit(1)


def _screen(access: Access) -> AbstractContextManager[Any]:
    """Return what shows the rounds in one place; without a terminal a context of None: rounds are lines."""
    from rich.live import Live

    screen = console()
    live = access.output.is_table and screen.is_terminal
    return Live(console=screen, auto_refresh=False) if live else nullcontext()


def _print(access: Access, counts: Counts, now: datetime, screen: Any) -> None:
    busy, overdue, held = map(counts.of, (Status.IN_PROGRESS, Status.OVERDUE, Status.HELD))
    oldest = None if counts.oldest is None else now - counts.oldest
    if screen is not None:
        screen.update(_table(counts, now), refresh=True)
    elif access.output.is_table:
        late = "" if oldest is None else f", the oldest by {duration_text(oldest)}"
        click.echo(f"{stamp(now)}  {busy:,} in progress, {overdue:,} overdue{late}, {held:,} held")
    else:
        row = counts_json(counts, now)
        access.output.rows([row]) if access.output.form == "jsonl" else access.output.one(row, "")
    beyond, _ = counts.beyond(access.table.shards)
    if beyond and access.shards_known:
        access.output.say(
            f"WARNING: {beyond:,} rows are in shards beyond the configured {access.table.shards}"
        )


def counts_json(counts: Counts, now: datetime) -> dict[str, Any]:
    """Return *counts* as JSON values."""
    return {
        "at": stamp(now),
        "inProgress": counts.of(Status.IN_PROGRESS),
        "overdue": counts.of(Status.OVERDUE),
        "held": counts.of(Status.HELD),
        "oldestOverdueSeconds": None if counts.oldest is None else int((now - counts.oldest).total_seconds()),
    }


def _table(counts: Counts, now: datetime) -> RenderableType:
    from rich.table import Table

    busy, overdue, held = map(counts.of, (Status.IN_PROGRESS, Status.OVERDUE, Status.HELD))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("at (UTC)", "in progress", "overdue", "held", "oldest overdue"):
        table.add_column(head, justify="left" if head == "at (UTC)" else "right")
    table.add_row(
        time_text(now, now),
        f"{busy:,}",
        f"[bold red]{overdue:,}[/]" if overdue else "0",
        f"[yellow]{held:,}[/]" if held else "0",
        "" if counts.oldest is None else duration_text(now - counts.oldest),
    )
    return table
