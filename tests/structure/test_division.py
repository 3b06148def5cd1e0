"""Which target of the Makefile runs which tests: each test has one, and `make test` has what it promises."""

from __future__ import annotations

import os
import shlex
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
RUNTIME = {"core", "sources", "stores", "engine", "decorators", "dynamodb", "observability", "guarantees"}
FIRST = {f"tests/{folder}" for folder in RUNTIME}
SNIPPETS = {
    f"tests/docs/test_snippets.py::test_the_python_of_a_page_runs[{p}]"
    for p in ("README.md", "docs/tutorial.md")
}
_PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"][
    "ini_options"
]
MARKS = {mark.partition(":")[0] for mark in _PYTEST["markers"]}
TARGETS: dict[str | None, tuple[str, ...]] = {
    None: ("test", "test-rest"),
    "engine": ("engine-tests",),
    "e2e": ("e2e",),
    "site": ("site-test",),
}
"""The targets that run all tests that need an engine, a browser or nothing (None)."""


@cache
def printed(target: str) -> str:
    """Return the commands that make would run for *target*."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    command = ["make", "--dry-run", target, "DYNAMODB_ENDPOINT=http://127.0.0.1:8000"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


class Run(NamedTuple):
    """A call of pytest: the expression over marks, the paths, and the folders it ignores."""

    expression: str
    paths: set[str]
    ignored: set[str]

    def selects(self, folder: str, *marks: str | None) -> bool:
        """Return whether it runs a test of *folder* that has *marks*."""
        is_there = folder not in self.ignored and (not self.paths or folder in self.paths)
        return is_there and bool(eval(self.expression, {mark: mark in marks for mark in MARKS}))


def runs(target: str) -> list[Run]:
    """Return each call of pytest by *target*."""
    calls = []
    for line in printed(target).replace("\\\n", "").splitlines():
        words = shlex.split(line)
        if words[1:3] == ["-m", "pytest"]:
            marks = words.index("-m", 3)
            paths = {word for word in words[marks + 2 :] if not word.startswith("-")}
            ignored = {word.removeprefix("--ignore=") for word in words if word.startswith("--ignore=")}
            calls.append(Run(words[marks + 1], paths, ignored))
    return calls


FOLDERS = {None: ("tests/core", "tests/cli"), "engine": ("tests/stores", "tests/cli"), "e2e": ("tests/e2e",)}
"""By what a test needs, folders that have such tests: one that `make test` runs, and one that it leaves."""


@pytest.mark.parametrize("other", [None, *sorted(MARKS - TARGETS.keys())])
@pytest.mark.parametrize("need", TARGETS)
def test_each_test_is_run_once(need: str | None, other: str | None) -> None:
    """By the target of what it needs, in one of its calls."""
    for folder in FOLDERS.get(need, ("tests/site",)):
        calls = {
            of: sum(run.selects(folder, need, other) for target in targets for run in runs(target))
            for of, targets in TARGETS.items()
        }
        assert calls == {of: of == need for of in TARGETS}


def test_every_folder_is_looked_into() -> None:
    """But by the two targets whose tests have a folder of their own, and twice by none."""
    targets = [target for of in TARGETS.values() for target in of]
    assert {target: [(run.paths, run.ignored) for run in runs(target)] for target in targets} == {
        "test": [(FIRST | SNIPPETS, set())],
        "test-rest": [(set(), FIRST), (set(), set())],
        "engine-tests": [(set(), set())] * 2,
        "e2e": [({"tests/e2e"}, set())],
        "site-test": [({"tests/site"}, set())],
    }


def test_make_test_has_the_runtime_and_every_guarantee() -> None:
    """Whole folders and two pages; left out is what needs an engine or measures time."""
    (run,) = runs("test")
    assert run.paths == FIRST | SNIPPETS
    left_out = {mark for mark in MARKS if not run.selects("tests/core", mark)}
    assert left_out == {"engine", "e2e", "site", "timed"}


def test_make_test_says_what_it_leaves_out() -> None:
    """Its last line names the target for the rest, and each folder with tests that it has not run."""
    last = printed("test").splitlines()[-1]
    assert "make test-rest runs" in last
    folders = {path.parent.relative_to(ROOT / "tests").parts[0] for path in ROOT.glob("tests/*/**/test_*.py")}
    assert folders - RUNTIME - {"e2e", "site", "kit"} <= set(last.replace("tests/", "").split())


def test_ci_runs_all_of_them() -> None:
    """First `make test`, last an engine's, so that pytest's summary is the last line."""
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    called = [line.split()[1] for line in lines if line.startswith("make ")]
    assert called[0] == "test"
    assert called[-1] == "engine-tests"
    assert {target for of in TARGETS.values() for target in of} <= {*called}
