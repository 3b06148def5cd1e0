"""The figures of docs/sizing.md."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns import sizing
from lambda_once.patterns.sizing import plan
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "sizing.md"
UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def _wrong() -> list[str]:
    """Return the cells of the table that the formula does not confirm."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    heads, _, *rest = ([cell.strip() for cell in line.strip("|").split("|")] for line in rows)
    wrong = []
    for first, *cells in rest:
        for head, cell in zip(heads[1:], cells, strict=True):
            number, unit = head.split()
            rate = float(first.removesuffix("/s").replace(",", ""))
            try:
                found = plan(rate=rate, lifetime=int(number) * UNITS[unit])
            except Misconfigured:
                computed = "–"
            else:
                computed = f"{found.shards} × {found.write_units}"
            wrong += [cell] if cell != computed else []
    return wrong


def test_the_table_is_that_of_the_formula() -> None:
    """Each cell has the fewest shards, and the write units of a write."""
    assert _wrong() == []


def test_by_another_limit_the_table_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the comparison above can fail."""
    monkeypatch.setattr(sizing, "MOST_UNITS", 2_000)
    assert "5 × 50" in _wrong()
