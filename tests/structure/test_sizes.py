"""A function that outgrows its ceiling has two jobs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "lambda_once"
MODULES = sorted(PACKAGE.rglob("*.py"))
LINES_OF_A_FUNCTION = 40
GRAB_BAGS = {"base", "common", "helpers", "manager", "managers", "misc", "utils"}


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of *function* from its `def` to its end, its docstring left out."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is None:
        return lines
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1)


def _too_long(source: str) -> list[str]:
    nodes = ast.walk(ast.parse(source))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [function.name for function in functions if _length(function) > LINES_OF_A_FUNCTION]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE)))
def test_functions_stay_small(module: Path) -> None:
    """No function is over 40 lines without its docstring."""
    assert _too_long(module.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE)))
def test_modules_are_named_for_what_they_hold(module: Path) -> None:
    """No module or package has a name that could hold anything."""
    assert not GRAB_BAGS & {part.removesuffix(".py") for part in module.relative_to(PACKAGE).parts}


def test_the_ceiling_of_a_function_is_seen() -> None:
    """A body of 39 lines under its `def` passes, one of 40 does not, and a docstring counts for neither."""
    body = ["    x = 1"] * (LINES_OF_A_FUNCTION - 1)
    docstring = ['    """', "    One.", *["    more"] * 50, '    """']
    assert _too_long("\n".join(["def f():", *docstring, *body])) == []
    assert _too_long("\n".join(["async def f():", *body, "    x = 1"])) == ["f"]
