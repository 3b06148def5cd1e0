"""One execution, whole: clock, store, decide, call, log, store. The same for plain and async work."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from lambda_once.engine.acquire import Admissions
from lambda_once.engine.attempt import Attempt, working
from lambda_once.engine.finish import Settlement
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.replay import Outcomes, Replayed
from lambda_once.engine.story import Story
from lambda_once.engine.waiting import has_running_loop, through, through_async, uncancelled
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lambda_once.core.clock import Clock
    from lambda_once.engine.call import Call
    from lambda_once.engine.waiting import Waits
    from lambda_once.observability.reporter import Reporter
    from lambda_once.stores.contract import Store

    Settling = Callable[[Store, Clock, Story, Outcomes], Settlement]


class Engine:
    """What one `Once` works with. Made once; what a call needs travels in its `Call`."""

    def __init__(
        self, store: Store, clock: Clock, reporter: Reporter, settling: Settling = Settlement
    ) -> None:
        """*settling*: another way to settle attempts, such as dying instead (`lambda_once.testing`)."""
        self.store = store
        self.clock = clock
        self.story = Story(reporter)
        outcomes = Outcomes(store, clock, self.story)
        self.settlement = settling(store, clock, self.story, outcomes)
        self.admissions = Admissions(self.settlement, outcomes, self.story)

    def execute(self, call: Call, work: Callable[[], Any], *, may_wait: bool = True) -> Any | Replayed:
        """
        Run *work* under the token of *call*, or return what a duplicate gets as `Replayed`.

        Raises what the work raises, and `OnceError` where it may not run. Waits for another attempt where
        *may_wait* and the call's plan say so.
        """
        admitted = self.start(call, may_wait=may_wait)
        return admitted if isinstance(admitted, Replayed) else self.perform(admitted, work)

    async def execute_async(
        self, call: Call, work: Callable[[], Awaitable[Any]], *, may_wait: bool = True
    ) -> Any | Replayed:
        """Do what `execute` does for a coroutine function; the store is spoken to off the event loop."""
        admitted = await self.start_async(call, may_wait=may_wait)
        return admitted if isinstance(admitted, Replayed) else await self.perform_async(admitted, work)

    def start(self, call: Call, *, may_wait: bool = True) -> Ownership | Replayed:
        """
        Get a token that may be worked under now, or the outcome of whoever had it.

        On a thread with a running event loop nothing waits: it would stop the loop, and with it perhaps
        the attempt that is waited for.
        """
        return through(self._starting(call, may_wait=may_wait and not has_running_loop()), self.clock)

    async def start_async(self, call: Call, *, may_wait: bool = True) -> Ownership | Replayed:
        """
        Do what `start` does, and wait on the event loop.

        Cancelled meanwhile, however often, the token is given back, for nothing started.
        """
        return await through_async(self._starting(call, may_wait=may_wait), self.clock, self._not_started)

    def _starting(self, call: Call, *, may_wait: bool) -> Waits[Ownership | Replayed]:
        admitted = yield from self.admissions.admit(call, may_wait=may_wait)
        if isinstance(admitted, Ownership):
            admitted = yield from self.admissions.make_ready(admitted, may_wait=may_wait)
        if isinstance(admitted, Ownership) and call.invocation.tally.interrupted:
            self.abandon(admitted)
        call.invocation.tally.raise_interruption()
        return admitted

    def _not_started(self, admitted: Ownership | Replayed) -> None:
        if isinstance(admitted, Ownership):
            self.abandon(admitted)

    def perform(self, attempt: Ownership, work: Callable[[], Any]) -> Any:
        """Run *work* under *attempt* and settle the token by how it ends."""
        try:
            with self.as_current(attempt):
                value = finished(work(), attempt)
        except BaseException as error:
            through(self.failed(attempt, error), self.clock)
            raise
        return through(self.returned(attempt, value), self.clock)

    async def perform_async(self, attempt: Ownership, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do what `perform` does for a coroutine function."""
        try:
            with self.as_current(attempt):
                value = finished(await work(), attempt)
        except BaseException as error:
            await uncancelled(self.settlement.off_loop(attempt, self.failed(attempt, error)))
            raise
        return await uncancelled(self.settlement.off_loop(attempt, self.returned(attempt, value)))

    def as_current(self, attempt: Ownership) -> working:
        """Return the block in which `Once.current` is the handle of *attempt*."""
        return working(Attempt(attempt, self.settlement))

    def left(self, attempt: Ownership, error: BaseException | None) -> Waits[None]:
        """Settle the token of a block that was left: cleanly, with None for a result, or by *error*."""
        if error is None:
            yield from self.returned(attempt, None)
        else:
            yield from self.failed(attempt, error)

    def abandon(self, *attempts: Ownership) -> None:
        """Release the tokens of *attempts*, which never started."""
        if attempts:
            self.settlement.give_back([(attempt.call, attempt.id) for attempt in attempts], told=True)

    def returned(self, attempt: Ownership, value: Any) -> Waits[Any]:
        """Complete the token, unless `Attempt.transact` has; return what every duplicate will get."""
        self.settlement.make_ready(attempt)
        if attempt.settled is not None:
            return attempt.settled[0]
        result = yield from self.settlement.settle(self.settlement.of_return(attempt, value))
        attempt.call.invocation.tally.raise_interruption()
        return result

    def failed(self, attempt: Ownership, error: BaseException) -> Waits[None]:
        """Settle the token of work that raised *error*, unless `Attempt.transact` has."""
        self.settlement.make_ready(attempt)
        if attempt.settled is None:
            yield from self.settlement.settle(self.settlement.of_error(attempt, error))


def finished(value: Any, attempt: Ownership) -> Any:
    """Refuse *value* where it is work that is not done: its token must not say that it is."""
    if not inspect.isawaitable(value):
        return value
    # A coroutine is closed, a task or future cancelled: what is released must not go on.
    stop = getattr(value, "close", None) or getattr(value, "cancel", None)
    if callable(stop):
        stop()
    kind = type(value).__name__
    message = (
        f"the function for token {attempt.token} returned an unawaited {kind}; protect an async def instead"
    )
    raise Misconfigured(message, token=attempt.token)
