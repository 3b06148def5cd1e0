"""``lambda-once list``: unfinished tokens, overdue and held ones first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from lambda_once.cli.options import Access, with_filter, with_table
from lambda_once.cli.render import tokens_at
from lambda_once.dynamodb.retry import MOST_KEYS
from lambda_once.operations.listing import confirmed, count_unfinished, unfinished
from lambda_once.operations.resolution import HELD
from lambda_once.operations.tokens import STUCK, UNFINISHED, Entry, Filter, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

ROWS_OF_A_TABLE: Final = 100
"""Default limit of a table; JSON has all."""
FLAGS: Final = {"overdue": Status.OVERDUE, "held": Status.HELD, "in_progress": Status.IN_PROGRESS}


class Listed:
    """Counts the entries that pass through it, and stops at a limit."""

    def __init__(self, limit: int | None) -> None:
        self.counts: Counter[Status] = Counter()
        self.highest_shard = -1
        self.cut = False
        self._limit = limit

    def through(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if self.counts.total() == self._limit:
                self.cut = True
                return
            self.counts[entry.status] += 1
            if entry.shard is not None:
                self.highest_shard = max(self.highest_shard, entry.shard)
            yield entry


@click.command("list")
@click.option("--overdue", is_flag=True, help="Tokens whose lease has expired without an outcome.")
@click.option("--held", is_flag=True, help="Tokens held for manual review, and why.")
@click.option("--in-progress", is_flag=True, help="Tokens with a lease that has not expired.")
@with_filter
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="NUMBER",
    help=f"At most so many.  [default: {ROWS_OF_A_TABLE} in a table, all as JSON]",
)
@click.option("--consistent", is_flag=True, help="Read each row, and omit tokens that have changed since.")
@with_table
def command(access: Access, wanted: Filter, limit: int | None, *, consistent: bool, **flags: bool) -> None:
    """
    List unfinished tokens: overdue, then held, then in progress.

    --overdue, --held and --in-progress may be combined; without any, all are listed. The list is that of the
    index, which follows the table within a second; --consistent also reads each row. --held reads the rows of
    held tokens, which have the reason.

    Exit code: 0 no listed token is overdue or held, 1 one is, 2 bad input or no table.
    """
    table, output = access.table, access.output
    now = table.now()
    statuses = frozenset(status for flag, status in FLAGS.items() if flags[flag]) or UNFINISHED
    bound = limit or (ROWS_OF_A_TABLE if output.is_table else None)
    entries: Iterable[Entry] = (
        each for each in unfinished(table, statuses, now) if wanted.matches(each, now)
    )
    if consistent:
        entries = confirmed(table, entries, now)
    elif flags["held"]:
        entries = confirmed(table, entries, now, HELD, min(MOST_KEYS, bound or MOST_KEYS))
    listed = Listed(bound)
    output.rows((entry.row(now) for entry in listed.through(entries)), tokens_at(now))
    _summarise(access, listed, statuses, now, filtered=wanted != Filter())
    if any(listed.counts[status] for status in STUCK):
        raise click.exceptions.Exit(1)


def _summarise(
    access: Access, listed: Listed, statuses: frozenset[Status], now: datetime, *, filtered: bool
) -> None:
    say, shown = access.output.say, listed.counts.total()
    if listed.cut:
        counts = count_unfinished(access.table, now)
        whole = _counts_text({status: counts.of(status) for status in FLAGS.values()}, statuses)
        say(f"first {shown:,} shown; {whole} in the whole table{', unfiltered' if filtered else ''}")
    elif shown == 0:
        say("nothing is unfinished" if statuses == UNFINISHED and not filtered else "no matching token")
    else:
        say(_counts_text(listed.counts, statuses))
    _warn_of_shards(access, listed.highest_shard)
    if shown:
        say("next: lambda-once show TOKEN")


def _counts_text(counts: Mapping[Status, int], statuses: frozenset[Status]) -> str:
    words = {Status.OVERDUE: "overdue", Status.HELD: "held", Status.IN_PROGRESS: "in progress"}
    return ", ".join(f"{counts[status]:,} {word}" for status, word in words.items() if status in statuses)


def _warn_of_shards(access: Access, highest: int) -> None:
    """Warn of shards beyond the configured number; they are listed all the same."""
    if highest < access.table.shards:
        return
    if access.shards_known:
        access.output.say(
            f"WARNING: there are rows in shards up to {highest}, but LAMBDA_ONCE_STATUS_SHARDS is "
            f"{access.table.shards} here: a function has another number, or the number was reduced"
        )
    else:
        access.output.say(f"there are rows in shards up to {highest}; pass --shards to check the number")
