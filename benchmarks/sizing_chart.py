"""The pictures of docs/sizing.md: the most writes to one item by the lifetime of its ids, by matplotlib."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lambda_once.patterns.sizing import MOST_ITEM_BYTES, MOST_UNITS, plan, rate_text, write_units

if TYPE_CHECKING:
    from collections.abc import Sequence

IMAGES: Final = Path(__file__).parents[1] / "docs" / "img"
SECONDS: Final = {
    "1 s": 1,
    "10 s": 10,
    "1 min": 60,
    "5 min": 300,
    "1 h": 3_600,
    "6 h": 21_600,
    "1 d": 86_400,
    "4 d": 345_600,
    "14 d": 1_209_600,
}
RATES: Final = {
    "10/h": 10 / 3_600,
    "1/min": 1 / 60,
    "10/min": 1 / 6,
    "1/s": 1.0,
    "10/s": 10.0,
    "100/s": 100.0,
}
LOWEST, HIGHEST = 1e-3, 300.0
POINTS: Final = 41
"""Of each curve."""
EXAMPLE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Scheme:
    """The colours of one picture, which are GitHub's."""

    name: str
    text: str
    grid: str
    writes: str
    """Where the writes come to their limit first."""
    size: str
    curves: tuple[str, ...]

    @property
    def path(self) -> Path:
        return IMAGES / f"sizing-{self.name}.svg"


SCHEMES: Final = (
    Scheme(
        *("light", "#1f2328", "#d1d9e0", "#ddf4ff", "#fffbdd"),
        ("#0a3069", "#0550ae", "#0969da", "#1a7fe8", "#3d9bff"),
    ),
    Scheme(
        *("dark", "#f0f6fc", "#3d444d", "#0b1f3f", "#2e2503"),
        ("#cae8ff", "#a5d6ff", "#79c0ff", "#58a6ff", "#388bfd"),
    ),
)


def draw(scheme: Scheme, id_sizes: Sequence[int], path: Path) -> None:
    """Write the picture, the same bytes each time; *path* ends with its form, such as .svg."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    colours = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    settings = {"svg.fonttype": "none", "svg.hashsalt": "lambda-once", "font.size": 11}
    with mpl.rc_context({**settings, **dict.fromkeys(colours, scheme.text)}):
        figure = Figure(figsize=(9, 5.2), layout="constrained")
        axes = figure.subplots()
        _scales(axes)
        axes.grid(color=scheme.grid, linewidth=0.6)
        _regimes(axes, scheme)
        for id_bytes, colour in zip(id_sizes, scheme.curves, strict=True):
            _curve(axes, id_bytes, colour)
        rate = _most(EXAMPLE, id_sizes[0])
        axes.plot([EXAMPLE], [rate], "o", color=scheme.text)
        text = f"5 min, {id_sizes[0]} bytes: {rate_text(rate)}"
        axes.annotate(text, (EXAMPLE, rate), (8, 8), textcoords="offset points")
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, transparent=path.suffix == ".svg")


def _most(seconds: float, id_bytes: int) -> float:
    return plan(lifetime=timedelta(seconds=seconds), id_bytes=id_bytes).rate


def _curve(axes: Any, id_bytes: int, colour: str) -> None:
    last = SECONDS["14 d"]
    lifetimes = [last ** (point / (POINTS - 1)) for point in range(POINTS)]
    rates = [_most(each, id_bytes) for each in lifetimes]
    axes.plot(lifetimes, rates, color=colour, linewidth=2)
    axes.annotate(f"{id_bytes} bytes", (last, rates[-1]), (6, 0), textcoords="offset points", va="center")


def _regimes(axes: Any, scheme: Scheme) -> None:
    """Shade where each limit comes first: at 400 KB a write takes 400 of the units, so they meet at 2.5/s."""
    turn = MOST_UNITS / write_units(MOST_ITEM_BYTES)
    axes.axhspan(turn, HIGHEST, color=scheme.writes, linewidth=0, zorder=0)
    axes.axhspan(LOWEST, turn, color=scheme.size, linewidth=0, zorder=0)
    last = SECONDS["14 d"] / 1.5
    axes.text(last, HIGHEST / 1.4, "limit: 1,000 write units a second", ha="right", va="top")
    axes.text(1.5, LOWEST * 1.4, "limit: 400 KB an item", va="bottom")


def _scales(axes: Any) -> None:
    axes.set(xscale="log", yscale="log", xlim=(1, SECONDS["14 d"]), ylim=(LOWEST, HIGHEST))
    axes.set_xticks([*SECONDS.values()], SECONDS)
    axes.set_yticks([*RATES.values()], RATES)
    axes.minorticks_off()
    axes.set(xlabel="how long ids are remembered", ylabel="most writes to one item")
