"""
`python -m benchmarks.sizing`: how often an item of a ledger can be written, for docs/sizing.md.

Prints tables; --docs writes them, and pictures, into docs/.
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.report import lined
from benchmarks.sizing_chart import SCHEMES, draw
from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.layout import ID_BYTES, bucket_count, item_overhead
from lambda_once.patterns.sizing import (
    HEADROOM,
    MOST_UNITS,
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
BATCH: Final = 10
"""Records of an SQS batch, if nothing else is configured."""
BATCHED: Final = (100, 1_000, 4_800)

_LEGEND: Final = """\
In italics the size of the item is the limit, else the
writes. `s`, `m`, `h`: per second, minute, hour. A ledger stores digests of 8 bytes; the other sizes are for
items that store whole ids, such as a UUID in binary (16) or as text (36)."""


def markdown() -> str:
    """Return the tables of docs/sizing.md, between their marks."""
    other = f"{OTHER_BYTES} bytes beside the ids, {item_overhead(bucket_count())} of the ledger's own"
    blocks = [
        BEGIN,
        f"### The most writes to one item\n\nWith {other}, and {HEADROOM:.0%} headroom. {_LEGEND}",
        "\n".join(lined(("ids are remembered for", *(f"{size} bytes an id" for size in ID_SIZES)), _most())),
        "### How many shards\n\nShards × units of a write, the fewest and the cheapest: ids of 8 bytes.",
        "\n".join(lined(("writes", *SPREAD), _shards())),
        "### What a write is charged\n\nIds of 8 bytes in one item.",
        "\n".join(lined(("ids in the item", "bytes", "write units of a write", "read units"), _charged())),
        f"### What add_all changes\n\nTen ids of one key; rates with {HEADROOM:.0%} headroom.",
        "\n".join(lined(_BATCH_COLUMNS, _batched())),
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


_BATCH_COLUMNS: Final = (
    *("ids in the item", "write units of ten `add`", "of one `add_all`", "its read units"),
    *("most ids to one item, by `add`", "by `add_all`"),
)


def _batched() -> Iterator[tuple[str, ...]]:
    for ids in BATCHED:
        size = ids * ID_BYTES + OTHER_BYTES + item_overhead(bucket_count())
        units = write_units(size)
        writes = MOST_UNITS * (1 - HEADROOM) / units
        rates = rate_text(writes), rate_text(BATCH * writes)
        yield f"{ids:,}", f"{BATCH * units}", f"{units}", f"{read_units(size)}", *rates


def _charged() -> Iterator[tuple[str, ...]]:
    for ids in IDS:
        size = ids * ID_BYTES + OTHER_BYTES + item_overhead(bucket_count())
        yield f"{ids:,}", f"{size:,}", f"{write_units(size)}", f"{read_units(size)}"


def main(given: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into docs/sizing.md, and its pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizing", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--docs", action="store_true", help=f"write them into {DOCS.name}/")
    if not parser.parse_args(given).docs:
        print(markdown())
        return
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for scheme in SCHEMES:
        draw(scheme, ID_SIZES, scheme.path)
    for path in (PAGE, *(scheme.path for scheme in SCHEMES)):
        print(f"written: {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
