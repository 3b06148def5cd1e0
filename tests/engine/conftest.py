"""A fixture of the decorators' tests that the engine's need, too."""

from __future__ import annotations

from tests.decorators.conftest import counted

__all__ = ["counted"]
