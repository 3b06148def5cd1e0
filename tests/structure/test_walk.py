"""A duplicate passes through few files, and seldom changes between them."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lambda_once.decorators.suspensions import SDK
from tests.structure.walk import Step, Walk, of_api, of_sqs

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
FILES_TO_READ = 5


@pytest.mark.parametrize(("walked", "files", "switches"), [(of_sqs, 27, 78), (of_api, 27, 74)])
def test_a_duplicate_enters_few_files(
    walked: Callable[[], Walk],
    files: int,
    switches: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The files entered and the changes of file stay under their ceilings, without the durable SDK."""
    monkeypatch.delitem(sys.modules, SDK, raising=False)
    caplog.set_level(logging.INFO, "lambda_once.dynamodb")
    walk = walked()
    assert len(walk.files) <= files, walk.files
    assert walk.switches <= switches, list(walk.hops())


def test_a_switch_is_a_call_in_another_file() -> None:
    """Of calls in a, b, b, a there are two; a return is not counted, and is part of a hop."""
    calls = [("a", "f", True), ("b", "g", True), ("b", "h", True), ("b", "h", False), ("b", "g", False)]
    calls += [("a", "k", True), ("a", "k", False), ("a", "f", False)]
    walk = Walk([Step(file, function, 0, entered) for file, function, entered in calls])
    assert (walk.files, walk.functions, walk.switches) == (["a", "b"], 4, 2)
    assert list(walk.hops()) == ["a: f", "b: g h", "a: k"]


def test_the_page_lists_the_files_to_read() -> None:
    """What docs/architecture.md lists for a duplicate is entered by one, and is at most five files."""
    listed = re.search(
        r"To understand one duplicate.*?replay\.py`\.(.*?)in place of(.*?)\. ",
        ARCHITECTURE.read_text(),
        re.DOTALL,
    )
    assert listed is not None
    whole, more, instead = (set(re.findall(r"`([\w/]+\.py)`", part)) for part in listed.group(0, 1, 2))
    assert 1 < len(whole - more) <= FILES_TO_READ
    assert whole - more <= set(of_sqs().files)
    assert whole - instead <= set(of_api().files)
