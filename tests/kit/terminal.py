"""Pictures of a terminal, as SVG that fetches nothing."""

from __future__ import annotations

import inspect
import io
import re
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text


def recorder(columns: int) -> Console:
    """Return a console that records what is printed on it, with colours, *columns* wide."""
    return Console(
        record=True,
        width=columns,
        force_terminal=True,
        color_system="truecolor",
        file=io.StringIO(),
        highlight=False,
        emoji=False,
    )


def picture(console: Console, title: str, unique_id: str, theme: TerminalTheme = SVG_EXPORT_THEME) -> str:
    """Return what *console* recorded as SVG, and keep the record. As in a terminal, no line is cut off."""
    screen = recorder(console.width)
    for line in Text.from_ansi(console.export_text(clear=False, styles=True)).split("\n"):
        screen.print(*line.divide(range(console.width, len(line), console.width)), sep="\n")
    return screen.export_svg(title=title, code_format=_without_fonts(), unique_id=unique_id, theme=theme)


def text_of(svg: str) -> str:
    """Return the text of *svg*, whatever drew it."""
    texts = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return " ".join(" ".join("".join(text.itertext()) for text in texts).split())


def _without_fonts() -> str:
    """Return rich's template without its fonts from the web: a page that shows a picture fetches nothing."""
    template = inspect.signature(Console.export_svg).parameters["code_format"].default
    return re.sub(r"@font-face \{\{.*?\}\}", "", template, flags=re.DOTALL)
