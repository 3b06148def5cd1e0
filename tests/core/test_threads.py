"""Calls that re-enter on a thread that has a lock: they work, or raise at once; none hangs."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lambda_once
from lambda_once import Once
from lambda_once.core.threads import Exclusive
from lambda_once.decorators.runtime import Runtime
from lambda_once.dynamodb import client, transport
from lambda_once.errors import OnceError, RetryLater
from lambda_once.observability import reporter as reporter_module
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Reporter
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.testing import MemoryStore

SOURCES = str(Path(lambda_once.__file__).parent)
LONGEST = 20.0


def in_time(work: Callable[[], Any]) -> Any:
    """Return what *work* returns, or fail after a minute: a hang of a thread cannot be ended."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  (raised again below)
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONGEST)
    assert results, "it hangs"
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def at_line(number: int, work: Callable[[], object], then: Callable[[], object]) -> bool:
    """Do *work*, and *then* at line *number* of the library, as a signal handler; return whether it came."""
    left = [number]

    def traced(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                then()
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return left[0] <= 0


def test_a_call_at_any_line_of_another_one_ends() -> None:
    """Both run once, or the one within raises what tells its caller to come later."""
    once = Once(store=MemoryStore(), service="s")
    runs: Counter[str] = Counter()
    errors: list[OnceError] = []

    @once.function(key="name", name="work")
    def work(name: str) -> str:
        runs[name] += 1
        return name

    def within(name: str) -> None:
        try:
            work(name)
        except OnceError as error:
            errors.append(error)

    def play() -> int:
        number = 0
        while True:
            number += 1
            outer, inner = f"outer {number}", f"inner {number}"
            if not at_line(number, partial(work, outer), partial(within, inner)):
                return number
            assert runs[outer] == 1
            work(inner)
            assert runs[inner] == 1

    lines = in_time(play)
    assert lines > 200
    assert {type(each) for each in errors} <= {RetryLater}
    assert len(errors) < lines / 10


@pytest.fixture
def reentered(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Have the client's creation call a protected function of the same Once."""
    results: list[object] = []
    once = Once(table="tokens", service="s")
    make = client.made_client
    runs: list[str] = []

    @once.function(key="name", name="work")
    def work(name: str) -> None:
        runs.append(name)

    def made(*arguments: Any) -> Any:
        try:
            work("inner")
        except OnceError as error:
            results.append(error)
        return make(*arguments)

    monkeypatch.setattr(transport, "made_client", made)
    with pytest.raises(OnceError):
        in_time(lambda: work("outer"))
    assert runs == []
    return results


def test_a_call_while_the_client_is_made_raises(reentered: list[Any]) -> None:
    """It would wait for itself; nothing ran."""
    (error,) = reentered
    assert isinstance(error, RetryLater)
    assert "is being made" in str(error)


def test_a_call_while_the_store_is_made_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the call that makes it goes on, as do later ones."""
    once = Once(store=MemoryStore(), service="s")
    real, runs = Runtime._real_store, list[str]()

    @once.function(key="name", name="work")
    def work(name: str) -> None:
        runs.append(name)

    def entered(runtime: Runtime) -> Any:
        with pytest.raises(RetryLater, match=r"store of tokens is being made on this thread"):
            work("inner")
        return real(runtime)

    monkeypatch.setattr(Runtime, "_real_store", entered)
    in_time(lambda: work("outer"))
    in_time(lambda: work("inner"))
    assert runs == ["outer", "inner"]


def test_other_threads_wait() -> None:
    """They get what the first one made."""
    lock, order, inside = Exclusive("the client"), list[str](), threading.Event()

    def second() -> None:
        inside.wait()
        with lock.alone():
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with lock.alone():
        inside.set()
        with pytest.raises(RetryLater, match="the client"), lock.alone():
            order.append("never")
        order.append("first")
    thread.join()
    with lock.alone():
        order.append("third")
    assert order == ["first", "second", "third"]


class Interrupt(Exception):
    """What a handler of SIGALRM raises."""


def test_what_a_signal_handler_raises_leaves_the_lock_free() -> None:
    """At each line of ours that taking it enters; taking and giving it back are the interpreter's."""
    lines = 0

    def work(lock: Exclusive) -> None:
        with lock.alone():
            pass

    def at(line: int, frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines == line:
            raise Interrupt
        return partial(at, line) if frame.f_code.co_name in ("alone", "check") else None

    for line in range(1, 100):
        lock, lines = Exclusive("the client"), 0
        sys.settrace(partial(at, line))
        try:
            work(lock)
        except Interrupt:
            pass
        else:
            break
        finally:
            sys.settrace(None)
        work(lock)
        in_time(partial(work, lock))
    assert 4 < line < 99


class Reporting:
    """A value whose hash reports, so that it is asked for within the reporter's lock."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def __hash__(self) -> int:
        self._reporter.is_first("within")
        return 5


def test_the_reporter_can_be_re_entered() -> None:
    """And what is asked within counts."""
    reporter = Reporter("s")
    assert in_time(lambda: reporter.is_first(Reporting(reporter)))
    assert reporter.was_asked("within")


@pytest.mark.parametrize("made", [reporter_module.Tally, lambda: Reporter("s")])
def test_locks_of_reports_are_re_entrant(made: Callable[[], Any]) -> None:
    """Whatever runs while one is held, on its thread."""
    part = made()

    def nested() -> bool:
        with part._lock:
            if isinstance(part, reporter_module.Tally):
                part.count("started")
                return part.drain() == {"started": 1}
            part.warn_once(Event.NO_SERVICE, "x")
            return True

    assert in_time(nested)


def test_a_revision_within_another_one_raises() -> None:
    """Two changes never have one timestamp."""
    prices = Ratchet("prices", object(), tombstone_ttl=timedelta(days=1))

    def nested() -> None:
        with prices._lock.alone(), pytest.raises(RetryLater, match="timestamp"):
            prices.revision()

    in_time(nested)
    assert prices.revision().stamp < prices.revision().stamp  # type: ignore[operator]  # both are numbers
