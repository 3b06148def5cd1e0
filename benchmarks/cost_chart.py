"""The charts of what requests cost, for docs/operations.md."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import leather

from benchmarks.bill import SIZES, duplicate_case, new_case
from benchmarks.chart import HEIGHT, OURS_COLOR, THEIRS_COLOR, WIDTH, color_of, dress
from benchmarks.prices import requests
from benchmarks.sides import OURS, THEIRS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.bill import Bill, Charged, Recorded

_DECADES = (-1, 0, 1, 2, 3)
_DASHES = "6,4"


def draw(recorded: Recorded, folder: Path) -> list[Path]:
    """Write the charts of *recorded*, at list prices, into *folder*, and return their paths."""
    dress()
    folder.mkdir(parents=True, exist_ok=True)
    charts = {"cost-cases.svg": _cases(recorded), "cost-results.svg": _results(recorded)}
    for name, chart in charts.items():
        with (folder / name).open("w", encoding="utf-8") as file:
            chart.to_svg(file, width=WIDTH, height=HEIGHT * 4 / 3)
            file.write("\n")
    return [folder / name for name in charts]


def _cases(recorded: Recorded) -> Any:
    """One bar a side, for what has no large result."""
    chart = leather.Chart("Requests: dollars a million invocations")
    bars = []
    for each in recorded.bills:
        if "result" not in each.case:
            bars.append((requests(each.ours), f"{each.case}: {OURS.name}"))
            if each.theirs is not None:
                bars.append((requests(each.theirs), f"{each.case}: {THEIRS.name}"))
    chart.add_bars(bars, fill_color=color_of)
    return chart


def _results(recorded: Recorded) -> Any:
    """Draw four lines over the size of the result, both axes logarithmic."""
    chart = leather.Chart("Requests: dollars a million invocations, by the size of the result")
    bills = {each.case: each for each in recorded.bills}
    for case, told, dashes in ((new_case, "new", None), (duplicate_case, "duplicate (dashed)", _DASHES)):
        for name, color, of in ((OURS.name, OURS_COLOR, _ours), (THEIRS.name, THEIRS_COLOR, _theirs)):
            points = list(_points([bills[case(size)] for size in SIZES], of))
            chart.add_line(points, name=f"{name}, {told}", stroke_color=color, stroke_dasharray=dashes)
    chart.add_x_scale(0, math.log10(SIZES[-1] / 1000))
    chart.add_x_axis(
        ticks=[math.log10(size / 1000) for size in SIZES], tick_formatter=_kilobytes, name="kilobytes"
    )
    chart.add_y_scale(_DECADES[0], math.log10(5000))
    chart.add_y_axis(ticks=list(_DECADES), tick_formatter=_decade, name="dollars")
    return chart


def _points(bills: list[Bill], of: Callable[[Bill], Charged | None]) -> list[tuple[float, float]]:
    sizes = [math.log10(size / 1000) for size in SIZES]
    found = zip(sizes, map(of, bills), strict=True)
    return [(size, math.log10(requests(charged))) for size, charged in found if charged is not None]


def _ours(each: Bill) -> Charged | None:
    return each.ours


def _theirs(each: Bill) -> Charged | None:
    return each.theirs


def _kilobytes(value: float, *_: object) -> str:
    return f"{10**value:,.0f}"


def _decade(value: float, *_: object) -> str:
    return f"{10**value:,g}"
