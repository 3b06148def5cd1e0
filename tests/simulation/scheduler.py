"""
Threads of which exactly one runs at a time, in a time of their own: a seed decides, and nothing else.

Real threads carry the code under test, for it blocks where it is; one of them has its turn at a
time, and comes back at every sleep, every request, every wait. Time is whole milliseconds, and passes only
where everybody waits for it.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

W = TypeVar("W")
A = TypeVar("A")

_of_thread = threading.local()


def taken() -> threading.Lock:
    """Return a lock that one thread waits for and another releases: one hand-over is one release."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Killed(BaseException):
    """The sandbox is gone: nothing of its code runs on."""


@dataclass(eq=False)
class Sandbox:
    """One invocation's process: all its threads end together."""

    name: str
    skew: int = 0
    """Milliseconds by which its machine's clock is ahead of true time."""
    deadline: int = 0
    """When its time is up, by its own clock."""
    on_lapse: str = "take_over"
    dead: bool = False
    over: bool = False
    """It has answered."""
    tasks: list[Task] = field(default_factory=list)


class Task:
    """One thread that runs when it is its turn."""

    def __init__(self, scheduler: Scheduler, sandbox: Sandbox, work: Callable[[], object]) -> None:
        self.sandbox = sandbox
        self.scheduler = scheduler
        self.over = False
        self.turn = 0
        """Counts its waits: a wake-up that was meant for an earlier one is void."""
        self.waiters: list[Task] = []
        self.failure: BaseException | None = None
        self._work = work
        self._go = taken()
        self._started = False

    def resume(self) -> None:
        """Let it run until it waits; called with its turn, which is over on return."""
        self.turn += 1
        if self._started:
            self._go.release()
        else:
            self._started = True
            threading.Thread(target=self._run, name=self.sandbox.name, daemon=True).start()
        self.scheduler.back.acquire()

    def wait(self) -> None:
        """End the turn, and return at the next one. Raises `Killed` in a dead sandbox."""
        self.check()
        self.scheduler.back.release()
        self._go.acquire()
        self.check()

    def check(self) -> None:
        if self.sandbox.dead:
            raise Killed

    def _run(self) -> None:
        _of_thread.task = self
        try:
            self.check()
            self._work()
        except Killed:
            pass
        except BaseException as failure:  # noqa: BLE001  (raised by `Scheduler.run`, or where it is awaited)
            self.failure = failure
            self.scheduler.failures.append(failure)
        self.over = True
        for waiter in self.waiters:
            self.scheduler.wake(waiter)
        self.scheduler.back.release()


class Scheduler:
    """Decides who runs next: the earliest time first, and of equals the first request."""

    def __init__(self) -> None:
        self.now = 0
        """Milliseconds since the beginning."""
        self.back = taken()
        self.steps = 0
        self.failures: list[BaseException] = []
        """What ended a task that was not awaited: a mistake of the simulation, or of what it runs."""
        self._due: list[tuple[int, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def at(self, when: int, action: Callable[[], object]) -> None:
        """Do *action* at *when*, between the steps of all tasks."""
        heapq.heappush(self._due, (max(when, self.now), next(self._order), action))

    def start(self, sandbox: Sandbox, work: Callable[[], object]) -> Task:
        """Have *work* done in a thread of *sandbox*, from its next turn on."""
        task = Task(self, sandbox, work)
        sandbox.tasks.append(task)
        self.wake(task)
        return task

    def wake(self, task: Task, after: int = 0) -> None:
        """Let *task* go on after so many milliseconds, unless something else wakes it before."""
        turn = task.turn

        def go_on() -> None:
            if task.turn == turn and not task.over:
                task.resume()

        self.at(self.now + after, go_on)

    def pause(self, milliseconds: int) -> None:
        """Let the running task wait so long."""
        task = running()
        self.wake(task, milliseconds)
        task.wait()

    def kill(self, sandbox: Sandbox) -> None:
        """End *sandbox*: its tasks unwind, and reach nothing any more."""
        sandbox.dead = True
        for task in sandbox.tasks:
            if not task.over:
                self.wake(task)

    def run(self) -> None:
        """Go on until nothing is due."""
        while self._due:
            when, _, action = heapq.heappop(self._due)
            self.now = when
            self.steps += 1
            action()
        for failure in self.failures:
            raise failure


def running() -> Task:
    """Return the task whose turn it is."""
    task: Task = _of_thread.task
    return task


class Thread:
    """`threading.Thread`, as far as the package uses it."""

    def __init__(
        self, target: Callable[..., object], args: Iterable[Any] = (), daemon: bool | None = None
    ) -> None:
        del daemon
        self._work = lambda: target(*args)
        self._task: Task | None = None

    def start(self) -> None:
        task = running()
        task.check()
        self._task = task.scheduler.start(task.sandbox, self._work)

    def join(self) -> None:
        task = running()
        task.check()
        if self._task is not None and not self._task.over:
            self._task.waiters.append(task)
            task.wait()


class Condition:
    """`threading.Condition`: no other task runs while one is inside, so there is no lock to take."""

    def __init__(self) -> None:
        self._waiting: list[Task] = []

    def __enter__(self) -> None:
        running().check()

    def __exit__(self, *_: object) -> None:
        return

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until *predicate* holds, or *timeout* seconds have passed; return what it says then."""
        scheduler = running().scheduler
        ends = None if timeout is None else scheduler.now + max(1, round(timeout * 1000))
        while not (answer := predicate()):
            if ends is not None and scheduler.now >= ends:
                break
            self.wait(None if ends is None else (ends - scheduler.now) / 1000)
        return answer

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a call, or for *timeout* seconds; tell which it was."""
        task = running()
        if timeout is not None:
            task.scheduler.wake(task, max(1, round(timeout * 1000)))
        self._waiting.append(task)
        task.wait()
        if task not in self._waiting:
            return True
        self._waiting.remove(task)  # its time was over: a later call is not for it
        return False

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            task.scheduler.wake(task)


class Executor:
    """`ThreadPoolExecutor`, with a thread for each piece of work."""

    def __init__(self, *_: object, **__: object) -> None:
        return

    def submit(self, work: Callable[[], A]) -> Future[A]:
        """Have *work* begun, and return what waits for its result."""
        return Future(work)

    def map(self, work: Callable[[W], A], values: Iterable[W]) -> list[A]:
        """Do *work* for all of *values* at once, and return the results in their order."""
        begun = [Future(partial(work, value)) for value in values]
        return [future.result() for future in begun]


class Future(Generic[A]):
    """Work that was begun in a thread of its own."""

    def __init__(self, work: Callable[[], A]) -> None:
        def one() -> None:
            self._results.append(work())

        task = running()
        self._results: list[A] = []
        self._task = task.scheduler.start(task.sandbox, one)

    def result(self) -> A:
        """Return what came of it, once it is over. Raises what it raised."""
        task = running()
        task.check()
        if not self._task.over:
            self._task.waiters.append(task)
            task.wait()
        if self._task.failure is not None:
            task.scheduler.failures.remove(self._task.failure)
            raise self._task.failure
        return self._results[0]
