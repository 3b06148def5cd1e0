"""
The fact that an attempt holds a token, and what it is about to write as its end.

The engine works with these. What the user's code has of them is `engine.attempt.Attempt`.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_once.core.record import Record, State
from lambda_once.engine.keeping import ttl_after
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lambda_once.core.writes import Acquire, Finish
    from lambda_once.engine.call import Call
    from lambda_once.observability.events import Event


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


class Ownership:
    """
    One acquisition of a token: by which call, under which id and fence, until when, and what came of it.

    It changes while the work runs: its lease grows, a transaction is sent, the attempt ends.
    """

    def __init__(
        self,
        call: Call,
        attempt: str,
        fence: int | None,
        created: datetime,
        lease: datetime,
        *,
        wish: Acquire | None = None,
    ) -> None:
        self.call = call
        self.id = attempt
        self.fence = fence
        """None while it is not known whether the token was acquired."""
        self.lease = lease
        self.created = created
        self.wish = wish
        """The acquisition that was not answered, where it runs all the same; else None."""
        self.settled: tuple[object] | None = None
        """The stored result in a 1-tuple, once `Attempt.transact` or `Attempt.complete` has written it."""
        self.happened: Event | None = None
        """How it has ended; None before, and where its end could not be written."""
        self._sending: Sending | None = None
        self._finishing = False
        """Whether a finish was prepared: from then on no transaction is sent."""

    @property
    def token(self) -> str:
        return self.call.token

    @property
    def unprotected(self) -> bool:
        """Whether it runs although the table did not answer (``on_store_outage="run"``)."""
        return self.wish is not None

    def acquired(self, fence: int, lease: datetime) -> None:
        """Take it that the table has answered after all: the attempt is protected from here on."""
        self.wish, self.fence, self.lease = None, fence, lease

    def begin_transaction(self) -> Sending:
        """Note that the transaction of this attempt is sent now. Raises `Misconfigured` if it is too late."""
        with _one_at_a_time:
            if self._finishing:
                message = (
                    f"transact was called after token {self.token} was finished; nothing was written. "
                    "Call it before complete, and await it before the function returns"
                )
                raise Misconfigured(message, token=self.token)
            if self._sending is not None:
                message = "transact was called twice in one attempt; put all writes into one call"
                raise Misconfigured(message, token=self.token)
            self._sending = Sending()
            return self._sending

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
            fence=self.fence or 0,
            locked_by=self.call.invocation.locked_by,
            created=self.created,
            expected_completion=self.lease,
            delivery=self.call.delivery,
            fingerprint=self.call.identity.fingerprint,
            fields=None if self.call.identity.fields is None else self.call.identity.fields.stored,
            caller=self.call.mark(self.id),
        )


class Ending(NamedTuple):
    """What an attempt is about to write, and what its caller gets once it is written."""

    attempt: Ownership
    write: Finish
    happening: Event
    """What has happened once it is written."""
    value: Any = None
    error: BaseException | None = None

    def write_at(self, now: datetime, parts: int = 0) -> Finish:
        """Return the write as it is sent at *now*, from which its ttl counts; *parts* of it are written."""
        ttl = ttl_after(self.write.change, self.attempt.call, now)
        return (
            self.write
            if ttl == self.write.ttl and not parts
            else replace(self.write, ttl=ttl, parts_written=parts)
        )
