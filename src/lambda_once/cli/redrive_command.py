"""``lambda-once redrive``: let what is held run again, after a look at it."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lambda_once.cli.access import Access, with_table
from lambda_once.cli.drawing import fields_of, listing, show
from lambda_once.cli.durations import DURATION
from lambda_once.cli.verdict import (
    agreed,
    because_option,
    by_option,
    dry_run_option,
    operator,
    reason,
    yes_option,
)
from lambda_once.operations.entries import Wanted
from lambda_once.operations.redriving import Outcome, held, release
from lambda_once.operations.settling import Verdict
from lambda_once.operations.verdicts import redrive_advice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from lambda_once.core.record import Record

MOST = 1_000
"""Rows that are shown at once, and kept in memory meanwhile: nobody reads more."""


class Given(NamedTuple):
    """The options as they were typed."""

    service: str | None
    protected: str | None
    older_than: timedelta | None
    limit: int
    because: str
    by: str | None
    yes: bool
    dry_run: bool

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.service, self.protected, self.older_than)


@click.command("redrive")
@click.option("--service", metavar="NAME", help="Only tokens of this service; * and ? stand for others.")
@click.option("--name", "protected", metavar="NAME", help="Only those of this function; * and ? as well.")
@click.option(
    "--older-than", type=DURATION, metavar="DURATION", help="Only what was acquired longer ago: 2h, 3d."
)
@click.option(
    "--limit", type=click.IntRange(1, MOST), default=100, show_default=True, help="At most so many."
)
@because_option
@by_option
@yes_option
@dry_run_option
@with_table
def command(access: Access, **options: Any) -> None:
    """
    Release held tokens, so that their next deliveries run.

    Shows the tokens that match, asks, and releases them one by one, each only if it still is as it was
    shown. It is for work that was not done, or that may be done twice: what was done belongs to
    lambda-once resolve --done. It sends no message: redrive the dead-letter queue afterwards.

    Exit code: 0 all were released, or none matches, 1 some were not, or you said no, 2 bad input or no table.
    """
    given = Given(**options)
    because, by = reason(given.because), operator(given.by)
    found = list(islice(held(access.table, given.wanted, access.table.now()), given.limit + 1))
    shown, say = found[: given.limit], access.output.say
    if not shown:
        access.output.rows([])
        say("nothing is held that matches")
        return
    show(access.output, listing(shown, access.table.now()))
    say(f"{len(shown)} held{'' if found == shown else f', and more than --limit {given.limit} match'}")
    if given.dry_run:
        _print(access, iter([(record, None) for record in shown]))
        say("dry run: nothing was written")
    elif given.yes or agreed(f"Release {len(shown)}, so that their next deliveries run?"):
        _tell(access, _print(access, release(access.table, shown, by=by, because=because)))
    else:
        say("nothing was written")
        raise click.exceptions.Exit(1)


def _print(
    access: Access, outcomes: Iterator[tuple[Record, Outcome | None]]
) -> Sequence[tuple[Record, Outcome | None]]:
    """Print each row and what became of it as data, where that is no table; return them all."""
    settled: list[tuple[Record, Outcome | None]] = []

    def rows() -> Iterator[dict[str, Any]]:
        now = access.table.now()
        for record, outcome in outcomes:
            settled.append((record, outcome))
            yield fields_of(record, now) | {"outcome": None if outcome is None else outcome.value}

    if access.output.is_table:
        list(rows())
    else:
        access.output.rows(rows())
    return settled


def _tell(access: Access, settled: Sequence[tuple[Record, Outcome | None]]) -> None:
    """Tell how many were released, which were not, and what to do next; exit 1 where some were not."""
    count, say = Counter(outcome for _, outcome in settled), access.output.say
    say(", ".join(f"{count[outcome]} {outcome.value}" for outcome in Outcome if count[outcome]))
    for record, outcome in settled:
        if outcome is Outcome.REFUSED:
            say(f"refused, for it has changed since it was shown: {record.token}")
        elif outcome is Outcome.UNANSWERED:
            say(f"no answer, so it was released or not: lambda-once show {record.token}")
    if count[Outcome.RELEASED]:
        say(f"redrive: {redrive_advice(Verdict.NOT_DONE)}")
    if count[Outcome.RELEASED] != len(settled):
        raise click.exceptions.Exit(1)
