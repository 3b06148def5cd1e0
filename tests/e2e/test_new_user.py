"""
The first half hour of somebody with a clone in an empty folder: each command and file is from the pages.

It prints the transcript, each step timed, and asserts nothing on time. pip asks the registry.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import ROOT, blocks, files

README: Final = ROOT / "README.md"
TUTORIAL: Final = ROOT / "docs" / "tutorial.md"
MEANT_FOR_OTHERS: Final = ("AWS_", "LAMBDA_ONCE_", "POWERTOOLS_", "PYTHONPATH", "VIRTUAL_ENV")
_COMMENT: Final = re.compile(r"\s+# .*")
_STEP: Final = 'printf "\\n$ %s\\n" {0}; began=$EPOCHREALTIME\n{1}\n_took $began\n'
_TOOK: Final = """set -euo pipefail
all=$EPOCHREALTIME
_took() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "# %.1f s\\n", to - from }'; }
"""
HELLO: Final = "{'batchItemFailures': []}\n"


def commands(page: Path, containing: str) -> list[str]:
    """Return the commands of the one shell block of *page* that has *containing*, without comments."""
    (block,) = (each for each in blocks(page) if each.language == "sh" and containing in each.text)
    return [_COMMENT.sub("", line) for line in block.text.splitlines()]


def programs(page: Path) -> list[str]:
    """Return the Python blocks of *page* that are run."""
    return [block.text for block in blocks(page) if block.language == "python" and block.runs]


def write(folder: Path, texts: dict[str, str]) -> None:
    """Save *texts* as a reader does, by their paths in *folder*."""
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def python_of_this_run(folder: Path) -> str:
    """Return a PATH on which ``python3`` is the Python that runs this test, and all else as it was."""
    folder.mkdir()
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def transcript(steps: list[str], folder: Path, path: str) -> str:
    """Run *steps* in one shell in *folder*; return each with what it printed and how long it took."""
    script = "".join(_STEP.format(shlex.quote(step), step) for step in steps)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(MEANT_FOR_OTHERS)}
    done = subprocess.run(
        ["bash", "-c", f"{_TOOK}{script}echo; echo all; _took $all"],
        cwd=folder,
        env=environment | {"PATH": path, "PIP_QUIET": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.e2e
def test_from_an_empty_folder_to_a_protected_function_that_passes_its_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first program prints two lines, and the tutorial's function passes its test, also by the wheel."""
    folder = tmp_path / "new"
    write(folder, {"hello.py": "\n".join(programs(README)), "steps.py": "\n".join(programs(TUTORIAL))})
    write(folder / "payments", files(TUTORIAL))
    (folder / "lambda-once").symlink_to(ROOT)
    tested = commands(TUTORIAL, "python -m pytest")
    shown = transcript(
        [
            *commands(README, "hello.py"),
            *commands(TUTORIAL, "mkdir"),
            "python steps.py > steps.log",
            *tested,
            *commands(TUTORIAL, "pip wheel"),
            "lambda-once check --template template.yaml",
            "pip install --force-reinstall --no-deps wheels/*.whl",
            tested[-1],
            "python -c 'import lambda_once; print(lambda_once.__file__)'",
        ],
        folder,
        python_of_this_run(tmp_path / "bin"),
    )
    with capsys.disabled():
        print(shown)  # noqa: T201  (the transcript)
    assert shown.count(HELLO) == 2
    assert shown.count("1 passed") == 2
    assert f"{folder}/.venv/lib" in shown.splitlines()[-5]
