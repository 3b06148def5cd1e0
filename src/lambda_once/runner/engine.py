"""One execution, whole: clock, store, decide, call, log, store. The same for plain and async work."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from lambda_once.errors import Misconfigured
from lambda_once.runner.admission import Admissions
from lambda_once.runner.attempt import Attempt, working
from lambda_once.runner.outcomes import Outcomes, Replayed
from lambda_once.runner.settlement import Settlement
from lambda_once.runner.story import Story

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lambda_once.core.clock import Clock
    from lambda_once.observability.powertools import Reporter
    from lambda_once.runner.call import Call
    from lambda_once.stores.contract import Store

    Settling = Callable[[Store, Clock, Story, Outcomes], Settlement]

T = TypeVar("T")


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

    def execute(self, call: Call, work: Callable[[], Any]) -> Any | Replayed:
        """
        Run *work* under the token of *call*, or return what a duplicate gets as `Replayed`.

        Raises what the work raises, and `OnceError` where it may not run.
        """
        admitted = self.start(call)
        return admitted if isinstance(admitted, Replayed) else self.perform(admitted, work)

    async def execute_async(self, call: Call, work: Callable[[], Awaitable[Any]]) -> Any | Replayed:
        """Do what `execute` does for a coroutine function; the store is spoken to off the event loop."""
        admitted = await self.start_async(call)
        return admitted if isinstance(admitted, Replayed) else await self.perform_async(admitted, work)

    def start(self, call: Call) -> Attempt | Replayed:
        """Get a token that may be worked under now, or the outcome of whoever had it."""
        waits = call.plan.waits
        admitted = self.admissions.admit(call, may_wait=waits)
        if isinstance(admitted, Replayed):
            return admitted
        return self.admissions.make_ready(admitted, may_wait=waits)

    async def start_async(self, call: Call) -> Attempt | Replayed:
        """Do what `start` does; cancelled meanwhile, the token is given back, for nothing started."""
        import asyncio

        starting = asyncio.ensure_future(asyncio.to_thread(self.start, call))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            if starting.exception() is None and isinstance(admitted := starting.result(), Attempt):
                await off_loop(self.abandon, admitted)
            raise

    def perform(self, attempt: Attempt, work: Callable[[], Any]) -> Any:
        """Run *work* under *attempt* and settle the token by how it ends."""
        try:
            with working(attempt):
                value = finished(work(), attempt)
        except BaseException as error:
            self.failed(attempt, error)
            raise
        return self.returned(attempt, value)

    async def perform_async(self, attempt: Attempt, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do what `perform` does for a coroutine function."""
        try:
            with working(attempt):
                value = finished(await work(), attempt)
        except BaseException as error:
            await off_loop(self.failed, attempt, error)
            raise
        return await off_loop(self.returned, attempt, value)

    def left(self, attempt: Attempt, error: BaseException | None) -> None:
        """Settle the token of a block that was left: cleanly, with None for a result, or by *error*."""
        if error is None:
            self.returned(attempt, None)
        else:
            self.failed(attempt, error)

    def abandon(self, *attempts: Attempt) -> None:
        """Release the tokens of *attempts*, which never started."""
        self.settlement.give_back([(attempt.call, attempt.id) for attempt in attempts], told=True)

    def returned(self, attempt: Attempt, value: Any) -> Any:
        """Complete the token, unless `Attempt.transact` has; return what every duplicate will get."""
        if attempt.settled is not None:
            return attempt.settled[0]
        return self.settlement.settle(self.settlement.of_return(attempt, value))

    def failed(self, attempt: Attempt, error: BaseException) -> None:
        """Settle the token of work that raised *error*, unless `Attempt.transact` has."""
        if attempt.settled is None:
            self.settlement.settle(self.settlement.of_error(attempt, error))


def finished(value: Any, attempt: Attempt) -> Any:
    """Refuse *value* where it is work that has not begun: its token must not say that it is done."""
    if not inspect.iscoroutine(value):
        return value
    value.close()
    message = f"the work of token {attempt.token} returned a coroutine: protect an async def function"
    raise Misconfigured(message, token=attempt.token)


async def off_loop(function: Callable[..., T], *args: Any) -> T:
    """Run *function* in a thread, to its end even where the caller is cancelled meanwhile."""
    import asyncio

    running = asyncio.ensure_future(asyncio.to_thread(function, *args))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
