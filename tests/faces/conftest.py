"""A fresh rig for every test."""

from __future__ import annotations

import pytest

from tests.faces.rig import Rig


@pytest.fixture
def rig() -> Rig:
    """An empty table and a clock that stands."""
    return Rig()
