"""A duplicate passes through few files, and seldom changes between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.structure.walk import Step, Walk, of_api, of_sqs


@pytest.mark.parametrize(("walked", "files", "switches"), [(of_sqs, 27, 105), (of_api, 31, 125)])
def test_a_duplicate_enters_few_files(walked: Callable[[], Walk], files: int, switches: int) -> None:
    """The files entered and the changes of file stay under their ceilings."""
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
