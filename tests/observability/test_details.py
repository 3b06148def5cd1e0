from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest

from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Tally

METRICS = [
    *("started", "completed", "replayed", "sameContent", "inProgress", "errors", "released", "stored"),
    *("held", "takenOver", "fenced", "completionFailed", "storeUnavailable", "keyReused", "disabled"),
    *("keyMissing", "callerMissing", "misconfigured", "badRecord", "givenUp"),
    *("resultUnavailable", "probeFailed", "policyFailed"),
    *("applied", "duplicate", "stale", "refused", "conflict", "full", "tooFarAhead", "fellBack", "unsent"),
    "unprotected",
]
FINISHED = [Event.COMPLETED, Event.RELEASED, Event.STORED, Event.HELD]
AT = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
FULL = Details(
    Event.RETURNED,
    token="orders/charge/1",
    name="charge",
    attempt="a1",
    fence=7,
    locked_by="charge/r1",
    created=AT,
    expected_completion=AT + timedelta(milliseconds=1500),
    delivery="m1",
    other_delivery="m2",
    seconds=0.25,
    error="ValueError",
    reason="a fixed text",
    differing="amount, note",
    pattern="Ledger",
    resource="points",
    key="cust_7",
)


def test_every_event_has_a_level() -> None:
    """Each is one of logging's, and each name begins with the package's."""
    assert {event.level for event in Event} == {logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR}
    assert all(event.value.startswith("once.") for event in Event)


def test_each_metric_counts_one_event() -> None:
    """The metrics are the documented ones, and no two events add to the same one."""
    counted = [event.metric for event in Event if event.metric is not None]
    assert sorted(counted) == sorted(METRICS)


def test_a_refused_duplicate_does_not_finish_an_attempt() -> None:
    """A duplicate answered Held adds to no metric: started less its finishes must balance."""
    assert Event.REFUSED.metric is None
    assert [event.metric for event in FINISHED] == ["completed", "released", "stored", "held"]


def test_there_is_no_field_for_payloads_and_results() -> None:
    """A field added to Details must be judged: none may hold what the user's data is."""
    assert set(Details._fields) == {
        *("event", "token", "name", "attempt", "fence", "locked_by", "created", "expected_completion"),
        *("delivery", "other_delivery", "seconds", "error", "reason"),
        "differing",  # names of fields, bounded: never their values
        *("pattern", "resource", "key"),  # the key of a table, as a token has the key of the work
    }


def test_details_cannot_be_changed() -> None:
    """What one hook sees is what the next one sees."""
    with pytest.raises(AttributeError):
        FULL.token = "another"  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        FULL.note = "more"  # type: ignore[attr-defined]
    assert FULL.token == "orders/charge/1"


def test_fields_are_all_that_is_known() -> None:
    """Every attribute but the event is a field; two have names that logging accepts."""
    assert FULL.fields() == {
        "token": "orders/charge/1",
        "once_name": "charge",
        "attempt": "a1",
        "fence": 7,
        "locked_by": "charge/r1",
        "acquired": "2026-11-20T10:12:00.000Z",
        "expected_completion": "2026-11-20T10:12:01.500Z",
        "delivery": "m1",
        "other_delivery": "m2",
        "seconds": 0.25,
        "error": "ValueError",
        "reason": "a fixed text",
        "differing": "amount, note",
        "pattern": "Ledger",
        "resource": "points",
        "key": "cust_7",
    }


def test_fields_leave_out_what_is_not_known() -> None:
    """None is left out; what is merely falsy is not."""
    assert Details(Event.RETURNED).fields() == {}
    assert Details(Event.RETURNED, token="", fence=0, seconds=0.0).fields() == {
        "token": "",
        "fence": 0,
        "seconds": 0.0,
    }


def test_times_are_utc() -> None:
    """A time from another zone is written in the rows' form."""
    there = AT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert Details(Event.RETURNED, created=there).fields() == {"acquired": "2026-11-20T10:12:00.000Z"}


def test_no_field_is_refused_by_logging(caplog: pytest.LogCaptureFixture) -> None:
    """All fields can be logged as extra, where the attributes' own names cannot."""
    logger = logging.getLogger("fields")
    logger.warning("all", extra=FULL.fields())
    assert vars(caplog.records[0]).items() >= FULL.fields().items()
    for refused in ("name", "created"):
        with pytest.raises(KeyError):
            logger.warning("one", extra={refused: "x"})


def test_a_tally_gives_each_count_once() -> None:
    """What was drained is not counted again."""
    tally = Tally()
    for metric in ("started", "started", "completed"):
        tally.count(metric)
    assert tally.drain() == {"started": 2, "completed": 1}
    assert tally.drain() == {}
    tally.count("replayed")
    assert tally.drain() == {"replayed": 1}


def test_a_tally_is_shared_by_threads() -> None:
    """No count is lost or given twice while threads count and drain."""
    tally = Tally()
    drained: list[int] = []

    def work(_: int) -> None:
        for _ in range(500):
            tally.count("started")
        drained.append(tally.drain().get("started", 0))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sum(drained) + tally.drain().get("started", 0) == 4000
