"""The README: its length, its program, its picture and its figures."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demo.pictures import PICTURE
from tests.docs.pages import ROOT, blocks, named

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
DEPLOYED = ROOT / "examples" / "minimal" / "function" / "payments.py"
COSTS = ROOT / "docs" / "costs.md"


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


def test_it_is_read_in_a_minute() -> None:
    """All of it, code and tables included, has 7,000 characters at most."""
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


def test_its_picture_is_there() -> None:
    """The one that `make docs` draws of the demo."""
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", TEXT)
    assert ROOT / picture == PICTURE
    assert PICTURE.is_file()


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
    price = f"New work takes {stream} write units, or {both} listed at once"
    assert f"{price}: {ours} or {at_once} per million API events." in text
    assert f"Powertools' utility takes {powertools}." in text
    assert ours == theirs
