"""
What is one work, and what is two, for every source.

A redelivery, a dead letter and a producer's retry are one. The same id from two origins is two, and under one
key an error that names both ways out. The cells come from the sources' rows, so a source that is added has
to give them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from lambda_once import KeyMissing, KeyReused
from lambda_once.core.lifecycle import State
from lambda_once.sources.source import Source, record_source
from lambda_once.testing import api_event, eventbridge_event, s3_event, sqs_event
from tests.decorators.rig import Rig
from tests.decorators.sources_table import SOURCES, Row
from tests.decorators.test_beside import refusal
from tests.docs.pages import ROOT

Json = dict[str, Any]

of_every_source = pytest.mark.parametrize("row", SOURCES, ids=lambda row: row.name)
DEAD = "a dead letter"
WAYS: dict[str, Callable[[Row, Json], Json]] = {
    "the same delivery": lambda _, event: event,
    "a redelivery": Row.redelivered,
    DEAD: Row.dead_letter,
    "a producer's retry": Row.sent_again,
}
CELLS = [
    pytest.param(row, way, keyed, id=f"{row.name}, {way}, {'key=' if keyed else 'no key'}")
    for row in SOURCES
    for way in WAYS
    for keyed in (False, True)
    if (way != DEAD or (row.dead is not None and (keyed or row.name != "fifo")))  # below
    and (way != "a producer's retry" or keyed)  # without a key it may be other work
]


@pytest.fixture
def rig(on_memory: Rig) -> Rig:
    """No store can change what is tested here."""
    return on_memory


class Work:
    """A handler of a row's source, and how often it ran."""

    def __init__(self, rig: Rig, row: Row, *, keyed: bool, **options: Any) -> None:
        self.ran = 0
        self._rig = rig
        decorator = getattr(rig.new(), row.decorator)
        key = {"key": row.key} if keyed else {}
        self.handler = decorator(name="work", **key, **options)(self._work)

    def _work(self, _: object) -> None:
        self.ran += 1

    def deliver(self, *events: Any) -> None:
        """Deliver *events*, of which each has to be done, now or before."""
        for event in events:
            assert refusal(self.handler, event) is None


@pytest.mark.parametrize(("row", "way", "keyed"), CELLS)
def test_what_comes_again_is_one_work(rig: Rig, row: Row, way: str, *, keyed: bool) -> None:
    """It replays, in either order of arrival."""
    work = Work(rig, row, keyed=keyed)
    event = row.build({"orderId": 5})
    again = WAYS[way](row, event)
    work.deliver(event, again, event, again)
    assert work.ran == 1
    assert rig.states() == [State.COMPLETE]


@of_every_source
def test_the_rows_say_what_a_redelivery_changes(row: Row) -> None:
    """A source that repeats a record field by field has nothing there; what is there changes a record."""
    event = row.build({"orderId": 5})
    if record_source(_source_of(row)).repeats:
        assert row.again == {}
    for changes in filter(None, (row.again, row.resent, row.dead)):
        assert row._changed(event, changes) != event


def _source_of(row: Row) -> Source:
    return next(source for source in Source if source.fields and source.decorator == f"once.{row.decorator}")


@of_every_source
def test_one_id_from_two_origins_is_two_works(rig: Rig, row: Row) -> None:
    """An id counts within its queue, topic, stream or table; each one again is one."""
    work = Work(rig, row, keyed=False)
    event = row.build({"orderId": 5})
    other = row.elsewhere(event)
    work.deliver(event, other, event, other)
    assert work.ran == 2


@of_every_source
@pytest.mark.parametrize("body", [{"orderId": 5}, {"orderId": 6}], ids=["equal", "another"])
def test_one_id_from_two_origins_is_two_calls_of_a_function(rig: Rig, row: Row, body: Json) -> None:
    """A record is what it is under its decorator, where it names its origin."""
    ran: list[object] = []
    work = rig.once.function(name="work")(ran.append)
    event, other = row.build({"orderId": 5}), row.elsewhere(row.build(body))
    for each in (event, other, event, other):
        for sequence in record_source(_source_of(row)).sequences(each):
            for record in sequence:
                work(record)
    assert len(ran) == 2


@of_every_source
def test_another_origin_under_one_key_is_key_reused(rig: Rig, row: Row) -> None:
    """
    With ``key=`` the developer said what is the same, and another origin contradicts it.

    Neither answer is safe without being asked, so the error names both ways out.
    """
    work = Work(rig, row, keyed=True)
    event = row.build({"orderId": 5})
    work.deliver(event)
    error = refusal(work.handler, row.elsewhere(event))
    assert isinstance(error, KeyReused)
    assert 'ignore=("@origin",)' in str(error)
    assert "a scope= that selects it" in str(error)
    assert work.ran == 1


@of_every_source
def test_a_scope_that_selects_the_origin_separates_one_keys_work(rig: Rig, row: Row) -> None:
    """The other way out, which docs/key-design.md has for each source."""
    work = Work(rig, row, keyed=True, scope=row.origin)
    event = row.build({"orderId": 5})
    work.deliver(event, row.elsewhere(event), event)
    assert work.ran == 2
    page = (ROOT / "docs" / "key-design.md").read_text(encoding="utf-8")
    assert f"`{row.origin}`" in page


@of_every_source
def test_origins_that_are_ignored_are_one_work(rig: Rig, row: Row) -> None:
    """Copies of a queue, topic, stream or table, with a key and without."""
    for keyed in (True, False):
        work = Work(rig, row, keyed=keyed, ignore=("@origin",))
        event = row.build({"orderId": 5 + keyed})
        work.deliver(event, row.elsewhere(event))
        assert work.ran == 1


def test_a_dead_letter_of_a_fifo_queue_needs_a_key(rig: Rig) -> None:
    """SQS gives it another deduplication id, so held work would run again."""
    row = next(row for row in SOURCES if row.name == "fifo")
    work = Work(rig, row, keyed=False)
    error = refusal(work.handler, row.dead_letter(row.build({"orderId": 5})))
    assert isinstance(error, KeyMissing)
    assert "Pass key=" in str(error)
    assert work.ran == 0


@pytest.mark.parametrize(
    ("event", "key", "other"),
    [
        (eventbridge_event({"id": 5}, event_id="i-1"), "id", eventbridge_event({"id": 6}, event_id="i-2")),
        (s3_event("5.pdf"), "Records[0].s3.object.key", s3_event("6.pdf")),
    ],
    ids=["EventBridge", "S3"],
)
@pytest.mark.parametrize("keyed", [False, True])
def test_an_event_counts_without_the_fifo_queue_that_carries_it(
    rig: Rig, event: Json, key: str, other: Json, *, keyed: bool
) -> None:
    """Not its queue, its group nor its deduplication id: it is identified as under `once.event`."""
    row = next(row for row in SOURCES if row.name == "fifo")
    work = Work(rig, row, keyed=False, **({"key": key} if keyed else {}))
    sent = row.build(event)
    work.deliver(
        sent, sqs_event(event, fifo_groups="g", queue="refunds"), row.sent_again(sent), row.dead_letter(sent)
    )
    work.deliver(sqs_event(event, fifo_groups="another"), sqs_event(event))  # of a standard queue
    assert work.ran == 1
    another = row.build(other)
    of_first = sent["Records"][0]["attributes"]["MessageDeduplicationId"]
    another["Records"][0]["attributes"]["MessageDeduplicationId"] = of_first
    work.deliver(another)
    assert work.ran == 2


# ------------------------------------------------------------------ events and requests


class EventRow(NamedTuple):
    """One source of whole events: what a test of all of them needs to know."""

    source: Source
    event: Json
    key: str | None
    """Selects orderId; None: the event has a key of its own."""
    resent: Json
    """What it has otherwise if its producer sends it once more."""
    elsewhere: Json | None
    """What it has otherwise from another origin; None: the source names none."""


_GUARDDUTY = eventbridge_event({"orderId": 5}, "Finding", "aws.guardduty", event_id="i-1")
_ANOTHER_ACCOUNT = {"account": "999999999999"}
EVENT_ROWS: dict[str, EventRow] = {
    "EventBridge": EventRow(
        Source.EVENTBRIDGE,
        eventbridge_event({"orderId": 5}, event_id="i-1"),
        "detail.orderId",
        {"id": "i-2", "time": "2026-11-20T10:13:00Z"},
        _ANOTHER_ACCOUNT,
    ),
    "EventBridge, AWS' own": EventRow(
        Source.EVENTBRIDGE, _GUARDDUTY, "detail.orderId", {"id": "i-2"}, _ANOTHER_ACCOUNT
    ),
    "S3": EventRow(Source.S3, s3_event("5.pdf"), "Records[0].s3.object.key", {}, None),
    "a direct invocation": EventRow(Source.DIRECT, {"orderId": 5}, "orderId", {}, None),
    "HTTP": EventRow(
        Source.HTTP, api_event("POST", "/orders", {"orderId": 5}, {"Idempotency-Key": "k"}), None, {}, None
    ),
}
of_every_event = pytest.mark.parametrize("row", EVENT_ROWS.values(), ids=EVENT_ROWS)


def test_every_source_has_a_row() -> None:
    """One that is added is tested like the others."""
    rows = {_source_of(row) for row in SOURCES} | {row.source for row in EVENT_ROWS.values()}
    assert rows == {source for source in Source if source.decorator is not None}


class EventWork:
    """A handler of events, and how often it ran."""

    def __init__(self, rig: Rig, row: EventRow, *, keyed: bool, **options: Any) -> None:
        self.ran = 0
        decorator = getattr(rig.new(), str(row.source.decorator).removeprefix("once."))
        self.handler = decorator(name="work", key=row.key if keyed else None, **options)(self._work)

    def _work(self, _: object) -> Json:
        self.ran += 1
        return {"statusCode": 200}


@of_every_event
@pytest.mark.parametrize("keyed", [False, True])
def test_an_event_that_comes_again_is_one_work(rig: Rig, row: EventRow, *, keyed: bool) -> None:
    """The same event, and under a key what its producer sends once more."""
    work = EventWork(rig, row, keyed=keyed)
    again = [row.event, row.event | row.resent] if keyed else [row.event]
    for event in (row.event, *again):
        assert refusal(work.handler, event) is None
    assert work.ran == 1


@pytest.mark.parametrize(
    "row",
    [row for row in EVENT_ROWS.values() if row.elsewhere],
    ids=[name for name, row in EVENT_ROWS.items() if row.elsewhere],
)
def test_one_event_of_two_accounts_is_two_works(rig: Rig, row: EventRow) -> None:
    """Without a key; under one it is KeyReused, and one work where the origin is ignored."""
    other = row.event | (row.elsewhere or {})
    work = EventWork(rig, row, keyed=False)
    for event in (row.event, other, row.event, other):
        assert refusal(work.handler, event) is None
    assert work.ran == 2
    keyed = EventWork(rig, row, keyed=True)
    assert refusal(keyed.handler, row.event) is None
    error = refusal(keyed.handler, other)
    assert isinstance(error, KeyReused)
    assert 'ignore=("@origin",)' in str(error)
    ignoring = EventWork(rig, row, keyed=True, ignore=("@origin",))
    assert refusal(ignoring.handler, other) is None
    assert (keyed.ran, ignoring.ran) == (1, 0)
