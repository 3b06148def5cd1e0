"""
A field that each line about a function's work has is added in one place, `Details.of_work`.

Here such a field is added, from the function's settings: every line has it, unless it is about no function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import lambda_once
from lambda_once.decorators.identify import Identifier
from lambda_once.engine.invocation import Tokenless
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter, Work
from tests.observability import emissions

SCENARIOS: Final = (
    emissions.outcomes,
    emissions.failures,
    emissions.lapses,
    emissions.outages,
    emissions.endings,
    emissions.mistakes,
    emissions.environments,
    emissions.names,
    emissions.clients,
)
OF_ENVIRONMENT: Final = {
    *(Event.DISABLED, Event.NO_LAMBDA_CONTEXT, Event.NO_SERVICE, Event.POWERTOOLS_DISABLED),
    *(Event.BATCHES_OFF, Event.PARTS_DENIED, Event.CLIENT_LIMITS, Event.CRT_DECLINED, Event.REPORT_FAILED),
}
OF_PATTERNS: Final = {
    *(Event.APPLIED, Event.DUPLICATE, Event.STALE, Event.BELOW_FLOOR, Event.CONFLICT, Event.FULL),
    *(Event.NO_ID, Event.TOO_FAR_AHEAD, Event.FELL_BACK, Event.UNSENT),
}
OF_WATCHDOG: Final = {
    *(Event.OVERDUE, Event.COUNT_TRUNCATED, Event.MALFORMED_ROW, Event.STREAM_GAP),
    Event.CLOCK_SKEW,
}
EVENTS: Final = {event.value: event for event in Event}
FIELD: Final = "resource"
"""Only patterns' lines have it, which are not written here."""
BY_HAND: Final = {
    "decorators/runtime.py",  # a Once without a table
    "observability/reporter.py",  # the constructors
    "operations/watchdog.py",  # rows that cannot be read
    "patterns/observing.py",  # patterns have no token
}


@pytest.fixture(name="field", autouse=True)
def field_from_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a field to the constructor: an option of the function."""
    right = Details.of_work

    def of_work(event: Event, work: Work, *known: Any, **more: Any) -> Details:
        return right(event, work, *known, **more)._replace(resource=f"at most {work.settings.concurrency}")

    monkeypatch.setattr(Details, "of_work", of_work)


def _with_it_and_without(*scenarios: Callable[[], None]) -> tuple[set[Event], set[Event]]:
    """Return the events of the lines of *scenarios* that have such a field, and of those that have none."""
    events: tuple[set[Event], set[Event]] = set(), set()
    for line in emissions.written(scenarios):
        if "_aws" not in line:
            events[line.get(FIELD) != "at most 10"].add(EVENTS[line["message"]])
    return events


def test_every_line_of_work_has_the_field() -> None:
    """Each event about work, and each line of it, whether it has a token or none."""
    having, lacking = _with_it_and_without(*SCENARIOS)
    assert lacking == OF_ENVIRONMENT
    assert having == set(Event) - OF_ENVIRONMENT - OF_PATTERNS - OF_WATCHDOG


def test_nothing_else_makes_a_line_of_work() -> None:
    """What makes its details by hand knows no function."""
    package = Path(lambda_once.__file__).parent
    sources = {
        str(path.relative_to(package)): path.read_text(encoding="utf-8") for path in package.rglob("*.py")
    }
    assert {name for name, source in sources.items() if _makes_details(source)} == BY_HAND


def _makes_details(source: str) -> bool:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return any(isinstance(call.func, ast.Name) and call.func.id == "Details" for call in calls)


# -- twins: lines made by hand, as they once were


def _reports(unit: Tokenless, event: Event, *, exception: Any = None, **known: Any) -> None:
    details = Details(event, name=unit.name, delivery=unit.delivery, **known)
    unit.invocation.reporter.report(details, unit.invocation.tally, exception)


def _identifier_reports(
    identifier: Identifier, event: Event, error: Exception, invocation: Any, delivery: str | None
) -> None:
    unit = identifier.tokenless(invocation, delivery)
    _reports(unit, event, error=type(error).__name__, reason=str(error))


def _warns(reporter: Reporter, event: Event, reason: str, work: Work | None = None) -> None:
    reporter.log(Details(event, name=None if work is None else work.name, reason=reason))


REFUSED: Final = {Event.BAD_RECORD, Event.KEY_MISSING, Event.CALLER_MISSING, Event.MISCONFIGURED}


@pytest.mark.parametrize(
    ("kind", "method", "twin", "lacking"),
    [
        (Tokenless, "report", _reports, REFUSED | {Event.GIVEN_UP, Event.RELEASED}),
        (Identifier, "report", _identifier_reports, REFUSED),
        (
            Reporter,
            "warn",
            _warns,
            {
                *(Event.UNPROTECTED, Event.UNSCOPED, Event.NOT_PROTECTED, Event.NOT_STORED),
                *(Event.SHARED_NAME, Event.FRAMED_VALUE),
            },
        ),
    ],
)
def test_twin_that_makes_a_line_by_hand(
    monkeypatch: pytest.MonkeyPatch, kind: Any, method: str, twin: Any, lacking: set[Event]
) -> None:
    """Its lines lack the field, and are found."""
    scenarios = emissions.endings, emissions.mistakes, emissions.environments, emissions.names
    monkeypatch.setattr(kind, method, twin)
    assert _with_it_and_without(*scenarios)[1] - OF_ENVIRONMENT == lacking


def test_twin_that_makes_details_by_hand() -> None:
    """A module that does is found."""
    assert _makes_details("def report(name):\n    log(Details(Event.BAD_RECORD, name=name))")
    assert not _makes_details("details = Details.of_work(Event.BAD_RECORD, work)")
