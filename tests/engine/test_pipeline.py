"""The group commit of a batch: what is written together, what may start meanwhile, and the callbacks."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import pytest

from lambda_once import STORE, Fenced
from lambda_once.core import threads
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Write
from lambda_once.engine import pipeline as module
from lambda_once.engine.attempt import Attempt
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.pipeline import MOST_COMPLETIONS, OLDEST, Pipeline, Writer
from lambda_once.stores.contract import Store, Unanswered, WriteAnswer
from tests.decorators.rig import Rig
from tests.kit.frail import FrailStore

PATIENCE = 10
"""Seconds after which somebody who should have come by now is missed."""
LEASE = timedelta(seconds=30)

where: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="nowhere")


class Gated(FrailStore):
    """Every write says which keys it has, and stays on its way until it is let through."""

    def __init__(self, sound: Store) -> None:
        super().__init__(sound)
        self.on_their_way: queue.Queue[list[str]] = queue.Queue()
        self.gate = threading.Semaphore(0)
        self.throttles = 0
        """How many of the next writes the table does not take."""
        self.breaks = False
        self.sent_from: list[str] = []

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        self.sent_from.append(where.get())
        self.on_their_way.put([write.token.rpartition("/")[2] for write in writes])
        assert self.gate.acquire(timeout=PATIENCE), "the gate did not open"
        if self.breaks:
            raise ZeroDivisionError
        if self.throttles:
            self.throttles -= 1
            return [Unanswered("ThrottlingException")] * len(writes)
        return super().write(writes, deadline)


class Line:
    """A pipeline with a gate at its end, and work whose endings go into it."""

    def __init__(self, expected: int = 100) -> None:
        self.rig = Rig()
        self.rig.use_store(Gated)
        assert isinstance(self.rig.store, Gated)
        self.store = self.rig.store
        self.answered: dict[str, BaseException | None] = {}
        self.finisher = self.rig.once._runtime.engine.finisher
        deadline = Deadline(self.rig.clock, self.rig.clock.now() + timedelta(seconds=60))
        self.pipeline = Pipeline(self.finisher, deadline, expected)

    def begin(self, key: str) -> Ownership:
        """Start work under *key*."""
        begin = self.rig.once.begin(key, name="charge", lease=LEASE, on_error=STORE)
        attempt = contextvars.copy_context().run(begin.__enter__)
        assert isinstance(attempt, Attempt)
        return attempt._ownership

    def end(self, *keys: str) -> None:
        """Let work under each of *keys* begin and be done."""
        for key in keys:
            self.submit(key, self.begin(key))

    def submit(self, key: str, attempt: Ownership) -> None:
        finish = self.finisher.prepare_return(attempt, key)
        self.pipeline.submit(finish, lambda error: self.answered.update({key: error}))

    def on_its_way(self) -> list[str]:
        """The keys of the write that is on its way; waits for one."""
        return self.store.on_their_way.get(timeout=PATIENCE)

    def let_through(self, many: int = 1) -> None:
        self.store.gate.release(many)

    def close(self) -> None:
        self.let_through(1_000)
        self.pipeline.close()

    def states(self) -> set[State]:
        return set(self.rig.states())


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """A pipeline that does not linger: its first write is of one ending."""
    monkeypatch.setattr(module, "LINGER", 0)
    line = Line()
    yield line
    line.close()


# ------------------------------------------------------------------ what is written together


def test_what_ended_meanwhile_goes_out_in_the_next_write(line: Line) -> None:
    """While one write is on its way endings gather, and all of them go together."""
    line.end("a")
    assert line.on_its_way() == ["a"]
    line.end("b", "c", "d")
    line.let_through()
    assert line.on_its_way() == ["b", "c", "d"]
    line.end("e")
    line.let_through()
    assert line.on_its_way() == ["e"]
    line.close()
    assert line.states() == {State.COMPLETE}


def test_a_write_takes_no_more_than_a_call_does(line: Line) -> None:
    """The 26th ending is the first of another write."""
    keys = [f"{n:02}" for n in range(MOST_COMPLETIONS + 1)]
    line.end("a")
    line.on_its_way()
    line.end(*keys)
    line.let_through(2)
    assert line.on_its_way() == keys[:MOST_COMPLETIONS]
    assert line.on_its_way() == keys[MOST_COMPLETIONS:]


def test_the_first_write_waits_for_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that end in the time it lingers are one write; it goes as soon as it is full."""
    monkeypatch.setattr(module, "LINGER", PATIENCE * 100)
    keys = [f"{n:02}" for n in range(MOST_COMPLETIONS)]
    line = Line()
    line.end(*keys[:-1])
    assert line.store.on_their_way.empty()
    line.end(*keys[-1:])
    assert line.on_its_way() == keys
    line.close()


def test_the_first_write_waits_no_longer_than_it_lingers() -> None:
    """Though the next record take for ever."""
    line = Line()
    line.end("a")
    assert line.on_its_way() == ["a"]
    line.close()


def test_who_waits_for_all_to_be_written_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing joins what it waits for: it writes in place of the thread that lingers."""
    monkeypatch.setattr(module, "LINGER", PATIENCE * 100)
    line = Line()
    line.end("a")
    line.let_through()
    assert line.pipeline.wait(written=True)
    assert (line.on_its_way(), line.answered) == (["a"], {"a": None})
    line.end("b")
    line.close()
    assert line.answered == {"a": None, "b": None}


def test_a_thread_is_kept_for_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """To start one costs more than to wake it; two batches at once have two."""
    kept: list[object] = []
    starts: list[threading.Thread] = []
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        starts.append(thread)
        real(thread)

    monkeypatch.setattr(module, "LINGER", 0)
    monkeypatch.setattr(threads, "_kept", kept)
    monkeypatch.setattr(threading.Thread, "start", start)
    for many, started in ((1, 1), (1, 1), (2, 2), (2, 2)):
        lines = [Line() for _ in range(many)]
        for line in lines:
            line.end("a")
            assert line.on_its_way() == ["a"]
        for line in lines:
            line.close()
        _until(lambda: len(kept) == started)  # noqa: B023  (called at once)
        assert len(starts) == started


def test_of_two_that_linger_one_writes() -> None:
    """The first woke late, when the pipeline had a thread again: two would not wait for each other."""
    line = Line(expected=0)
    line.pipeline._writer = Writer.LINGERS
    assert [line.pipeline._linger(), line.pipeline._linger()] == [True, False]


def _until(holds: Callable[[], bool]) -> None:
    patience = threading.Event()
    assert any(holds() or patience.wait(0.01) for _ in range(PATIENCE * 100))


def test_the_first_write_does_not_wait_for_those_who_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of the batch it goes with what there is."""
    monkeypatch.setattr(module, "LINGER", PATIENCE * 100)
    line = Line(expected=3)
    line.end("a", "b")
    line.close()
    assert line.on_its_way() == ["a", "b"]
    assert line.answered == {"a": None, "b": None}


# ------------------------------------------------------------------ what may start meanwhile


def test_nothing_starts_while_a_completion_is_older_than_a_second(line: Line) -> None:
    """To the millisecond, and again once it is written."""
    assert line.pipeline._may_start()
    line.end("a")
    line.on_its_way()
    line.rig.clock.advance(OLDEST)
    assert line.pipeline._may_start()
    line.rig.clock.advance(0.001)
    assert not line.pipeline._may_start()
    line.let_through()
    line.pipeline.wait()
    assert line.pipeline._may_start()


def test_an_ending_that_waits_for_its_write_grows_old_too(line: Line) -> None:
    """Its age counts from its own end, through the write before it."""
    line.end("a")
    line.on_its_way()
    line.rig.clock.advance(0.5)
    line.end("b")
    line.rig.clock.advance(0.5)
    line.let_through()
    assert line.on_its_way() == ["b"]
    assert line.pipeline._may_start()
    line.rig.clock.advance(0.501)
    assert not line.pipeline._may_start()


def test_nothing_starts_while_a_completion_is_tried_again(line: Line) -> None:
    """However young it is; a write that succeeded at once delays nothing."""
    line.store.throttles = 1
    line.end("a")
    line.on_its_way()
    assert line.pipeline._may_start()
    line.let_through()
    assert line.on_its_way() == ["a"]
    assert sum(line.rig.clock.slept) < OLDEST
    assert not line.pipeline._may_start()
    line.end("b")
    line.let_through()
    assert line.on_its_way() == ["b"]
    assert line.pipeline._may_start()


def test_who_waits_is_let_in_when_it_is_written(line: Line) -> None:
    """A record that asks meanwhile starts after the write, and not before."""
    order: list[str] = []
    asking = threading.Event()

    def record() -> None:
        asking.set()
        line.pipeline.wait()
        order.append("started")

    line.end("a")
    line.on_its_way()
    line.rig.clock.advance(OLDEST + 1)
    thread = threading.Thread(target=record)
    thread.start()
    assert asking.wait(PATIENCE)
    order.append("let through")
    line.let_through()
    thread.join(PATIENCE)
    assert order == ["let through", "started"]


# ------------------------------------------------------------------ callbacks


def test_all_is_written_and_told_when_it_is_closed(line: Line) -> None:
    """What was on its way and what was waiting: nothing is left in progress behind the batch."""
    line.end("a")
    line.on_its_way()
    line.end("b", "c")
    line.close()
    assert line.answered == {"a": None, "b": None, "c": None}
    assert line.states() == {State.COMPLETE}
    assert line.rig.events().count("once.completed") == 3


def test_a_batch_without_endings_writes_nothing() -> None:
    """Ten duplicates cost no thread."""
    line = Line()
    before = threading.active_count()
    line.pipeline.wait()
    assert threading.active_count() == before
    line.pipeline.close()
    assert line.store.on_their_way.empty()


def _taken_over(line: Line, key: str) -> Ownership:
    """An attempt lapses while it is at work, and another one takes its token; returned is the sleeper."""
    sleeper = line.begin(key)
    line.rig.clock.advance(LEASE.total_seconds() + 1)
    line.begin(key)
    return sleeper


def test_who_was_fenced_is_told_so_and_nobody_else_is(line: Line) -> None:
    """One that lost its token to an attempt at work gets what its caller would get."""
    sleeper = _taken_over(line, "b")
    line.end("a")
    line.on_its_way()
    line.submit("b", sleeper)
    line.end("c")
    line.close()
    assert isinstance(line.answered["b"], Fenced)
    assert (line.answered["a"], line.answered["c"]) == (None, None)
    assert line.rig.states() == [State.IN_PROGRESS, State.COMPLETE, State.COMPLETE]


def test_what_cannot_be_written_is_no_failure_of_the_work(line: Line) -> None:
    """The work is done: its token is left to lapse, and that is an error in the log."""
    line.store.loses_ends = True
    line.end("a", "b")
    line.close()
    assert line.answered == {"a": None, "b": None}
    assert line.rig.events().count("once.completion_failed") == 2


def test_a_store_that_breaks_is_one_that_has_not_answered(line: Line) -> None:
    """No job waits for ever, and what comes after it is written."""
    line.store.breaks = True
    line.end("a")
    line.on_its_way()
    line.end("b")
    line.let_through()
    assert line.on_its_way() == ["b"]
    line.store.breaks = False
    line.close()
    assert line.answered == {"a": None, "b": None}
    assert line.rig.events().count("once.completion_failed") == 1
    assert sorted(row.state.value for row in line.rig.rows()) == ["complete", "inProgress"]


def test_writes_are_sent_from_the_invocations_context(line: Line) -> None:
    """Log keys and the like that the batch has set are set where its callbacks run."""
    token = where.set("in the invocation")
    line.end("a")
    line.on_its_way()
    where.reset(token)
    assert line.store.sent_from == ["in the invocation"]
