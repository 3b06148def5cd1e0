"""`python -m benchmarks`: measure, and print one table; --docs writes README.md and its picture."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks import chart, report
from benchmarks.run import FULL, QUICK, measured, prepared
from tests.kit.dynoxide import running

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[1] / "docs"
PAGE = Path(__file__).parent / "README.md"
PICTURE = DOCS / "img" / "performance.svg"
NEEDED_WIDTH = 190


def main() -> None:
    """Measure everything once."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: orders of magnitude")
    parser.add_argument("--docs", action="store_true", help=f"write the figures into {PAGE.parent.name}/")
    arguments = parser.parse_args()
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - started:4.0f} s  {what}", file=sys.stderr)

    size = QUICK if arguments.quick else FULL
    say("what DynamoDB answers and charges for")
    with engine() as endpoint:
        known = prepared(endpoint)
    found = measured(size, known, say)
    Console(width=None if sys.stdout.isatty() else NEEDED_WIDTH).print(report.table(found))
    if arguments.docs:
        PAGE.write_text(report.replaced(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
        chart.draw(found, PICTURE)
        for path in (PAGE, PICTURE):
            say(f"written: {path.relative_to(DOCS.parent)}")


@contextmanager
def engine() -> Iterator[str]:
    """Give the endpoint that DYNAMODB_ENDPOINT names, else start dynoxide."""
    given = os.environ.get("DYNAMODB_ENDPOINT")
    if given:
        yield given
        return
    with running() as endpoint:
        yield endpoint


if __name__ == "__main__":
    main()
