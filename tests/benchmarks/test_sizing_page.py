from __future__ import annotations

import pytest

from benchmarks import sizing
from lambda_once.patterns import sizing as sizing_module


def test_the_page_has_the_tables_of_the_computation() -> None:
    """Computed again they are those of docs/sizing.md; `make docs` writes them."""
    page = sizing.PAGE.read_text(encoding="utf-8")
    assert sizing.replaced(page) == page
    assert "| 5 min | 16.2/s |" in page


def test_another_limit_makes_another_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the comparison above can fail."""
    tables = sizing.markdown()
    monkeypatch.setattr(sizing_module, "MOST_UNITS", 2_000)
    assert sizing.markdown() != tables


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --docs nothing is written."""
    sizing.main([])
    assert capsys.readouterr().out.strip() == sizing.markdown()
