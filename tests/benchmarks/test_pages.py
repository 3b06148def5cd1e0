from __future__ import annotations

import re
from collections import Counter

import pytest

from benchmarks import cold_start, counts, invocations, mix, report
from benchmarks.cases import API_DUPLICATE, API_NEW, DUPLICATES, NEW

README = report.README.read_text(encoding="utf-8")
PERFORMANCE = report.PERFORMANCE.read_text(encoding="utf-8")
COSTS = (report.ROOT / "docs" / "costs.md").read_text(encoding="utf-8")


def rows(table: str) -> dict[str, dict[str, str]]:
    """Return the rows of *table*, by their first cell, and each by the heads; of equal heads, numbered."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    heads = [f"{head} {lines[0][:at].count(head)}" for at, head in enumerate(lines[0])]
    return {cells[0]: dict(zip(heads, cells, strict=True)) for cells in lines[2:]}


def measured(part: str) -> dict[str, dict[str, str]]:
    """Return the rows of *part* on benchmarks/README.md."""
    section = report.section(README, "figures").partition(f"### {part}\n\n")[2]
    return rows(section.partition("\n\n")[0])


@pytest.mark.parametrize("name", report.RATIOS)
def test_ratios_are_those_that_were_measured(name: str) -> None:
    """Each of docs/performance.md is one of benchmarks/README.md."""
    part, case = report.RATIOS[name]
    found = measured(part)[case]
    shown = rows(report.section(PERFORMANCE, "ratios"))[name]
    under_both = f"{found['boto3 × of it 0']}×" if part == invocations.CPU else "–"
    assert list(shown.values())[1:] == [f"{found['× 0']}×", under_both, f"{found['× 1']}×"]


def test_peak_memory_is_what_was_measured() -> None:
    """That of boto3's client is as theirs; crt's is said."""
    found = measured(cold_start.PART)[cold_start.MEMORY]
    assert found["× 0"] in ("1.00", "1.01")
    assert f"with crt {found['× 1']} times that." in PERFORMANCE


def test_instructions_with_one_client_are_those_that_were_counted() -> None:
    """The page names them for the API's events, without log lines and metrics, and with them."""
    counted = rows(report.section(README, counts.MARK))
    assert list(counted) == [API_NEW, API_DUPLICATE, NEW, DUPLICATES]
    ratios = f"{counted[API_NEW]['× 0']} and {counted[API_DUPLICATE]['× 0']}"
    assert f"Beside Powertools with its own client it's {ratios}." in PERFORMANCE
    quiet, loud = (
        f"{counted[API_NEW][head]} and {counted[API_DUPLICATE][head]}"
        for head in ("× of our client's 0", "boto3 × of it 0")
    )
    said = f"{quiet} times Powertools' instructions with one client, with them {loud}"
    assert said in " ".join(PERFORMANCE.split())


def test_log_lines_are_what_the_page_says_of_a_batch() -> None:
    """A fifth of the instructions of new records."""
    batch = rows(report.section(README, counts.MARK))[NEW]
    loud, quiet = (
        int(batch[f"{head} 0"].replace(",", "")) for head in ("boto3", "boto3, no log lines or metrics")
    )
    assert "Log lines are a fifth of it." in PERFORMANCE
    assert 1 - quiet / loud == pytest.approx(0.2, abs=0.03)


def test_every_amount_of_the_costs_page_was_computed() -> None:
    """Those between the tables are in test_costs.py."""
    text = COSTS
    for mark in ("requests", "alarms"):
        text = text.replace(report.section(COSTS, mark), "")
    amounts = set(re.findall(r"\$[\d.]+\d", text))
    assert amounts == {"$0.750", "$5.53", "$0.900", "$2.71", "$0.300", "$30.30"}


def test_the_mix_adds_up() -> None:
    """The works of each kind are those that were played, and all of them the sum."""
    _, _, *rows, whole = report.section(COSTS, mix.MARK).strip().splitlines()
    cells = [[cell.strip("| *") for cell in row.strip("|").split("|")] for row in (*rows, whole)]
    kinds = {
        name.rpartition(", ")[0]: int(name.rpartition(", ")[2].replace(",", "")) for name, *_ in cells[:-1]
    }
    assert kinds == Counter(mix.kinds())
    for column in (1, 2, 3):
        units = sum(float(row[column]) * number for row, number in zip(cells, kinds.values(), strict=False))
        assert float(cells[-1][column]) == pytest.approx(units / mix.WORKS, abs=0.001)
