"""Quantities of a plan in words: rates, times, sizes."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise
from typing import Final

_KB: Final = 1_024
_GRAIN: Final = 1e-12
"""2.3 × 100 is a little less than 230 in floats: that much is not rounded down."""
_RATES: Final = ((1, "a second"), (60, "a minute"), (3_600, "an hour"), (86_400, "a day"))
_TIMES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


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
