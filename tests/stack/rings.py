"""What rings in the played days: `python -m tests.stack.rings`; --docs writes the table of README.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.docs.pages import ROOT
from tests.kit.recorded import SHOP

from . import nested
from .cloudwatch import Alarm, alarms_of
from .days import SCENARIOS, TROUBLE, Scenario

SIX = {"NewlyHeld", "TasksOverdue", "CompletionFailed", "StoreUnavailable", "WatchdogSilent", "DeadLetters"}
"""The alarms that come with the table."""
PAGE = ROOT / "tests" / "stack" / "README.md"
BEGIN, END = "<!-- rings: begin -->\n", "<!-- rings: end -->"


class Rings(NamedTuple):
    """How one alarm rang in one scenario."""

    times: int
    after: int
    """Minutes from the beginning of the trouble to the first ring."""


def rings(scenario: Scenario, alarms: Mapping[str, Alarm]) -> dict[str, Rings]:
    """Return which of *alarms* ring in *scenario*, in the order of their first ring."""
    metrics = scenario.metrics()
    found = {name: alarm.rings(metrics) for name, alarm in alarms.items()}
    rang = {name: Rings(len(minutes), minutes[0] - TROUBLE) for name, minutes in found.items() if minutes}
    return dict(sorted(rang.items(), key=lambda each: each[1].after))


def every_ring() -> dict[str, dict[str, Rings]]:
    """Return what rings in each scenario, by its sentence."""
    alarms = alarms_of(nested.flat(SHOP / "template.yaml"))
    return {scenario.says: rings(scenario, alarms) for scenario in SCENARIOS}


def markdown(found: Mapping[str, Mapping[str, Rings]]) -> str:
    """Return the table, a row for each scenario: what the six ring, and what the others do."""
    rows = [
        f"| {says} | {_cell(says, rang, six=True)} | {_cell(says, rang, six=False)} |"
        for says, rang in found.items()
    ]
    head = [
        "| what happens | which of the six rings, and how many minutes later | the others |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows, ""])


def _cell(says: str, rang: Mapping[str, Rings], *, six: bool) -> str:
    some = {name: each for name, each in rang.items() if (name in SIX) is six}
    return ", ".join(_cells(says, some)) or "–"


def _cells(says: str, rang: Mapping[str, Rings]) -> Iterator[str]:
    spread = next(scenario.spread for scenario in SCENARIOS if scenario.says == says)
    for name, each in rang.items():
        times = f" × {each.times}" if each.times > 1 else ""
        yield f"{name}{times}" if spread else f"{name} {each.after}{times}"


def replaced(page: str, table: str) -> str:
    """Return *page* with *table* between its marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]


if __name__ == "__main__":
    made = markdown(every_ring())
    if "--docs" in sys.argv:
        PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    else:
        sys.stdout.write(made)
