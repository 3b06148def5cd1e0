"""The scripts in findings/ stand for themselves: a head with the facts, pinned packages, no file of ours."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "findings").glob("*.sh"))

_HEAD = re.compile(
    r"#!/usr/bin/env bash\n"
    + "".join(rf"# {fact}: .+\n(?:#   .+\n)*" for fact in ("Package", "Behaviour", "Expected", "Source"))
    + r"set -euo pipefail\nfolder=\$\(mktemp -d\)\n"
)
_INSTALLED = re.compile(r"(?:pip|npm) install (?P<arguments>[^\n>]+)")
_PIN = re.compile(r"'?[\w.-]+(?:\[[\w,-]+\])?(?:==|@)(?:\d[\w.]*|\$version)'?")
_OF_THIS_PROJECT = re.compile(r"lambda[-_]once", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://(?!127\.0\.0\.1:)")
_PLACE = re.compile(r"(?<![\w.$/{}*:-])(?:~|/(?:bin|etc|home|opt|root|srv|tmp|usr|var|work|Users))(?:/|\b)")


def faults(text: str) -> list[str]:
    """Return what a script with *text* has, or lacks, that it must not."""
    found = [] if _HEAD.match(text) else ["head"]
    if "trap '" not in text or 'rm -rf "$folder"' not in text:
        found.append("left behind")
    if not re.search(r"^diff seen - <<'SEEN'\n(?:.+\n)+SEEN\n\Z", text, re.MULTILINE):
        found.append("not compared")
    packages = [
        argument
        for command in _INSTALLED.finditer(text)
        for argument in command["arguments"].split()
        if not argument.startswith("--")
    ]
    if not packages or not all(map(_PIN.fullmatch, packages)):
        found.append("not pinned")
    code = text.partition("\n")[2]  # the first line is bash's own
    for name, forbidden in (("ours", _OF_THIS_PROJECT), ("address", _ADDRESS), ("place", _PLACE)):
        if forbidden.search(code):
            found.append(name)
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_finding_stands_for_itself(script: Path) -> None:
    """It can be executed, has the four facts, pins and compares, and names neither us nor a machine."""
    assert os.access(script, os.X_OK)
    assert faults(script.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("# Source:", "# From:", "head"),
        ("set -euo pipefail\n", "", "head"),
        ('rm -rf "$folder"', "true", "left behind"),
        ("diff seen -", "cat", "not compared"),
        ("==1.2.3", "", "not pinned"),
        ("import aws_kinesis_agg", "import lambda_once", "ours"),
        ("import aws_kinesis_agg", "# https://example.com/simple", "address"),
        ("import aws_kinesis_agg", "open('/home/me/list')", "place"),
    ],
)
def test_twin_of_a_faulty_finding(before: str, after: str, fault: str) -> None:
    """What a script must not have is named."""
    text = (ROOT / "findings" / "kinesis-agg-without-six.sh").read_text(encoding="utf-8")
    assert faults(text.replace(before, after)) == [fault]


def test_they_are_neither_in_the_sdist_nor_on_the_site() -> None:
    """The sdist has a list of folders; `make site` takes what git has, but for these."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert not [path for path in included if path.strip("/").split("/")[0] in ("", ".", "findings")]
    assert "git ls-files -z -- . ':!findings'" in (ROOT / "Makefile").read_text(encoding="utf-8")
