"""
A machine that is killed between two of its requests, wherever that is.

Killed before a request or after the one before it, it leaves the same behind: so the number of requests that
it could still send says it all. An effect on the world counts as one.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class Killed(BaseException):
    """The machine is gone; whatever still asks for something gets this."""


class Machine:
    """A machine that is killed once it has done *steps* steps; None: it lives. Safe from several threads."""

    def __init__(self, steps: int | None = None) -> None:
        self.dead = False
        self._left: Iterator[int] = itertools.count() if steps is None else iter(range(steps))
        self._lock = threading.Lock()

    def step(self, what: Callable[..., T], *args: Any, **arguments: Any) -> T:
        """Do *what*, a request or an effect. Raises `Killed` if the machine is dead, or dies now."""
        with self._lock:
            self.dead = next(self._left, None) is None
            if self.dead:
                raise Killed
            return what(*args, **arguments)

    def kill(self) -> NoReturn:
        """Kill the machine now. Raises `Killed`."""
        with self._lock:
            self._left = iter(())
            self.dead = True
        raise Killed

    def response(self, response: T) -> T:
        """Return *response* unless the machine is dead. Raises `Killed`."""
        if self.dead:
            raise Killed
        return response

    def client(self, client: Any) -> Any:
        """Return *client* on this machine: each request of it is a step."""
        return _Client(client, self)


class _Client:
    def __init__(self, client: Any, machine: Machine) -> None:
        self._client = client
        self._machine = machine

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found
        return lambda **arguments: self._machine.step(found, **arguments)


def each_death() -> Iterator[Machine]:
    """Yield machines that are killed after no step, after one …, and at last one that outlives its work."""
    for steps in itertools.count():
        machine = Machine(steps)
        yield machine
        if not machine.dead:
            return


def two_deaths() -> Iterator[tuple[Machine, Machine]]:
    """Yield each death of one machine, as `each_death` does, with each death of another one."""
    for first in itertools.count():
        one = Machine(first)
        for other in each_death():
            one = Machine(first)
            yield one, other
        if not one.dead:
            return
