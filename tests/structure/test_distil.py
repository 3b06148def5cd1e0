"""`tests.distil`: what it takes for a mutant."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType

from tests.distil import mutants

SOURCE = """
def outer(count, *, more=0):
    if count > 1 and more is not None:
        count += 1
        raise_if(count, strict=True)
    return lambda: count + 1
"""


def test_a_mutant_is_one_change_of_a_function(tmp_path: Path) -> None:
    """Each has other code under the function's name, and what the function closes over is as it was."""
    file = tmp_path / "source.py"
    file.write_text(SOURCE)
    of = [(mutant.name[2], mutant.line) for mutant in mutants(str(file))]
    # condition, and, >, 1, is not; += and its 1; the call and its keyword, which is True; return, +, 1
    assert sorted(of) == sorted(
        [
            *[("outer", 3)] * 5,
            *[("outer", 4)] * 2,
            *[("outer", 5)] * 3,
            *[("outer", 6)] * 3,
            *[("outer.<locals>.<lambda>", 6)] * 2,
        ]
    )


def test_a_mutant_takes_the_functions_place(tmp_path: Path) -> None:
    """It runs as it was changed, and its twin without a change doesn't exist."""
    file = tmp_path / "source.py"
    file.write_text("def is_late(now, limit):\n    return now > limit\n")
    answers = [FunctionType(mutant.code, {})(1, 1) for mutant in mutants(str(file))]
    assert sorted(answers, key=str) == [None, True]  # returns None; >= for >
