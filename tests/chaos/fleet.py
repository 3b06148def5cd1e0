"""The worker processes, and what invokes them: pollers, as Lambda has them for a queue."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from lambda_once.core.clock import SystemClock
from tests.chaos.deliveries import Message, Queue
from tests.chaos.handlers import REMAINING_MS

ROOT = Path(__file__).parents[2]
LATE_KILL = timedelta(seconds=0.7)
"""Standard sandboxes were seen killed so late after their time limit."""
LIMIT = timedelta(milliseconds=REMAINING_MS) + LATE_KILL
START_SECONDS = 30.0
STOP_SECONDS = 10.0
ENDED = object()
Answer = dict[str, Any]


class WorkerFailed(Exception):
    """A worker ended by itself. The message carries what it said."""


@dataclass(slots=True)
class Interrupted:
    """The pids of workers that were not left alone."""

    killed: set[int] = field(default_factory=set)
    timed_out: set[int] = field(default_factory=set)
    paused: set[int] = field(default_factory=set)

    def __contains__(self, pid: int) -> bool:
        return pid in self.killed or pid in self.timed_out or pid in self.paused


class Worker:
    """One place for a process: a killed one has a successor within milliseconds."""

    def __init__(self, log: Path, interrupted: Interrupted) -> None:
        self._interrupted = interrupted
        self._log = log
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._pid: int | None = None
        self._wakers: list[threading.Thread] = []
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self.paused = threading.Event()

    def start(self, options: dict[str, Any]) -> None:
        """Start the process, with the *options* of `worker`."""
        with self._log.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.worker", json.dumps(options)],
                cwd=ROOT,
                env=_without_settings() | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), name="chaos-reader")
        self._reader.start()

    # ---------------------------------------------------------------- what the proxy does to it

    def current(self) -> int | None:
        with self._lock:
            return self._pid

    def kill(self, pid: int | None) -> None:
        """Kill the worker *pid*, where it is still the one that runs."""
        if self._signal(pid, signal.SIGKILL) and pid is not None:
            self._interrupted.killed.add(pid)

    def pause(self, pid: int | None, seconds: float) -> None:
        """Let the worker *pid* stand still for *seconds*."""
        if self._signal(pid, signal.SIGSTOP) and pid is not None:
            self._interrupted.paused.add(pid)
            self.paused.set()
            waker = threading.Thread(target=self._wake, args=(pid, seconds), name="chaos-waker")
            self._wakers.append(waker)
            waker.start()

    def _wake(self, pid: int, seconds: float) -> None:
        self._ended.wait(seconds)
        self._signal(pid, signal.SIGCONT)
        self.paused.clear()

    def _signal(self, pid: int | None, number: signal.Signals) -> bool:
        """Send the signal to *pid* if it is the one that runs: its number may be another's by now."""
        with self._lock:
            if pid is None or pid != self._pid:
                return False
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            if number is signal.SIGKILL:
                self._pid = None
            return True

    # ---------------------------------------------------------------- what the poller does with it

    def wait_until_ready(self) -> None:
        """Return once it can take an order. Raises WorkerFailed where it cannot."""
        try:
            self._next(START_SECONDS)
        except queue.Empty:
            message = f"no worker was ready within {START_SECONDS:.0f} s"
            raise WorkerFailed(message) from None

    def invoke(self, number: int, work: dict[str, Any]) -> Answer | None:
        """
        Let it do *work*; return its answer, or None where it was killed over it.

        It is killed at the time limit, as Lambda does, but what stood still wakes up and goes on.
        """
        order = json.dumps({"order": number, **work})
        assert self._process is not None, "it was started"
        assert self._process.stdin is not None, "it was started with pipes"
        self._process.stdin.write(order.encode() + b"\n")
        self._process.stdin.flush()
        clock = SystemClock()
        limit = clock.now() + LIMIT
        while True:
            try:
                answer = self._next(0.1)
            except queue.Empty:
                if self.paused.is_set():
                    limit = clock.now() + LIMIT
                elif clock.now() > limit:
                    self._time_out()
                continue
            if "ready" in answer:
                return None
            if answer["order"] == number:
                return answer

    def _time_out(self) -> None:
        pid = self.current()
        if self._signal(pid, signal.SIGKILL) and pid is not None:
            self._interrupted.timed_out.add(pid)

    def stop(self) -> None:
        """Let it end after the order it has; kill it where it does not."""
        self._ended.set()
        for waker in self._wakers:
            waker.join()
        if self._process is None or self._reader is None:
            return
        assert self._process.stdin is not None, "it was started with pipes"
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._signal(self.current(), signal.SIGKILL)
            self._process.wait()
        self._reader.join()

    def _next(self, seconds: float) -> Answer:
        answer = self._answers.get(timeout=seconds)
        if answer is ENDED:
            message = f"a worker ended: {self._log.read_text(encoding='utf-8').strip()[-2000:]}"
            raise WorkerFailed(message)
        found: Answer = answer
        return found

    def _read(self, answers: IO[bytes]) -> None:
        with answers:
            for line in answers:
                answer = json.loads(line)
                if "ready" in answer:
                    with self._lock:
                        self._pid = answer["ready"]
                self._answers.put(answer)
        with self._lock:
            self._pid = None
        self._answers.put(ENDED)


def _without_settings() -> dict[str, str]:
    """Return the environment without what the package reads: a load must not be switched off by a shell."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LAMBDA_ONCE_")}


class Poller(threading.Thread):
    """Gives a worker what its queue has, until it is stopped. ``error`` is what it ended by."""

    def __init__(self, worker: Worker, messages: Queue) -> None:
        super().__init__(name="chaos-poller")
        self._worker = worker
        self._queue = messages
        self._clock = SystemClock()
        self.ready = threading.Event()
        self.stopping = threading.Event()
        self.invocations = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._worker.wait_until_ready()
            self.ready.set()
            while not self.stopping.is_set():
                received = self._queue.receive(self._clock.now())
                if received:
                    self._invoke(received)
                else:
                    self.stopping.wait(0.02)
        except Exception as error:  # noqa: BLE001  (a thread's error is raised where it is joined)
            self.error = error
            self.ready.set()

    def _invoke(self, received: list[Message]) -> None:
        self.invocations += 1
        fields = ("id", "key", "flaky", "receives", "group")
        listed = [{name: getattr(message, name) for name in fields} for message in received]
        answer = self._worker.invoke(self.invocations, {"lane": received[0].lane, "messages": listed})
        if answer is not None:
            self._queue.settle(received, set(answer["failed"]), set(answer["held"]), self._clock.now())
