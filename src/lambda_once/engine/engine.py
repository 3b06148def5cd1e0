"""Execute one call: acquire, run, finish. The same for plain and async work."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import Clock, Waits, has_running_loop, through
from lambda_once.engine.acquire import Acquirer
from lambda_once.engine.attempt import Attempt, working
from lambda_once.engine.finish import Finisher
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.replay import Replayed, Replayer
from lambda_once.engine.waiting import through_async, uncancelled
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lambda_once.engine.invocation import Call
    from lambda_once.stores.contract import Store


class Engine:
    """Executes calls for one `Once`. Keeps no state of any call."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        new_finisher: Callable[[Store, Clock, Replayer], Finisher] = Finisher,
    ) -> None:
        """*new_finisher* replaces the finisher, for example to simulate a crash (`lambda_once.testing`)."""
        self.store = store
        self.clock = clock
        self.replayer = Replayer(store, clock)
        self.finisher = new_finisher(store, clock, self.replayer)
        self.acquirer = Acquirer(self.finisher, self.replayer)

    def execute(self, call: Call, work: Callable[[], Any], *, may_wait: bool = True) -> Any | Replayed:
        """
        Run *work* under the token of *call*, or return the stored outcome as `Replayed`.

        Raises what the work raises, and `OnceError` if it may not run. Waits for another attempt if
        *may_wait* and the call's settings allow it.
        """
        acquired = self.start(call, may_wait=may_wait)
        return acquired if isinstance(acquired, Replayed) else self._run(acquired, work)

    async def execute_async(
        self, call: Call, work: Callable[[], Awaitable[Any]], *, may_wait: bool = True
    ) -> Any | Replayed:
        """Do what `execute` does, for a coroutine function; store calls run off the event loop."""
        acquired = await self.start_async(call, may_wait=may_wait)
        return acquired if isinstance(acquired, Replayed) else await self._run_async(acquired, work)

    def start(self, call: Call, *, may_wait: bool = True) -> Ownership | Replayed:
        """
        Acquire the token of *call*, ready to start, or return its stored outcome.

        On a thread with a running event loop it does not wait for another attempt: that would block the loop,
        on which the other attempt may be running.
        """
        return through(self.acquirer.start(call, may_wait=may_wait and not has_running_loop()), self.clock)

    async def start_async(self, call: Call, *, may_wait: bool = True) -> Ownership | Replayed:
        """
        Do what `start` does, and wait on the event loop.

        If it is cancelled, even repeatedly, the token is released, as nothing has started.
        """

        def undo(acquired: Ownership | Replayed) -> None:
            if isinstance(acquired, Ownership):
                self.finisher.give_back(acquired)

        starting = self.acquirer.start(call, may_wait=may_wait)
        while True:
            acquired = await through_async(starting, self.clock, undo)
            # Other work may have blocked the loop meanwhile, and the lease may have expired.
            if not isinstance(acquired, Ownership) or self.acquirer.may_start(acquired):
                return acquired
            starting = self.acquirer.make_ready(acquired, may_wait=may_wait)

    def _run(self, ownership: Ownership, work: Callable[[], Any]) -> Any:
        try:
            with self.as_current(ownership):
                value = done(work(), ownership)
        except BaseException as error:
            through(self.failed(ownership, error), self.clock)
            raise
        return through(self.returned(ownership, value), self.clock)

    async def _run_async(self, ownership: Ownership, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            with self.as_current(ownership):
                value = done(await work(), ownership)
        except BaseException as error:
            await uncancelled(self.finisher.off_loop(ownership, self.failed(ownership, error)))
            raise
        return await uncancelled(self.finisher.off_loop(ownership, self.returned(ownership, value)))

    def as_current(self, ownership: Ownership) -> working:
        """Return a block in which `Once.current` returns the attempt of *ownership*."""
        return working(Attempt(ownership, self.finisher))

    def left(self, ownership: Ownership, error: BaseException | None) -> Waits[None]:
        """Finish a block: with the result None, or by the policy for *error*."""
        if error is None:
            yield from self.returned(ownership, None)
        else:
            yield from self.failed(ownership, error)

    def returned(self, ownership: Ownership, value: Any) -> Waits[Any]:
        """Complete the token, unless `Attempt` already has; return what every duplicate will get."""
        self.finisher.make_ready(ownership)
        if ownership.completed is not None:
            return ownership.completed[0]
        result = yield from self.finisher.finish(self.finisher.prepare_return(ownership, value))
        ownership.call.invocation.tally.raise_interruption()
        return result

    def failed(self, ownership: Ownership, error: BaseException) -> Waits[None]:
        """
        Finish the token of work that raised *error*, unless `Attempt` has completed it.

        Raises `Misconfigured` in its place if the guard of the call knows that the work has not ended.
        """
        guard = ownership.call.guard
        wrong = None if guard is None else guard.wrong(ownership.call, error)
        self.finisher.make_ready(ownership)
        if ownership.completed is None:
            yield from self.finisher.finish(self.finisher.prepare_error(ownership, wrong or error))
        if wrong is not None:
            raise wrong from error


def done(value: Any, ownership: Ownership) -> Any:
    """Return *value*. Raises `Misconfigured` for an awaitable, as the work is not done yet."""
    if value is None or not inspect.isawaitable(value):
        return value
    # Close a coroutine, cancel a task or future: released work must not continue.
    stop = getattr(value, "close", None) or getattr(value, "cancel", None)
    if callable(stop):
        stop()
    kind = type(value).__name__
    message = (
        f"the function for token {ownership.token} returned an unawaited {kind}; protect an async def instead"
    )
    raise Misconfigured(message, token=ownership.token)
