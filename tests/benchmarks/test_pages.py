from __future__ import annotations

import re
from pathlib import Path

import pytest

from lambda_once_tools.search import TableSize

HOME = Path(__file__).parents[2]
MEASURED = (HOME / "benchmarks" / "README.md").read_text(encoding="utf-8")


def cells(line: str) -> list[str]:
    """Return the cells of a row of a table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def rows(text: str, title: str) -> dict[str, list[str]]:
    """Return the rows of the table under the heading cell *title*, by their first cell."""
    lines = text[text.index(f"| {title}") :].partition("\n\n")[0].splitlines()[2:]
    return {each[0]: each[1:] for each in map(cells, lines)}


GOALS = MEASURED[MEASURED.index("### Goals") :].partition("\n### ")[0]
FOUND = {(row[0], row[1]): row[2] for row in map(cells, GOALS.splitlines()) if len(row) > 2}


@pytest.mark.parametrize(
    ("case", "ratios"),
    rows((HOME / "docs" / "performance.md").read_text(encoding="utf-8"), "of Powertools'").items(),
)
def test_ratios_are_those_that_were_measured(case: str, ratios: list[str]) -> None:
    """Each of docs/performance.md is one of benchmarks/README.md; what is left out was no goal."""
    known = [FOUND.get((case, client), "–") for client in ("boto3", "crt")]
    assert ratios == known
    assert any(ratio != "–" for ratio in ratios)


COSTS = (HOME / "docs" / "costs.md").read_text(encoding="utf-8")
REQUESTS = rows(MEASURED, "dollars per million | lambda-once | without the index")


@pytest.mark.parametrize(("case", "shown"), rows(COSTS, "dollars per million").items())
def test_costs_are_those_that_were_computed(case: str, shown: list[str]) -> None:
    """Dollars and write units of docs/costs.md are those of benchmarks/README.md."""
    *dollars, units, bare, theirs = REQUESTS[case]
    written = ", ".join(each.partition(",")[0] for each in (units, bare, theirs))
    assert shown == [*dollars, written]


def test_every_amount_of_the_page_was_computed() -> None:
    """Those between the tables, too: a scan of 2 GB; alarms and watchdog are in test_price.py."""
    amounts = re.compile(r"\$[\d.]+\d")
    assert set(amounts.findall(COSTS)) - set(amounts.findall(MEASURED)) == {"$2.57", "$30.30", "$0.031"}
    assert TableSize(1_000_000, 2_000_000_000, is_unindexed=True).dollars == pytest.approx(0.031, abs=0.0005)
