"""The README: its length, its program, its pictures and its figures."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lambda_once.core.lifecycle import Course, OnLapse, decide
from lambda_once.observability.events import Event
from tests.demo.pictures import PICTURE
from tests.docs.lifecycle_diagram import NOW, OURS, ROWS
from tests.docs.pages import ROOT, blocks, named

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
DEPLOYED = ROOT / "examples" / "minimal" / "function" / "payments.py"
COSTS = ROOT / "docs" / "costs.md"
PICTURES = {path: " ".join(alt.split()) for alt, path in re.findall(r"!\[([^]]+)\]\(([^)]+)\)", TEXT)}
"""The text that stands for each picture, by its path."""
DELIVERY = ROOT / "docs" / "img" / "delivery.svg"
SVG = "{http://www.w3.org/2000/svg}"
OUTCOMES = {
    Course.RUN: ("taken over", "runs again", "stored"),
    Course.HELD: ("held", "doesn’t run", "you decide"),
    Course.ASK: ("probe asks", "if not done", "stored"),
    Course.REPLAY: ("complete", "doesn’t run", "replayed"),
}
"""What the picture of a delivery shows of each: of the token, the handler and the result."""


def programs() -> list[str]:
    """Return the Python blocks: the handler, and what delivers to it."""
    return [block.text for block in blocks(README) if block.language == "python"]


def code(text: str) -> str:
    """Return *text* without comments, docstrings and empty lines."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node):
            del node.body[0]
    return ast.unparse(tree)


def test_it_is_read_in_three_minutes() -> None:
    """All of it, code and tables included, has 690 words and 7,000 characters at most."""
    assert len(TEXT.split()) <= 690
    assert len(README.read_bytes()) <= 7_000


def test_its_handler_is_the_one_that_the_minimal_example_deploys() -> None:
    """But for docstrings."""
    assert code(programs()[0]) == code(DEPLOYED.read_text(encoding="utf-8"))


def test_twin_another_key_is_another_handler() -> None:
    """The comparison sees each argument."""
    assert code(programs()[0].replace("orderId", "id")) != code(DEPLOYED.read_text(encoding="utf-8"))


def test_a_clone_needs_two_commands() -> None:
    """The only bash block is `make demo` and `make test`."""
    (block,) = (block for block in blocks(README) if block.language == "bash")
    assert [line.split("#")[0].strip() for line in block.text.splitlines()] == ["make demo", "make test"]


def test_the_program_takes_the_money_once() -> None:
    """With the variables of the shell block it prints three lines: one charge, and two equal responses."""
    (shell,) = (block.text for block in blocks(README) if block.language == "sh" and "hello.py" in block.text)
    quiet = dict(re.findall(r"\b(POWERTOOLS_\w+)=(\w+)", shell))
    assert len(quiet) == 2
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(programs())],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **quiet},
        capture_output=True,
        text=True,
        check=True,
    )
    charged, *responses = done.stdout.splitlines()
    assert charged.startswith("order o-1: took 1999 cents")
    assert responses == ["{'batchItemFailures': []}"] * 2


def rows_of(picture: Path) -> list[tuple[str, ...]]:
    """Return the texts of the boxes of *picture*, by row."""
    groups = ET.parse(picture).iter(f"{SVG}g")
    return [tuple("".join(box.itertext()) for box in group.iter(f"{SVG}text")) for group in groups]


def test_its_pictures_are_those_of_a_delivery_and_of_the_demo() -> None:
    """The one that explains comes first."""
    assert [ROOT / path for path in PICTURES] == [DELIVERY, PICTURE]
    assert all((ROOT / path).is_file() for path in PICTURES)


@pytest.mark.parametrize("event", ["acquired", "replayed", "taken_over", "held", "fenced"])
def test_a_delivery_has_one_name_in_picture_text_and_logs(event: str) -> None:
    """Who reads no picture reads the same, and a log has the word again."""
    words = event.replace("_", " ")
    shown = {text for row in rows_of(DELIVERY) for text in row}
    description = ET.parse(DELIVERY).findtext(f"{SVG}desc")
    assert Event[event.upper()] == f"once.{event}"
    assert words in shown
    assert words in str(description)
    assert words in PICTURES["docs/img/delivery.svg"]


@pytest.mark.parametrize("rule", OnLapse)
def test_its_picture_shows_what_the_lifecycle_decides(rule: OnLapse) -> None:
    """Of a lapsed token by each rule, and of a complete one."""
    lapsed, complete = (
        decide(ROWS[row], NOW, OURS, "f", rule) for row in ("in progress, lapsed", "complete, with a result")
    )
    rows = rows_of(DELIVERY)
    assert rows[0] == ("acquired", "runs", "stored")
    assert rows[1] == OUTCOMES[complete]
    assert rows[3 + list(OnLapse).index(rule)] == OUTCOMES[lapsed]


def test_a_picture_of_another_decision_is_seen(tmp_path: Path) -> None:
    """One where a duplicate runs has another row."""
    other = tmp_path / "other.svg"
    other.write_text(DELIVERY.read_text("utf-8").replace(">doesn’t run<", ">runs<"), encoding="utf-8")
    assert rows_of(other)[1] == ("complete", "runs", "replayed") != OUTCOMES[Course.REPLAY]


def test_its_picture_fetches_nothing_and_knows_both_schemes() -> None:
    """A page that shows it may load no style, font or program, and may be dark."""
    text = DELIVERY.read_text(encoding="utf-8")
    assert set(re.findall(r"[a-z]+://[^\"\s]+", text)) == {SVG.strip("{}")}
    assert not re.search(r"<(?:script|image|foreignObject)|@import|url\(", text)
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("page", [ROOT / "docs" / "questions.md"], ids=named)
def test_its_cost_is_that_of_the_page(page: Path) -> None:
    """Write units and dollars of a new API event, listed by the stream, at once, and Powertools'."""
    row = next(
        line for line in COSTS.read_text(encoding="utf-8").splitlines() if line.startswith("| API event, new")
    )
    ours, at_once, theirs, units = (cell.strip() for cell in row.strip("|").split("|")[1:])
    words = {"4": "four", "2": "two"}
    stream, both, powertools = (words[each] for each in units.split(", "))
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert f"By default new work takes {both} write units, {at_once} per million API events" in text
    assert f"; {stream}, {ours}, if the watchdog" in text
    assert f"Powertools' utility takes {powertools}." in text
    assert ours == theirs
