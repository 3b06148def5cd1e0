"""``lambda-once find``: tokens whose key or scope contains a text, finished ones too."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import click

from lambda_once.cli.access import Access, with_table
from lambda_once.cli.tokens_shown import drawn_at
from lambda_once.operations.entries import read
from lambda_once.operations.searching import Found, Size, Sought, rounds, size_of, sought

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lambda_once.core.record import Record

MOST_PAGES: Final = 2_000
"""About 2 GB, and 256,000 read units."""


class Search:
    """One search: what it has read so far, and what that cost."""

    def __init__(self, what: Sought, limit: int) -> None:
        self.what = what
        self.limit = limit
        self.pages = 0
        self.units = 0.0
        self.foreign = 0
        self.shown = 0
        self.by_digest = 0
        self.whole = False

    def through(self, found: Iterator[Found]) -> Iterator[Record]:
        """Yield the tokens of each round as it comes in, at most `limit`."""
        for one in found:
            self.pages += one.pages
            self.units += one.units
            self.foreign += one.foreign
            self.whole = one.whole
            for record in islice(one.records, self.limit - self.shown):
                self.shown += 1
                self.by_digest += any(record.token.endswith(f"/{digest}") for digest in self.what.digests)
                yield record
            if self.shown == self.limit:
                return


@click.command("find")
@click.argument("text")
@click.option("--ignore-case", is_flag=True, help="Find it in capitals and small letters alike.")
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
    help="Parts of the table that are read at once, ten at most.",
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

    It reads the whole table, page by page, and says what that costs before and after. A key that is no short
    text stands as its SHA-256: it is found if TEXT is all of it, or the number or JSON that it was.

    Exit code: 0 found, 1 not found, 2 bad input or no table.
    """
    if text == "":
        raise click.UsageError(
            "TEXT is empty, and every key contains that: lambda-once list shows what is unfinished"
        )
    table, output = access.table, access.output
    say_the_price(access, size_of(access.table), max_pages)
    now = table.now()
    search = Search(sought(text, ignore_case=ignore_case), limit)
    found = search.through(rounds(table, search.what, segments, max_pages))
    output.rows((read(record, now).row(now) for record in found), drawn_at(now))
    _tell(access, search)
    if search.shown == 0:
        raise click.exceptions.Exit(1)


def say_the_price(access: Access, size: Size | None, max_pages: int) -> None:
    """Say how much reading the whole table costs, *max_pages* at most."""
    if size is None:
        access.output.say("reading the whole table; its size is not to be had (dynamodb:DescribeTable)")
        return
    bound = f", or {max_pages:,} pages at most" if size.pages > max_pages else ""
    access.output.say(f"reading the whole table: {described(size)}{bound}")


def described(size: Size) -> str:
    """Say how large a table is, and how many units it takes to read it."""
    return f"about {size.rows:,} rows, {_bytes(size.size)}, {size.units:,} read units"


def say_the_cost(access: Access, pages: int, units: float) -> None:
    """Say how much reading did cost."""
    access.output.say(f"read {pages:,} page{'' if pages == 1 else 's'} for {units:,.1f} read units")


def _tell(access: Access, search: Search) -> None:
    say = access.output.say
    say_the_cost(access, search.pages, search.units)
    if search.foreign:
        say(f"WARNING: {search.foreign:,} rows with such a key are none of this package's")
    if search.by_digest:
        say(f"{search.by_digest:,} found by its SHA-256: that key does not stand readable")
    if search.shown == search.limit:
        say(f"stopped at {search.limit:,}: there may be more, see --limit")
    elif not search.whole:
        say(f"stopped after {search.pages:,} pages: not all was read, see --max-pages")
    if search.shown == 0:
        say(
            f"no key or scope contains {search.what.text!r}, nor is its SHA-256 one. A key that is "
            "made of the whole payload is not found by a part of it: lambda-once explain tells the token of "
            "an event"
        )
    else:
        say("next: lambda-once show TOKEN")


def _bytes(size: int) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1_024:  # noqa: PLR2004  (bytes of a KB)
            return f"{size:,.0f} {unit}"
        size //= 1_024
    return f"{size:,} GB"
