"""One name, one thing: classes and functions that modules share have names of their own."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "lambda_once"

SHARED = {
    "Refused": "a condition did not hold: of a store's write, and of a change below its floor (patterns)",
    "Unanswered": "no answer in time: of a store's write, and of a message that was sent (patterns.fifo)",
    "handler": "a Lambda handler, named in a template",
    "lambda_context": "a context (testing), and the fixture that gives it (testing.plugin)",
    "query": "the arguments of Query: of a ratchet, and of documents",
}
"""Names with one meaning in several places."""
GRAB_BAGS = {"base", "common", "helpers", "manager", "managers", "misc", "utils"}


def _shared() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if (
                isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name[0] != "_"
            ):
                found[node.name].append(str(path.relative_to(PACKAGE)))
    return {name: places for name, places in found.items() if len(set(places)) > 1}


def test_no_name_has_two_meanings() -> None:
    """A stranger who searches for a name finds one definition, or one meaning."""
    assert {name: places for name, places in _shared().items() if name not in SHARED} == {}


def test_the_list_is_true() -> None:
    """A name that is shared no more leaves the list."""
    assert SHARED.keys() <= _shared().keys()


def test_modules_are_named_for_what_they_hold() -> None:
    """No module or package has a name that could hold anything."""
    modules = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
    assert not [path for path in modules if GRAB_BAGS & {*path.with_suffix("").parts}]
