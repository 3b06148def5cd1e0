"""A plan in words, for who reads it."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lambda_once.patterns.sizing import Plan

_KB: Final = 1_024
_GRAIN: Final = 1e-12
"""2.3 × 100 is a little less than 230 in floats: that much is not rounded down."""
_RATES: Final = ((1, "a second"), (60, "a minute"), (3_600, "an hour"), (86_400, "a day"))
_TIMES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_ENDS: Final = {
    "item": "the size of the item: it has at most 400 KB",
    "writes": "the writes: each is charged for the whole item, and a partition takes 1,000 units a second",
}


def told(plan: Plan) -> list[str]:
    """Return *plan* in sentences: what it allows, what an item becomes, what that costs, what ends first."""
    solved = {"" if plan.solved is None else plan.solved.value: " (the most)"}
    each = f"of {plan.id_bytes:,} bytes each{solved.get('id_bytes', '')}"
    beside = f"{plan.size.fixed:,} bytes beside them{solved.get('other_bytes', '')}"
    units = f"{number(plan.item_units)} a second for one item, {number(plan.total_units)} for all"
    kept = f"{span(plan.lifetime)}{solved.get('lifetime', '')}"
    few = " (the fewest)" if "shards" in solved else ""
    return [
        f"{rate(plan.rate)}{solved.get('rate', '')} to {items(plan.shards)}{few}",
        f"an id is remembered for {kept}, and forgotten within about {span(plan.remembered)}",
        f"ids in an item: at most {plan.ids:,}, {each}; with {beside} {size(plan.item_bytes)}",
        f"write units: at most {plan.write_units:,} a write, {units}",
        f"read units: {plan.read_units:,} to read it all",
        f"what ends first: {_ENDS[plan.limit.value]}",
    ]


def rate(a_second: float) -> str:
    """Return a rate, rounded down: by the minute, the hour or the day where it is less than one a second."""
    seconds, unit = next((each for each in _RATES if a_second * each[0] >= 1), _RATES[-1])
    told = number(a_second * seconds)
    return f"{told} write{'' if told == '1' else 's'} {unit}"


def span(of: timedelta) -> str:
    """Return a length of time, rounded down, in its two largest units; below a minute to the millisecond."""
    seconds = of.total_seconds()
    for (whole, unit), (part, small) in pairwise(_TIMES):
        if seconds >= whole:
            rest = int(seconds % whole) // part
            return f"{int(seconds // whole):,} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{of // timedelta(milliseconds=1) / 1_000:g} s"


def items(shards: int) -> str:
    return "1 item" if shards == 1 else f"{shards:,} items"


def size(in_bytes: int) -> str:
    """Return a size, rounded up."""
    return f"{in_bytes} bytes" if in_bytes < _KB else f"{math.ceil(in_bytes / _KB * 10) / 10:,.4g} KB"


def number(exact: float) -> str:
    """Return *exact*, which is positive, rounded down to three digits; whole numbers are whole."""
    places = 2 - math.floor(math.log10(exact))
    if places <= 0:
        return f"{math.floor(exact):,}"
    digits = math.floor(exact * 10**places * (1 + _GRAIN))
    return f"{digits / 10**places:.{places}f}".rstrip("0").rstrip(".")
