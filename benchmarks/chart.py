"""The charts of docs/performance.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import leather
from leather import theme

from benchmarks import latency, scaling
from benchmarks.sides import OURS, THEIRS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.figures import Run, Timing

OURS_COLOR, THEIRS_COLOR = "#0b7a75", "#b8bec6"
WIDTH, HEIGHT = 720, 330
FONT = "Helvetica, Arial, sans-serif"


def draw(run: Run, folder: Path) -> list[Path]:
    """Write the charts of *run* into *folder*, and return their paths."""
    dress()
    folder.mkdir(parents=True, exist_ok=True)
    charts = {
        "performance-latency.svg": _bars("Batches of ten: milliseconds", run.of(latency.PART)),
        "performance-batches.svg": _lines("New records of a batch, table at 5 ms", run.of(scaling.BATCHES)),
    }
    heights = {"performance-latency.svg": HEIGHT * 2, "performance-batches.svg": HEIGHT}
    for name, chart in charts.items():
        with (folder / name).open("w", encoding="utf-8") as file:
            chart.to_svg(file, width=WIDTH, height=heights[name])
            file.write("\n")
    return [folder / name for name in charts]


def _bars(title: str, timings: Sequence[Timing]) -> Any:
    chart = leather.Chart(title)
    bars = []
    for timing in timings:
        case = timing.case.partition(", ")[2]
        bars.append((timing.ours.median, f"{case}: {OURS.name}"))
        if timing.theirs is not None:
            bars.append((timing.theirs.median, f"{case}: {THEIRS.name}"))
    chart.add_bars(bars, fill_color=color_of)
    return chart


def color_of(bar: Any) -> str:
    """Return the colour of the side that the name of *bar* ends with."""
    return OURS_COLOR if bar.y.endswith(OURS.name) else THEIRS_COLOR


def _lines(title: str, timings: Sequence[Timing]) -> Any:
    chart = leather.Chart(title)
    ours = [(int(timing.case), timing.ours.median) for timing in timings]
    theirs = [(int(timing.case), timing.theirs.median) for timing in timings if timing.theirs is not None]
    chart.add_line(ours, name=OURS.name, stroke_color=OURS_COLOR)
    chart.add_line(theirs, name=THEIRS.name, stroke_color=THEIRS_COLOR)
    chart.add_x_axis(name="records")
    chart.add_y_axis(name="milliseconds")
    return chart


def dress() -> None:
    """Give all charts their one look."""
    theme.background_color = "#ffffff"
    theme.title_font_family = theme.legend_font_family = FONT
    theme.axis_title_font_family = theme.tick_font_family = FONT
