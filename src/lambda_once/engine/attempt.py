"""The handle that protected work has on its own attempt."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import Waits, through, to_milliseconds
from lambda_once.core.keys import downstream
from lambda_once.engine.waiting import uncancelled
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lambda_once.engine.finish import Finisher
    from lambda_once.engine.ownership import Ownership


class Attempt:
    """
    One acquisition of a token, from inside the work: what `Once.current` returns.

    ``token`` is the lock token, ``id`` the attempt's random id, ``created`` the time of the acquisition, an
    aware datetime. ``replayed`` is False, ``result`` None.
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
        """A number larger than that of every earlier attempt, for systems that refuse older ones."""
        return self._ownership.fence

    def downstream_key(self, label: str = "") -> str:
        """
        Return an idempotency key for the next system: 64 hex digits.

        It is the same for every attempt until the token is complete, and different for each *label*. Work
        that runs again after ``keep`` is new work, under another key.
        """
        return downstream(self.token, self._ownership.generation, label)

    def extend(self, seconds: float) -> None:
        """
        Extend the lease to *seconds* from now; it never becomes shorter.

        Raises `Fenced` if another attempt has the token (stop then), `StoreUnavailable` if the table does not
        respond, and `Misconfigured` for seconds that are not positive.
        """
        if not seconds > 0:
            message = f"extend takes a positive number of seconds, not {seconds!r}"
            raise Misconfigured(message, token=self.token)
        lease = to_milliseconds(self._finisher.clock.now() + timedelta(seconds=seconds))
        self._finisher.extend(self._ownership, lease)

    async def aextend(self, seconds: float) -> None:
        """Do what `extend` does, off the event loop."""
        import asyncio

        await asyncio.to_thread(self.extend, seconds)

    def complete(self, result: Any = None) -> Any:
        """
        Complete the token with *result* now, and return it as every duplicate will get it.

        The outcome is final, whatever happens in the rest of the work. Raises `Fenced` if another attempt has
        the token and is in progress; if that one is complete, its outcome is returned. It waits for a
        transaction that is being sent; if that was written, its result is returned.
        """
        return through(self._completing(result), self._finisher.clock)

    def _completing(self, result: Any) -> Waits[Any]:
        ownership, finisher = self._ownership, self._finisher
        if ownership.completed is None:
            finisher.make_ready(ownership)
        if ownership.completed is None:
            ownership.completed = ((yield from finisher.finish(finisher.prepare_return(ownership, result))),)
            ownership.call.invocation.tally.raise_interruption()
        return ownership.completed[0]

    async def acomplete(self, result: Any = None) -> Any:
        """Do what `complete` does, off the event loop; a cancellation waits for its end."""
        return await uncancelled(self._finisher.off_loop(self._ownership, self._completing(result)))

    def transact(self, items: Sequence[Mapping[str, Any]], result: Any = None) -> Any:
        """
        Write *items* and the completion of this token with *result* in one TransactWriteItems.

        *items* are DynamoDB writes as the low-level client takes them (``{"Put": {…}}``), 99 at most
        and 4 MB in all (DynamoDB's limits, less the token's own item). Returns *result* as every
        duplicate will get it; the outcome is final, whatever the function raises or returns.

        Raises `Fenced`, with nothing written, if the token was taken over; a refused condition of
        *items* as botocore's ``TransactionCanceledException``, its reasons in the order of *items*;
        `StoreUnavailable` if it is unknown whether it was written; `Misconfigured` for a second call, and
        once the work has returned, raised or called `complete`.
        """
        sending = self._ownership.begin_transaction()
        try:
            return self._finisher.transact(self._ownership, items, result)
        finally:
            sending.end()

    async def atransact(self, items: Sequence[Mapping[str, Any]], result: Any = None) -> Any:
        """Do what `transact` does, off the event loop."""
        import asyncio

        return await asyncio.to_thread(self.transact, items, result)


_current: ContextVar[Attempt | None] = ContextVar("lambda_once_attempt", default=None)


def current_attempt() -> Attempt:
    """Return the attempt of the innermost protected work. Raises `Misconfigured` outside of it."""
    attempt = _current.get()
    if attempt is None:
        message = "once.current() works only inside protected work; no decorated function is running here"
        raise Misconfigured(message)
    return attempt


_stack: ContextVar[tuple[str, ...]] = ContextVar("lambda_once_stack", default=())


def call_stack() -> tuple[str, ...]:
    """
    Return the ids of the attempts that this code runs under, of every `Once`, the outermost first.

    A plain thread does not inherit them; `asyncio.to_thread` and tasks do.
    """
    return _stack.get()


class working:  # noqa: N801  (a context manager, read as a word)
    """Make *attempt* the current one for the block. A class: generators lose their context in async code."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._before: tuple[Attempt | None, tuple[str, ...]] = (None, ())

    def __enter__(self) -> Attempt:
        self._before = _current.get(), _stack.get()
        _current.set(self._attempt)
        _stack.set((*_stack.get(), self._attempt.id))
        return self._attempt

    def __exit__(self, *_: object) -> None:
        attempt, stack = self._before
        _current.set(attempt)
        _stack.set(stack)
