from __future__ import annotations

import asyncio
import logging
import re
import sys
from code import InteractiveConsole
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from types import ModuleType

import pytest
from aws_lambda_powertools.logging.constants import LOGGER_ATTRIBUTE_PRECONFIGURED

from tests.docs.pages import PAGES, ROOT, blocks, named

WITH_PYTHON = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]
_MAKE = re.compile(r"^make ([a-z0-9-]+)", re.MULTILINE)
_TARGET = re.compile(r"^([a-z0-9-]+):", re.MULTILINE)


def configured() -> set[str]:
    """The names of loggers that Powertools has configured; the package's own write to any stdout."""
    known = logging.root.manager.loggerDict
    return {name for name, each in known.items() if getattr(each, LOGGER_ATTRIBUTE_PRECONFIGURED, False)}


@pytest.fixture
def _no_logger_is_left() -> Iterator[None]:
    """A page's Logger writes to the stdout of its test, and the package would go on using it."""
    before = configured()
    yield
    for name in configured() - before:
        if not name.startswith("lambda_once/"):
            logger = logging.getLogger(name)
            logger.handlers.clear()
            for attribute in (LOGGER_ATTRIBUTE_PRECONFIGURED, "powertools_handler"):
                delattr(logger, attribute)


@pytest.fixture
def _no_loop_is_left() -> Iterator[None]:
    """Mangum, which a page shows, makes an event loop where there is none, and leaves it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("_no_logger_is_left", "_no_loop_is_left")
@pytest.mark.parametrize("page", WITH_PYTHON, ids=named)
def test_the_python_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page run in their order, as one module, and what they assert is true."""
    module = ModuleType(f"page_{page.stem.lower().replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(page):
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec", dont_inherit=True)
            if block.runs:
                copy_context().run(exec, code, module.__dict__)  # a crash that a page shows stays in the page


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_tells_to_make_can_be_made(page: Path) -> None:
    """Every `make` in a shell block names a target."""
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    documented = {
        target
        for block in blocks(page)
        if block.language in {"bash", "sh"}
        for target in _MAKE.findall(block.text)
    }
    assert documented <= targets


class Prompt(InteractiveConsole):
    """A Python prompt that reads and runs nothing; what it does not take as Python is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def runcode(self, code: object) -> None:
        """Leave *code* unrun."""

    def showsyntaxerror(self, filename: str | None = None, **_: object) -> None:
        del filename
        self.refused.append("\n".join(self.buffer))


def typed(text: str) -> list[str]:
    """Return what a prompt refuses of *text*, pasted line by line."""
    prompt = Prompt()
    for line in [*text.splitlines(), ""]:
        prompt.push(line)
    return prompt.refused


def test_the_tutorial_can_be_pasted_into_a_prompt() -> None:
    """Before 3.13 a prompt ends a block at an empty line, and refuses unindented code before it."""
    tutorial = ROOT / "docs" / "tutorial.md"
    steps = [block for block in blocks(tutorial) if block.language == "python" and block.runs]
    assert len(steps) > 5
    assert {block.line: typed(block.text) for block in steps if typed(block.text)} == {}


def test_twin_a_block_without_an_empty_line_is_refused() -> None:
    """The line behind it is no part of it."""
    assert typed("with a:\n    b()\nassert c\n") != []
    assert typed("with a:\n    b()\n\nassert c\n") == []
