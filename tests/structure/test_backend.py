"""The build backend."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import hatchling.build
import pytest

BACKEND = Path(__file__).parents[2] / "requirements" / "backend.py"


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 8, 0)])
def test_an_old_python_is_refused_before_anything(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int]
) -> None:
    """The message names what is needed and what there is."""
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(SystemExit, match=rf"needs Python 3\.11 or newer; this is Python 3\.{version[1]}"):
        runpy.run_path(str(BACKEND))


def test_a_new_one_gets_hatchling() -> None:
    """All hooks are hatchling's own."""
    found = runpy.run_path(str(BACKEND))
    assert {name: found[name] for name in hatchling.build.__all__ if name != "__all__"} == {
        name: getattr(hatchling.build, name) for name in hatchling.build.__all__ if name != "__all__"
    }
