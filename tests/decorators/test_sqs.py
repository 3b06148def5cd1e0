"""`once.sqs` on a standard queue, row by row of what becomes of a record."""

from __future__ import annotations

import asyncio
import inspect
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import HOLD, STORE, Misconfigured
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig, in_memory, on_every_store
from tests.decorators.worker import worker
from tests.sources.samples import QUEUE, batch, eventbridge, fifo_record, notification, sqs_record

ALL_WELL: dict[str, Any] = {"batchItemFailures": []}


class Declined(Exception):
    pass


def failed(*ids: str) -> dict[str, Any]:
    """The answer that returns *ids* to the queue."""
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in ids]}


def test_the_context_may_be_left_out(rig: Rig) -> None:
    """A function of the record alone is a handler too, and its context may be missing at the call."""
    seen: list[str] = []
    handler = rig.once.sqs(worker(seen))
    plain: Any = handler
    assert plain(batch(sqs_record("x", id_="a"))) == ALL_WELL
    assert seen == ["x"]


@on_every_store
def test_twins_share_the_outcome(rig: Rig) -> None:
    """Two records of one body are one piece of work, and both succeed."""
    seen: list[str] = []

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        seen.append(record.message_id)

    assert handler(batch(sqs_record("x", id_="a"), sqs_record("x", id_="b")), rig.context()) == ALL_WELL
    assert seen == ["a"]


def test_an_outcome_is_kept_for_two_weeks(rig: Rig) -> None:
    """A redelivery a second before is a duplicate, one a second after runs."""
    seen: list[str] = []
    handler = rig.once.sqs(worker(seen))
    for pause in (0, 14 * 24 * 3600 - 1, 2):
        rig.clock.advance(pause)
        assert handler(batch(sqs_record("x")), rig.context()) == ALL_WELL
    assert seen == ["x", "x"]


class Row(NamedTuple):
    """A batch of SQS, and what becomes of it."""

    records: list[dict[str, Any]]
    back: list[str]
    """The ids that go back to the queue."""
    ran: list[str]
    options: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    broken: str = ""
    """The body for which the function raises."""
    states: list[State] | None = None
    event: str | None = None
    """What is reported."""
    says: str = ""
    """Part of the reason that is reported."""


def _key(record: SQSRecord) -> object:
    if record.body == "x":
        raise ZeroDivisionError
    return record.body


def _grouped(id_: str, group: str, body: object) -> dict[str, Any]:
    return fifo_record(body, group=group, deduplication=id_, id_=id_)


def _fair(body: str) -> dict[str, Any]:
    """A record of a standard queue, which carries a group id for fairness."""
    record = sqs_record(body, id_=body)
    record["attributes"]["MessageGroupId"] = "a"
    return record


def _bad(body: object) -> dict[str, Any]:
    return sqs_record({} if body is None else body, id_="bad") | ({"body": None} if body is None else {})


def _without_ids(id_: str, body: str) -> dict[str, Any]:
    """A record of a FIFO queue without group and deduplication id, as a test may make it."""
    return sqs_record(body, id_=id_, eventSourceARN=f"{QUEUE}.fifo")


def _sent(id_: str, day: str, retries: int, by: str) -> dict[str, Any]:
    return sqs_record({"n": 1, "sentDate": day, "meta": {"retryCount": retries, "by": by}}, id_=id_)


X, Y = sqs_record("x", id_="a"), sqs_record("y", id_="b")
_ZENITH = {"tenant": {"stringValue": "zenith", "dataType": "String"}}
_TOO_DEEP, _NO_BODY = "Record bad has a body that is JSON nested too deeply", "Record bad has no text body"
_BAD: dict[str, tuple[Any, str]] = {
    "key missing": ({"n": 1}, ""),
    "no JSON": ("not json", ""),
    "null key": ({"id": None}, ""),
    "empty key": ({"id": ""}, ""),
    "too deep": ("[" * 100_000, _TOO_DEEP),
    "too deep in a notification": (notification("[" * 100_000), _TOO_DEEP),
    "no body": (None, _NO_BODY),
}
ROWS = {
    "twins share the failure": Row(
        [X, Y, sqs_record("x", id_="c")],
        back=["a", "c"],
        ran=["a", "b"],
        broken="x",
        states=[State.RELEASED, State.COMPLETE],
    ),
    "one key with two payloads is no twin": Row(
        [sqs_record({"id": 1, "is": "new"}, id_="a"), sqs_record({"id": 1, "is": "amended"}, id_="b")],
        back=["b"],
        ran=["a"],
        options={"key": "id"},
        event="once.key_reused",
    ),
    "a batch that failed whole may answer": Row(
        [X, sqs_record("x", id_="b", messageAttributes={})],
        back=["a", "b"],
        ran=["a", "b"],
        options={"raise_on_entire_batch_failure": False},
        broken="x",
    ),
    "scope keeps tenants apart": Row(
        [
            X,
            sqs_record("x", id_="b", messageAttributes=_ZENITH),
            sqs_record("x", id_="c", messageAttributes={}),
        ],
        back=["c"],
        ran=["a", "b"],
        options={"scope": "messageAttributes.tenant.stringValue"},
    ),
    "an id that failed twice is named once": Row([X, X, Y], back=["a"], ran=["a", "b"], broken="x"),
    "ignored fields do not count": Row(
        [_sent("a", "monday", 0, "x"), _sent("b", "tuesday", 1, "x"), _sent("c", "tuesday", 1, "y")],
        back=[],
        ran=["a", "c"],
        options={"ignore": ("sentDate", "meta.retryCount")},
    ),
    "ignored fields of an opened event do not count": Row(
        [
            sqs_record(eventbridge({"n": n, "sent": id_}), id_=id_)
            for id_, n in (("a", 1), ("b", 1), ("c", 2))
        ],
        back=[],
        ran=["a", "c"],
        options={"ignore": ("sent",)},
    ),
    "a deduplication id is the identity": Row(
        [fifo_record("x", deduplication=f"d-{n}", id_=id_) for id_, n in (("a", 1), ("b", 2), ("c", 1))],
        back=[],
        ran=["a", "b"],
    ),
    "a key that breaks": Row([X, Y], back=["a"], ran=["b"], options={"key": _key}),
    **{
        name: Row(
            [sqs_record({"id": 1}, id_="a"), _bad(body), sqs_record({"id": 2}, id_="c")],
            back=["bad"],
            ran=["a", "c"],
            options={"key": "id"},
            event="once.bad_record",
            says=says,
        )
        for name, (body, says) in _BAD.items()
    },
    "a bad record ends its group": Row(
        [
            _grouped("a1", "a", {"id": 1}),
            _grouped("a2", "a", {}),
            _grouped("a3", "a", {"id": 3}),
            _grouped("b1", "b", {"id": 4}),
        ],
        back=["a2", "a3"],
        ran=["a1", "b1"],
        options={"key": "id"},
    ),
    "a FIFO queue keeps its order without ids, by content": Row(
        [*map(_without_ids, "abcd", "yyxz")], back=["c", "d"], ran=["a", "c"], broken="x"
    ),
    "groups of a standard queue do not order": Row(
        [_fair("x"), _fair("y")], back=["x"], ran=["x", "y"], broken="x"
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_goes_back(rig: Rig, row: Row) -> None:
    """What failed, and in a group what follows; the rest is done, each piece of work once."""
    seen: list[str] = []

    @rig.once.sqs(**row.options)
    def handler(record: SQSRecord) -> None:
        seen.append(record.message_id)
        if record.body == row.broken:
            raise Declined

    assert handler(batch(*row.records), rig.context()) == failed(*row.back)
    assert seen == row.ran
    if row.states is not None:
        assert rig.states() == row.states
    if row.event is not None:
        (logged,) = [details for details in rig.reported if details.event == row.event]
        assert logged.delivery == row.back[0]
        assert logged.reason or row.event != "once.bad_record"
        assert row.says in str(logged.reason)


def test_a_batch_that_failed_whole_raises(rig: Rig) -> None:
    """Where every record failed the batch raises Powertools' error, and the causes are in it."""

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        raise Declined(record.body)

    with pytest.raises(BatchProcessingError) as raised:
        handler(batch(sqs_record("x", id_="a"), sqs_record("y", id_="b")), rig.context())
    assert [kind for kind, _, _ in raised.value.child_exceptions] == [Declined, Declined]


def test_when_time_runs_out_the_rest_goes_back(rig: Rig) -> None:
    """What has no time to start is returned with its token released, and runs at its next delivery."""
    seen: list[str] = []

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        seen.append(record.body)
        rig.clock.advance(10)

    records = [sqs_record(body, id_=body) for body in ("a", "b", "c", "d")]
    assert handler(batch(*records), rig.context(seconds=20.4)) == failed("c", "d")
    assert seen == ["a", "b"]
    assert rig.states() == [State.COMPLETE, State.COMPLETE, State.RELEASED, State.RELEASED]
    assert handler(batch(*records), rig.context("request-2", seconds=60)) == ALL_WELL
    assert seen == ["a", "b", "c", "d"]


def test_a_lease_is_renewed_before_a_late_start(rig: Rig) -> None:
    """A record that waited for its predecessors starts under a lease of its full length."""
    leases: list[float] = []

    @rig.once.sqs(lease=timedelta(seconds=12))
    def handler(record: SQSRecord) -> None:
        leases.append((rig.once.current().lease - rig.clock.now()).total_seconds())
        rig.clock.advance(11)

    assert handler(batch(sqs_record("a"), sqs_record("b")), rig.context(seconds=60)) == ALL_WELL
    assert leases == [12.0, 12.0]


def test_a_record_whose_lease_was_lost_does_not_start(rig: Rig) -> None:
    """Where another attempt took the token over meanwhile, the record is a duplicate of that attempt."""
    seen: list[str] = []
    second = sqs_record("b", id_="b")

    @rig.once.sqs(lease=timedelta(seconds=12))
    def handler(record: SQSRecord) -> None:
        seen.append(f"{record.body} by {rig.once._runtime.engine.clock.now():%S}")
        if record.body == "a":
            rig.clock.advance(13)
            handler(batch(second), rig.context("request-2"))

    event = batch(sqs_record("a", id_="a"), second)
    assert handler(event, rig.context(seconds=60)) == ALL_WELL
    assert seen == ["a by 00", "b by 13"]


def test_equal_content_in_two_deliveries_is_logged(rig: Rig) -> None:
    """A replay to another messageId is reported as a coincidence, with both ids; a redelivery is not."""

    @rig.once.sqs
    def handler(record: SQSRecord) -> None: ...

    handler(batch(sqs_record("x", id_="a")), rig.context())
    handler(batch(sqs_record("x", id_="a")), rig.context("request-2"))
    assert "once.same_content" not in rig.events()
    handler(batch(sqs_record("x", id_="b")), rig.context("request-3"))
    (logged,) = [details for details in rig.reported if details.event == "once.same_content"]
    assert (logged.delivery, logged.other_delivery) == ("b", "a")


# -- records that cannot be named, and work that failed for good


@pytest.mark.parametrize("message_id", [None, "", 5])
def test_a_record_without_an_id_fails_the_batch(rig: Rig, message_id: object) -> None:
    """Without messageId there's no id to return: the good record runs, and the whole batch is returned."""
    seen: list[str] = []
    broken = {"z"}
    handler = rig.once.sqs(worker(seen, broken))
    good = batch(sqs_record("y", id_="b"), sqs_record("z", id_="c"))
    event = batch(sqs_record("x", messageId=message_id), *good["Records"])
    assert handler(event, rig.context()) == failed("")
    (logged,) = [details for details in rig.reported if details.event == "once.bad_record"]
    assert "no messageId" in str(logged.reason)
    broken.clear()
    assert handler(good, rig.context("request-2")) == ALL_WELL
    assert seen == ["y", "z", "z"]


@pytest.mark.parametrize(
    ("options", "result", "answer", "state"),
    [
        ({"on_error": {Declined: HOLD}}, Declined(), failed("a"), State.HELD),
        ({"on_error": STORE}, Declined(), ALL_WELL, State.COMPLETE),
        ({}, object(), ALL_WELL, State.COMPLETE),
    ],
    ids=["HOLD", "STORE", "a result that is not JSON"],
)
def test_a_redelivery_is_answered_as_the_first(
    rig: Rig, options: Any, result: Any, answer: Any, state: State
) -> None:
    """HOLD is a failure: the message reaches the dead-letter queue. Everything stored is success."""
    seen: list[str] = []

    @rig.once.sqs(raise_on_entire_batch_failure=False, **options)
    def handler(record: SQSRecord) -> Any:
        seen.append(record.body)
        if isinstance(result, Exception):
            raise result
        return result

    event = batch(sqs_record("x", id_="a"))
    assert handler(event, rig.context()) == answer
    assert handler(event, rig.context("request-2")) == answer
    assert seen == ["x"]
    assert rig.row().state is state
    assert ("once.result_not_stored" in rig.events()) is (not isinstance(result, Exception))
    assert "once.result_unavailable" not in rig.events()


# -- a coroutine function: concurrent, and still a plain handler


def records(*bodies: str) -> dict[str, Any]:
    """A batch of *bodies*, each its own messageId."""
    return batch(*(sqs_record(body, id_=body) for body in bodies))


def test_the_handler_is_plain_and_the_records_run_at_once(rig: Rig) -> None:
    """Three records meet at one barrier, so they run concurrently; the redelivery runs none."""
    barrier = asyncio.Barrier(3)
    seen: list[str] = []

    @rig.once.sqs
    async def handler(record: SQSRecord, context: object) -> None:
        await asyncio.wait_for(barrier.wait(), 5)
        seen.append(record.body)

    assert not inspect.iscoroutinefunction(handler)
    assert handler(records("a", "b", "c"), rig.context()) == ALL_WELL
    assert handler(records("a", "b", "c"), rig.context("request-2")) == ALL_WELL
    assert sorted(seen) == ["a", "b", "c"]


def test_concurrency_is_bounded(rig: Rig) -> None:
    """No more than concurrency= records are in progress at one moment."""
    in_progress: set[str] = set()
    most: list[int] = []

    @rig.once.sqs(concurrency=2)
    async def handler(record: SQSRecord) -> None:
        in_progress.add(record.body)
        for _ in range(5):
            await asyncio.to_thread(int)
        most.append(len(in_progress))
        in_progress.remove(record.body)

    assert handler(records(*"abcdef"), rig.context()) == ALL_WELL
    assert max(most) == 2


def test_one_failure_leaves_the_others(rig: Rig) -> None:
    """A record that raises goes back alone."""
    handler = rig.once.sqs(worker([], {"b"}, is_async=True))
    assert handler(records("a", "b", "c"), rig.context()) == failed("b")


@on_every_store
def test_each_record_has_its_own_attempt(rig: Rig) -> None:
    """Concurrent records do not see each other's attempt."""
    tokens: dict[str, set[str]] = {}

    @rig.once.sqs(key=lambda record: record.body)
    async def handler(record: SQSRecord) -> None:
        for _ in range(3):
            tokens.setdefault(record.body, set()).add(rig.once.current().token)
            await asyncio.to_thread(int)

    handler(records("a", "b", "c"), rig.context())
    assert {body: {token.rpartition("/")[2] for token in found} for body, found in tokens.items()} == {
        "a": {"a"},
        "b": {"b"},
        "c": {"c"},
    }


@in_memory
def test_a_running_loop_is_refused_clearly(rig: Rig) -> None:
    """From inside an event loop nothing runs, and the error says how to call the handler there."""
    seen: list[str] = []
    handler = rig.once.sqs(worker(seen, is_async=True))

    async def wrongly() -> None:
        handler(records("a"), rig.context())

    async def rightly() -> Any:
        return await asyncio.to_thread(handler, records("a"), rig.context())

    with pytest.raises(Misconfigured, match=r"asyncio\.to_thread"):
        asyncio.run(wrongly())
    assert (seen, rig.rows()) == ([], [])
    assert asyncio.run(rightly()) == ALL_WELL
    assert seen == ["a"]


def test_the_loop_outlives_the_invocation(rig: Rig) -> None:
    """Clients that belong to a loop can be kept: the next invocation has the same one, after an exit too."""
    loops: list[object] = []

    @rig.once.sqs
    async def handler(record: SQSRecord) -> None:
        loops.append(asyncio.get_running_loop())
        if record.body == "b":
            raise SystemExit(1)

    handler(records("a"), rig.context())
    with pytest.raises(SystemExit):
        handler(records("b"), rig.context("request-2"))
    handler(records("c"), rig.context("request-3"))
    assert loops[0] is loops[1] is loops[2]


def test_system_exit_finishes_all_and_leaves_nothing_running(rig: Rig) -> None:
    """SystemExit in one record cancels the others: no token stays in progress, none goes on later."""
    went_on: list[str] = []

    @rig.once.sqs
    async def handler(record: SQSRecord) -> None:
        if record.body == "a":
            raise SystemExit(1)
        if record.body != "d":
            await asyncio.Event().wait()
        went_on.append(record.body)

    with pytest.raises(SystemExit):
        handler(records("a", "b", "c"), rig.context())
    assert rig.states() == [State.RELEASED] * 3
    assert handler(records("d"), rig.context("request-2")) == ALL_WELL
    assert went_on == ["d"]
