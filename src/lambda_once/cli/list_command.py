"""``lambda-once list``: what is unfinished, what is stuck first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from lambda_once.cli.access import Access, with_table
from lambda_once.cli.durations import DURATION
from lambda_once.cli.tokens_shown import drawn_at
from lambda_once.dynamodb.paging import MOST_KEYS
from lambda_once.operations.entries import STUCK, Entry, Status, Wanted
from lambda_once.operations.listing import UNFINISHED, Census, census, confirmed, unfinished

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

ROWS_OF_A_TABLE: Final = 100
"""More than a person reads; JSON has all."""


FLAGS: Final = {"overdue": Status.OVERDUE, "held": Status.HELD, "in_progress": Status.IN_PROGRESS}


HELD: Final = frozenset({Status.HELD})


class Listed:
    """Counts the entries that pass through it, and stops them at a limit."""

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
@click.option("--overdue", is_flag=True, help="What is in progress, and should have finished.")
@click.option("--held", is_flag=True, help="What needs manual review, and why.")
@click.option("--in-progress", is_flag=True, help="What is in progress, and has time left.")
@click.option("--service", metavar="NAME", help="Only tokens of this service; * and ? stand for others.")
@click.option("--name", metavar="NAME", help="Only tokens of this protected function; * and ? as well.")
@click.option(
    "--older-than", type=DURATION, metavar="DURATION", help="Only what was acquired longer ago: 15m, 2h, 3d."
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="NUMBER",
    help=f"At most so many.  [default: {ROWS_OF_A_TABLE} in a table, all as JSON]",
)
@click.option("--consistent", is_flag=True, help="Read each row again: nothing that has moved on is shown.")
@with_table
def command(access: Access, limit: int | None, *, consistent: bool, **options: Any) -> None:
    """
    List what is unfinished: the overdue first, then the held, then what is at work.

    Any of --overdue, --held and --in-progress are listed together; none of them means all. The list is the
    index's, which follows the table within a second; --consistent reads each row as well, and --held those of
    what is held, for the reason stands there.

    Exit code: 0 nothing is stuck, 1 something listed is overdue or held, 2 bad input or no table.
    """
    table, output = access.table, access.output
    now = table.now()
    wanted = frozenset(status for flag, status in FLAGS.items() if options[flag]) or UNFINISHED
    only = Wanted(options["service"], options["name"], options["older_than"])
    bound = limit or (ROWS_OF_A_TABLE if output.is_table else None)
    entries: Iterable[Entry] = (each for each in unfinished(table, wanted, now) if only.takes(each, now))
    if consistent:
        entries = confirmed(table, entries, now)
    elif options["held"]:
        entries = confirmed(table, entries, now, HELD, min(MOST_KEYS, bound or MOST_KEYS))
    listed = Listed(bound)
    output.rows((entry.row(now) for entry in listed.through(entries)), drawn_at(now))
    _tell(access, listed, wanted, now, filtered=only != Wanted())
    if any(listed.counts[status] for status in STUCK):
        raise click.exceptions.Exit(1)


def _tell(
    access: Access, listed: Listed, wanted: frozenset[Status], now: datetime, *, filtered: bool
) -> None:
    say, shown = access.output.say, listed.counts.total()
    if listed.cut:
        found = census(access.table, now)
        whole = f"{_spoken(_counts(found), wanted)} in the whole table"
        say(f"the first {shown:,} are shown; {whole}{', whatever its names' if filtered else ''}")
    elif shown == 0:
        say("nothing is unfinished" if wanted == UNFINISHED and not filtered else "nothing of that is there")
    else:
        say(_spoken(listed.counts, wanted))
    _warn_of_shards(access, listed.highest_shard)
    if shown:
        say("next: lambda-once show TOKEN")


def _counts(found: Census) -> dict[Status, int]:
    return {
        Status.OVERDUE: found.overdue,
        Status.HELD: found.held,
        Status.IN_PROGRESS: found.in_progress,
    }


def _spoken(counts: dict[Status, int] | Counter[Status], wanted: frozenset[Status]) -> str:
    words = {Status.OVERDUE: "overdue", Status.HELD: "held", Status.IN_PROGRESS: "in progress"}
    return ", ".join(f"{counts[status]:,} {word}" for status, word in words.items() if status in wanted)


def _warn_of_shards(access: Access, highest: int) -> None:
    """Say that somebody writes shards which the configuration does not have; they are listed all the same."""
    if highest < access.table.shards:
        return
    if access.shards_told:
        access.output.say(
            f"WARNING: rows stand in shards up to {highest}, and LAMBDA_ONCE_STATUS_SHARDS is "
            f"{access.table.shards} here: a function is configured otherwise, or the number was made smaller"
        )
    else:
        access.output.say(f"rows stand in shards up to {highest}; say --shards to be warned of wrong ones")
