"""``lambda-once plan``: size a ledger."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final

import click

from lambda_once.cli.options import DURATION, with_output
from lambda_once.cli.render import Output, Paragraph
from lambda_once.patterns.ledger.layout import ID_BYTES
from lambda_once.patterns.sizing import HEADROOM, OTHER_BYTES, RATE_UNITS, LedgerPlan, plan

_RATE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(?:/([smhd]))?", re.ASCII)


def rate(text: str) -> float:
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise click.BadParameter(f"{text!r} is not a rate: give 20/s, 90/m, 5/h or 100/d")
    return float(found[1]) / RATE_UNITS[found[2] or "s"]


def size(text: str | int) -> int | None:
    return None if text == "max" else click.INT(text)


@click.command("plan")
@click.option("--rate", type=rate, help="Writes to the whole ledger: 20/s, 90/m, 5/h, 100/d.")
@click.option("--lifetime", type=DURATION, help="How long ids are remembered: 90s, 5m, 2h, 14d.")
@click.option("--shards", type=int, help="Items of one key.  [default: the fewest, or 1]")
@click.option("--id-bytes", type=size, default=ID_BYTES, help="Bytes of an id, or max.  [default: 8]")
@click.option("--other-bytes", type=size, default=OTHER_BYTES, help="Other bytes, or max.  [default: 200]")
@click.option("--headroom", type=float, default=HEADROOM, help="Free part of both limits.  [default: 1/3]")
@with_output
def plan_command(output: Output, **given: Any) -> None:
    """
    Size a ledger: compute the most of what is left out of --rate, --lifetime and --shards, or the fewest.

    Two limits of DynamoDB apply: 400 KB an item, and 1,000 write units a second of a partition, of which a
    write takes one for each KB of the whole item. No table is read.

    Exit code: 0 with a plan; 2 for bad input, or where none is possible, with the alternatives.
    """
    from rich.console import Group

    found = plan(**given)
    others = {"cheapest": found.cheapest, "byPeriod": found.by_period}
    value = as_json(found) | {name: each and as_json(each) for name, each in others.items()}
    output.one(value, Group(*map(Paragraph, found.explain())))


def as_json(found: LedgerPlan) -> dict[str, Any]:
    """Return a plan in JSON values: rates a second, times in seconds, sizes in bytes."""
    values = {_camel(each.name): getattr(found, each.name) for each in fields(found)}
    values |= {name: each.total_seconds() for name, each in values.items() if isinstance(each, timedelta)}
    return values | {"limit": found.limit.name.lower(), "solved": found.solved and _camel(found.solved)}


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)
