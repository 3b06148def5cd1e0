"""The pages that users read, taken apart: code blocks, headings, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BESIDE = ("benchmarks", *(f"tests/{name}" for name in ("chaos", "faults", "guarantees", "simulation")))
BESIDE_CODE = [ROOT / folder / "README.md" for folder in _BESIDE]

_BLOCK = re.compile(
    r"(?P<mark><!-- no-run: [^\n]+ -->\n+)?^```(?P<language>[a-z]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(
    r"^`(?P<path>[\w./-]+)`\n\n(?:<!-- no-run: [^\n]+ -->\n)?```[a-z]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    language: str
    text: str
    line: int
    """Of its first line of text, in the page."""
    runs: bool
    """Whether it is meant to be run; the page gives a reason where it is not."""


def named(page: Path) -> str:
    """Return the path of *page* in the repository, to tell tests apart."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of *page*, in their order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("text")) + 1
        yield Block(found["language"], found["text"], line, found["mark"] is None)


def files(page: Path) -> dict[str, str]:
    """Return the blocks of *page* that are files, by the path that is the paragraph before them."""
    return {found["path"]: found["text"] for found in _FILE.finditer(page.read_text(encoding="utf-8"))}


def prose(page: Path) -> str:
    """Return *page* without its fenced blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Return the targets of all links of *page*."""
    return [found["target"] for found in _LINK.finditer(prose(page))]


def anchors(page: Path) -> set[str]:
    """Return the anchors of *page*'s headings, as GitHub makes them."""
    return {anchor(found["text"]) for found in _HEADING.finditer(prose(page))}


def anchor(heading: str) -> str:
    """Return the anchor of *heading*, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
