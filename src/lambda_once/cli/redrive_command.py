"""``lambda-once redrive``: release held tokens, so that their next deliveries run."""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from lambda_once.cli.options import Access, Consent, with_consent, with_filter, with_table
from lambda_once.cli.render import row_json, row_list
from lambda_once.operations.resolution import (
    Outcome,
    Resolve,
    decided_by_person,
    held,
    redrive_advice,
    release,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lambda_once.core.lifecycle import Record
    from lambda_once.operations.tokens import Filter

MOST = 1_000
"""Rows that are shown at once, and kept in memory meanwhile."""


@click.command("redrive")
@with_filter
@click.option(
    "--limit", type=click.IntRange(1, MOST), default=100, show_default=True, help="At most so many."
)
@click.option("--error", "kind", metavar="KIND", help="Only tokens held after this error, such as Timeout.")
@click.option("--also-decided", is_flag=True, help="Also tokens on which a person's decision stands.")
@with_consent
@with_table
def command(
    access: Access, wanted: Filter, consent: Consent, *, limit: int, kind: str | None, also_decided: bool
) -> None:
    """
    Release held tokens, so that their next deliveries run.

    Shows the matching tokens, asks, and releases them one by one, each only if its row has not changed since.
    For work that was not done, or that may be done twice; if it was done, use lambda-once resolve --done. It
    sends no messages: redrive the dead-letter queue afterwards.

    A token that a person has decided to hold is skipped, and listed with the reason: whoever held it knows
    more than its error says. --also-decided releases it, too.

    Exit code: 0 all were released but those that were skipped, or none matches; 1 some were not, or you
    declined; 2 bad input or no table.
    """
    skipped: list[Record] = []

    def chosen() -> Iterator[Record]:
        for record in held(access.table, wanted, access.table.now()):
            if kind is not None and (record.error is None or record.error.kind != kind):
                continue
            if decided_by_person(record) and not also_decided:
                skipped.append(record)
            else:
                yield record

    found = list(islice(chosen(), limit + 1))
    shown, output = found[:limit], access.output
    _say_skipped(access, skipped)
    left_out = [(record, Outcome.SKIPPED) for record in skipped]
    if not shown:
        _print(access, left_out)
        output.say("no other matching token is held" if skipped else "no matching token is held")
        return
    output.show(row_list(shown, access.table.now()))
    output.say(f"{len(shown)} held{'' if found == shown else f'; more than --limit {limit} match'}")
    if consent.dry_run:
        _print(access, [*left_out, *((record, None) for record in shown)])
        output.say("dry run: nothing was written")
    elif consent.given(f"Release {len(shown)}, so that their next deliveries run?"):
        released = release(access.table, shown, by=consent.by, because=consent.because)
        _summarise(access, _print(access, chain(left_out, released)))
    else:
        output.say("nothing was written")
        raise click.exceptions.Exit(1)


def _say_skipped(access: Access, skipped: Sequence[Record]) -> None:
    """List those that a person decided to hold."""
    if not skipped:
        return
    access.output.say(f"skipped, held by the decision of a person (--also-decided): {len(skipped)}")
    access.output.show(row_list(skipped, access.table.now()))


def _print(
    access: Access, outcomes: Iterable[tuple[Record, Outcome | None]]
) -> Sequence[tuple[Record, Outcome | None]]:
    """Print each row with its outcome as data, unless the output is a table; return them all."""
    printed: list[tuple[Record, Outcome | None]] = []

    def rows() -> Iterator[dict[str, Any]]:
        now = access.table.now()
        for record, outcome in outcomes:
            printed.append((record, outcome))
            yield row_json(record, now) | {"outcome": None if outcome is None else outcome.value}

    access.output.rows(rows())
    return printed


def _summarise(access: Access, released: Sequence[tuple[Record, Outcome | None]]) -> None:
    """Print how many were released, which were not, and what to do next; exit 1 if some were not."""
    count, say = Counter(outcome for _, outcome in released), access.output.say
    say(", ".join(f"{count[outcome]} {outcome.value}" for outcome in Outcome if count[outcome]))
    for record, outcome in released:
        if outcome is Outcome.REFUSED:
            say(f"refused, the row has changed since it was shown: {record.token}")
        elif outcome is Outcome.UNANSWERED:
            say(f"no response, its state is unknown: lambda-once show {record.token}")
    if count[Outcome.RELEASED]:
        say(f"redrive: {redrive_advice(Resolve.NOT_DONE)}")
    if count[Outcome.RELEASED] + count[Outcome.SKIPPED] != len(released):
        raise click.exceptions.Exit(1)
