"""
The attempt as the protected work sees it.

The current one is a context variable, so each task and thread of the work has its own. Async methods exist
beside plain ones because the work chooses: a plain method called on an event loop blocks it, and we can't
tell whether that was meant.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import Waits, through, to_milliseconds
from lambda_once.core.context import ATTEMPTS, Running
from lambda_once.core.keys import downstream
from lambda_once.engine.waiting import off_loop, uncancelled
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lambda_once.engine.finish import Finisher
    from lambda_once.engine.ownership import Ownership


class Attempt:
    """
    The attempt that is running, as `Once.current` returns it.

    ``token`` is the lock token, ``id`` the attempt's random id, and ``created`` the time of the acquisition,
    an aware datetime. ``replayed`` is False, and ``result`` is None.
    """

    replayed = False
    result: Any = None

    def __init__(self, ownership: Ownership, finisher: Finisher) -> None:
        self._ownership = ownership
        self._finisher = finisher

    @property
    def token(self) -> str:
        return self._ownership.token

    @property
    def id(self) -> str:
        return self._ownership.attempt_id

    @property
    def created(self) -> datetime:
        return self._ownership.created

    @property
    def lease(self) -> datetime:
        """The time until which the attempt is assumed to be alive, an aware datetime."""
        return self._ownership.lease

    @property
    def fence(self) -> int:
        """Fencing token: larger than that of every earlier attempt, for systems that reject older ones."""
        return self._ownership.fence

    def downstream_key(self, label: str = "") -> str:
        """
        Return an idempotency key for a downstream system: 64 hex digits.

        It is the same for every attempt until the token is complete, and different for each *label*. After
        ``keep``, the same key is new work and gets another downstream key.

        Raises `Misconfigured` once the attempt is over, as `extend` and `complete` do: what outlives it, such
        as a background task, would use the key of this work for other work.
        """
        self._check_running()
        return downstream(self.token, self._ownership.generation, label)

    def extend(self, seconds: float) -> None:
        """
        Extend the lease to *seconds* from now; it never becomes shorter.

        Raises `Fenced` if another attempt has the token (stop the work), `StoreUnavailable` if the table does
        not respond, and `Misconfigured` if *seconds* is not positive or the attempt is over.
        """
        self._check_running()
        if not seconds > 0:
            message = f"extend takes a positive number of seconds, not {seconds!r}"
            raise Misconfigured(message, token=self.token)
        lease = to_milliseconds(self._finisher.clock.now() + timedelta(seconds=seconds))
        self._finisher.extend(self._ownership, lease)

    async def aextend(self, seconds: float) -> None:
        """Do what `extend` does, off the event loop."""
        await off_loop(self.extend, seconds)

    def complete(self, result: Any = None) -> Any:
        """
        Complete the token with *result* now, and return it as every duplicate will get it.

        The outcome is final, whatever the rest of the work does. Raises `Fenced` if another attempt has the
        token and is in progress; if that attempt is complete, returns its outcome. Waits for a transaction
        that is being sent, and returns its result if it was written. Raises `Misconfigured` once the attempt
        is over.
        """
        self._check_running()
        return through(self._completing(result), self._finisher.clock)

    def _completing(self, result: Any) -> Waits[Any]:
        ownership, finisher = self._ownership, self._finisher
        if ownership.completed is None:
            finisher.await_transaction(ownership)
        if ownership.completed is None:
            ownership.completed = (
                (yield from finisher.finish(finisher.prepare_return(ownership, result, by_work=True))),
            )
            ownership.call.invocation.tally.raise_interruption()
        return ownership.completed[0]

    async def acomplete(self, result: Any = None) -> Any:
        """Do what `complete` does, off the event loop. A cancellation takes effect after it has finished."""
        self._check_running()
        return await uncancelled(self._finisher.off_loop(self._ownership, self._completing(result)))

    def transact(self, items: Sequence[Mapping[str, Any]], result: Any = None) -> Any:
        """
        Write *items* and the completion of this token with *result* in one TransactWriteItems.

        *items* are DynamoDB writes for the low-level client (``{"Put": {…}}``), at most 99 and 4 MB in all
        (DynamoDB's limits, less the token's own item). Returns *result* as every duplicate will get it. The
        outcome is final, whatever the function raises or returns.

        Raises `Fenced`, with nothing written, if the token was taken over; botocore's
        ``TransactionCanceledException`` if a condition of *items* fails, with reasons in the order of
        *items*; `StoreUnavailable` if it is unknown whether it was written; `Misconfigured`, with nothing
        written, for an item that isn't in DynamoDB's form (the message has its path), for a second call, and
        after the work has returned, raised or called `complete`.
        """
        sending = self._ownership.begin_transaction()
        try:
            return self._finisher.transact(self._ownership, items, result)
        finally:
            sending.end()

    async def atransact(self, items: Sequence[Mapping[str, Any]], result: Any = None) -> Any:
        """Do what `transact` does, off the event loop."""
        return await off_loop(self.transact, items, result)

    def _check_running(self) -> None:
        """Raise `Misconfigured` if its work is over: a task or thread that outlives it still holds it."""
        if self._ownership.over:
            message = f"the attempt of token {self.token} is over: ask in the handler and pass the value on"
            raise Misconfigured(message, token=self.token)


_current: ContextVar[tuple[Attempt, ...]] = ContextVar("lambda_once_attempt", default=())
"""The attempts in which this code was started, innermost last."""


def current_attempt() -> Attempt:
    """
    Return the attempt of the innermost protected work.

    Raises `Misconfigured` outside of it, and in a task or thread that was started in it and outlives it.
    """
    attempts = _current.get()
    if not attempts:
        message = "once.current() works only inside protected work; no decorated function is running here"
        raise Misconfigured(message)
    attempts[-1]._check_running()  # noqa: SLF001  (of this module)
    return attempts[-1]


def _running(attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    return tuple(attempt for attempt in attempts if not attempt._ownership.over)  # noqa: SLF001


class working:  # noqa: N801  (a context manager, read as a word)
    """
    Make *attempt* current in the block; it is over after it.

    *nests*: the block is a call, so what began in it and has not ended, such as a block in a generator, is
    left behind. A class, as generators lose their context in async code.
    """

    def __init__(self, attempt: Attempt, *, nests: bool) -> None:
        self._attempt = attempt
        self._nests = nests
        self._ownership = attempt._ownership  # noqa: SLF001  (of this module)
        self._before: tuple[tuple[Attempt, ...], tuple[Running, ...]] = ((), ())

    def __enter__(self) -> Attempt:
        running = tuple(attempt for attempt in ATTEMPTS.get() if not attempt.over)
        self._before = _current.get(), running
        _current.set((*_running(_current.get()), self._attempt))
        ATTEMPTS.set((*running, self._ownership))
        return self._attempt

    def __exit__(self, *_: object) -> None:
        self._ownership.over = True
        # A block that was abandoned is closed by the garbage collector, perhaps within other work.
        if self._attempt in _current.get()[0 if self._nests else -1 :]:
            attempts, running = self._before
            _current.set(_running(attempts) or attempts)  # blocks of generators end in any order
            ATTEMPTS.set(running)
