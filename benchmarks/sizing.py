"""
`python -m benchmarks.sizing`: how often an item of a ledger can be written, as the tables of docs/sizing.md.

--docs writes them, and the chart, into docs/.
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.report import lined
from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.layout import ID_BYTES, bucket_count, item_overhead
from lambda_once.patterns.sizing import OTHER_BYTES, Limit, plan, words
from lambda_once.patterns.sizing.limits import ItemSize, read_units, write_units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "sizing.md"
BEGIN, END = "<!-- sizing: begin -->", "<!-- sizing: end -->"

ID_SIZES: Final = (8, 16, 32, 64, 128)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LIFETIMES: Final = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 4 * DAY, 14 * DAY)
RATES: Final = (1, 10, 50, 100, 500, 1_000)
SPREAD: Final = (MINUTE, 5 * MINUTE, HOUR, 6 * HOUR, DAY)
IDS: Final = (1, 100, 500, 1_000, 5_000, 10_000, 51_159)
"""The last are as many as an item can have."""

_UNITS: Final = ((1, "s"), (60, "m"), (3_600, "h"), (86_400, "d"))


def markdown() -> str:
    """Return the tables of docs/sizing.md, between their marks."""
    beside = f"{OTHER_BYTES} bytes beside the ids, {item_overhead(bucket_count())} of the ledger's own"
    blocks = [
        BEGIN,
        f"### The most writes to one item\n\nWith {beside}.",
        "\n".join(lined(("ids are remembered for", *(f"{size} bytes an id" for size in ID_SIZES)), _most())),
        "### How many shards\n\nShards, and write units of one write: ids of 8 bytes.",
        "\n".join(lined(("writes", *(words.span(each) for each in SPREAD)), _shards())),
        "### What a write is charged\n\nIds of 8 bytes in one item.",
        "\n".join(lined(("ids in the item", "its size", "write units of a write", "read units"), _charged())),
        END,
    ]
    return "\n\n".join(blocks)


def replaced(page: str) -> str:
    """Return *page* with the tables between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + markdown() + after


def short(rate: float) -> str:
    """Return a rate as the command line takes it."""
    seconds, unit = next((each for each in _UNITS if rate * each[0] >= 1), _UNITS[-1])
    return f"{words.number(rate * seconds)}/{unit}"


def _most() -> Iterator[tuple[str, ...]]:
    for lifetime in LIFETIMES:
        found = [plan(lifetime=lifetime, id_bytes=size) for size in ID_SIZES]
        cells = [f"*{short(each.rate)}*" if each.limit is Limit.ITEM else short(each.rate) for each in found]
        yield words.span(lifetime), *cells


def _shards() -> Iterator[tuple[str, ...]]:
    for rate in RATES:
        yield f"{rate:,}/s", *(_spread(rate, lifetime) for lifetime in SPREAD)


def _spread(rate: float, lifetime: timedelta) -> str:
    try:
        found = plan(rate=rate, lifetime=lifetime)
    except Misconfigured:
        return "–"
    return f"{found.shards:,}, {found.write_units}"


def _charged() -> Iterator[tuple[str, ...]]:
    size = ItemSize(ID_BYTES, OTHER_BYTES, bucket_count())
    for ids in IDS:
        whole = size.bytes_of(ids)
        yield f"{ids:,}", words.size(whole), f"{write_units(whole)}", f"{read_units(whole)}"


def main(given: Sequence[str] | None = None) -> None:
    """Print the tables, or bring docs/sizing.md up to date."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizing", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--docs", action="store_true", help=f"write tables and chart into {DOCS.name}/")
    if not parser.parse_args(given).docs:
        print(markdown())
        return
    from benchmarks import sizing_chart

    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for path in [PAGE, sizing_chart.draw(DOCS / "img")]:
        print(f"written: {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
