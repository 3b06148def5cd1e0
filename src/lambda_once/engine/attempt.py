"""The handle that protected work has on its own attempt."""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import to_milliseconds
from lambda_once.core.keys import downstream
from lambda_once.core.record import Record, State
from lambda_once.engine.waiting import through, uncancelled
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lambda_once.core.writes import Acquire
    from lambda_once.engine.call import Call
    from lambda_once.engine.finish import Settlement
    from lambda_once.engine.waiting import Waits
    from lambda_once.observability.details import Happening


class Sending:
    """A transaction that is being sent; its answer can be waited for in a thread or on an event loop."""

    def __init__(self) -> None:
        self._over = False
        """Whether it was answered, or given up by whoever waited for it."""
        self._changed = threading.Condition()
        self._listeners: list[Callable[[], object]] = []

    @property
    def over(self) -> bool:
        return self._over

    def end(self) -> None:
        """Let everybody go on who waits."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                listener()

    def wait(self, seconds: float) -> None:
        """Return once it is answered, or after *seconds*; nobody waits for it a second time."""
        with self._changed:
            self._changed.wait_for(lambda: self._over, seconds)
        self.end()

    async def wait_async(self, seconds: float) -> None:
        """Do what `wait` does on the event loop, whose executor may have no thread left to wait in."""
        import asyncio

        loop, answered = asyncio.get_running_loop(), asyncio.Event()
        with self._changed:
            if self._over:
                return
            self._listeners.append(lambda: loop.call_soon_threadsafe(answered.set))
        with suppress(TimeoutError):
            await asyncio.wait_for(answered.wait(), seconds)
        self.end()


_one_at_a_time = threading.Lock()
"""Of a transaction and a finish of one attempt, that begin at the same moment, one is the first."""


class Attempt:
    """
    One acquisition of a token, from inside the work: what `Once.current` returns.

    ``token`` is the lock token, ``fence`` a number larger than that of every attempt before (hand it to
    systems that can refuse older ones), ``id`` the attempt's random id. ``replayed`` is False here.
    """

    replayed = False
    result: Any = None

    def __init__(
        self,
        call: Call,
        attempt: str,
        fence: int | None,
        created: datetime,
        lease: datetime,
        settlement: Settlement,
        *,
        wish: Acquire | None = None,
    ) -> None:
        self.call = call
        self.id = attempt
        self.known_fence = fence
        """None while it is not known whether the token was acquired."""
        self.lease = lease
        self.created = created
        self.wish = wish
        """The acquisition that was not answered, where it runs all the same; else None."""
        self.settled: tuple[object] | None = None
        """The stored result in a 1-tuple, once `transact` has written it."""
        self.happened: Happening | None = None
        """What its token says of it since it ended; None before, and where that could not be written."""
        self._settlement = settlement
        self._sending: Sending | None = None
        self._finishing = False
        """Whether a finish was prepared: from then on no transaction is sent."""

    @property
    def token(self) -> str:
        return self.call.token

    @property
    def fence(self) -> int:
        """
        A number larger than that of every attempt before.

        Raises `Misconfigured` while the attempt runs unprotected: it has none.
        """
        if self.known_fence is None:
            message = (
                f'token {self.token} was not acquired, the work runs unprotected (on_store_outage="run"): '
                "it has no fence"
            )
            raise Misconfigured(message, token=self.token)
        return self.known_fence

    @property
    def unprotected(self) -> bool:
        """Whether it runs although the table did not answer (``on_store_outage="run"``)."""
        return self.wish is not None

    def acquired(self, fence: int, lease: datetime) -> None:
        """Take it that the table has answered after all: the attempt is protected from here on."""
        self.wish, self.known_fence, self.lease = None, fence, lease

    def close(self) -> Sending | None:
        """Let no transaction be sent from now on; return the one that is being sent, None where none is."""
        with _one_at_a_time:
            self._finishing = True
            return None if self._sending is None or self._sending.over else self._sending

    def record(self) -> Record:
        """Return the row as this attempt acquired it."""
        return Record(
            token=self.token,
            state=State.IN_PROGRESS,
            attempt=self.id,
            fence=self.known_fence or 0,
            locked_by=self.call.invocation.locked_by,
            created=self.created,
            expected_completion=self.lease,
            delivery=self.call.delivery,
            fingerprint=self.call.fingerprint,
            fields=None if self.call.fields is None else self.call.fields.stored,
            caller=self.call.mark(self.id),
        )

    def downstream_key(self, label: str = "") -> str:
        """
        Return an idempotency key for the next system: 64 hex digits.

        It is the same for every attempt of this token, and different for each *label*.
        """
        return downstream(self.token, label)

    def extend(self, seconds: float) -> None:
        """
        Renew the lease: the attempt may be believed alive for *seconds* from now.

        It only ever lengthens the lease. Raises `Fenced` where another attempt has the token by now
        (stop then: the work is no longer ours), `StoreUnavailable` without an answer, and
        `Misconfigured` for seconds that are not positive. An attempt that runs unprotected has no lease in
        the table: its own is lengthened, and that is logged.
        """
        if not seconds > 0:
            message = f"extend takes a positive number of seconds, not {seconds!r}"
            raise Misconfigured(message, token=self.token)
        lease = to_milliseconds(self._settlement.clock.now() + timedelta(seconds=seconds))
        self._settlement.extend(self, lease)

    async def aextend(self, seconds: float) -> None:
        """Do what `extend` does, off the event loop."""
        import asyncio

        await asyncio.to_thread(self.extend, seconds)

    def complete(self, result: Any = None) -> Any:
        """
        Complete the token with *result* now, and return it as every duplicate will get it.

        The token is final then, whatever happens in the rest of the work. Raises `Fenced` where another
        attempt has the token and is still at work; where that one is done, its outcome is returned. It
        waits for a transaction that is being sent; where that was written, its result is returned.
        """
        return through(self._completing(result), self._settlement.clock)

    def _completing(self, result: Any) -> Waits[Any]:
        if self.settled is None:
            self._settlement.make_ready(self)
        if self.settled is None:
            self.settled = ((yield from self._settlement.settle(self._settlement.of_return(self, result))),)
        return self.settled[0]

    async def acomplete(self, result: Any = None) -> Any:
        """Do what `complete` does, off the event loop; a cancellation waits for its end."""
        return await uncancelled(self._settlement.off_loop(self, self._completing(result)))

    def transact(self, items: Sequence[Mapping[str, Any]], result: Any = None) -> Any:
        """
        Write *items* and the completion of this token with *result* in one TransactWriteItems.

        *items* are DynamoDB writes as the low-level client takes them (``{"Put": {…}}``), 99 at most
        and 4 MB in all (DynamoDB's limits, less the token's own item). Returns *result* as every
        duplicate will get it; the token is final then, whatever the function raises or returns.

        Raises `Fenced`, with nothing written, where the token was taken over; a refused condition of
        *items* as botocore's ``TransactionCanceledException``, its reasons in the order of *items*;
        `StoreUnavailable` where the answer is not known; `Misconfigured` for a second call, and once the
        work has returned, raised or called `complete`.
        """
        sending = self._begin_transaction()
        try:
            return self._settlement.transact(self, items, result)
        finally:
            sending.end()

    def _begin_transaction(self) -> Sending:
        with _one_at_a_time:
            if self._finishing:
                message = (
                    f"transact came after the end of its attempt at token {self.token}: nothing was written. "
                    "Call it before complete, and wait for it before the work returns"
                )
                raise Misconfigured(message, token=self.token)
            if self._sending is not None:
                message = "transact was called twice by one attempt: put all writes into one call"
                raise Misconfigured(message, token=self.token)
            self._sending = Sending()
            return self._sending

    async def atransact(self, items: Sequence[Mapping[str, Any]], result: Any = None) -> Any:
        """Do what `transact` does, off the event loop."""
        import asyncio

        return await asyncio.to_thread(self.transact, items, result)


_current: ContextVar[Attempt | None] = ContextVar("lambda_once_attempt", default=None)


def current_attempt() -> Attempt:
    """Return the attempt of the innermost protected work. Raises `Misconfigured` outside of it."""
    attempt = _current.get()
    if attempt is None:
        message = "once.current() is for use inside protected work: no decorated function is running here"
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

    def __enter__(self) -> None:
        self._before = _current.get(), _stack.get()
        _current.set(self._attempt)
        _stack.set((*_stack.get(), self._attempt.id))

    def __exit__(self, *_: object) -> None:
        attempt, stack = self._before
        _current.set(attempt)
        _stack.set(stack)
