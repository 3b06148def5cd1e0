"""docs/migrations.md: its excerpts are lines of the services, and its figures are counted in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "migrations.md"
SERVICES = ROOT / "examples" / "migrations"
_ROW = re.compile(r"^\| \[(\w+)\]\(#[\w-]+\) \| (\d+) → (\d+) \|", re.MULTILINE)
SHOWN = _ROW.findall(PAGE.read_text(encoding="utf-8"))
NAMES = [name for name, _, _ in SHOWN]


def lines(service: Path, version: str) -> list[str]:
    """Return the lines of one version that are not blank."""
    text = (service / f"{version}.py").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip()]


def added(service: Path, version: str) -> int:
    """Return how many lines *version* has for idempotency: those that are not in the unprotected one."""
    found, plain = (
        Counter(line.strip() for line in lines(service, each)) for each in (version, "unprotected")
    )
    return (found - plain).total()


def in_order(excerpt: list[str], text: list[str]) -> bool:
    """Return whether *text* has all lines of *excerpt*, in their order."""
    rest: Iterator[str] = iter(text)
    return all(line in rest for line in excerpt)


def test_the_page_shows_every_service() -> None:
    """In the table, and with an excerpt each."""
    folders = {path.name for path in SERVICES.iterdir() if (path / "after.py").exists()}
    assert {*NAMES} == folders
    assert len(NAMES) == sum(block.language == "diff" for block in blocks(PAGE)) == len(folders)


@pytest.mark.parametrize(("name", "before", "after"), SHOWN)
def test_the_figures_are_those_of_the_services(name: str, before: str, after: str) -> None:
    """Lines for idempotency, before and after."""
    service = SERVICES / name
    assert (added(service, "before"), added(service, "after")) == (int(before), int(after))


@pytest.mark.parametrize("position", range(len(NAMES)), ids=NAMES)
def test_an_excerpt_is_of_both_versions(position: int) -> None:
    """What is taken away is in the old version only, what comes in the new one only, each in its order."""
    service = SERVICES / NAMES[position]
    block = [block for block in blocks(PAGE) if block.language == "diff"][position]
    removed, new = ([line[1:] for line in block.text.splitlines() if line[0] == mark] for mark in "-+")
    old_lines, new_lines = lines(service, "before"), lines(service, "after")
    assert len(removed) + len(new) == len(block.text.splitlines())
    assert in_order(removed, old_lines)
    assert in_order(new, new_lines)
    assert not {*removed} & {*new_lines}
    assert not {*new} & {*old_lines}


def test_twin_a_line_of_another_version_is_seen() -> None:
    """The order counts, and so does each character."""
    assert in_order(["a", "c"], ["a", "b", "c"])
    assert not in_order(["c", "a"], ["a", "b", "c"])
    assert not in_order(["a "], ["a"])
