from __future__ import annotations

import json
import logging

import pytest

from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter, Tally

RETURNED = Details(Event.RETURNED, token="orders/charge/1")
LOGGER = logging.getLogger("hooked")


class Failing:
    """A hook that cannot do its work."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, _: Details) -> None:
        raise self.error


def broken(_: Details) -> None:
    """Fail with data in the message."""
    message = "private"
    raise ValueError(message)


def complaints(caplog: pytest.LogCaptureFixture) -> list[tuple[object, object]]:
    """Return the name and the error of each warning about a failed report."""
    failures = [vars(record) for record in caplog.records if record.getMessage() == "once.report_failed"]
    assert all(failure["levelname"] == "WARNING" for failure in failures)
    return [(failure["once_name"], failure["error"]) for failure in failures]


def test_hooks_see_every_event() -> None:
    """Each hook gets the very details, in order, whether its line was logged or not."""
    seen: list[tuple[str, Details]] = []
    reporter = Reporter(
        logger=LOGGER, hooks=[lambda it: seen.append(("first", it)), lambda it: seen.append(("second", it))]
    )
    acquired = Details(Event.ACQUIRED)
    reporter.report(acquired, Tally())
    reporter.report(RETURNED, Tally())
    assert seen == [("first", acquired), ("second", acquired), ("first", RETURNED), ("second", RETURNED)]


def test_a_hook_that_raises_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its exception goes nowhere but into one warning; the other hooks run every time."""
    seen: list[Details] = []
    tally = Tally()
    reporter = Reporter(logger=LOGGER, hooks=[broken, seen.append])
    for _ in range(3):
        reporter.report(Details(Event.REPLAYED), tally)
    assert len(seen) == 3
    assert tally.drain() == {"replayed": 3}
    assert complaints(caplog) == [(f"{__name__}.broken", "ValueError")]
    assert "private" not in str([vars(record) for record in caplog.records])


def test_each_broken_hook_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Two broken hooks are two warnings; objects are named by their class."""
    reporter = Reporter(logger=LOGGER, hooks=[broken, Failing(KeyError("x"))])
    for _ in range(2):
        reporter.report(RETURNED, Tally())
    assert complaints(caplog) == [(f"{__name__}.broken", "ValueError"), (f"{__name__}.Failing", "KeyError")]


def test_a_hook_does_not_stop_an_exit() -> None:
    """What is no Exception waits in the tally until tokens are finished, and is raised then, once."""
    tally = Tally()
    Reporter(logger=LOGGER, hooks=[Failing(SystemExit(3)), Failing(SystemExit(4))]).report(RETURNED, tally)
    with pytest.raises(SystemExit, match="3"):
        tally.raise_interruption()
    tally.raise_interruption()


def test_a_hook_can_change_nothing() -> None:
    """A hook that tries to rewrite the details fails, and the next hook sees them as they were."""
    seen: list[Details] = []

    def rewriting(details: Details) -> str:
        details.token = "another"  # type: ignore[misc]
        return "ignored"

    Reporter(logger=LOGGER, hooks=[rewriting, seen.append]).report(RETURNED, Tally())
    assert seen == [Details(Event.RETURNED, token="orders/charge/1")]


def test_hooks_are_fixed_when_given() -> None:
    """A list that the user changes later does not change which hooks are called."""
    seen: list[Details] = []
    hooks = [seen.append]
    reporter = Reporter(logger=LOGGER, hooks=hooks)
    hooks.clear()
    reporter.report(RETURNED, Tally())
    assert seen == [RETURNED]


def test_a_hook_may_be_protected_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """A hook that reports and flushes within a report does not block, and each count is written once."""
    inner, tally = Reporter("inner", logger=LOGGER), Tally()

    def nested(_: Details) -> None:
        inner.report(Details(Event.REPLAYED), tally)
        inner.flush(tally)

    outer = Reporter("outer", logger=LOGGER, hooks=[nested])
    outer.report(Details(Event.ACQUIRED), tally)
    outer.flush(tally)
    (document,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (document["started"], document["replayed"]) == ([1.0], [1.0])
