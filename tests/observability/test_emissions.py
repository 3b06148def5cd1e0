"""
Log events and metrics are what tests/golden/surface.txt has of them (tests/structure/test_surface.py).

Here: that nothing is left out there, that a change is noticed, and that the documentation has the same.
"""

from __future__ import annotations

import json
import re
from logging import getLevelName
from typing import Any

import pytest

from lambda_once import Once
from lambda_once.observability import reporter
from lambda_once.observability.events import Event
from tests.docs.pages import PAGES, ROOT, named
from tests.observability import emissions
from tests.surface import COMMITTED, changes

GOLDEN = COMMITTED.read_text(encoding="utf-8").splitlines()
LEVELS = dict(re.findall(r"^log event (\S+) ([A-Z]+)$", "\n".join(GOLDEN), re.MULTILINE))
KINDS = set(re.findall(r"^log event \S+ has (\w+) \((\w+)\)$", "\n".join(GOLDEN), re.MULTILINE))
UNITS = dict(re.findall(r"^metric (\w+) in (\w+) by service, function$", "\n".join(GOLDEN), re.MULTILINE))
PAGE = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
MEASURED = dict(re.findall(r"^\* `(\w+)` \((Count|Seconds)\)", PAGE, re.MULTILINE))
NO_EVENTS = {"once.acquire", "once.complete"} | {f"once.{name}" for name in dir(Once)}
"""Parts of a trace, and the methods of a `Once`."""


def test_every_event_and_metric_is_written() -> None:
    """A new one gets a scenario, by which its fields and its unit are known."""
    assert {event.value: getLevelName(event.level) for event in Event} == LEVELS
    assert {event.metric for event in Event if event.metric} | MEASURED.keys() == UNITS.keys()


def test_the_page_has_the_kinds_and_units_that_are_written() -> None:
    """Each field has one kind in all events; what is not measured is counted."""
    assert set(re.findall(r"^\* `(\w+)` \((text|number|time)\)", PAGE, re.MULTILINE)) == KINDS
    assert dict.fromkeys(UNITS, "Count") | MEASURED == UNITS


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_names_events_and_metrics_that_are_written(page: Any) -> None:
    """Every `once.…` is an event, unless it is a method; what is above 0 is a metric."""
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"`(once\.[a-z_]+)`", text)) - NO_EVENTS <= LEVELS.keys()
    assert set(re.findall(r"`(\w+)` (?:above 0|rises|is 0|stays 0|has a value)", text)) <= UNITS.keys()


# -- twins: what a change of each kind looks like


def _found(*scenarios: Any) -> list[str]:
    return sorted(set(emissions.lines(*scenarios)))


def test_a_renamed_field_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It breaks the queries that select it by its old name."""
    before = _found(emissions.patterns)
    labels = [{"resource": "table"}.get(label, label) for label in reporter._LABELS]
    monkeypatch.setattr(reporter, "_LABELS", tuple(labels))
    breaking, new = changes(before, _found(emissions.patterns))
    assert breaking == [line for line in GOLDEN if " has resource " in line]
    assert new == [line.replace(" resource ", " table ") for line in breaking]


def test_a_field_that_one_event_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although others have it still."""
    before = _found(emissions.watchdog)
    write = reporter._write

    def without(logger: Any, details: reporter.Details, *more: Any) -> None:
        kept = details._replace(seconds=None) if details.event is Event.OVERDUE else details
        write(logger, kept, *more)

    monkeypatch.setattr(reporter, "_write", without)
    lost = changes(before, _found(emissions.watchdog))
    assert lost == (["log event once.overdue has seconds (number)"], [])


def test_another_unit_and_another_dimension_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alarms select a metric by its name and all of its dimensions."""
    before = _found(emissions.watchdog, emissions.gaps)
    embedded = reporter.embedded

    def by_table(*given: Any) -> str:
        document: Any = json.loads(embedded(*given))
        document["_aws"]["CloudWatchMetrics"][0]["Dimensions"] = [["service", "table"]]
        return json.dumps(document)

    monkeypatch.setattr(reporter, "_frame", reporter._frame.__wrapped__)  # it remembers the units
    monkeypatch.setattr(reporter, "UNITS", {})
    breaking, _ = changes(before, _found(emissions.watchdog, emissions.gaps))
    ages = ("oldestOverdueSeconds", "streamLagSeconds")
    assert breaking == [f"metric {name} in Seconds by service, function" for name in ages]
    monkeypatch.setattr(reporter, "embedded", by_table)
    breaking, _ = changes(before, _found(emissions.watchdog, emissions.gaps))
    assert {line.split()[1] for line in breaking} == MEASURED.keys() | {"probeFailed"}


def test_an_event_of_another_name_or_level_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all of its fields."""
    before = _found(emissions.failures)
    monkeypatch.setattr(Event.HELD, "_value_", "once.manual_review")
    monkeypatch.setattr(Event.STORED, "level", 30)
    breaking, new = changes(before, _found(emissions.failures))
    held = [line for line in GOLDEN if line.startswith("log event once.held ")]
    assert breaking == [*held, "log event once.stored INFO"]
    assert "log event once.stored WARNING" in new
