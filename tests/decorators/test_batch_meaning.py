"""A batch on a real engine means what single records mean, however it is written."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.results import Parts, unpack_chunks
from tests.decorators.counted import TEN, Counted, records
from tests.decorators.test_sqs import ALL_WELL, failed
from tests.sources.samples import batch, fifo_record, sqs_record
from tests.stores.line import BATCH, PARTS, SINGLE


def test_a_crashed_batch_is_taken_over_whole(counted: Counted) -> None:
    """All of it lapsed: after the lease each record runs again, under a larger fence."""

    @counted.rig.once.sqs(lease=timedelta(seconds=30))
    def handler(record: SQSRecord) -> None: ...

    with counted.rig.crash():
        handler(records(*TEN), counted.rig.context())
    before = counted.rig.rows()
    assert handler(records(*TEN), counted.rig.context("request-2")) == failed(*TEN)
    assert counted.rig.rows() == before
    counted.rig.clock.advance(31)
    assert handler(records(*TEN), counted.rig.context("request-3")) == ALL_WELL
    after = counted.rig.rows()
    assert {row.state for row in after} == {State.COMPLETE}
    assert all(new.fence > old.fence for new, old in zip(after, before, strict=True))
    assert counted.rig.events().count("once.taken_over") == 10


def test_folded_twins_are_one_statement(counted: Counted) -> None:
    """The same item twice would refuse the whole call: equal records share one token and one outcome."""
    seen: list[str] = []

    @counted.rig.once.sqs
    def handler(record: SQSRecord) -> None:
        seen.append(record.message_id)
        if record.body == "x":
            raise ValueError

    bodies = {"a": "x", "b": "y", "c": "x", "d": "y", "e": "z"}
    event = batch(*(sqs_record(body, id_=id_) for id_, body in bodies.items()))
    assert handler(event, counted.rig.context()) == failed("a", "c")
    assert counted.calls() == [BATCH, BATCH]
    assert seen == ["a", "b", "e"]


def test_what_has_no_time_to_start_is_released_together(counted: Counted) -> None:
    """What was done is written first; the rest goes back, its tokens free at once."""
    seen: list[str] = []

    @counted.rig.once.sqs
    def handler(record: SQSRecord) -> None:
        seen.append(record.body)
        counted.rig.clock.advance(10)

    event, context = records("a", "b", "c", "d", "e"), counted.rig.context(seconds=20.4)
    assert handler(event, context) == failed("c", "d", "e")
    assert counted.rig.states() == [State.COMPLETE] * 2 + [State.RELEASED] * 3
    assert seen == ["a", "b"]


def test_large_results_keep_their_parts(counted: Counted) -> None:
    """Each is written in parts before its row is flipped, and can be read back."""
    large = {body: random.Random(body).randbytes(200_000).hex() for body in ("a", "c")}

    @counted.rig.once.sqs(key=lambda record: record.body)
    def handler(record: SQSRecord) -> object:
        return large.get(record.body, "small")

    assert handler(records("a", "b", "c"), counted.rig.context()) == ALL_WELL
    assert counted.calls() == [BATCH, PARTS, PARTS, BATCH]
    deadline = Deadline(counted.rig.clock, counted.rig.clock.now() + timedelta(seconds=20))
    for row in counted.rig.rows():
        body = row.token[-1]
        if body in large:
            assert isinstance(row.stored, Parts)
            parts = counted.rig.store.chunks(row, deadline)
            assert parts is not None
            assert json.loads(unpack_chunks(parts)) == large[body]


@pytest.mark.parametrize(
    "options", [{"on_lapse": "hold"}, {"on_lapse": lambda *_: None}], ids=["hold", "probe"]
)
def test_under_hold_and_probe_records_are_acquired_one_at_a_time(counted: Counted, options: Any) -> None:
    """When a record runs, those behind it have no token that a crash could leave lapsed."""
    tokens: list[int] = []

    @counted.rig.once.sqs(**options)
    def handler(record: SQSRecord) -> None:
        tokens.append(len(counted.rig.rows()))

    assert handler(records("a", "b", "c"), counted.rig.context()) == ALL_WELL
    assert tokens == [1, 2, 3]
    sent = [call for call in counted.calls() if call != "Scan"]
    assert sent[:3] == [SINGLE] * 3
    assert counted.rig.states() == [State.COMPLETE] * 3
    assert [row.ttl is None for row in counted.rig.rows()] == [False] * 3


def test_system_exit_in_the_middle(counted: Counted) -> None:
    """What was done before is written, what had not started is released, and it is raised."""
    seen: list[str] = []

    @counted.rig.once.sqs
    def handler(record: SQSRecord) -> None:
        seen.append(record.body)
        if record.body == "c":
            raise SystemExit(1)

    with pytest.raises(SystemExit):
        handler(records("a", "b", "c", "d", "e"), counted.rig.context())
    assert seen == ["a", "b", "c"]
    assert counted.rig.states() == [State.COMPLETE] * 2 + [State.RELEASED] * 3


def _fenced(counted: Counted, *, finishes: bool) -> Any:
    """Record a oversleeps; a second delivery takes its token over and is done, or is still in progress."""
    second = records("a")
    inner: list[Any] = []

    @counted.rig.once.sqs(name="n", lease=timedelta(seconds=12), raise_on_entire_batch_failure=False)
    def handler(record: SQSRecord) -> None:
        if record.body == "a" and not inner:
            inner.append(None)
            counted.rig.clock.advance(13)
            if finishes:
                handler(second, counted.rig.context("request-2"))
                return
            with counted.rig.crash():
                handler(second, counted.rig.context("request-2"))

    return handler(records("a", "b", "c"), counted.rig.context(seconds=60))


def test_a_fenced_completion_gets_its_successors_outcome(counted: Counted) -> None:
    """The successor is done: the record succeeds, and so do the others."""
    assert _fenced(counted, finishes=True) == ALL_WELL
    assert "once.fenced" in counted.rig.events()
    assert counted.rig.states() == [State.COMPLETE] * 3


def test_a_fenced_completion_goes_back_while_its_successor_is_in_progress(counted: Counted) -> None:
    """It alone: a later delivery gets the successor's outcome."""
    assert _fenced(counted, finishes=False) == failed("a")
    assert counted.rig.states() == [State.IN_PROGRESS, State.COMPLETE, State.COMPLETE]


def test_completed_by_hand_is_not_written_twice(counted: Counted) -> None:
    """A record that completes its token itself has no part in the batch's write."""

    @counted.rig.once.sqs
    def handler(record: SQSRecord) -> None:
        if record.body == "a":
            counted.rig.once.current().transact([counted.rig.ground.booking], "done")

    assert handler(records("a", "b", "c"), counted.rig.context()) == ALL_WELL
    assert counted.calls() == [BATCH, "TransactWriteItems", BATCH]
    assert counted.rig.states() == [State.COMPLETE] * 3
    assert counted.rig.ground.bookings == 1


def test_a_second_payload_waits_for_the_first_ones_end(counted: Counted) -> None:
    """Two payloads of one key in a batch: where the first fails, its token is free for the second."""
    seen: list[str] = []

    @counted.rig.once.sqs(key="id")
    def handler(record: SQSRecord) -> None:
        seen.append(record.message_id)
        if record.message_id == "a":
            raise ValueError

    event = batch(*(sqs_record({"id": 1, "by": id_}, id_=id_) for id_ in ("a", "b")), sqs_record({"id": 2}))
    assert handler(event, counted.rig.context()) == failed("a")
    assert seen[:2] == ["a", "b"]


def test_what_follows_a_fenced_record_in_its_group_goes_back_with_it(counted: Counted) -> None:
    """A FIFO group has no holes: a record whose completion is refused late takes the rest back too."""
    first = fifo_record("a1", group="a", deduplication="a1", id_="a1")
    overslept: list[str] = []

    @counted.rig.once.sqs(name="n", lease=timedelta(seconds=12), raise_on_entire_batch_failure=False)
    def handler(record: SQSRecord) -> None:
        if record.body == "a1" and not overslept:
            overslept.append(record.body)
            counted.rig.clock.advance(13)
            with counted.rig.crash():
                handler(batch(first), counted.rig.context("request-2"))

    rest = [fifo_record(id_, group=id_[0], deduplication=id_, id_=id_) for id_ in ("a2", "b1")]
    assert handler(batch(first, *rest), counted.rig.context(seconds=60)) == failed("a1", "a2")
