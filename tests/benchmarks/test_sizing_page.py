from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks import sizing, sizing_chart
from lambda_once.patterns.sizing import limits as sizing_limits


def test_the_page_has_the_tables_of_the_computation() -> None:
    """Computed again they are those of docs/sizing.md; `make sizing-docs` writes them."""
    page = sizing.PAGE.read_text(encoding="utf-8")
    assert sizing.replaced(page) == page
    assert "| 5 min | 20/s |" in page


def test_the_chart_is_that_of_the_computation(tmp_path: Path) -> None:
    """Drawn again it is the file in docs/img, which the page shows: each size, and each limit alone."""
    text = sizing_chart.draw(tmp_path).read_text(encoding="utf-8")
    assert text == (sizing.DOCS / "img" / sizing_chart.NAME).read_text(encoding="utf-8")
    assert f"img/{sizing_chart.NAME}" in sizing.PAGE.read_text(encoding="utf-8")
    assert ET.fromstring(text).tag.endswith("svg")
    for told in (
        *(f"{size} bytes an id" for size in sizing.ID_SIZES),
        "400 KB an item",
        "1,000 units a second",
    ):
        assert told in text
    paths = len(re.findall("<path", text))
    assert paths == 3 * len(sizing.ID_SIZES)


def test_another_limit_makes_another_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So the comparisons above can fail."""
    tables, chart = sizing.markdown(), sizing_chart.draw(tmp_path).read_text(encoding="utf-8")
    monkeypatch.setattr(sizing_limits, "MOST_UNITS", 2_000)
    assert sizing.markdown() != tables
    assert sizing_chart.draw(tmp_path).read_text(encoding="utf-8") != chart


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --docs nothing is written."""
    sizing.main([])
    assert capsys.readouterr().out.strip() == sizing.markdown()
