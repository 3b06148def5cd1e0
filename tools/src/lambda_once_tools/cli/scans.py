"""Scans of the whole table: their price, and ``--scan``, which stands in for the status index."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from lambda_once.operations.list_state import ListState, list_state
from lambda_once_tools.cli.options import agreed
from lambda_once_tools.cli.render import numbered
from lambda_once_tools.search import SEGMENTS, ScannedIndex, TableSize, table_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lambda_once_tools.cli.options import Access

SCAN: Final = click.option(
    "--scan", is_flag=True, help="Read the whole table instead of the list. Prints the price and asks."
)
YES: Final = click.option("--yes", is_flag=True, help="Do not ask before --scan.")
PARTLY: Final = "in progress: only what was retried, extended or is long; all: --scan"
"""What the list has of live leases where the watchdog writes it."""
UNLISTED: Final = "not listed: work that its function released, after an exception; --scan reads the table"
"""What the list lacks of released work: the index has what a decision released."""
_UNKNOWN: Final = "its size is unknown (dynamodb:DescribeTable is denied)"


@contextmanager
def searching(
    access: Access,
    *,
    scan: bool,
    yes: bool,
    again: str = "",
    running: bool = False,
    released: bool = False,
) -> Iterator[None]:
    """
    Let the block use the status index, or with *scan* one scan of the whole table in its place.

    Prints the price and asks first; *again* says how often the scan is repeated. Exits with 1 if declined.
    Without *scan* raises as `current_list`; *running*, *released*: such work is asked for, too.
    """
    if not scan:
        if current_list(access).by_stream and running:
            access.output.say(PARTLY)
        yield
        return
    announce_scan(access, table_size(access.table), sys.maxsize, again)
    if not agreed("Read it?", yes=yes):
        access.output.say("nothing was read")
        raise click.exceptions.Exit(1)
    index = rescan(access, released=released)
    report_scan(access, index.pages, index.units)
    with access.output.naming_malformed() as malformed:
        malformed.extend(index.unreadable)
        yield


def current_list(access: Access) -> ListState:
    """
    Return the state of the table's list. Raises `click.ClickException` if lost work may be missing from it.

    An empty list that no watchdog has written is no answer.
    """
    state = list_state(access.table)
    if state.doubt is not None:
        raise click.ClickException(state.doubt)
    return state


def rescan(access: Access, *, released: bool) -> ScannedIndex:
    """Read the whole table in place of its index, as it is now; *released*: whoever released the work."""
    access.table.index = index = ScannedIndex(access.table, released=released)
    return index


def announce_scan(
    access: Access, size: TableSize | None, max_pages: int, again: str = "", segments: int = SEGMENTS
) -> None:
    """Print the price of a scan of the whole table, or of at most *max_pages*."""
    if size is None:
        access.output.say(f"reading the whole table{again}; {_UNKNOWN}")
        return
    bound = f", at most {max_pages:,} pages" if size.pages > max_pages else ""
    access.output.say(f"reading the whole table{again}: {describe_size(size, segments)}{bound}")


def describe_size(size: TableSize, segments: int = SEGMENTS) -> str:
    from rich.filesize import decimal

    dollars = size.dollars(segments)
    price = f"${dollars:,.2f}" if dollars >= CENT else "less than $0.01"
    rows, units = numbered(size.rows, "row"), numbered(size.units(segments), "read unit")
    return f"about {rows}, {decimal(size.size)}, {units}, {price}"


CENT: Final = 0.01


def report_scan(access: Access, pages: int, units: float) -> None:
    """Print the cost of a finished scan."""
    spent = numbered(int(units), "read unit") if units == int(units) else f"{units:,.1f} read units"
    access.output.say(f"read {numbered(pages, 'page')} for {spent}")
