"""``lambda-once watchdog``: one run of the watchdog, with an operator's credentials."""

from __future__ import annotations

import logging
from typing import Final, Literal

import click

from lambda_once.operations.list_state import BEHIND, list_state
from lambda_once.operations.watchdog import watchdog
from lambda_once_tools.cli.options import Access, environment, with_table

_SHOWN: Final = {
    "overdue": "overdue",
    "held": "held",
    "inProgress": "in progress",
    "releasedTokens": "released by a decision over an hour ago",
}
_UNMETERED: Final = "POWERTOOLS_METRICS_DISABLED"


class _Said(logging.Handler):
    """Prints the event of each line, its token and its reason, to standard error."""

    def __init__(self, access: Access) -> None:
        super().__init__(logging.WARNING)
        self._access = access

    def emit(self, record: logging.LogRecord) -> None:
        told = (getattr(record, name, None) for name in ("token", "reason"))
        self._access.output.say(" ".join((record.getMessage(), *(str(each) for each in told if each))))


@click.command("watchdog")
@with_table
def watchdog_command(access: Access) -> None:
    """
    Run the watchdog once: read the table's stream, list what was lost, and count.

    For when the scheduled one can't. It releases and sweeps nothing, and writes no metrics. It needs the
    watchdog's permissions. Without LAMBDA_ONCE_LISTING it reads the stream if the table has one.

    Exit code: 0 nothing is overdue, held, or left over since a decision released it; 1 something is; 2 it
    failed, is far behind, or is closing a gap.
    """
    lines = logging.Logger("lambda_once.watchdog")  # noqa: LOG001  (no other handler gets its lines)
    lines.addHandler(_Said(access))
    table = access.table
    mode: Literal["stream"] | None = None
    if table.listing is None and list_state(table).by_stream:
        mode = "stream"  # a run of the other mode would end this one
    run = watchdog(table.name, access.client, table.clock, sweep=False, logger=lines, listing=mode)
    with environment({_UNMETERED: "true"}):
        counts = run({}, None)
    text = ", ".join(f"{counts[name]:,} {words}" for name, words in _SHOWN.items())
    access.output.one(counts, text)
    if counts.get("streamGap") or counts.get("streamLagSeconds", 0) > BEHIND.total_seconds():
        raise click.ClickException("the list isn't whole yet: run it again, or see list --scan")
    if counts["overdue"] or counts["held"] or counts["releasedTokens"]:
        raise click.exceptions.Exit(1)
