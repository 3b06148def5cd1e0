"""`make simulate SEEDS=n FROM=m`: plays n schedules of each kind, and tells each that breaks a promise."""

from __future__ import annotations

import argparse
import os
import sys
from multiprocessing import Pool

from tests.simulation import streamed
from tests.simulation.play import play
from tests.simulation.story import Counterexample

MOST_BROKEN = 5
"""Stories that are printed before it gives up."""
CHUNK = 25
"""Schedules that a process takes at a time."""
STREAMED = 20
"""Of so many seeds one has a schedule of stream mode, too: it takes a second."""


def played(seed: int) -> tuple[str, bool]:
    """Play the schedules of *seed*; return the story of the first, and whether one broke a promise."""
    try:
        if seed % STREAMED == 0:
            streamed.play(streamed.scenario(seed))
        return play(seed).text(), False
    except (Counterexample, streamed.NeverListed) as found:
        return str(found), True


def main() -> int:
    """Return 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--story", action="store_true", help="tell the story of each schedule, broken or not")
    options = parser.parse_args()
    os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")
    broken: list[int] = []
    seeds = range(options.first, options.first + options.seeds)
    with Pool() as processes:
        for seed, (story, breaks) in zip(seeds, processes.imap(played, seeds, CHUNK), strict=True):
            if breaks or options.story:
                sys.stdout.write(f"{story}\n")
            if breaks:
                broken.append(seed)
            if len(broken) == MOST_BROKEN:
                break
    sys.stdout.write(f"{options.seeds} schedules, broken promises in {broken or 'none'}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
