"""
Run a batch: acquire its tokens, run its jobs lane by lane, and write its completions together.

What becomes of a job is the same for plain and async work (`engine/turns.py`). Here its steps are taken:
those of plain work in the thread, those of async work without blocking the event loop.

A job that is alone runs as a single call. Of many, tokens are acquired ahead of the work and completions are
written behind it, which is why a batch of ten costs four requests, and why a job has so many states.

What we're not happy with: on the event loop a job changes in the thread that acquires its token, so what
happens before a lane waits needs two locks.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, assert_never

from lambda_once.core.clock import has_running_loop, through
from lambda_once.engine.engine import Engine, done
from lambda_once.engine.lanes import Job, waiting
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.turns import (
    AcquireAhead,
    AwaitWrites,
    Block,
    Ended,
    Execute,
    Executed,
    Finish,
    Raised,
    ReleaseAll,
    Returned,
    Start,
    Step,
    Turns,
)
from lambda_once.engine.waiting import off_loop, through_async, uncancelled

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable

    from lambda_once.engine.invocation import Tokenless
    from lambda_once.errors import GiveUp


class Left(Exception):
    """
    Work on the event loop raised *error*, a SystemExit or KeyboardInterrupt; raise it outside of the loop.

    A task that raised *error* itself would stop the loop, and with it every other record.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


class Batch:
    """
    Runs the jobs of one invocation. *function* gets a job's argument and the context.

    *on_give_up*: see `Turns`.
    """

    def __init__(
        self,
        engine: Engine,
        function: Callable[[Any, Any], Any],
        context: Any,
        on_give_up: Callable[[Job, GiveUp], object] | None = None,
    ) -> None:
        self._engine = engine
        self._finisher = engine.finisher
        self._clock = engine.clock
        self._function = function
        self._context = context
        self._on_give_up = on_give_up
        self._turns: Turns
        self._acquiring: asyncio.Lock
        """Async work only: held while tokens are acquired ahead."""
        self._releasing: asyncio.Lock
        """Async work only: held while tokens are released before a job waits."""

    def run(self, jobs: list[Job]) -> None:
        """Run all *jobs*, in the order of their positions, one after the other."""
        self._turns = Turns(self._engine, jobs, self._on_give_up)
        try:
            for lane in self._turns.lanes:
                for job in lane:
                    self._take_turn(job, may_wait=False)
            for job in self._waiting():
                self._take_turn(job, may_wait=True)
        finally:
            self._turns.close()

    async def run_async(self, jobs: list[Job], concurrency: int) -> None:
        """
        Run all *jobs*, *concurrency* lanes at once.

        If the work raises SystemExit or KeyboardInterrupt, cancels the other lanes and raises `Left`.
        """
        import asyncio

        self._turns = Turns(self._engine, jobs, self._on_give_up)
        self._acquiring, self._releasing = asyncio.Lock(), asyncio.Lock()
        places = asyncio.Semaphore(concurrency)

        async def along(lane: list[Job], *, may_wait: bool) -> None:
            async with places:
                for job in lane:
                    await self._take_turn_async(job, may_wait=may_wait)

        async def all_of(ways: Iterable[Coroutine[Any, Any, None]]) -> None:
            tasks = [asyncio.ensure_future(way) for way in ways]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        try:
            await all_of(along(lane, may_wait=False) for lane in self._turns.lanes)
            await all_of(along([job], may_wait=True) for job in self._waiting())
        finally:
            await off_loop(self._turns.close)

    def _waiting(self) -> list[Job]:
        """Return the jobs to run at the end, as they may wait; one that is alone has waited in its turn."""
        return waiting(self._turns.jobs) if len(self._turns.jobs) > 1 else []

    # ---------------------------------------------------------------- plain work

    def _take_turn(self, job: Job, *, may_wait: bool) -> None:
        turn, answer = self._turns.turn(job, may_wait=may_wait), None
        while True:
            try:
                step = turn.send(answer)
            except StopIteration:
                return
            answer = self._do(step)

    def _do(self, step: Step) -> Any:
        """Take *step* in this thread; return its answer."""
        match step:
            case Execute():  # what each record needs is matched by its class alone, which is fastest
                return self._executed(step.argument, step.whose)
            case Finish():
                through(step.finishing, self._clock)
            case Start(job, may_wait):
                starting = self._turns.starting(job, may_wait=may_wait and not has_running_loop())
                return through(starting, self._clock)
            case AcquireAhead(job):
                self._turns.acquire_ahead(job)
            case AwaitWrites(pipeline, written):
                return pipeline.wait(written=written)
            case ReleaseAll():
                self._finisher.give_back(*self._turns.unbegun.before_waiting())
            case Block(function, arguments):
                function(*arguments)
            case _ as unreachable:
                assert_never(unreachable)
        return None

    def _executed(self, argument: Any, whose: Ownership | Tokenless) -> Executed:
        try:
            with self._as_current(whose):
                return Returned(done(self._function(argument, self._context), whose))
        except Exception as error:  # noqa: BLE001  (a failed record must not stop the others)
            return Raised(error)
        except BaseException as error:  # noqa: BLE001  (it is raised when the token is finished)
            # Plain work cannot be cancelled, so this CancelledError leaked from something else.
            return Raised(error) if _is_cancellation(error) else Ended(error)

    def _as_current(self, whose: Ownership | Tokenless) -> AbstractContextManager[object]:
        if isinstance(whose, Ownership):
            return self._engine.as_current(whose)
        whose.invocation.tally.raise_interruption()
        return nullcontext()

    # ---------------------------------------------------------------- async work

    async def _take_turn_async(self, job: Job, *, may_wait: bool) -> None:
        turn, answer = self._turns.turn(job, may_wait=may_wait), None
        try:
            while True:
                try:
                    step = turn.send(answer)
                except StopIteration:
                    return
                answer = await self._do_async(step)
        except (SystemExit, KeyboardInterrupt) as error:
            raise Left(error) from error

    async def _do_async(self, step: Step) -> Any:
        """Take *step* without blocking the event loop; return its answer."""
        match step:
            case Execute(argument, whose):
                return await self._executed_async(argument, whose)
            case Finish(ownership, finishing):
                await uncancelled(self._finisher.off_loop(ownership, finishing))
            case Start(job, may_wait):
                return await self._started_async(job, may_wait=may_wait)
            case AcquireAhead(job):
                async with self._acquiring:
                    if job.ahead:
                        await off_loop(self._turns.acquire_ahead, job)
            case AwaitWrites(pipeline, written):
                return await pipeline.wait_async(written=written)
            case ReleaseAll():
                async with self._acquiring, self._releasing:  # taken here, where jobs begin
                    await off_loop(self._finisher.give_back, *self._turns.unbegun.before_waiting())
            case Block(function, arguments):
                await off_loop(function, *arguments)
            case _ as unreachable:
                assert_never(unreachable)
        return None

    async def _started_async(self, job: Job, *, may_wait: bool) -> Ownership | None:
        if job.acquisition is None:
            # Its token may be in the middle of a release; wait, or its own row would refuse it.
            async with self._releasing:
                pass
        # If it is cancelled, the token is in `job.acquisition` and is released when the batch is closed.
        while True:
            ownership = await through_async(self._turns.starting(job, may_wait=may_wait), self._clock)
            # Other work may have blocked the loop meanwhile, and the lease may have expired.
            if ownership is None or self._engine.may_start(ownership):
                return ownership

    async def _executed_async(self, argument: Any, whose: Ownership | Tokenless) -> Executed:
        try:
            with self._as_current(whose):
                return Returned(done(await self._function(argument, self._context), whose))
        except Exception as error:  # noqa: BLE001  (a failed record must not stop the others)
            return Raised(error)
        except BaseException as error:  # noqa: BLE001  (it is raised when the token is finished)
            is_leaked = _is_cancellation(error) and not _is_being_cancelled()
            return Raised(error) if is_leaked else Ended(error)


def _is_cancellation(error: BaseException) -> bool:
    import asyncio

    return isinstance(error, asyncio.CancelledError)


def _is_being_cancelled() -> bool:
    """Whether this task is being cancelled."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
