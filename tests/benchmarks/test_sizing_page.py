from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import sizing, sizing_chart
from benchmarks.sizing_chart import SCHEMES, Scheme, draw
from lambda_once.patterns import sizing as sizing_module


def test_the_page_has_the_table_of_the_computation() -> None:
    """Computed again it is that of docs/sizing.md; `make docs` writes it."""
    page = sizing.PAGE.read_text(encoding="utf-8")
    assert sizing.replaced(page) == page
    assert "| 100/s | 3 × 17, 74 × 1 |" in page


def test_another_limit_makes_another_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the comparison above can fail."""
    tables = sizing.markdown()
    monkeypatch.setattr(sizing_module, "MOST_UNITS", 2_000)
    assert sizing.markdown() != tables


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --docs nothing is written."""
    sizing.main([])
    assert capsys.readouterr().out.strip() == sizing.markdown()


# -- the pictures

NAMED = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)


@NAMED
def test_the_pictures_are_those_of_the_computation(scheme: Scheme, tmp_path: Path) -> None:
    """Drawn again each is the same, to the byte: small, transparent, its text as text."""
    draw(scheme, sizing.ID_SIZES, again := tmp_path / "again.svg")
    drawn = scheme.path.read_text(encoding="utf-8")
    assert again.read_text(encoding="utf-8") == drawn
    assert len(drawn) < 60_000
    texts = set(re.findall(r"<text[^>]*>([^<]+)</text>", drawn))
    assert {"8 bytes", "128 bytes", "5 min", "5 min, 8 bytes: 16.2/s", "limit: 400 KB an item"} <= texts


def test_another_limit_makes_another_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the comparison above can fail."""
    monkeypatch.setattr(sizing_module, "MOST_UNITS", 2_000)
    draw(SCHEMES[0], sizing.ID_SIZES, other := tmp_path / "other.svg")
    assert other.read_bytes() != SCHEMES[0].path.read_bytes()


def test_the_page_has_a_picture_for_light_and_one_for_dark() -> None:
    """With a text for who does not see it, whose figures are those of the plan."""
    page = sizing.PAGE.read_text(encoding="utf-8")
    light, dark = (f"img/{scheme.path.name}" for scheme in SCHEMES)
    assert f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">' in page
    (alt,) = re.findall(rf'<img alt="([^"]+)" src="{light}">', page)
    rate = sizing_module.plan(lifetime=sizing_chart.EXAMPLE).rate
    assert f"At 5 minutes and 8 bytes it is at {sizing_module.rate_text(rate)}." in alt
