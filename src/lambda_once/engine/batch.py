"""One batch: its tokens are acquired, its jobs run lane by lane, its completions are written together."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import Waits, has_running_loop, through
from lambda_once.core.lifecycle import OnLapse
from lambda_once.engine.engine import Engine, done
from lambda_once.engine.jobs import (
    Job,
    Unstarted,
    is_final,
    lanes,
    may_be_given_up,
    skip_behind_failure,
    waiting,
)
from lambda_once.engine.ownership import Ownership, PreparedFinish
from lambda_once.engine.pipeline import Pipeline
from lambda_once.engine.replay import Replayed
from lambda_once.engine.waiting import off_loop, through_async, uncancelled
from lambda_once.errors import GiveUp, OnceError
from lambda_once.observability.events import Event

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable

    from lambda_once.core.clock import Deadline

MOST_AHEAD = 100
"""Tokens that are acquired ahead of the work: as many as four parallel requests release at the end."""
_LEAKED = "the handler raised CancelledError, but its task was not cancelled; only this record failed"


class LeakedCancellation(Exception):
    """The work raised CancelledError although its task was not cancelled: one of its own awaits was."""


class Left(Exception):
    """
    Work on the event loop raised *error*, a SystemExit or KeyboardInterrupt, to be raised outside of it.

    A task that raises it stops the loop, and with it every other record.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


class Batch:
    """
    Runs jobs of one invocation. *function* gets a job's argument and the context.

    *on_give_up* gets each job that can never succeed, in its turn, and its error: if it returns, the job is
    done, and its order goes on.
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
        self._pipeline: Pipeline | None = None
        self._jobs: list[Job] = []
        self._left: dict[Job, None] = {}
        """Jobs whose tokens are to be acquired ahead, in order; those that are being acquired included."""
        self._deadline: Deadline | None = None
        """None: no record of the batch is good."""
        self._over = False
        """Whether the invocation ends: what had not begun by then does not begin."""
        self._acquiring: asyncio.Lock
        """Of async work: held while tokens are acquired ahead."""
        self._releasing: asyncio.Lock
        """Of async work: held while tokens are released for a job that waits."""

    def run(self, jobs: list[Job]) -> None:
        """Run all *jobs*, one after the other."""
        self._begin(jobs)
        try:
            for lane in lanes(jobs):
                for job in lane:
                    if not skip_behind_failure(job, jobs):
                        self._run(job, may_wait=job.waits)
                        if job.error is not None:
                            self._give_up(job)
            for job in waiting(jobs):
                self._run(job, may_wait=True)
        finally:
            self._close()

    async def run_async(self, jobs: list[Job], concurrency: int) -> None:
        """
        Run all *jobs*, *concurrency* lanes at once.

        Raises `Left` for a SystemExit or KeyboardInterrupt of the work, once the other lanes are cancelled.
        """
        import asyncio

        self._begin(jobs)
        self._acquiring, self._releasing = asyncio.Lock(), asyncio.Lock()
        places = asyncio.Semaphore(concurrency)

        async def along(lane: list[Job], *, may_wait: bool) -> None:
            async with places:
                for job in lane:
                    if not skip_behind_failure(job, jobs):
                        job.undecided = self._on_give_up is not None
                        await self._run_async(job, may_wait=may_wait or job.waits)
                        await self._give_up_async(job)
                        job.undecided = False

        async def all_of(ways: Iterable[Coroutine[Any, Any, None]]) -> None:
            tasks = [asyncio.ensure_future(way) for way in ways]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        try:
            await all_of(along(lane, may_wait=False) for lane in lanes(jobs))
            await all_of(along([job], may_wait=True) for job in waiting(jobs))
        finally:
            await off_loop(self._close)

    def _begins(self, job: Job, *, may_wait: bool) -> bool:
        """Whether *job* begins now: it has no outcome yet, and there is time for it."""
        if self._is_withdrawn(job):
            return False
        if job in self._left:
            self._acquire_ahead(job)
        if job.take_known_outcome(may_wait=may_wait):
            return False
        if not self._is_turn(job) and not self._is_withdrawn(job):
            self._engine.release(*self._withdrawn())
        if isinstance(job.error, Unstarted):
            return False
        if may_wait and job.is_in_progress:
            self._engine.release(*self._before_waiting())
        job.begun = True
        return True

    async def _begins_async(self, job: Job, *, may_wait: bool) -> bool:
        """Do what `_begins` does for async work."""
        if self._is_withdrawn(job):
            return False
        if job in self._left:
            async with self._acquiring:
                if job in self._left:
                    await off_loop(self._acquire_ahead, job)
        if job.take_known_outcome(may_wait=may_wait):
            return False
        if not await self._is_turn_async(job) and not self._is_withdrawn(job):
            await off_loop(self._engine.release, *self._withdrawn())
        if isinstance(job.error, Unstarted):
            return False
        if may_wait and job.is_in_progress:
            async with self._acquiring, self._releasing:  # taken here, where jobs begin
                await off_loop(self._engine.release, *self._before_waiting())
        job.begun = True
        return True

    def _run(self, job: Job, *, may_wait: bool) -> None:
        if not self._begins(job, may_wait=may_wait):
            return
        attempt = through(self._starting(job, may_wait=may_wait and not has_running_loop()), self._clock)
        if attempt is None:
            return
        job.acquisition = None
        try:
            with self._engine.as_current(attempt):
                value = done(self._function(job.argument, self._context), attempt)
        except BaseException as error:
            # Plain work cannot be cancelled: a CancelledError leaked out of something else.
            if not isinstance(error, Exception) and not _is_cancellation(error):
                through(self._engine.failed(attempt, error), self._clock)
                raise
            through(self._failed(job, attempt, error), self._clock)
        else:
            through(self._returned(job, attempt, value), self._clock)

    async def _run_async(self, job: Job, *, may_wait: bool) -> None:
        if not await self._begins_async(job, may_wait=may_wait):
            return
        attempt = await self._started_async(job, may_wait=may_wait)
        if attempt is None:
            return
        job.acquisition = None
        try:
            with self._engine.as_current(attempt):
                value = done(await self._function(job.argument, self._context), attempt)
        except BaseException as error:
            is_leaked = _is_cancellation(error) and not _is_being_cancelled()
            if not isinstance(error, Exception) and not is_leaked:
                await uncancelled(self._finisher.off_loop(attempt, self._engine.failed(attempt, error)))
                if isinstance(error, SystemExit | KeyboardInterrupt):
                    raise Left(error) from error
                raise
            await self._finish_async(attempt, self._failed(job, attempt, error))
        else:
            await self._finish_async(attempt, self._returned(job, attempt, value))

    async def _finish_async(self, attempt: Ownership, finishing: Waits[None]) -> None:
        """Write here where the pipeline writes, and off the loop where it may wait."""
        call = attempt.call
        blocks = call.history is not None or call.plan.seal is not None
        if self._pipeline is not None and attempt.close() is None and not blocks:
            through(finishing, self._clock)
        else:
            await uncancelled(self._finisher.off_loop(attempt, finishing))

    async def _started_async(self, job: Job, *, may_wait: bool) -> Ownership | None:
        attempt = job.acquisition
        if (
            isinstance(attempt, Ownership)
            and attempt.call.invocation.tally.interrupted is None
            and attempt.call.history is None
            and self._engine.acquirer.may_start(attempt)
        ):
            return attempt
        if attempt is None:  # perhaps released a moment ago: its own row would refuse it
            async with self._releasing:
                pass
        # Cancelled meanwhile, the token is in `job.acquisition`, and released when the batch is closed.
        try:
            while True:
                attempt = await through_async(self._starting(job, may_wait=may_wait), self._clock)
                # Other work may have blocked the loop meanwhile: a lease may have run out.
                if attempt is None or self._engine.acquirer.may_start(attempt):
                    return attempt
        except (SystemExit, KeyboardInterrupt) as error:
            raise Left(error) from error

    def _starting(self, job: Job, *, may_wait: bool) -> Waits[Ownership | None]:
        """Return the attempt under which *job* runs now; None where it does not."""
        acquirer = self._engine.acquirer
        if job.call is None:
            return None
        if job.acquisition is None or (may_wait and job.is_in_progress):
            (job.acquisition,) = yield from acquirer.acquire_all([job.call], may_wait=may_wait)
        job.call.invocation.tally.raise_interruption()
        try:
            if isinstance(job.acquisition, Ownership):
                job.acquisition = yield from acquirer.make_ready(job.acquisition, may_wait=may_wait)
        except OnceError as error:
            job.acquisition = error
        job.take_outcome()
        return job.acquisition if isinstance(job.acquisition, Ownership) else None

    def _is_turn(self, job: Job) -> bool:
        """Return True once *job* may start; False where nothing may, for completions or for time."""
        pipeline = self._pipeline
        if pipeline is None:
            return True
        return (not job.follows or pipeline.wait_until_written()) and pipeline.wait_until_ready()

    async def _is_turn_async(self, job: Job) -> bool:
        """Do what `_is_turn` does on the event loop: a lane that waits takes no thread from the work."""
        pipeline = self._pipeline
        if pipeline is None:
            return True
        if job.follows and not await pipeline.wait_until_written_async():
            return False
        return pipeline.is_ready or await pipeline.wait_until_ready_async()

    def _is_withdrawn(self, job: Job) -> bool:
        """
        Whether *job* must not begin. Near the end of the invocation nothing must that has not begun.

        All of it is failed at once, here, where jobs begin, and before any of it is released: `_close` does
        that, once the completions are written.
        """
        if not self._over and self._deadline is not None and self._deadline.is_final():
            self._over = True
            self._withdraw("too little time remains; retry later")
        return isinstance(job.error, Unstarted)

    def _withdrawn(self) -> list[Ownership]:
        """Fail all that has not begun, to be retried; return the attempts to be released."""
        self._withdraw("completions of earlier records could not be written; retry later")
        return self._unstarted()

    def _withdraw(self, message: str) -> None:
        for job in self._jobs:
            if (
                job.begun
                or job.error is not None
                or job.call is None
                or isinstance(job.acquisition, Replayed | OnceError)
            ):
                continue
            job.error = Unstarted(message, token=job.call.token)

    def _before_waiting(self) -> list[Ownership]:
        """
        Return the attempts to be released before a job waits; none is acquired ahead any more.

        A waiting job holds no other token, or two invocations could deadlock.
        """
        self._left.clear()
        return self._unstarted()

    def _unstarted(self) -> list[Ownership]:
        """Return the attempts of the jobs that have not begun, which no longer have them."""
        attempts = []
        for job in self._jobs:
            if not job.begun and isinstance(job.acquisition, Ownership):
                attempts.append(job.acquisition)
                job.acquisition = None
        return attempts

    def _give_up(self, job: Job) -> None:
        """Let *job* pass if it can never succeed and *on_give_up* returns; if that raises, the job fails."""
        error = job.error
        if self._on_give_up is None or not isinstance(error, GiveUp) or not may_be_given_up(error):
            return
        try:
            self._on_give_up(job, error)
        except Exception as failed:  # noqa: BLE001  (it is the user's, and the record's error from now on)
            job.error = failed
        else:
            job.error = None

    async def _give_up_async(self, job: Job) -> None:
        if self._on_give_up is None or not isinstance(job.error, GiveUp):
            return
        try:
            await off_loop(self._give_up, job)
        except (SystemExit, KeyboardInterrupt) as error:
            raise Left(error) from error

    def _returned(self, job: Job, attempt: Ownership, value: Any) -> Waits[None]:
        self._finisher.make_ready(attempt)
        if attempt.completed is None:
            yield from self._finish(job, self._finisher.prepare_return(attempt, value))

    def _failed(self, job: Job, attempt: Ownership, error: BaseException) -> Waits[None]:
        attempt.report_exception(error)
        job.error = error
        if not isinstance(error, Exception):
            job.error = LeakedCancellation(_LEAKED)
            job.error.__cause__ = error
        self._finisher.make_ready(attempt)
        if attempt.completed is None:
            finish = self._finisher.prepare_error(attempt, error)
            if finish.event is Event.STORED:
                job.error = None  # its outcome is final, unless it cannot be written
            yield from self._finish(job, finish)

    def _finish(self, job: Job, finish: PreparedFinish) -> Waits[None]:
        if self._pipeline is not None:
            self._pipeline.submit(finish, lambda error: self._finished(job, finish, error))
            return
        try:
            yield from self._finisher.finish(finish)
        except OnceError as error:
            self._finished(job, finish, error)
        else:
            self._finished(job, finish, None)

    def _finished(self, job: Job, finish: PreparedFinish, error: BaseException | None) -> None:
        """Take the answer to *finish*; *error* is what its caller would get, if it was fenced."""
        if error is not None:
            job.error = None if is_final(error) else error
        elif finish.event is Event.STORED and finish.attempt.finished is not Event.STORED:
            job.error = finish.error

    def _begin(self, jobs: list[Job]) -> None:
        """
        Note which tokens are acquired ahead of the work.

        Under hold and probe each is acquired just before it runs: a crash must not hold work that never
        began. A second payload under a token of this batch waits for the first one's finish.
        """
        self._jobs = jobs
        first: dict[str, Job] = {}
        for job in self._jobs:
            if job.call is not None and job.call.plan.on_lapse is OnLapse.TAKE_OVER:
                first.setdefault(job.call.token, job)
        self._left = dict.fromkeys(first.values())
        workable = [job.call for job in self._jobs if job.call is not None]
        if workable:
            self._deadline = workable[0].invocation.deadline
        if self._deadline is not None and len(workable) > 1:
            self._pipeline = Pipeline(self._finisher, self._deadline, len(workable))

    def _acquire_ahead(self, job: Job) -> None:
        """Acquire the token of *job*, and those of the jobs after it up to `MOST_AHEAD`, together."""
        held = sum(not each.begun and isinstance(each.acquisition, Ownership) for each in self._jobs)
        later = (each for each in self._left if each is not job and each.error is None)
        some = [job, *islice(later, max(MOST_AHEAD - 1 - held, 0))]
        calls = [each.call for each in some if each.call is not None]
        found = through(self._engine.acquirer.acquire_all(calls, may_wait=False), self._clock)
        for each, acquisition in zip(some, found, strict=True):
            each.acquisition = acquisition
            del self._left[each]

    def _close(self) -> None:
        """Return when all that was done is written, and release the tokens of what was not started."""
        try:
            if self._pipeline is not None:
                call = next(job.call for job in self._jobs if job.call is not None)
                with call.invocation.reporter.segment("once.complete"):
                    self._pipeline.close()
                for job in self._jobs:  # a completion may be refused after the next one has begun
                    skip_behind_failure(job, self._jobs)
        finally:
            unstarted = [job.acquisition for job in self._jobs if isinstance(job.acquisition, Ownership)]
            if unstarted and self._over:
                self._finisher.withdraw([(attempt.call, attempt.id) for attempt in unstarted])
            elif unstarted:
                self._engine.release(*unstarted)


def _is_cancellation(error: BaseException) -> bool:
    import asyncio

    return isinstance(error, asyncio.CancelledError)


def _is_being_cancelled() -> bool:
    """Whether this task is being cancelled."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
