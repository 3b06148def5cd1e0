"""One batch: its tokens are acquired, its jobs run lane by lane, its completions are written together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import Waits, has_running_loop, through
from lambda_once.core.lifecycle import OnLapse
from lambda_once.engine.engine import Engine, done
from lambda_once.engine.jobs import Job, Unstarted, is_final, lanes, skip_behind_failure, waiting
from lambda_once.engine.ownership import Ownership, PreparedFinish
from lambda_once.engine.pipeline import Pipeline
from lambda_once.engine.replay import Replayed
from lambda_once.engine.waiting import off_loop, through_async, uncancelled
from lambda_once.errors import GiveUp, Misconfigured, OnceError
from lambda_once.observability.events import Event

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable


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
        self._releasing: asyncio.Lock
        """Of async work: held while tokens are released for a job that waits."""

    def run(self, jobs: list[Job]) -> None:
        """Run all *jobs*, one after the other."""
        self._jobs = jobs
        try:
            self._acquire()
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

        self._jobs = jobs
        self._releasing = asyncio.Lock()
        places = asyncio.Semaphore(concurrency)

        async def along(lane: list[Job], *, may_wait: bool) -> None:
            async with places:
                for job in lane:
                    if not skip_behind_failure(job, jobs):
                        await self._run_async(job, may_wait=may_wait or job.waits)
                        await self._give_up_async(job)

        async def all_of(ways: Iterable[Coroutine[Any, Any, None]]) -> None:
            tasks = [asyncio.ensure_future(way) for way in ways]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        try:
            await off_loop(self._acquire)
            await all_of(along(lane, may_wait=False) for lane in lanes(jobs))
            await all_of(along([job], may_wait=True) for job in waiting(jobs))
        finally:
            await off_loop(self._close)

    def _run(self, job: Job, *, may_wait: bool) -> None:
        if job.take_known_outcome(may_wait=may_wait):
            return
        if not self._is_turn(self._pipeline, job):
            self._engine.release(*self._withdrawn())
        if isinstance(job.error, Unstarted):
            return
        if may_wait and job.is_in_progress:
            self._engine.release(*self._unstarted())
        job.begun = True
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
        if job.take_known_outcome(may_wait=may_wait):
            return
        pipeline = self._pipeline
        must_ask = pipeline is not None and (job.follows or not pipeline.is_ready)
        if must_ask and not await off_loop(self._is_turn, pipeline, job):
            await off_loop(self._engine.release, *self._withdrawn())
        if isinstance(job.error, Unstarted):
            return
        if may_wait and job.is_in_progress:
            async with self._releasing:
                await off_loop(self._engine.release, *self._unstarted())  # taken here, where jobs begin
        job.begun = True
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
        """Finish here where the pipeline writes, and off the loop where it may wait."""
        call = attempt.call
        blocks = attempt.unprotected or call.history is not None or call.plan.seal is not None
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
            return await through_async(self._starting(job, may_wait=may_wait), self._clock)
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

    def _is_turn(self, pipeline: Pipeline | None, job: Job) -> bool:
        """Return True once *job* may start; False where the table takes no completions, and nothing may."""
        if pipeline is None:
            return True
        return (not job.follows or pipeline.wait_until_written()) and pipeline.wait_until_ready()

    def _withdrawn(self) -> list[Ownership]:
        """Fail all that has not begun, to be retried; return the attempts to be released."""
        for job in self._jobs:
            if (
                job.begun
                or job.error is not None
                or job.call is None
                or isinstance(job.acquisition, Replayed | OnceError)
            ):
                continue
            message = "completions of earlier records could not be written; retry later"
            job.error = Unstarted(message, token=job.call.token)
        return self._unstarted()

    def _unstarted(self) -> list[Ownership]:
        """
        Return the attempts of the jobs that have not begun, which no longer have them.

        Who waits for a token holds none: two invocations that wait for each other's would wait in vain.
        """
        attempts = []
        for job in self._jobs:
            if not job.begun and isinstance(job.acquisition, Ownership):
                attempts.append(job.acquisition)
                job.acquisition = None
        return attempts

    def _give_up(self, job: Job) -> None:
        """Let *job* pass if it can never succeed and *on_give_up* returns; if that raises, the job fails."""
        error = job.error
        if self._on_give_up is None or not isinstance(error, GiveUp) or isinstance(error, Misconfigured):
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

    def _acquire(self) -> None:
        """
        Acquire the tokens of all jobs together.

        Under hold and probe each is acquired just before it runs: a crash must not hold work that never
        began. A second payload under a token of this batch waits for the first one's finish.
        """
        first: dict[str, Job] = {}
        for job in self._jobs:
            if job.call is not None and job.call.plan.on_lapse is OnLapse.TAKE_OVER:
                first.setdefault(job.call.token, job)
        calls = [job.call for job in first.values() if job.call is not None]
        workable = [job.call for job in self._jobs if job.call is not None]
        if len(workable) > 1:
            self._pipeline = Pipeline(self._finisher, workable[0].invocation.deadline, len(workable))
        if calls:
            found = through(self._engine.acquirer.acquire_all(calls, may_wait=False), self._clock)
            for job, acquisition in zip(first.values(), found, strict=True):
                job.acquisition = acquisition

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
            if unstarted:
                self._engine.release(*unstarted)


def _is_cancellation(error: BaseException) -> bool:
    import asyncio

    return isinstance(error, asyncio.CancelledError)


def _is_being_cancelled() -> bool:
    """Whether this task is being cancelled."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
