"""`make simulate SEEDS=n FROM=m`: plays n schedules, and prints the story of each that breaks a promise."""

from __future__ import annotations

import argparse
import os
import sys

from tests.simulation.play import play
from tests.simulation.story import Counterexample

MOST = 5
"""Stories that are printed before it gives up."""


def main() -> int:
    """Return 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--story", action="store_true", help="tell the story of each schedule, broken or not")
    options = parser.parse_args()
    os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")
    broken: list[int] = []
    for seed in range(options.first, options.first + options.seeds):
        try:
            story = play(seed)
        except Counterexample as found:
            sys.stdout.write(f"{found}\n")
            broken.append(seed)
            if len(broken) == MOST:
                break
        else:
            if options.story:
                sys.stdout.write(f"{story.text()}\n")
    sys.stdout.write(f"{options.seeds} schedules, broken promises in {broken or 'none'}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
