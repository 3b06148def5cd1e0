"""``lambda-once plan``: how often a ledger can be written, how long it remembers, how many items it takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from lambda_once.cli.access import with_output
from lambda_once.cli.durations import DURATION
from lambda_once.patterns.ledger.layout import ID_BYTES
from lambda_once.patterns.ledger.wishes import MOST_SHARDS
from lambda_once.patterns.sizing import OTHER_BYTES, Plan, plan
from lambda_once.patterns.sizing.limits import MOST_ITEM_BYTES

if TYPE_CHECKING:
    from datetime import timedelta

    from rich.console import RenderableType

    from lambda_once.cli.output import Output

MOST: Final = "max"
LEFT_OPEN: Final = -1
"""What `MOST` is as a number."""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_RATE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(?:/([smhd]))?", re.ASCII)


class Rate(click.ParamType[float]):
    """Turns ``20/s``, ``90/m``, ``5/h`` or ``100/d`` into a number a second."""

    name = "rate"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float | int):
            return value
        found = _RATE.fullmatch(value.strip())
        if found is None or float(found[1]) == 0:
            self.fail(f"{value!r} is no rate: give 20/s, 90/m, 5/h or 100/d", param, ctx)
        return float(found[1]) / _SECONDS[found[2] or "s"]


class Size(click.IntRange):
    """Turns text into a number of bytes, at least *least*; ``max`` into `LEFT_OPEN`."""

    name = "size"

    def __init__(self, least: int) -> None:
        super().__init__(least, MOST_ITEM_BYTES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value in (MOST, LEFT_OPEN):
            return LEFT_OPEN
        return super().convert(value, param, ctx)


@click.command("plan")
@click.option(
    "--rate", type=Rate(), metavar="RATE", help="Writes to the whole ledger: 20/s, 90/m, 5/h, 100/d."
)
@click.option(
    "--lifetime", type=DURATION, metavar="DURATION", help="How long ids are remembered: 90s, 5m, 2h, 14d."
)
@click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    metavar="NUMBER",
    help="Items that a key is spread over.  [default: as many as it takes; 1 where that is not asked]",
)
@click.option(
    "--id-bytes",
    type=Size(1),
    default=ID_BYTES,
    show_default=True,
    metavar="NUMBER",
    help="Bytes of an id as it is stored, or max: how many they may be.",
)
@click.option(
    "--other-bytes",
    type=Size(0),
    default=OTHER_BYTES,
    show_default=True,
    metavar="NUMBER",
    help="Bytes of an item beside its ids, key and names included, or max: how many they may be.",
)
@with_output
def command(
    output: Output,
    rate: float | None,
    lifetime: timedelta | None,
    shards: int | None,
    id_bytes: int,
    other_bytes: int,
) -> None:
    """
    Size a ledger: of what is left out of --rate, --lifetime and --shards, the most or the fewest.

    Both limits of DynamoDB are kept: 400 KB an item, and 1,000 write units a second of a partition, of which
    a write takes one for each KB of the whole item. No table is read.

    Exit code: 0 there is such a ledger; 2 there is none, with what could be instead, or bad input.
    """
    found = plan(
        rate=rate,
        lifetime=lifetime,
        shards=shards,
        id_bytes=None if id_bytes == LEFT_OPEN else id_bytes,
        other_bytes=None if other_bytes == LEFT_OPEN else other_bytes,
    )
    output.one(as_json(found), _drawn(found))


def as_json(found: Plan) -> dict[str, Any]:
    """Return a plan in JSON values: rates a second, times in seconds, sizes in bytes."""
    return {
        "rate": found.rate,
        "lifetime": found.lifetime.total_seconds(),
        "remembered": found.remembered.total_seconds(),
        "shards": found.shards,
        "idBytes": found.id_bytes,
        "otherBytes": found.other_bytes,
        "buckets": found.buckets,
        "ids": found.ids,
        "itemBytes": found.item_bytes,
        "writeUnits": found.write_units,
        "itemUnits": found.item_units,
        "totalUnits": found.total_units,
        "readUnits": found.read_units,
        "limit": found.limit.value,
        "solved": None if found.solved is None else found.solved.value,
    }


def _drawn(found: Plan) -> RenderableType:
    from rich.text import Text

    return Text("\n".join(found.explain()))
