"""
`python -m benchmarks.sizing`: how often an item of a ledger can be written, for docs/sizing.md.

Prints a table; --docs writes it, and pictures, into docs/.
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.report import lined
from benchmarks.sizing_chart import SCHEMES, draw
from lambda_once.errors import Misconfigured
from lambda_once.patterns.sizing import plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "sizing.md"
BEGIN, END = "<!-- sizing: begin -->", "<!-- sizing: end -->"

ID_SIZES: Final = (8, 16, 32, 64, 128)
LIFETIMES: Final = {
    "1 min": timedelta(minutes=1),
    "5 min": timedelta(minutes=5),
    "1 h": timedelta(hours=1),
    "6 h": timedelta(hours=6),
    "1 d": timedelta(days=1),
}
RATES: Final = (1, 10, 100, 1_000)


def markdown() -> str:
    """Return the table of docs/sizing.md, between its marks."""
    return "\n\n".join([BEGIN, "\n".join(lined(("writes", *LIFETIMES), _shards())), END])


def replaced(page: str) -> str:
    """Return *page* with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + markdown() + after


def _shards() -> Iterator[tuple[str, ...]]:
    for rate in RATES:
        yield f"{rate:,}/s", *(_spread(rate, each) for each in LIFETIMES.values())


def _spread(rate: float, lifetime: timedelta) -> str:
    try:
        found = plan(rate=rate, lifetime=lifetime)
    except Misconfigured:
        return "–"
    plans = dict.fromkeys((found.shards, found.cheapest.shards))
    return ", ".join(
        f"{each.shards:,} × {each.write_units}" for each in (found, found.cheapest)[: len(plans)]
    )


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or write it into docs/sizing.md, and its pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizing", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--docs", action="store_true", help=f"write it into {DOCS.name}/")
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
