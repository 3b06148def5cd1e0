"""Fixtures of the decorators' tests that the engine's need, too."""

from __future__ import annotations

from tests.decorators.conftest import counted, engines_table, on_engine, sent_by

__all__ = ["counted", "engines_table", "on_engine", "sent_by"]
