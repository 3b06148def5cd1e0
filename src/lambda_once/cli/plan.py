"""``lambda-once plan``: size a ledger."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final

import click

from lambda_once.cli.options import DURATION, with_output
from lambda_once.cli.render import Output, Paragraph
from lambda_once.operations.times import duration_text
from lambda_once.patterns.ledger.layout import ID_BYTES
from lambda_once.patterns.sizing import (
    HEADROOM,
    NEW_TABLE_UNITS,
    OTHER_BYTES,
    RATE_UNITS,
    LedgerPlan,
    plan,
    rate_text,
)

_RATE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(?:/([smhd]))?", re.ASCII)
_HEAD: Final = f"{'shards':>28}{'bytes/item':>12}{'units/write':>13}{'units/s':>10}{'read units':>12}"
_ROW: Final = "{0:<20}{1.shards:>8,}{1.item_bytes:>12,}{1.write_units:>13,}{2:>10,}{1.read_units:>12,}"
_COMPUTED: Final = (
    *("remembered", "ids", "item_bytes", "write_units", "total_units", "read_units", "total_read_units"),
)


def rate(text: str) -> float:
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise click.BadParameter(f"{text!r} is not a rate: give 20/s, 90/m, 5/h or 100/d")
    return float(found[1]) / RATE_UNITS[found[2] or "s"]


def size(text: str | int) -> int | None:
    return None if text == "max" else click.INT(text)


@click.command("plan")
@click.option("--rate", type=rate, help="Ids added to the whole ledger: 20/s, 90/m, 5/h, 100/d.")
@click.option("--lifetime", type=DURATION, help="How long ids are remembered: 90s, 5m, 2h, 14d.")
@click.option("--shards", type=int, help="Items of one key.  [default: the fewest, or 1]")
@click.option(
    "--id-bytes", type=size, default=ID_BYTES, help="Bytes of an id; max computes the most.  [default: 8]"
)
@click.option(
    "--other-bytes",
    type=size,
    default=OTHER_BYTES,
    help="Other bytes of an item; max computes the most.  [default: 200]",
)
@click.option("--batch", type=int, default=1, help="Ids of one key that one add_all adds.  [default: 1]")
@click.option(
    "--headroom", type=float, default=HEADROOM, help="Share of both limits that stays free.  [default: 1/3]"
)
@with_output
def plan_command(output: Output, **given: Any) -> None:
    """
    Size a ledger: compute the highest rate, the longest lifetime or the fewest shards from the other two.

    Two limits of DynamoDB apply: 400 KB per item, and 1,000 write units per second and partition. A write
    takes one unit for each KB of the whole item. No table is read.

    Exit code: 0 with a plan; 2 for bad input, or if no plan is possible, with the alternatives.
    """
    from rich.console import Group

    found = plan(**given)
    others = {"cheapest": found.cheapest, "byPeriod": found.by_period}
    value = as_json(found) | {name: each and as_json(each) for name, each in others.items()}
    output.one(value, Group(*map(Paragraph, plan_lines(found))))


def as_json(found: LedgerPlan) -> dict[str, Any]:
    """Return a plan in JSON values: rates a second, times in seconds, sizes in bytes."""
    names = (*(each.name for each in fields(found)), *_COMPUTED)
    values = {_camel(name): getattr(found, name) for name in names}
    values |= {name: each.total_seconds() for name, each in values.items() if isinstance(each, timedelta)}
    return values | {"limit": found.limit.name.lower(), "solved": found.solved and _camel(found.solved)}


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)


def plan_lines(found: LedgerPlan) -> list[str]:
    """Return a plan in lines of text."""
    name, best = ("the fewest",) * 2 if found.solved == "shards" else ("this plan", "the most")

    def marked(text: str, argument: str) -> str:
        return f"{text} ({best})" if found.solved == argument else text

    rows, notes = {name: found, "the cheapest": found.cheapest}, []
    if row := found.by_period:
        rows[f"one item per {row.period}"] = row
        notes.append(f"one item per {row.period}: its key ends with the {row.period} of the message")
    if found.batch > 1:
        reads = math.ceil(found.total_read_units)
        notes.append(f"add_all reads what it writes: {reads:,} read units/s")
    if found.total_units > NEW_TABLE_UNITS:
        notes.append(
            f"a new on-demand table takes {NEW_TABLE_UNITS:,} units/s: before traffic starts, set its "
            f"warm throughput to {math.ceil(found.total_units):,} write units, or provision as many"
        )
    batches = f" in batches of {found.batch:,}" if found.batch > 1 else ""
    spread = f"{marked(f'{found.shards:,}', 'shards')} for {marked(rate_text(found.rate), 'rate')}{batches}"
    kept = f"{marked(duration_text(found.lifetime), 'lifetime')}, and forgotten after about"
    others = found.item_bytes - found.ids * found.id_bytes
    ids = f"{found.ids:,} ids of {marked(f'{found.id_bytes:,}', 'id_bytes')} bytes at most"
    return [
        f"shards: {spread}; an id is kept for {kept} {duration_text(found.remembered)}",
        f"an item: {ids}, others {marked(f'{others:,}', 'other_bytes')} bytes",
        _HEAD,
        *(_ROW.format(name, row, math.ceil(row.total_units)) for name, row in rows.items()),
        f"headroom: {found.headroom:.0%} of both limits; next limit: {found.limit.value}",
        *notes,
    ]
