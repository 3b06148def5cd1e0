"""Which target of the Makefile runs which tests: each test has one, and `make test` has what it promises."""

from __future__ import annotations

import os
import shlex
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNTIME = {"core", "sources", "stores", "engine", "decorators", "dynamodb", "observability", "guarantees"}
SNIPPETS = {
    f"tests/docs/test_snippets.py::test_the_python_of_a_page_runs[{p}]"
    for p in ("README.md", "docs/tutorial.md")
}
_PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"][
    "ini_options"
]
MARKS = {mark.partition(":")[0] for mark in _PYTEST["markers"]}
TARGETS = {None: "test-all", "engine": "engine-tests", "e2e": "e2e", "site": "site-test"}
"""The target that runs all tests that need an engine, a browser or nothing (None)."""


@cache
def printed(target: str) -> str:
    """Return the commands that make would run for *target*."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    command = ["make", "--dry-run", target, "DYNAMODB_ENDPOINT=http://127.0.0.1:8000"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def runs(target: str) -> list[tuple[str, set[str]]]:
    """Return, for each call of pytest by *target*, the expression over marks and the paths."""
    found = []
    for line in printed(target).splitlines():
        words = shlex.split(line)
        if words[1:3] == ["-m", "pytest"]:
            marks = words.index("-m", 3)
            found.append(
                (words[marks + 1], {word for word in words[marks + 2 :] if not word.startswith("-")})
            )
    return found


def selects(expression: str, *marks: str | None) -> bool:
    """Return whether *expression* selects a test that has *marks*."""
    return bool(eval(expression, {mark: mark in marks for mark in MARKS}))


@pytest.mark.parametrize("other", [None, *sorted(MARKS - TARGETS.keys())])
@pytest.mark.parametrize("need", TARGETS)
def test_each_test_is_run_once(need: str | None, other: str | None) -> None:
    """By the target of what it needs, in one of its calls."""
    calls = {target: sum(selects(one, need, other) for one, _ in runs(target)) for target in TARGETS.values()}
    assert calls == {target: target == TARGETS[need] for target in TARGETS.values()}


def test_every_folder_is_looked_into() -> None:
    """But by the two targets whose tests have a folder of their own."""
    paths = {target: set().union(*(paths for _, paths in runs(target))) for target in TARGETS.values()}
    assert paths == {
        "test-all": set(),
        "engine-tests": set(),
        "e2e": {"tests/e2e"},
        "site-test": {"tests/site"},
    }


def test_make_test_has_the_runtime_and_every_guarantee() -> None:
    """Whole folders and two pages; left out is what needs an engine or measures time."""
    ((expression, paths),) = runs("test")
    assert paths == {f"tests/{folder}" for folder in RUNTIME} | SNIPPETS
    left_out = {mark for mark in MARKS if not selects(expression, mark)}
    assert left_out == {"engine", "e2e", "site", "timed"}


def test_make_test_says_what_it_leaves_out() -> None:
    """Its last line names the target for the rest, and each folder with tests that it has not run."""
    last = printed("test").splitlines()[-1]
    assert "make test-all also runs" in last
    folders = {path.parent.relative_to(ROOT / "tests").parts[0] for path in ROOT.glob("tests/*/**/test_*.py")}
    assert folders - RUNTIME - {"e2e", "site", "kit"} <= set(last.replace("tests/", "").split())


def test_ci_runs_all_of_them() -> None:
    """First `make test`, last an engine's, so that pytest's summary is the last line."""
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    called = [line.split()[1] for line in lines if line.startswith("make ")]
    assert called[0] == "test"
    assert called[-1] == "engine-tests"
    assert {*TARGETS.values()} <= {*called}
