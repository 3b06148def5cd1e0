"""
Kill a function's environment at a given step.

A killed environment writes nothing more: none of its ``except`` blocks, ``finally`` blocks or background
writes reaches the table. So after the crash every request to the store raises `Crash`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, get_args

from lambda_once.core.tenant import TENANCY
from lambda_once.engine.engine import Engine
from lambda_once.engine.finish import Finisher
from lambda_once.stores.contract import AcquireAnswer, Store, Won, WriteAnswer, Written
from lambda_once.testing.stores import overridden

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline
    from lambda_once.core.lifecycle import Record, State
    from lambda_once.core.writes import Acquire, Write
    from lambda_once.engine.finish import PreparedFinish
    from lambda_once.engine.ownership import Ownership

Step = Literal["acquire", "work", "complete"]


class Crash(BaseException):  # not an error that a handler may catch
    """The environment was killed. Handlers, batches and Event Handlers do not catch this `BaseException`."""


class Killed:
    """The environment that `crash_at` kills."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.tokens: tuple[str, ...] = ()
        """The tokens at *step*; in a batch, all that were acquired together. Empty before the crash."""
        self._lock = RLock()

    @property
    def token(self) -> str:
        """The token at the step. Raises ValueError if there were several, or none yet."""
        (token,) = self.tokens
        return token

    def check(self) -> None:
        """Raise `Crash` if the environment is dead."""
        if self.tokens:
            raise Crash(f"the environment was killed at {self.step!r}, with {', '.join(self.tokens)}")

    def come_to(self, step: Step, *tokens: str) -> None:
        """Kill the environment if *step* is the chosen one and has *tokens*; a dead one stays dead."""
        with self._lock:
            if step == self.step and tokens and not self.tokens:
                self.tokens = tokens
        self.check()


def crash_at(step: Step) -> AbstractContextManager[Killed]:
    """
    Simulate a crash of the environment when protected work next reaches *step*, and end the block there.

        with crash_at("work"):
            handler(event, lambda_context())            # the rest of the block is not run
        clock.advance(60)                               # the lease has expired
        handler(event, lambda_context())                # the next delivery, in a new environment

    * ``"acquire"``: the token is acquired (in a batch under take_over all of them), no work has begun.
    * ``"work"``: the work has run; its outcome is not written.
    * ``"complete"``: the outcome is written; the caller has no response.

    It applies to every Once of the process, plain or async, with any store. The block is an environment of
    its own, and so is what follows: no tenant was served before. Unfinished tokens stay in progress, with
    their lease. The block swallows the `Crash` and returns a `Killed`, whose ``token`` is the
    one at the step. Raises AssertionError if nothing reached *step*, and ValueError for an unknown step.

    Unlike in a real crash, ``finally`` blocks of the work run, metrics are flushed, and other running
    coroutines of a batch are cancelled.
    """
    if step not in get_args(Step):
        raise ValueError(f"unknown step {step!r}: crash_at takes {', '.join(map(repr, get_args(Step)))}")
    return _crash_at(step)


@contextmanager
def _crash_at(step: Step) -> Iterator[Killed]:
    killed = Killed(step)
    TENANCY.forget()
    finisher = partial(MortalFinisher, killed)
    with overridden(engine=lambda store, clock: Engine(MortalStore(store, killed), clock, finisher)):
        try:
            yield killed
        except Crash:
            if not killed.tokens:
                raise
        finally:
            TENANCY.forget()
    if not killed.tokens:
        raise AssertionError(
            f"nothing reached {step!r} in this block. Was the work a duplicate, is it protected, and did it "
            "end in the block?"
        )


class MortalStore:
    """A store in an environment that may be *killed*, after which it sends no requests."""

    def __init__(self, real: Store, killed: Killed) -> None:
        self.real = real
        self._killed = killed

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        self._killed.check()
        answers = self.real.acquire(acquisitions, deadline)
        won = [
            acquisition.token
            for acquisition, answer in zip(acquisitions, answers, strict=True)
            if isinstance(answer, Won)
        ]
        self._killed.come_to("acquire", *won)
        return answers

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        self._killed.check()
        return self.real.write(writes, deadline)

    def read(self, token: str, deadline: Deadline) -> Record | None:
        self._killed.check()
        return self.real.read(token, deadline)

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        self._killed.check()
        return self.real.chunks(record, deadline)

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        tokens = () if finish is None else (finish.token,)
        self._killed.come_to("work", *tokens)
        answer = self.real.transact(finish, items, deadline)
        if isinstance(answer, Written):
            self._killed.come_to("complete", *tokens)
        return answer

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        self._killed.check()
        return self.real.unfinished(state, deadline, before)


class MortalFinisher(Finisher):
    """
    Finishes attempts in an environment that may be killed.

    It dies in the thread of the work, before a batch's background writer receives the finish, so that the
    same records are affected each time.
    """

    def __init__(self, killed: Killed, *parts: Any) -> None:
        super().__init__(*parts)
        self._killed = killed

    def prepare_return(self, ownership: Ownership, value: Any, *, by_work: bool = False) -> PreparedFinish:
        return self._or_die(super().prepare_return(ownership, value, by_work=by_work))

    def prepare_error(self, attempt: Ownership, error: BaseException, value: Any = None) -> PreparedFinish:
        return self._or_die(super().prepare_error(attempt, error, value))

    def _or_die(self, finish: PreparedFinish) -> PreparedFinish:
        token = finish.ownership.token
        self._killed.come_to("work", token)
        if self._killed.step == "complete":
            (answer,) = self.store.write([finish.write], finish.ownership.call.invocation.deadline)
            if isinstance(answer, Written):
                self._killed.come_to("complete", token)
        return finish
