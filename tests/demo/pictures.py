"""The picture of `make demo` in docs/img, drawn from what it prints: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.text import Text

from examples.demo.__main__ import run
from examples.demo.report import COLUMNS, coloured, report
from tests.kit.terminal import picture, recorder

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "img" / "demo.svg"


def drawn(text: str) -> str:
    """Return *text* as SVG, as a terminal shows it below the command."""
    console = recorder(COLUMNS)
    console.print(Text("$ make demo", style="bold"))
    console.print(Text.from_ansi(coloured(text)))
    return picture(console, "make demo", "demo")


if __name__ == "__main__":
    PICTURE.write_text(drawn(report(run(None), None)), encoding="utf-8")
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")
