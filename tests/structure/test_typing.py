"""The second opinion on types: what callers' editors infer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("node") is None, reason="pyright needs Node.js")
def test_pyright_agrees() -> None:
    """Pyright infers at every call site what mypy does; mypy itself is run over all tests by make."""
    command = [sys.executable, "-m", "pyright", "tests/typing_api.py"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    assert "0 errors" in checked.stdout
