"""One name, one thing: what modules share has a name of its own, and a thing has one word everywhere."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
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
WORDS = (
    ("baton", "a turn, a lock"),
    ("crowd", "the table, the tokens"),
    ("deed", "a step, a write"),
    ("deeds", "steps, writes"),
)
"""Words that are not ours, and what to say instead."""
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


def _texts(path: Path) -> Iterator[str]:
    """Give the names that *path* defines, and its docstrings."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Expr(value=ast.Constant(value=str() as docstring)):
                yield docstring
            case _:
                pass


def _other_words(texts: Iterator[str]) -> set[str]:
    found = {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}
    return found & {word for word, _ in WORDS}


def test_each_thing_has_one_word() -> None:
    """Neither names nor docstrings of the library and its tests have a word that is not ours."""
    root = PACKAGE.parents[1]
    paths = [path for folder in ("src", "tests") for path in sorted((root / folder).rglob("*.py"))]
    found = {str(path.relative_to(root)): words for path in paths if (words := _other_words(_texts(path)))}
    assert found == {}, WORDS


def test_a_word_is_found_in_names_and_docstrings() -> None:
    """Also within a name of several words."""
    assert _other_words(iter(["_read_deeds", "A crowd."])) == {"deeds", "crowd"}
