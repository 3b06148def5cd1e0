"""`log="batch"`: one line `once.done` for each group of completions, written before the group is."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pytest

from lambda_once import HOLD, Misconfigured, Once
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Write
from lambda_once.engine import pipeline, waiting
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import MOST_IN_LINE, Details, Grouped, Reporter, Tally
from lambda_once.stores.contract import Store, Unanswered, WriteAnswer
from lambda_once.testing import kinesis_event, sqs_event
from tests.decorators.rig import Rig
from tests.kit.frail import FrailStore

Lines = list[logging.LogRecord]
LISTS = ("tokens", "attempts", "fences", "deliveries")


class Watched(FrailStore):
    """Notes which lines were logged when completions are written; may take none of the first ones."""

    lines: Callable[[], int] = lambda: 0
    unanswered = 0

    def __init__(self, sound: Store) -> None:
        super().__init__(sound)
        self.before: list[tuple[int, list[str]]] = []

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        self.before.append((self.lines(), [write.token for write in writes]))
        if self.unanswered:
            self.unanswered -= 1
            return [Unanswered("ThrottlingException")] * len(writes)
        return super().write(writes, deadline)


class Queue:
    """A function of records under `log="batch"`, and what came of it."""

    def __init__(self, caplog: pytest.LogCaptureFixture, **options: Any) -> None:
        caplog.set_level(logging.INFO)
        self._caplog = caplog
        self.rig = Rig()
        self.rig.use_store(Watched)
        assert isinstance(self.rig.store, Watched)
        self.store = self.rig.store
        self.store.lines = lambda: len(self.done)
        self.logger = logging.getLogger("batch")
        self.once = self.rig.new(logger=self.logger, **({"log": "batch"} | options))

    @property
    def done(self) -> Lines:
        return self.logged(Event.DONE)

    def logged(self, event: Event) -> Lines:
        return [record for record in self._caplog.records if record.getMessage() == event.value]

    def deliver(self, handler: Callable[..., Any], *keys: object, request: str = "r1") -> Any:
        event = sqs_event(*({"id": key} for key in keys), message_ids=[f"m{key}" for key in keys])
        return handler(event, self.rig.context(request))


@pytest.fixture(autouse=True)
def _company(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write waits for all: how many join it is no matter of chance."""
    monkeypatch.setattr(pipeline, "LINGER", 10)


@pytest.fixture
def queue(caplog: pytest.LogCaptureFixture) -> Queue:
    """Give one whose lines are kept from INFO on."""
    return Queue(caplog)


def works(_: object) -> None:
    """Do the work of a record: none."""


def fields(record: logging.LogRecord, *names: str) -> list[Any]:
    """Return the fields *names* of a line."""
    return [getattr(record, name) for name in names]


# ------------------------------------------------------------------ the line


def test_a_group_has_one_line_with_what_its_rows_need(queue: Queue) -> None:
    """Tokens, attempts, fences and deliveries in one order, and what all have in common."""
    queue.deliver(queue.once.sqs(name="charge", key="id")(works), 1, 2, 3)
    (line,) = queue.done
    rows = queue.rig.rows()
    assert fields(line, *LISTS) == [
        ["shop/charge/1", "shop/charge/2", "shop/charge/3"],
        [row.attempt_id for row in rows],
        [row.fence for row in rows],
        ["m1", "m2", "m3"],
    ]
    assert fields(line, "once_name", "locked_by") == ["charge", "orders/r1"]
    assert fields(line, "acquired", "expected_completion") == [
        "2026-11-20T10:12:00.000Z",
        "2026-11-20T10:12:32.000Z",
    ]
    assert not {"token", "attempt", "fence", "delivery", "seconds"} & vars(line).keys()


def test_it_is_logged_before_the_group_is_written(queue: Queue) -> None:
    """If the write never lands, the line is all that is known of the work (guarantee 5)."""
    with queue.rig.crash():
        queue.deliver(queue.once.sqs(name="charge", key="id")(works), 1, 2, 3)
    assert set(queue.rig.states()) == {State.IN_PROGRESS}
    (line,) = queue.done
    assert queue.store.before[0] == (1, line.tokens)  # type: ignore[attr-defined]


def test_by_default_each_record_has_its_line(caplog: pytest.LogCaptureFixture) -> None:
    """As under "record", with its duration."""
    for options in ({"log": "record"}, {}):
        caplog.clear()
        queue = Queue(caplog)
        queue.once = queue.rig.new(logger=queue.logger, **options)
        queue.deliver(queue.once.sqs(name="charge", key="id")(works), 1, 2)
        assert [fields(line, "token", "delivery", "seconds") for line in queue.done] == [
            ["shop/charge/1", "m1", 0.0],
            ["shop/charge/2", "m2", 0.0],
        ]


def test_a_decorator_decides_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    """Against `Once`, both ways."""
    queue = Queue(caplog)
    queue.deliver(queue.once.sqs(name="charge", key="id", log="record")(works), 1, 2)
    assert len(queue.done) == 2
    plain = queue.rig.new(logger=queue.logger)
    queue.deliver(plain.sqs(name="refund", key="id", log="batch")(works), 1, 2)
    assert len(queue.done) == 3


def test_one_record_has_its_own_line(queue: Queue) -> None:
    """Nothing is lost where there is nothing to put together: a batch of one, a group of one."""
    handler = queue.once.sqs(name="charge", key="id")(works)
    queue.deliver(handler, 1)
    queue.deliver(handler, 1, 2)
    assert [fields(line, "token", "seconds") for line in queue.done] == [
        ["shop/charge/1", 0.0],
        ["shop/charge/2", 0.0],
    ]


def test_all_other_events_keep_their_lines(queue: Queue) -> None:
    """Failures, holds and replays are no part of a group."""

    @queue.once.sqs(name="charge", key="id", on_error={KeyError: HOLD})
    def charge(record: Any) -> None:
        if record.json_body["id"] in errors:
            raise errors[record.json_body["id"]]

    errors: dict[int, Exception] = {2: ValueError(), 4: KeyError()}
    queue.deliver(charge, 1, 2, 3, 4, 5)
    queue.deliver(charge, 1, 3, request="r2")
    (line,) = queue.done
    assert fields(line, "deliveries") == [["m1", "m3", "m5"]]
    for event, deliveries in {
        Event.FAILED: ["m2", "m4"],
        Event.RELEASED: ["m2"],
        Event.HELD: ["m4"],
        Event.REPLAYED: ["m1", "m3"],
    }.items():
        assert [each.delivery for each in queue.logged(event)] == deliveries  # type: ignore[attr-defined]


def test_work_that_completes_itself_has_its_own_line(queue: Queue) -> None:
    """Its completion is in no group, and is not logged twice."""

    @queue.once.sqs(name="charge", key="id")
    def charge(record: Any) -> None:
        if record.json_body["id"] == 2:
            queue.once.current().complete()

    queue.deliver(charge, 1, 2, 3)
    assert sorted(str(vars(line).get("token") or vars(line)["tokens"]) for line in queue.done) == [
        "['shop/charge/1', 'shop/charge/3']",
        "shop/charge/2",
    ]


def test_a_completion_that_is_tried_again_is_not_logged_again(queue: Queue) -> None:
    """The first try has logged it."""
    queue.store.unanswered = 2
    queue.deliver(queue.once.sqs(name="charge", key="id")(works), 1, 2, 3)
    tokens = ["shop/charge/1", "shop/charge/2", "shop/charge/3"]
    assert [sent for _, sent in queue.store.before] == [tokens] * 3
    assert len(queue.done) == 1


def test_async_work_and_other_sources(queue: Queue) -> None:
    """Every batch has it: an async function, and a stream."""

    @queue.once.sqs(name="charge", key="id")
    async def charge(record: Any) -> None:
        pass

    queue.deliver(charge, 1, 2)
    stream = queue.once.kinesis(name="stream", key="id")(works)
    stream(kinesis_event({"id": 1}, {"id": 2}), queue.rig.context())
    assert [sorted(*fields(line, "tokens")) for line in queue.done] == [
        ["shop/charge/1", "shop/charge/2"],
        ["shop/stream/1", "shop/stream/2"],
    ]


def test_where_no_thread_starts(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is logged by whoever writes it."""

    def refuse(_: threading.Thread) -> NoReturn:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(waiting, "_kept", [])
    queue.deliver(queue.once.sqs(name="charge", key="id")(works), 1, 2)
    assert sum(len(vars(line).get("tokens", "1")) for line in queue.done) == 2
    assert set(queue.rig.states()) == {State.COMPLETE}


def test_hooks_see_each_record_when_it_is_done(queue: Queue) -> None:
    """The option is about lines: an audit by a hook misses nothing, and nothing comes twice."""
    queue.deliver(queue.once.sqs(name="charge", key="id")(works), 1, 2)
    done = [details for details in queue.rig.reported if details.event is Event.DONE]
    assert [(each.token, each.delivery, each.seconds) for each in done] == [
        ("shop/charge/1", "m1", 0.0),
        ("shop/charge/2", "m2", 0.0),
    ]


@pytest.mark.parametrize(("level", "lines"), [("WARNING", 1), ("ERROR", 0)])
def test_it_survives_warning(level: str, lines: int, queue: Queue) -> None:
    """As every line of work that is done."""
    queue.logger.setLevel(level)
    try:
        queue.deliver(queue.once.sqs(name="charge", key="id")(works), 1, 2)
    finally:
        queue.logger.setLevel(logging.NOTSET)
    assert [line.levelname for line in queue.done] == [level] * lines


# ------------------------------------------------------------------ what goes wrong


def test_a_logger_that_raises_loses_no_completion(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises: what is no Exception reaches the caller when all is written."""

    class Leaving(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == Event.DONE:
                raise SystemExit(3)

    monkeypatch.setattr(queue.logger, "handlers", [Leaving()])
    with pytest.raises(SystemExit):
        queue.deliver(queue.once.sqs(name="charge", key="id")(works), 1, 2)
    assert queue.rig.states() == [State.COMPLETE] * 2


@pytest.mark.parametrize("decorator", ["event", "function", "api_gateway", "route"])
def test_where_there_is_no_batch_it_is_refused(decorator: str) -> None:
    """`Once(log=…)` is for those of its decorators that have batches."""
    once = Once(table="tokens", log="batch")
    with pytest.raises(Misconfigured, match="unknown option log"):
        getattr(once, decorator)(log="batch")
    with pytest.raises(Misconfigured, match="unknown option log"):
        once.begin("k", log="batch")  # type: ignore[call-arg]


def test_its_words() -> None:
    """Two."""
    with pytest.raises(Misconfigured, match="log='lines': give one of record, batch"):
        Once(log="lines")  # type: ignore[arg-type]


# ------------------------------------------------------------------ its bound

LONGEST = "s" * 255 + "/" + "n" * 255 + "/" + "c" * 255 + "/" + "k" * 255


def test_a_line_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """At most 25 tokens a line, in order: far from the megabyte of a log event, and from its 200 fields."""
    caplog.set_level(logging.INFO)
    many = [
        Details(Event.DONE, f"{LONGEST}{n}", "n", "a" * 32, n, "f/r", delivery=f"m{n}")
        for n in range(2 * MOST_IN_LINE + 1)
    ]
    Reporter(logger=logging.getLogger("bounded")).log_grouped(many, Tally())
    first, second, last = caplog.records
    assert [*fields(first, "tokens")[0], *fields(second, "tokens")[0], fields(last, "token")[0]] == [
        each.token for each in many
    ]
    written = Grouped(many[:MOST_IN_LINE]).fields()
    assert len(json.dumps(written)) < 50_000
    assert sum(len(value) if isinstance(value, list) else 1 for value in written.values()) < 110


def test_the_order_of_the_lists_is_one() -> None:
    """Also where a record has no delivery."""
    two = [
        Details(Event.DONE, f"t{n}", attempt=f"a{n}", fence=n, delivery=d) for n, d in enumerate([None, "m"])
    ]
    assert Grouped(two).fields() == {
        "tokens": ["t0", "t1"],
        "attempts": ["a0", "a1"],
        "fences": [0, 1],
        "deliveries": [None, "m"],
    }
