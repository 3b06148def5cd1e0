"""
`python -m benchmarks.sizing`: how often an item of a ledger can be written, as the tables of docs/sizing.md.

--docs writes them into docs/.
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.report import lined
from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.layout import ID_BYTES, bucket_count, item_overhead
from lambda_once.patterns.sizing import (
    HEADROOM,
    OTHER_BYTES,
    Limit,
    plan,
    rate_text,
    read_units,
    write_units,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "sizing.md"
BEGIN, END = "<!-- sizing: begin -->", "<!-- sizing: end -->"

ID_SIZES: Final = (8, 16, 32, 64, 128)
LIFETIMES: Final = {
    "1 min": timedelta(minutes=1),
    "5 min": timedelta(minutes=5),
    "15 min": timedelta(minutes=15),
    "1 h": timedelta(hours=1),
    "6 h": timedelta(hours=6),
    "1 d": timedelta(days=1),
    "4 d": timedelta(days=4),
    "14 d": timedelta(days=14),
}
RATES: Final = (1, 10, 50, 100, 500, 1_000)
SPREAD: Final = ("1 min", "5 min", "1 h", "6 h", "1 d")
IDS: Final = (1, 100, 500, 1_000, 5_000, 10_000, 51_159)
"""The last is the most that an item can have."""


def markdown() -> str:
    """Return the tables of docs/sizing.md, between their marks."""
    other = f"{OTHER_BYTES} bytes beside the ids, {item_overhead(bucket_count())} of the ledger's own"
    blocks = [
        BEGIN,
        f"### The most writes to one item\n\nWith {other}, and {HEADROOM:.0%} headroom.",
        "\n".join(lined(("ids are remembered for", *(f"{size} bytes an id" for size in ID_SIZES)), _most())),
        "### How many shards\n\nShards × units of a write, the fewest and the cheapest: ids of 8 bytes.",
        "\n".join(lined(("writes", *SPREAD), _shards())),
        "### What a write is charged\n\nIds of 8 bytes in one item.",
        "\n".join(lined(("ids in the item", "bytes", "write units of a write", "read units"), _charged())),
        END,
    ]
    return "\n\n".join(blocks)


def replaced(page: str) -> str:
    """Return *page* with the tables between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + markdown() + after


def _most() -> Iterator[tuple[str, ...]]:
    for shown, lifetime in LIFETIMES.items():
        found = [plan(lifetime=lifetime, id_bytes=size) for size in ID_SIZES]
        rates = [(rate_text(each.rate), each.limit) for each in found]
        yield shown, *(f"*{rate}*" if limit is Limit.ITEM else rate for rate, limit in rates)


def _shards() -> Iterator[tuple[str, ...]]:
    for rate in RATES:
        yield f"{rate:,}/s", *(_spread(rate, LIFETIMES[each]) for each in SPREAD)


def _spread(rate: float, lifetime: timedelta) -> str:
    try:
        found = plan(rate=rate, lifetime=lifetime)
    except Misconfigured:
        return "–"
    plans = dict.fromkeys((found.shards, found.cheapest.shards))
    return ", ".join(
        f"{each.shards:,} × {each.write_units}" for each in (found, found.cheapest)[: len(plans)]
    )


def _charged() -> Iterator[tuple[str, ...]]:
    for ids in IDS:
        size = ids * ID_BYTES + OTHER_BYTES + item_overhead(bucket_count())
        yield f"{ids:,}", f"{size:,}", f"{write_units(size)}", f"{read_units(size)}"


def main(given: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into docs/sizing.md."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizing", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--docs", action="store_true", help=f"write the tables into {DOCS.name}/")
    if not parser.parse_args(given).docs:
        print(markdown())
        return
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {PAGE.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
