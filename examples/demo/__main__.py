"""``python -m examples.demo``: prints what happens in each scene. Exit code 1 if a promise is broken."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from botocore.exceptions import ConnectionError as NoConnection
from botocore.exceptions import HTTPClientError
from rich.console import Console

from . import report
from .run import Run, run

KEPT, BROKEN, UNREACHABLE = 0, 1, 2
"""Exit codes: every promise was kept, one was broken, no DynamoDB answers at the endpoint."""


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Run the demo and print it on *console*. Returns the exit code."""
    options = _options(arguments)
    console = console or report.console()
    try:
        found = run(options.endpoint)
    except (NoConnection, HTTPClientError) as error:
        console.print(f"[bold red]✗ No DynamoDB answers at {options.endpoint}[/]: {type(error).__name__}\n")
        return UNREACHABLE
    if options.verbose:
        _print_logs(console, found)
    print_scenes(console, found, options.endpoint)
    console.print("\n[bold]Patterns: data that needs no token[/]\n")
    console.print(report.patterns(found.comparisons))
    return _print_end(console, found)


def print_scenes(console: Console, found: Run, endpoint: str | None = None) -> None:
    """Print the scenes, and the tokens and attempts that they left."""
    where = f"the DynamoDB at {endpoint}" if endpoint else "an in-process DynamoDB"
    console.print(f"[bold]lambda-once[/]: the shop of examples/orders on {where}\n")
    console.print(report.scenes(found.results))
    console.print(f"\n{report.tokens(found.records, found.ended)}")
    console.print(report.attempts(found.counted))


def _print_end(console: Console, found: Run) -> int:
    both = f"{len(found.results)} scenes and {len(found.comparisons)} patterns"
    if found.broken:
        console.print(f"\n[bold red]✗ Of {both} {found.broken} did not end as promised.[/]\n")
        return BROKEN
    console.print(f"\n[green]✓ All {both} ended as promised.[/]")
    console.print(report.NEXT, markup=False)
    return KEPT


def _print_logs(console: Console, found: Run) -> None:
    """Print what the handlers logged, scene by scene."""
    for result in found.results:
        console.print(result.scene.title, style="bold")
        for line in (line for step in result.steps for line in step.lines):
            console.print(line, markup=False, soft_wrap=True, style="dim")
    console.print()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m examples.demo", description="Show what lambda-once does.")
    parser.add_argument("--endpoint", metavar="URL", help="a DynamoDB; without it, moto in this process")
    parser.add_argument("--verbose", action="store_true", help="also show what the handlers logged")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
