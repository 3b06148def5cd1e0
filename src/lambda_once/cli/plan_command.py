"""``lambda-once plan``: size a ledger."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import click

from lambda_once.cli.options import DURATION, with_output
from lambda_once.patterns.ledger.layout import ID_BYTES
from lambda_once.patterns.sizing import OTHER_BYTES, LedgerPlan, plan

if TYPE_CHECKING:
    from lambda_once.cli.render import Output

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_RATE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(?:/([smhd]))?", re.ASCII)


class Rate(click.ParamType[float]):
    """Turns ``20/s``, ``90/m``, ``5/h`` or ``100/d`` into a number a second."""

    name = "rate"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _RATE.fullmatch(str(value).strip())
        if found is None or float(found[1]) == 0:
            self.fail(f"{value!r} is not a rate: give 20/s, 90/m, 5/h or 100/d", param, ctx)
        return float(found[1]) / _SECONDS[found[2] or "s"]


class SizeOrMax(click.ParamType[int | None]):
    """Turns a number of bytes into an int, and ``max`` into None."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        return None if value == "max" else click.INT.convert(value, param, ctx)


@click.command("plan")
@click.option("--rate", type=Rate(), help="Writes to the whole ledger: 20/s, 90/m, 5/h, 100/d.")
@click.option(
    "--lifetime", type=DURATION, metavar="DURATION", help="How long ids are remembered: 90s, 5m, 2h, 14d."
)
@click.option("--shards", type=int, help="Items of one key.  [default: the fewest, or 1]")
@click.option(
    "--id-bytes", type=SizeOrMax(), default=ID_BYTES, show_default=True, help="Bytes of an id, or max."
)
@click.option(
    "--other-bytes",
    type=SizeOrMax(),
    default=OTHER_BYTES,
    show_default=True,
    help="Bytes of an item beside its ids, key and names included, or max.",
)
@with_output
def command(output: Output, **given: Any) -> None:
    """
    Size a ledger: compute the most of what is left out of --rate, --lifetime and --shards, or the fewest.

    Two limits of DynamoDB apply: 400 KB an item, and 1,000 write units a second of a partition, of which a
    write takes one for each KB of the whole item. No table is read.

    Exit code: 0 with a plan; 2 for bad input, or where none is possible, with the alternatives.
    """
    from rich.text import Text

    found = plan(**given)
    output.one(as_json(found), Text("\n".join(found.explain())))


def as_json(found: LedgerPlan) -> dict[str, Any]:
    """Return a plan in JSON values: rates a second, times in seconds, sizes in bytes."""
    values = {each.name: getattr(found, each.name) for each in fields(found)}
    values |= {name: values[name].total_seconds() for name in ("lifetime", "remembered")}
    values |= {"limit": found.limit.name.lower(), "solved": found.solved and _camel(found.solved)}
    return {_camel(name): value for name, value in values.items()}


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)
