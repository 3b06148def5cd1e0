"""``lambda-once find``: tokens whose key or scope contains a text, finished ones too."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import click

from lambda_once.cli.options import Access, with_table
from lambda_once.cli.render import tokens_at
from lambda_once.operations.search import Pattern, Scanned, TableSize, containing, scan, table_size
from lambda_once.operations.tokens import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lambda_once.core.lifecycle import Record

MOST_PAGES: Final = 2_000
"""About 2 GB, and 256,000 read units."""


class Search:
    """One search: what it has read so far, and what that cost."""

    def __init__(self, pattern: Pattern, limit: int) -> None:
        self.pattern = pattern
        self.limit = limit
        self.pages = 0
        self.units = 0.0
        self.foreign = 0
        self.shown = 0
        self.by_digest = 0
        self.complete = False

    def through(self, scanned: Iterator[Scanned]) -> Iterator[Record]:
        """Yield the matching rows as they arrive, at most `limit`."""
        for each in scanned:
            self.pages += each.pages
            self.units += each.units
            self.foreign += each.foreign
            self.complete = each.complete
            for record in islice(each.records, self.limit - self.shown):
                self.shown += 1
                self.by_digest += record.token.rpartition("/")[2] in self.pattern.digests
                yield record
            if self.shown == self.limit:
                return


@click.command("find")
@click.argument("text")
@click.option("--ignore-case", is_flag=True, help="Ignore case.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="NUMBER",
    help="At most so many.",
)
@click.option(
    "--segments",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    metavar="NUMBER",
    help="Segments of the scan; ten at most are read concurrently.",
)
@click.option(
    "--max-pages",
    type=click.IntRange(1),
    default=MOST_PAGES,
    show_default=True,
    metavar="NUMBER",
    help="Stop after so many pages of 1 MB.",
)
@with_table
def command(
    access: Access, text: str, *, ignore_case: bool, limit: int, segments: int, max_pages: int
) -> None:
    """
    Find tokens whose key or scope contains TEXT, finished ones too.

    Reads the whole table, page by page, and prints the cost before and after. A key that is not a short text
    is stored as its SHA-256: it is found if TEXT is the whole key, as text, number or JSON value.

    Exit code: 0 found, 1 not found, 2 bad input or no table.
    """
    if text == "":
        raise click.UsageError("TEXT is empty, which every key contains; see lambda-once list")
    table, output = access.table, access.output
    announce_scan(access, table_size(access.table), max_pages)
    now = table.now()
    search = Search(containing(text, ignore_case=ignore_case), limit)
    found = search.through(scan(table, search.pattern, max_pages, segments))
    output.rows((Entry.of_row(record, now).row(now) for record in found), tokens_at(now))
    _summarise(access, search)
    if search.shown == 0:
        raise click.exceptions.Exit(1)


def announce_scan(access: Access, size: TableSize | None, max_pages: int) -> None:
    """Print what a scan of the whole table, *max_pages* at most, will cost."""
    if size is None:
        access.output.say("reading the whole table; its size is unknown (dynamodb:DescribeTable is denied)")
        return
    bound = f", at most {max_pages:,} pages" if size.pages > max_pages else ""
    access.output.say(f"reading the whole table: {describe_size(size)}{bound}")


def describe_size(size: TableSize) -> str:
    from rich.filesize import decimal

    return f"about {size.rows:,} rows, {decimal(size.size)}, {size.units:,} read units"


def report_scan(access: Access, pages: int, units: float) -> None:
    """Print what a scan has cost."""
    access.output.say(f"read {pages:,} page{'' if pages == 1 else 's'} for {units:,.1f} read units")


def _summarise(access: Access, search: Search) -> None:
    say = access.output.say
    report_scan(access, search.pages, search.units)
    if search.foreign:
        say(f"WARNING: {search.foreign:,} rows with a matching key were not written by lambda-once")
    if search.by_digest:
        say(f"{search.by_digest:,} found by SHA-256: the key is stored hashed")
    if search.shown == search.limit:
        say(f"stopped at {search.limit:,}: there may be more, see --limit")
    elif not search.complete:
        say(f"stopped after {search.pages:,} pages: the table was not read to its end, see --max-pages")
    if search.shown == 0:
        say(
            f"no key or scope contains {search.pattern.text!r} or is its SHA-256. A key that is a hash of "
            "the whole payload cannot be found by a part of it: lambda-once explain prints the token "
            "of an event"
        )
    else:
        say("next: lambda-once show TOKEN")
