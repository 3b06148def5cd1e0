"""`once.kinesis` and `once.dynamodb_stream`: each record once, in its order, and nothing behind a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from lambda_once import HOLD, GiveUp, Held, InProgress, KeyMissing, Misconfigured
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.threads import run_coroutine
from lambda_once.core.writes import Release, Write
from lambda_once.engine import engine as acquiring
from lambda_once.engine import turns
from lambda_once.engine.lanes import Unbegun
from lambda_once.observability.events import Event
from lambda_once.sources import streams
from lambda_once.stores.contract import WriteAnswer
from lambda_once.testing import dynamodb_stream_event, kafka_event, kinesis_event
from tests.decorators.counted import Counted
from tests.decorators.rig import Rig, elsewhere, in_memory, on_every_store
from tests.decorators.worker import worker
from tests.kit.frail import FrailStore


def number(event: dict[str, Any], position: int) -> str:
    """The sequence number of the record at *position*."""
    record = event["Records"][position]
    found: str = (
        record["kinesis"]["sequenceNumber"] if "kinesis" in record else record["dynamodb"]["SequenceNumber"]
    )
    return found


def failed(event: dict[str, Any], position: int) -> dict[str, Any]:
    """The answer that names the record at *position*."""
    return {"batchItemFailures": [{"itemIdentifier": number(event, position)}]}


# ---------------------------------------------------------------- the order


def test_a_token_can_be_read() -> None:
    """An operator finds account, stream, shard and sequence number in it; never the region."""
    rig = Rig()
    event = kinesis_event("a", stream="orders", shard=7)
    rig.once.kinesis(name="work")(worker([]))(event, rig.context())
    stream = "123456789012%2Forders"
    assert rig.row().token == f"shop/work/{stream}%2FshardId-000000000007%3A{number(event, 0)}"
    assert rig.row().delivery == event["Records"][0]["eventID"]


def _stops(rig: Rig) -> None:
    seen: list[str] = []
    broken = {"b"}
    handler = rig.once.kinesis(worker(seen, broken))
    event = kinesis_event("a", "b", "c", partition_keys=["1", "2", "3"])
    with pytest.raises(ValueError, match="b"):
        handler(event, rig.context())
    assert seen == ["a", "b"]
    assert rig.states() == [State.COMPLETE, State.RELEASED, State.RELEASED]
    broken.clear()
    assert handler(event, rig.context("request-2")) is None
    assert seen == ["a", "b", "b", "c"]


def test_nothing_behind_a_failure_is_started(rig: Rig) -> None:
    """It raises the first error; what is behind it is released, and runs in its order next time."""
    _stops(rig)


def test_twin_that_goes_on_behind_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule the third record overtakes the second."""
    monkeypatch.setattr(turns, "skip_behind_failure", lambda *_: False)
    with pytest.raises(AssertionError):
        _stops(Rig())


@in_memory
def test_disabled_everything_runs_in_its_order(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is stored; a failure stops the order all the same."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    seen: list[str] = []
    handler = rig.once.kinesis(worker(seen, {"b"}))
    for _ in range(2):
        with pytest.raises(ValueError, match="b"):
            handler(kinesis_event("a", "b", "c"), rig.context())
    assert seen == ["a", "b", "a", "b"]
    assert rig.rows() == []


# ---------------------------------------------------------------- 25 ahead


def _poisoned(rig: Rig, records: int, decorator: str = "kinesis", build: Any = kinesis_event) -> None:
    seen: list[str] = []
    handler = getattr(rig.once, decorator)(worker(seen, {"0"}))
    with pytest.raises(ValueError, match="0"):
        handler(build(*map(str, range(records))), rig.context(seconds=900))
    assert seen == ["0"]
    assert rig.store.acquisitions <= 25


@in_memory
@pytest.mark.parametrize(("decorator", "build"), [("kinesis", kinesis_event), ("kafka", kafka_event)])
def test_a_poisonous_first_record_costs_one_window(rig: Rig, decorator: str, build: Any) -> None:
    """Of 10,000 records behind it 24 are acquired, and released."""
    _poisoned(rig, 10_000, decorator, build)
    assert rig.states() == [State.RELEASED] * 25


def test_twin_without_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred records are acquired, and released, at every try."""
    monkeypatch.setattr(streams, "MOST_AHEAD", 10_000)
    rig = Rig()
    with pytest.raises(AssertionError):
        _poisoned(rig, 1_000)
    assert rig.store.acquisitions == 100


@on_every_store
def test_a_batch_of_several_windows(rig: Rig) -> None:
    """A failure in the third one leaves what was before it done, and nothing behind it begun."""
    seen: list[str] = []
    handler = rig.once.kinesis(report_failures=True)(worker(seen, {"60"}))
    event = kinesis_event(*map(str, range(80)))
    assert handler(event, rig.context()) == failed(event, 60)
    assert seen == [str(n) for n in range(61)]
    assert len(rig.rows()) == 75


def test_a_window_costs_two_round_trips(counted: Counted) -> None:
    """One for the tokens of 25 records and one for their completions, or for what completed them before."""
    handler = counted.rig.once.kinesis(name="work")(lambda _record: None)
    event = kinesis_event(*map(str, range(50)))
    handler(event, counted.rig.context())
    assert counted.calls() == ["BatchExecuteStatement"] * 4
    handler(event, counted.rig.context("request-2"))
    assert counted.calls() == ["BatchExecuteStatement", "BatchGetItem"] * 2


# ---------------------------------------------------------------- in progress


def _waits(rig: Rig, **options: Any) -> list[str]:
    """An invocation that was killed holds its record for 12 s; the next one has a minute."""
    seen: list[str] = []
    handler = rig.once.kinesis(**options)(worker(seen))
    event = kinesis_event("a", "b")
    with rig.crash():
        handler(kinesis_event(), rig.context())
        handler({"Records": event["Records"][:1]}, rig.context("request-1", seconds=10))
    rig.clock.advance(1)
    handler(event, rig.context("request-2", seconds=60))
    assert 10 < rig.slept < 13
    return seen


def test_a_record_in_progress_is_waited_for(rig: Rig) -> None:
    """It is this mapping's own earlier try: its lease ends while time remains, and it runs again."""
    assert _waits(rig) == ["a", "a", "b"]


def test_twin_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused at once, the batch is delivered again and again until the lease is over."""
    monkeypatch.setattr(acquiring, "is_retry_of_own", lambda *_: False)
    with pytest.raises(InProgress):
        _waits(Rig())


@in_memory
def test_it_is_waited_for_under_hold(rig: Rig) -> None:
    """Then it is held, which is an answer; a failure for now would only be delivered again."""
    with pytest.raises(Held):
        _waits(rig, on_lapse="hold")


@in_memory
def test_a_record_that_is_in_progress_too_long_fails(rig: Rig) -> None:
    """The wait ends with the invocation, and nothing behind it was started."""
    seen: list[str] = []
    handler = rig.once.kinesis(report_failures=True)(worker(seen))
    event = kinesis_event("a", "b")
    with rig.crash():
        handler({"Records": event["Records"][:1]}, rig.context("request-1", seconds=100))
    assert handler(event, rig.context("request-2", seconds=20)) == failed(event, 0)
    assert seen == ["a"]
    assert 19 < rig.slept < 20
    assert rig.states() == [State.IN_PROGRESS, State.RELEASED]


def _frees(rig: Rig, *, is_async: bool) -> None:
    """Another invocation holds b while this one holds a and c; it completes b once c is free."""
    seen: list[bool] = []
    processed: list[str] = []

    def work(record: KinesisStreamRecord) -> None:
        processed.append(record.kinesis.data_as_json()["k"])

    async def awaited(record: KinesisStreamRecord) -> None:
        work(record)

    options: dict[str, Any] = {"key": "k", "name": "work", "concurrency": 1}
    handler = rig.once.kinesis(**options)(awaited if is_async else work)
    other = elsewhere(rig.once.begin("b", name="work").__enter__)

    def meanwhile(_seconds: float) -> None:
        c = elsewhere(rig.once.begin("c", name="work").__enter__)
        seen.append(c.replayed)
        elsewhere(c.complete)
        elsewhere(other.complete)

    rig.clock.while_asleep(meanwhile)
    event = kinesis_event(*({"k": key} for key in "abc"))
    assert handler(event, rig.context(seconds=60)) is None
    assert seen == [False]
    assert processed == ["a"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_waiting_job_holds_no_other_token(rig: Rig, is_async: bool) -> None:
    """Else two shards with records of the same keys could wait for each other until both are killed."""
    _frees(rig, is_async=is_async)


def test_twin_that_holds_what_it_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other invocation finds c in progress, though no work on it has begun."""
    monkeypatch.setattr(Unbegun, "unstarted", lambda _self: [])
    for is_async in (False, True):
        with pytest.raises(InProgress):
            _frees(Rig(), is_async=is_async)


class SlowToRelease(FrailStore):
    """Releases take so long that whatever need not wait for them comes first."""

    loop: asyncio.AbstractEventLoop | None = None

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if self.loop is not None and any(isinstance(write.change, Release) for write in writes):
            asyncio.run_coroutine_threadsafe(self._others(), self.loop).result()
        return super().write(writes, deadline)

    async def _others(self) -> None:
        for _ in range(20):
            await asyncio.to_thread(int)


@in_memory
def test_what_is_released_for_a_wait_is_acquired_again(rig: Rig) -> None:
    """Another key, about to begin, does not find its own acquisition, whose release is on its way."""
    rig.use_store(SlowToRelease)
    event = kinesis_event(*"abc", partition_keys=["1", "2", "3"])
    first = {"Records": event["Records"][:1]}

    @rig.once.kinesis(name="work")
    def killed(_record: KinesisStreamRecord) -> None: ...

    with rig.crash():
        killed(first, rig.context("request-1", seconds=10))
    seen: list[str] = []

    @rig.once.kinesis(name=killed)
    async def handler(record: KinesisStreamRecord) -> None:
        seen.append(record.kinesis.data_as_text())

    async def own_loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert isinstance(rig.store, SlowToRelease)
    rig.store.loop = run_coroutine(own_loop())
    handler(event, rig.context("request-2", seconds=60))
    assert sorted(seen) == ["a", "b", "c"]


@in_memory
def test_a_row_of_this_invocation_is_no_earlier_try(rig: Rig) -> None:
    """A record that delivers itself again inside would wait for itself: it is refused at once."""
    event = kinesis_event("a")

    def work(_record: KinesisStreamRecord) -> None:
        with pytest.raises(InProgress):
            elsewhere(handler, event, context)

    context = rig.context(seconds=60)
    handler = rig.once.kinesis(work)
    handler(event, context)
    assert rig.slept == 0


# ---------------------------------------------------------------- giving up


Parked = list[tuple[KinesisStreamRecord, GiveUp]]


def _parking(parked: Parked) -> Callable[[KinesisStreamRecord, GiveUp], None]:
    return lambda record, error: parked.append((record, error))


@in_memory
@pytest.mark.parametrize("is_async", [False, True])
def test_a_record_may_be_given_up(rig: Rig, is_async: bool) -> None:
    """What can never succeed is parked in its turn, is logged, and the shard goes on."""
    seen: list[str] = []
    parked: Parked = []
    work = worker(seen)

    async def awaited(record: KinesisStreamRecord) -> None:
        work(record)

    handler = rig.once.kinesis(on_give_up=_parking(parked))(awaited if is_async else work)
    event = kinesis_event("a", "b", "c")
    event["Records"][1]["kinesis"]["data"] = "%"
    assert handler(event, rig.context()) is None
    assert seen == ["a", "c"]
    ((record, error),) = parked
    assert record.kinesis.sequence_number == number(event, 1)
    assert "is not base64" in str(error)
    (logged,) = [details for details in rig.reported if details.event is Event.GIVEN_UP]
    assert (logged.delivery, logged.error) == (number(event, 1), "BadRecord")


class Order(BaseModel):
    id: int


@in_memory
def test_what_can_never_succeed(rig: Rig) -> None:
    """A model that does not fit, a reused key, a held token, and a GiveUp of the work itself."""
    parked: Parked = []

    def work(order: Order) -> None:
        if order.id == 1:
            raise ConnectionError
        if order.id == 2:
            raise GiveUp("never")

    options: dict[str, Any] = {"model": Order, "key": "id", "on_error": {ConnectionError: HOLD}}
    handler = rig.once.kinesis(on_give_up=_parking(parked), **options)(work)
    with pytest.raises(ConnectionError):
        handler(kinesis_event({"id": 1}), rig.context())
    handler(kinesis_event({"id": 3}), rig.context("request-2"))
    event = kinesis_event({"id": "x"}, {"id": 1}, {"id": 2}, {"id": 3, "more": True}, {"id": 4})
    assert handler(event, rig.context("request-3")) is None
    assert [type(error).__name__ for _, error in parked] == ["BadRecord", "Held", "GiveUp", "KeyReused"]
    assert [record.raw_event for record, _ in parked] == event["Records"][:4]
    assert rig.states()[-1] is State.COMPLETE


@in_memory
def test_a_record_that_cannot_be_parked_fails(rig: Rig) -> None:
    """What on_give_up raises is the record's error, and is logged with its traceback."""
    seen: list[str] = []

    def park(_record: KinesisStreamRecord, _error: GiveUp) -> None:
        raise ConnectionError("no queue")

    handler = rig.once.kinesis(on_give_up=park)(worker(seen))
    event = kinesis_event("a", "b")
    event["Records"][0]["kinesis"]["data"] = "%"
    with pytest.raises(ConnectionError):
        handler(event, rig.context())
    assert seen == []
    assert [details.error for details in rig.reported if details.event is Event.RAISED] == ["ConnectionError"]


@in_memory
def test_nothing_behind_a_failure_is_parked(rig: Rig) -> None:
    """It comes again, and is parked in its turn then."""
    parked: Parked = []
    handler = rig.once.kinesis(on_give_up=_parking(parked))(worker([], {"a"}))
    event = kinesis_event("a", "b")
    event["Records"][1]["kinesis"]["data"] = "%"
    with pytest.raises(ValueError, match="a"):
        handler(event, rig.context())
    assert parked == []


@in_memory
def test_a_mistake_is_never_given_up(rig: Rig) -> None:
    """A key= that raises is the developer's, and stops the shard: parked, every record would be."""
    parked: Parked = []
    options: dict[str, Any] = {"key": lambda record: record.no_such}
    handler = rig.once.kinesis(on_give_up=_parking(parked), **options)(worker([]))
    with pytest.raises(Misconfigured):
        handler(kinesis_event("a"), rig.context())
    assert parked == []


# ---------------------------------------------------------------- async


def test_partition_keys_run_at_once_each_in_its_order(rig: Rig) -> None:
    """The first records of three keys meet at one barrier; the second ones run behind them."""
    barrier = asyncio.Barrier(3)
    seen: list[str] = []

    @rig.once.kinesis
    async def handler(record: KinesisStreamRecord) -> None:
        await asyncio.wait_for(barrier.wait(), 5)
        seen.append(record.kinesis.data_as_text())

    texts = ["a1", "b1", "c1", "a2", "c2", "b2"]
    handler(kinesis_event(*texts, partition_keys=[text[0] for text in texts]), rig.context())
    assert sorted(seen[:3]) == ["a1", "b1", "c1"]
    assert sorted(seen[3:]) == ["a2", "b2", "c2"]


@in_memory
def test_one_at_a_time_is_the_order_of_the_shard(rig: Rig) -> None:
    """With concurrency=1 an async function runs as a plain one does."""
    seen: list[str] = []

    @rig.once.kinesis(concurrency=1)
    async def handler(record: KinesisStreamRecord) -> None:
        await asyncio.to_thread(int)
        seen.append(record.kinesis.data_as_text())

    handler(kinesis_event(*"abcd", partition_keys=["1", "2", "1", "2"]), rig.context())
    assert seen == ["a", "b", "c", "d"]


def _concurrent_failure(rig: Rig) -> None:
    """The first record of key a fails before the second of key b is begun."""
    seen: list[str] = []
    a_failed = asyncio.Event()

    @rig.once.kinesis(report_failures=True)
    async def handler(record: KinesisStreamRecord) -> None:
        text = record.kinesis.data_as_text()
        seen.append(text)
        if text == "a1":
            a_failed.set()
            raise ValueError
        await a_failed.wait()
        for _ in range(20):
            await asyncio.to_thread(int)

    event = kinesis_event("b1", "a1", "a2", "b2", partition_keys=["b", "a", "a", "b"])
    assert handler(event, rig.context()) == failed(event, 1)
    assert sorted(seen) == ["a1", "b1"]


@in_memory
def test_a_failure_stops_the_other_keys_behind_it(rig: Rig) -> None:
    """They come again in any case: the checkpoint is the one of the shard."""
    _concurrent_failure(rig)


def test_twin_that_orders_by_partition_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second record of the other key runs, behind the checkpoint."""
    monkeypatch.setattr(turns, "skip_behind_failure", _in_group)
    with pytest.raises(AssertionError):
        _concurrent_failure(Rig())


def _in_group(job: Any) -> bool:
    place = job.place
    failed = [each for failures in place.failures.values() for each in failures]
    return any(position < place.position and each.place.groups & place.groups for position, each in failed)


@in_memory
def test_a_bad_record_waits_for_its_turn(rig: Rig) -> None:
    """Of another key, it does not keep records before it from running."""
    seen: list[str] = []

    @rig.once.kinesis(report_failures=True)
    async def handler(record: KinesisStreamRecord) -> None:
        seen.append(record.kinesis.data_as_text())
        await asyncio.to_thread(int)

    event = kinesis_event("a1", "b1", "a2", partition_keys=["a", "b", "a"])
    event["Records"][1]["kinesis"]["data"] = "%"
    assert handler(event, rig.context()) == failed(event, 1)
    assert seen == ["a1"]


# ---------------------------------------------------------------- whatever fails


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    records=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.booleans()), min_size=1, max_size=40
    ),
    reports=st.booleans(),
    is_async=st.booleans(),
)
def test_order_is_kept_and_nothing_is_lost(
    records: list[tuple[str, int, bool]], reports: bool, is_async: bool
) -> None:
    """
    Each record of a partition key fails some times, by an exception or by a kill, and then succeeds once.

    Delivered as a mapping delivers it, from the checkpoint or whole, every record succeeds exactly once, and
    those of one key in their order: all of them, where the function is plain.
    """
    rig = Rig()
    left = {n: fails for n, (_, fails, _) in enumerate(records)}
    done: list[int] = []

    def work(record: KinesisStreamRecord) -> None:
        n = int(record.kinesis.data_as_text())
        if left[n]:
            left[n] -= 1
            raise SystemExit if records[n][2] else ValueError
        done.append(n)

    async def awaited(record: KinesisStreamRecord) -> None:
        await asyncio.to_thread(int)
        work(record)

    handler = rig.once.kinesis(report_failures=reports)(awaited if is_async else work)
    keys = [key for key, _, _ in records]
    pending = kinesis_event(*map(str, range(len(records))), partition_keys=keys)["Records"]
    for delivery in range(sum(left.values()) + 1):
        try:
            answer = handler({"Records": pending}, rig.context(f"request-{delivery}", seconds=60))
        except (ValueError, SystemExit):
            continue
        if not answer or not answer["batchItemFailures"]:
            break
        ((_, checkpoint),) = answer["batchItemFailures"][0].items()
        numbers = [record["kinesis"]["sequenceNumber"] for record in pending]
        pending = pending[numbers.index(checkpoint) :]
    assert sorted(done) == [*range(len(records))]
    if not is_async:
        assert done == sorted(done)
    for key in "abc":
        of_key = [n for n in done if keys[n] == key]
        assert of_key == sorted(of_key)


# ---------------------------------------------------------------- keys


CHANGES: list[tuple[Any, Any]] = [
    (None, {"id": 5, "total": 10, "tags": {"a", "b"}, "raw": b"\x00"}),
    ({"id": 5, "total": 10}, {"id": 5, "total": 12}),
    ({"id": 6}, None),
]


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("Keys.id", ["5", "6"]),
        ("eventName", ["INSERT", "MODIFY", "REMOVE"]),
        ("NewImage.total || to_string(`0`)", ["10", "12", "0"]),
        ("join('-', NewImage.tags || OldImage.tags || ['none'])", ["a-b", "none"]),
        ("NewImage.raw || eventName", ["AA%3D%3D", "MODIFY", "REMOVE"]),
    ],
)
def test_a_key_over_a_change(key: str, parts: list[str]) -> None:
    """Numbers are numbers for it, a set is a sorted list, and binary is base64."""
    rig = Rig()
    handler = rig.once.dynamodb_stream(key=key, name="work", fingerprint=False)(lambda _record: None)
    handler(dynamodb_stream_event(*CHANGES), rig.context())
    assert [row.token for row in rig.rows()] == [f"shop/work/{part}" for part in parts]


@in_memory
def test_a_lease_of_a_waiting_record_is_extended(rig: Rig) -> None:
    """While the first record runs long, the lease of those acquired ahead is over; they run all the same."""
    seen: list[str] = []

    def work(record: KinesisStreamRecord) -> None:
        seen.append(record.kinesis.data_as_text())
        rig.clock.advance(20)

    rig.once.kinesis(lease=timedelta(seconds=10))(work)(kinesis_event(*"abc"), rig.context(seconds=900))
    assert seen == ["a", "b", "c"]


# ---------------------------------------------------------------- in a function


@in_memory
@pytest.mark.parametrize(
    ("build", "kind", "key"),
    [
        (lambda: kinesis_event({"id": "5"}, {"id": "5"}), KinesisStreamRecord, "record.id"),
        (
            lambda: dynamodb_stream_event((None, {"id": "5"}), (None, {"id": "5"})),
            DynamoDBRecord,
            "record.NewImage.id",
        ),
    ],
)
def test_a_record_in_a_function_is_its_data_within_its_id(
    rig: Rig, build: Callable[[], dict[str, Any]], kind: type[Any], key: str
) -> None:
    """Equal records are separate calls, another role makes no other one, and key= selects from the data."""
    seen: list[str] = []
    work = rig.once.function(name="work")(lambda record: seen.append(record.event_id))
    keyed = rig.once.function(key=key, name="keyed")(lambda record: seen.append(f"of {record.event_id}"))
    one, other = build()["Records"]
    again = one | {"invokeIdentityArn": "arn:aws:iam::123456789012:role/renamed", "eventVersion": "2"}
    for raw in (one, other, again):
        work(kind(raw))
        keyed(kind(raw))
    assert seen == [one["eventID"], f"of {one['eventID']}", other["eventID"]]


@in_memory
def test_ignored_fields_of_a_record_in_a_function_are_those_of_its_data(rig: Rig) -> None:
    """They are no part of the call; the others are, and a record that cannot be read is its raw event."""
    seen: list[object] = []
    work = rig.once.function(name="work", ignore=["record.sent"])(
        lambda record, step: seen.append((record.kinesis.data, step))
    )
    (raw,) = kinesis_event({"id": 5, "sent": 1})["Records"]
    (resent,) = kinesis_event({"id": 5, "sent": 2})["Records"]
    resent["eventID"] = raw["eventID"]
    (unreadable,) = kinesis_event("")["Records"]
    unreadable["kinesis"]["data"] = "no base64"
    for each in (raw, resent, unreadable, unreadable):
        for step in (1, 2):
            work(KinesisStreamRecord(each), step)
    assert seen == [(each["kinesis"]["data"], step) for each in (raw, unreadable) for step in (1, 2)]


@pytest.mark.parametrize("field", ["Keys", "NewImage", "OldImage"])
@pytest.mark.parametrize("levels", [500, 1_200, 20_000])
def test_a_change_that_is_nested_too_deeply_fails_alone(rig: Rig, field: str, levels: int) -> None:
    """No table has it: DynamoDB nests 32 levels. The records before it are done, and it is handed back."""
    event = dynamodb_stream_event(*(({"id": f"{n}"}, {"id": f"{n}"}) for n in range(3)))
    value: Any = {"S": "x"}
    for _ in range(levels):
        value = {"M": {"a": value}}
    change = event["Records"][1]["dynamodb"]
    change[field] = {**change[field], "deep": value}
    done: list[str] = []

    @rig.once.dynamodb_stream
    def handler(record: Any) -> None:
        done.append(record.raw_event["dynamodb"]["Keys"]["id"]["S"])

    with pytest.raises(
        KeyMissing, match=f"Record {change['SequenceNumber']} has (no Keys|an item that is nested)"
    ):
        handler(event, rig.context())
    assert done == ["0"]


def test_a_change_as_deep_as_dynamodb_allows_is_done(rig: Rig) -> None:
    """32 levels (DynamoDB developer guide, "Quotas")."""
    item: Any = {"id": "5"}
    deep: Any = item
    for _ in range(31):
        deep["a"] = {}
        deep = deep["a"]
    done: list[object] = []

    @rig.once.dynamodb_stream
    def handler(record: Any) -> None:
        done.append(record)

    handler(dynamodb_stream_event((None, item)), rig.context())
    assert len(done) == 1
