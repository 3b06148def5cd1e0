"""The picture of docs/performance.md: what lambda-once takes beside Powertools, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks import cold_start, latency, processor
from benchmarks.sides import BOTH, THEIRS

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.figures import Run

GROUPS: Final = {
    "cold start:\nCPU": (cold_start.PART, f"API: {cold_start.SUM_CPU}"),
    "cold start:\npeak memory": (cold_start.PART, f"API: {cold_start.MEMORY}"),
    "API event,\nnew: CPU": (processor.TLS, processor.API_NEW),
    "API event,\nduplicate: CPU": (processor.TLS, processor.API_DUPLICATE),
    "10 records,\nnew: CPU": (processor.TLS, processor.NEW),
    "10 records,\nduplicates: CPU": (processor.TLS, processor.DUPLICATES),
    "10 records, new:\ntime at 5 ms": (latency.TEN, latency.name_of("new", 5)),
}
_COLOURS: Final = ("#1f77b4", "#2ca02c")
_WIDTH: Final = 0.4


def draw(run: Run, path: Path) -> None:
    """Write an SVG of the ratios of both clients to Powertools."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lambda-once", "font.size": 10}):
        figure = Figure(figsize=(11, 4), layout="constrained")
        axes = figure.subplots()
        for offset, (side, colour) in enumerate(zip(BOTH, _COLOURS, strict=False)):
            ratios = [run.timing(*case).ratio(side.name) for case in GROUPS.values()]
            places = [place + (offset - 0.5) * _WIDTH for place in range(len(GROUPS))]
            bars = axes.bar(places, ratios, _WIDTH, label=f"lambda-once, {side.name}", color=colour)
            axes.bar_label(bars, fmt="{:.2f}×", padding=4, bbox=box)
        axes.axhline(1, color="black", linestyle="--", label=f"{THEIRS.name} = 1")
        axes.set_xticks(range(len(GROUPS)), GROUPS)
        axes.set_title(f"As a multiple of {THEIRS.name}: less is better")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper right", ncols=3, frameon=False)
        axes.margins(y=0.2)
        figure.savefig(path, format="svg", metadata={"Date": None})
