"""The demo: its scenes end as promised, and it fails where lambda-once is broken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from examples.demo.__main__ import BROKEN, KEPT, UNREACHABLE, main, run
from examples.demo.report import COLUMNS, coloured, report
from examples.demo.scenes import SCENES, Step
from lambda_once.stores import requests
from tests.demo.pictures import PICTURE, drawn
from tests.kit import tables
from tests.kit.terminal import text_of

ROOT = Path(__file__).parents[2]
SCREENS = 50
"""The lines of two screens, at most."""


@cache
def text() -> str:
    """Return what the demo prints, played once for all tests that only read it."""
    return report(run(None), None)


def broken() -> list[str]:
    """Play the scenes, and return the titles of those that broke their promise, up to the colon."""
    return [played.scene.title.partition(":")[0] for played in run(None) if played.broken]


def test_every_scene_ends_as_promised(capsys: pytest.CaptureFixture[str]) -> None:
    """Without the package an order is charged twice in each scene, with it in none; the exit code is 0."""
    assert main([]) == KEPT
    printed = capsys.readouterr().out
    assert printed == f"{text()}\n"
    verdicts = [line for line in printed.splitlines() if line.startswith("  in the end")]
    assert len(verdicts) == len(SCENES) == 5
    assert all(re.search(r"✗ o-\d charged twice +✓ charged once$", line) for line in verdicts)
    assert "without the package 5 orders were charged twice, with it 0" in printed


def test_it_fits_two_screens() -> None:
    """Of 80 columns."""
    assert len(text().splitlines()) <= SCREENS
    assert max(map(len, text().splitlines())) <= COLUMNS


def test_without_protection_the_demo_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With LAMBDA_ONCE_DISABLED no scene ends as promised, which is printed; the exit code is 1."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    assert main([]) == BROKEN
    printed = capsys.readouterr().out
    assert "✗ 5 of 5 scenes didn't end as promised" in printed
    assert "As promised" not in printed
    assert printed.count("✗ This was promised:") == 5
    assert "✗ o-1 charged twice    ✗ o-1 charged twice" in printed


def test_without_fencing_the_demo_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a late attempt may overwrite its successor, exactly that scene breaks its promise."""
    anyone = "(attempt = :a OR attempt <> :a)"
    anything = "(begins_with(#status, :in_progress) OR attribute_not_exists(#status))"
    monkeypatch.setattr(requests, "OURS", f"{anyone} AND {anything}")
    assert broken() == ["Late attempt"]


def test_a_scene_without_the_fault_is_broken() -> None:
    """The demo also fails where nothing goes wrong without the package, or the row differs."""
    duplicate = run(None)[0]
    first, second = duplicate.steps
    harmless = Step(second.name, "", second.protected)
    assert not duplicate.broken
    assert replace(duplicate, steps=(first, harmless)).broken
    assert replace(duplicate, row="none").broken


def test_the_picture_is_what_the_demo_prints() -> None:
    """Drawn again by `make docs`, it says the same. It fetches nothing."""
    there = PICTURE.read_text(encoding="utf-8")
    assert text_of(there) == text_of(drawn(text()))
    assert "url(http" not in there
    assert "@import" not in there


def test_an_old_picture_is_seen() -> None:
    """One that says something else differs."""
    there = PICTURE.read_text(encoding="utf-8")
    assert text_of(there.replace("replayed", "repeated")) != text_of(drawn(text()))


def test_a_terminal_gets_colours() -> None:
    """Titles and verdicts have them; without the control codes the text is the same."""
    painted = coloured(text())
    assert "\033[31m✗ o-1 charged twice\033[0m" in painted
    assert "\033[32m✓ charged once\033[0m" in painted
    assert re.sub(r"\033\[\d+m", "", painted) == text()


def test_a_pipe_gets_no_control_codes() -> None:
    """Nor anything on standard error, even if its encoding lacks the tick."""
    process = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
        encoding="ascii",
    )
    assert process.stderr == ""
    assert process.stdout == text().encode("ascii", errors="replace").decode() + "\n"


def test_everything_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table, an endpoint and a function's name in the environment change nothing, and stay."""
    monkeypatch.setenv("LAMBDA_ONCE_TABLE", "mine")
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "theirs")
    before = dict(os.environ), sys.stdout
    assert report(run(None), None) == text()
    assert (dict(os.environ), sys.stdout) == before


def test_an_address_without_a_database_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the endpoint, and the exit code is not that of a broken promise."""
    assert main(["--endpoint", "http://127.0.0.1:1"]) == UNREACHABLE
    assert "No DynamoDB answers at http://127.0.0.1:1" in capsys.readouterr().out


@pytest.mark.engine
def test_promises_are_kept_on_a_real_engine(engine_endpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Afterwards the demo's table is gone."""
    code = main(["--endpoint", engine_endpoint])
    printed = capsys.readouterr().out
    assert code == KEPT, printed
    assert f"the DynamoDB at {engine_endpoint}" in printed
    client = tables.client(engine_endpoint)
    names = [name for page in client.get_paginator("list_tables").paginate() for name in page["TableNames"]]
    assert not [name for name in names if name.startswith("lambda-once-demo")]
    client.close()
