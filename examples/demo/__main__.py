"""``python -m examples.demo``: plays the story and tells it. Exit code 1 where a scene breaks its promise."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from botocore.exceptions import ConnectionError as NoConnection
from botocore.exceptions import HTTPClientError
from rich.console import Console

from lambda_once.core.clock import SystemClock

from . import telling
from .performance import Performance, perform

KEPT, BROKEN, UNREACHABLE = 0, 1, 2
"""Exit codes: every promise was kept, one was not, there is no DynamoDB at the endpoint."""


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Play the story and tell it on *console*. Returns the exit code."""
    options = _options(arguments)
    console = console or telling.console()
    where = f"the DynamoDB at {options.endpoint}" if options.endpoint else "moto, in this process"
    console.print("\n[bold]lambda-once[/]: the orders shop of examples/, and everything that arrives twice.")
    console.print(f"Events from events/, the token table from template.yaml, on {where}.\n")
    began = SystemClock().now()
    try:
        performance = perform(options.endpoint)
    except (NoConnection, HTTPClientError) as error:
        console.print(f"[bold red]✗ No DynamoDB answers at {options.endpoint}[/]: {type(error).__name__}\n")
        return UNREACHABLE
    seconds = (SystemClock().now() - began).total_seconds()
    if options.verbose:
        _print_lines(console, performance)
    console.print(telling.story(performance.played), "")
    console.print(telling.tokens(performance.records, performance.ended), "")
    console.print(telling.metrics(performance.counted))
    console.print(telling.ending(performance.counted), "")
    console.print(telling.contrasts(performance.contrasts), "")
    return _print_end(console, performance, seconds)


def _print_end(console: Console, performance: Performance, seconds: float) -> int:
    both = f"{len(performance.played)} scenes and {len(performance.contrasts)} patterns"
    if performance.broken:
        console.print(f"[bold red]✗ Of {both} {performance.broken} did not end as promised.[/]\n")
        return BROKEN
    console.print(f"[green]✓ All {both} ended as promised[/], in {seconds:.1f} s.\n")
    return KEPT


def _print_lines(console: Console, performance: Performance) -> None:
    """Print what the handlers printed, scene by scene."""
    for act in performance.played:
        console.print(act.scene.title, style="bold")
        for line in (line for step in act.steps for line in step.lines):
            console.print(line, markup=False, soft_wrap=True, style="dim")
    console.print()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m examples.demo", description="Tell the story of lambda-once.")
    parser.add_argument("--endpoint", metavar="URL", help="a DynamoDB; without it, moto in this process")
    parser.add_argument("--verbose", action="store_true", help="show what the handlers logged, too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
