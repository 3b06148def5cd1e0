"""The chart of docs/sizing.md: how often one item can be written, over how long it remembers ids."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import leather

from benchmarks.chart import HEIGHT, WIDTH, dress
from lambda_once.patterns.ledger.layout import bucket_count
from lambda_once.patterns.sizing import OTHER_BYTES, words
from lambda_once.patterns.sizing.limits import ItemSize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAME = "sizing.svg"
COLORS: Final = {8: "#083d3a", 16: "#0b7a75", 32: "#58a9a2", 64: "#d99a3d", 128: "#b5482f"}
"""Of each size of an id, in bytes."""
ALONE: Final = "#9aa1ab"
DASHED, DOTTED = "7,4", "2,3"

TICKS: Final = (10, 60, 300, 1_800, 7_200, 43_200, 345_600, 1_209_600)
"""Lifetimes in seconds: 10 s to 14 d."""
_GAP: Final = (None, None)
"""Ends one line of a series; the next point begins another."""
DECADES: Final = (-3, -2, -1, 0, 1, 2, 3)
STEPS = 60
WIDE: Final = 10
"""How wide the axis is: leather rounds its ends to fair numbers."""


def draw(folder: Path) -> Path:
    """Write the chart into *folder*, and return its path."""
    dress()
    folder.mkdir(parents=True, exist_ok=True)
    chart = leather.Chart("Writes a second to one item, by how long it remembers ids")
    for size, color in COLORS.items():
        chart.add_line(list(_line(_item(size), _both)), name=f"{size} bytes an id", stroke_color=color)
    for name, dashes, of in (
        ("400 KB an item alone", DASHED, _by_size),
        ("1,000 units a second alone", DOTTED, _by_units),
    ):
        lines = [point for size in COLORS for point in (*_line(_item(size), of), _GAP)]
        chart.add_line(lines, name=name, stroke_color=ALONE, width=1.5, stroke_dasharray=dashes)
    chart.add_x_scale(0, WIDE)
    chart.add_x_axis(ticks=[_place(each) for each in TICKS], tick_formatter=_lifetime, name="lifetime")
    chart.add_y_scale(DECADES[0], DECADES[-1])
    chart.add_y_axis(ticks=list(DECADES), tick_formatter=_decade, name="writes a second")
    with (folder / NAME).open("w", encoding="utf-8") as file:
        chart.to_svg(file, width=WIDTH, height=HEIGHT * 3 / 2)
        file.write("\n")
    return folder / NAME


def _item(id_bytes: int) -> ItemSize:
    return ItemSize(id_bytes, OTHER_BYTES, bucket_count())


def _both(size: ItemSize, lifetime: timedelta) -> float:
    return float(size.most_rate(lifetime))


def _by_size(size: ItemSize, lifetime: timedelta) -> float | None:
    """Return what 400 KB alone would allow, where it is more than both do."""
    alone = size.most_rate_by_size(lifetime)
    return float(alone) if alone > size.most_rate(lifetime) else None


def _by_units(size: ItemSize, lifetime: timedelta) -> float | None:
    """Return what 1,000 units a second alone would allow, where it is more than both do."""
    return None if _by_size(size, lifetime) is not None else size.most_rate_by_units(lifetime)


def _line(size: ItemSize, of: Callable[[ItemSize, timedelta], float | None]) -> Iterator[tuple[float, float]]:
    """Yield the points that lie on the chart, in logarithms."""
    for step in range(STEPS + 1):
        place = WIDE * step / STEPS
        rate = of(size, timedelta(seconds=round(_seconds(place), 3)))
        if rate is not None and DECADES[0] <= math.log10(rate) <= DECADES[-1]:
            yield round(place, 4), round(math.log10(rate), 4)


def _place(seconds: float) -> float:
    return WIDE * math.log(seconds / TICKS[0]) / math.log(TICKS[-1] / TICKS[0])


def _seconds(place: float) -> float:
    return TICKS[0] * math.exp(place / WIDE * math.log(TICKS[-1] / TICKS[0]))


def _lifetime(place: float, *_: object) -> str:
    return words.span(timedelta(seconds=round(_seconds(float(place)))))


def _decade(place: float, *_: object) -> str:
    return f"{10**place:,g}"
