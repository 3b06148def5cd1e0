"""The pictures of `make demo` in docs/img, drawn from what it prints: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from examples.demo.__main__ import print_scenes
from examples.demo.report import COLUMNS
from examples.demo.run import Run, run
from tests.kit.terminal import picture, recorder

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "img"
THEMES = {
    "light": TerminalTheme(
        (246, 248, 250),
        (31, 35, 40),
        [
            (31, 35, 40),
            (188, 30, 37),
            (26, 127, 55),
            (130, 80, 0),
            (9, 80, 174),
            (130, 80, 223),
            (14, 104, 124),
            (100, 108, 118),
        ],
    ),
    "dark": TerminalTheme(
        (22, 27, 34),
        (230, 237, 243),
        [
            (110, 118, 129),
            (255, 123, 114),
            (86, 211, 100),
            (227, 179, 65),
            (121, 192, 255),
            (210, 168, 255),
            (118, 227, 234),
            (177, 186, 196),
        ],
    ),
}
"""Background, foreground, and the colours black, red, green, yellow, blue, magenta, cyan and white."""


def drawn(found: Run, scheme: str) -> str:
    """Return the scenes of *found* as SVG, as `make demo` prints them."""
    return picture(printed(found), "make demo", f"demo-{scheme}", THEMES[scheme])


def printed(found: Run) -> Console:
    """Return a console that recorded the command and the scenes of *found*."""
    console = recorder(COLUMNS)
    console.print(Text("$ make demo", style="bold"))
    print_scenes(console, found)
    return console


if __name__ == "__main__":
    once = run(None)
    for scheme in THEMES:
        path = FOLDER / f"demo-{scheme}.svg"
        path.write_text(drawn(once, scheme), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
