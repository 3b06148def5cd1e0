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


OVER_TLS = rows(MEASURED[MEASURED.index("### Processor time of an invocation, over TLS") :], "milliseconds")
CASES = {
    "API event over TLS, new, CPU": "API event, new",
    "API event over TLS, duplicate, CPU": "API event, duplicate",
    "ten records over TLS, new, CPU": "10 records, new",
    "ten records over TLS, duplicates, CPU": "10 records, sent twice",
}
PERFORMANCE = (HOME / "docs" / "performance.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("case", "ratios"), rows(PERFORMANCE, "of Powertools'").items())
def test_ratios_are_those_that_were_measured(case: str, ratios: list[str]) -> None:
    """Each of docs/performance.md is one of benchmarks/README.md."""
    under_both = f"{OVER_TLS[CASES[case]][-1]}×" if case in CASES else "–"
    assert ratios == [FOUND[case, "boto3"], under_both, FOUND[case, "crt"]]


def test_instructions_with_one_client_are_those_that_were_counted() -> None:
    """The page names them for the API's events, without log lines and metrics, and with them."""
    counted = rows(MEASURED[MEASURED.index("### The same, with one client") :], "thousands")
    new, seen = counted["API event, new"], counted["API event, duplicate"]
    quiet, loud = f"{new[4]} and {seen[4]}", f"{new[2]} and {seen[2]}"
    said = f"{quiet} times Powertools' instructions with one client, with them {loud}"
    assert said in " ".join(PERFORMANCE.split())


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
