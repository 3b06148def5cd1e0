"""What types hold: what callers' editors infer, and what the author of a source can't forget."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lambda_once.core.identity import Identity
from lambda_once.core.unit import Unit

ROOT = Path(__file__).parents[2]
PARTS = ("who", "operation", "origin", "position", "attributes", "content")


@pytest.mark.skipif(shutil.which("node") is None, reason="pyright needs Node.js")
def test_pyright_agrees() -> None:
    """Pyright infers at every call site what mypy does; mypy itself is run over all tests by make."""
    command = [sys.executable, "-m", "pyright", "tests/typing_api.py"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    assert "0 errors" in checked.stdout


def test_a_unit_is_its_identity_and_its_record() -> None:
    """What a source says of the work is in six parts, and none of them has a default."""
    assert Unit._fields == ("what", "record")
    assert Identity._fields == PARTS
    assert not Identity._field_defaults


def test_mypy_asks_the_author_of_a_source_for_each_part(tmp_path: Path) -> None:
    """A source that leaves out a part of its identity is an error that names the part."""
    source = [
        "from lambda_once.core.identity import NOTHING, Content, Identity",
        "from lambda_once.core.unit import Delivered, Unit",
    ]
    for left_out in (*PARTS, None):
        given = {part: "NOTHING" for part in PARTS if part != left_out}
        given |= {"content": "Content(raw)"} if "content" in given else {}
        parts = ", ".join(f"{part}={value}" for part, value in given.items())
        source.append(f"def without_{left_out}(raw: dict[str, object]) -> Unit:")
        source.append(f"    return Unit(Identity({parts}), Delivered(raw))")
    file = tmp_path / "new_source.py"
    file.write_text("\n".join(source), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(file)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line.partition(" error: ")[2] for line in checked.stdout.splitlines()]
    assert lines == [
        f'Missing positional argument "{part}" in call to "Identity"  [call-arg]' for part in PARTS
    ]
