"""
Run a batch: acquire its tokens, run its jobs lane by lane, and write its completions together.

A job that is alone runs as a single call. Of many, tokens are acquired ahead of the work and completions are
written behind it, which is why a batch of ten costs four requests, and why a job has so many states. Errors
are values here, as a failed record must not stop the others. Plain work and async work each have their copy
of `_begins` and `_run`: the one blocks where the other must not, under three locks. That is the ugliest part.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import Waits, has_running_loop, through
from lambda_once.core.lifecycle import OnLapse
from lambda_once.engine.engine import Engine, done
from lambda_once.engine.finish import PreparedFinish
from lambda_once.engine.invocation import Redelivery, Tokenless
from lambda_once.engine.lanes import (
    Job,
    LeakedCancellation,
    Unstarted,
    is_final,
    lanes,
    may_be_given_up,
    skip_behind_failure,
    waiting,
)
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.pipeline import Pipeline
from lambda_once.engine.waiting import off_loop, through_async, uncancelled
from lambda_once.errors import GiveUp, OnceError
from lambda_once.observability.events import Event

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable

    from lambda_once.core.clock import Deadline
    from lambda_once.engine.lanes import Failures

MOST_AHEAD = 100
"""Most tokens acquired ahead of the work: four parallel requests can release that many at the end."""
_TOO_LATE = "too little time remains; retry later"
_LEAKED = "the handler raised CancelledError, but its task was not cancelled; only this record failed"


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

    *on_give_up* is called with each job that can never succeed, in its turn, and its error. If it returns,
    the job is done and its sequence continues.
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
        self._left: deque[Job] = deque()
        """Jobs whose tokens are to be acquired ahead, in order; some may already be (see `Job.ahead`)."""
        self._unbegun: dict[Job, None] = {}
        """Jobs that have not begun and whose tokens were acquired ahead."""
        self._open: list[Job] = []
        """All jobs; empty once those that have not begun are withdrawn."""
        self._deadline: Deadline | None = None
        """None: all records of the batch are bad."""
        self._over = False
        """Whether the invocation is about to end; no further job begins then."""
        self._acquiring: asyncio.Lock
        """Async work only: held while tokens are acquired ahead."""
        self._releasing: asyncio.Lock
        """Async work only: held while tokens are released before a job waits."""

    def run(self, jobs: list[Job]) -> None:
        """Run all *jobs*, one after the other."""
        if len(jobs) == 1:
            self._run_alone(jobs[0])
            return
        self._begin(jobs)
        try:
            for lane in lanes(jobs):
                for job in lane:
                    if not skip_behind_failure(job):
                        self._run(job, may_wait=job.waits)
                        if job.error is not None:
                            self._give_up(job)
            for job in waiting(jobs):
                self._run(job, may_wait=True)
        finally:
            self._close()

    def _run_alone(self, job: Job) -> None:
        """Run the only *job* of a batch: nothing is acquired ahead of it, and nothing is behind it."""
        call = job.call
        if job.unprotected is not None:
            self._deadline = job.unprotected.invocation.deadline
            self._open = [job]
            self._run(job, may_wait=False)
        elif call is None:
            job.take_known_outcome(may_wait=False)
        elif call.invocation.deadline.is_final():
            job.fail(Unstarted(_TOO_LATE, token=call.token))
        else:
            try:
                acquired = self._engine.start(
                    call, may_wait=call.source.redelivery is Redelivery.IN_ORDER or not job.groups
                )
            except OnceError as error:
                call.invocation.tally.raise_interruption()
                job.acquired(error)
                job.take_outcome()
            else:
                job.begun = True
                if isinstance(acquired, Ownership):
                    self._work(job, acquired)
        if job.error is not None:
            self._give_up(job)

    async def run_async(self, jobs: list[Job], concurrency: int) -> None:
        """
        Run all *jobs*, *concurrency* lanes at once.

        If the work raises SystemExit or KeyboardInterrupt, cancels the other lanes and raises `Left`.
        """
        import asyncio

        self._begin(jobs)
        self._acquiring, self._releasing = asyncio.Lock(), asyncio.Lock()
        places = asyncio.Semaphore(concurrency)

        async def along(lane: list[Job], *, may_wait: bool) -> None:
            async with places:
                for job in lane:
                    if not skip_behind_failure(job):
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
        """Begin *job* if it has no outcome yet and there is time for it; return whether it begins."""
        if self._is_withdrawn(job):
            return False
        if job.ahead:
            self._acquire_ahead(job)
        if job.take_known_outcome(may_wait=may_wait):
            return False
        may = self._pipeline is None or self._pipeline.wait(written=job.follows)
        if not may and not self._is_withdrawn(job):
            self._finisher.give_back(*self._withdrawn())
        if isinstance(job.error, Unstarted):
            return False
        if may_wait and job.is_in_progress:
            self._finisher.give_back(*self._before_waiting())
        job.begun = True
        self._unbegun.pop(job, None)
        return True

    async def _begins_async(self, job: Job, *, may_wait: bool) -> bool:
        """Do what `_begins` does for async work."""
        if self._is_withdrawn(job):
            return False
        if job.ahead:
            async with self._acquiring:
                if job.ahead:
                    await off_loop(self._acquire_ahead, job)
        if job.take_known_outcome(may_wait=may_wait):
            return False
        may = self._pipeline is None or await self._pipeline.wait_async(written=job.follows)
        if not may and not self._is_withdrawn(job):
            await off_loop(self._finisher.give_back, *self._withdrawn())
        if isinstance(job.error, Unstarted):
            return False
        if may_wait and job.is_in_progress:
            async with self._acquiring, self._releasing:  # taken here, where jobs begin
                await off_loop(self._finisher.give_back, *self._before_waiting())
        job.begun = True
        self._unbegun.pop(job, None)
        return True

    def _run(self, job: Job, *, may_wait: bool) -> None:
        if not self._begins(job, may_wait=may_wait):
            return
        if job.unprotected is not None:
            self._work_unprotected(job, job.unprotected)
            return
        ownership = through(self._starting(job, may_wait=may_wait and not has_running_loop()), self._clock)
        if ownership is not None:
            job.ownership = None
            self._work(job, ownership)

    def _work(self, job: Job, ownership: Ownership) -> None:
        try:
            with self._engine.as_current(ownership):
                value = done(self._function(job.argument, self._context), ownership)
        except BaseException as error:
            # Plain work cannot be cancelled, so this CancelledError leaked from something else.
            if not isinstance(error, Exception) and not _is_cancellation(error):
                through(self._engine.failed(ownership, error), self._clock)
                raise
            through(self._failed(job, ownership, error), self._clock)
        else:
            through(self._returned(job, ownership, value), self._clock)

    def _work_unprotected(self, job: Job, unprotected: Tokenless) -> None:
        try:
            unprotected.invocation.tally.raise_interruption()
            done(self._function(job.argument, self._context), unprotected)
        except BaseException as error:
            if not isinstance(error, Exception) and not _is_cancellation(error):
                raise
            unprotected.report(Event.RAISED, error=type(error).__name__, exception=error)
            job.fail(_failure(error))

    async def _run_async(self, job: Job, *, may_wait: bool) -> None:
        if not await self._begins_async(job, may_wait=may_wait):
            return
        if job.unprotected is not None:
            await self._work_unprotected_async(job, job.unprotected)
            return
        ownership = await self._started_async(job, may_wait=may_wait)
        if ownership is None:
            return
        job.ownership = None
        try:
            with self._engine.as_current(ownership):
                value = done(await self._function(job.argument, self._context), ownership)
        except BaseException as error:
            is_leaked = _is_cancellation(error) and not _is_being_cancelled()
            if not isinstance(error, Exception) and not is_leaked:
                await uncancelled(self._finisher.off_loop(ownership, self._engine.failed(ownership, error)))
                if isinstance(error, SystemExit | KeyboardInterrupt):
                    raise Left(error) from error
                raise
            await self._finish_async(ownership, self._failed(job, ownership, error))
        else:
            await self._finish_async(ownership, self._returned(job, ownership, value))

    async def _work_unprotected_async(self, job: Job, unprotected: Tokenless) -> None:
        try:
            unprotected.invocation.tally.raise_interruption()
            done(await self._function(job.argument, self._context), unprotected)
        except (SystemExit, KeyboardInterrupt) as error:
            raise Left(error) from error
        except BaseException as error:
            if not isinstance(error, Exception) and (not _is_cancellation(error) or _is_being_cancelled()):
                raise
            unprotected.report(Event.RAISED, error=type(error).__name__, exception=error)
            job.fail(_failure(error))

    async def _finish_async(self, ownership: Ownership, finishing: Waits[None]) -> None:
        """Finish on the event loop if the pipeline writes and nothing blocks, else in a thread."""
        call = ownership.call
        blocks = call.consults or call.settings.seal is not None
        if self._pipeline is not None and ownership.close() is None and not blocks:
            through(finishing, self._clock)
        else:
            await uncancelled(self._finisher.off_loop(ownership, finishing))

    async def _started_async(self, job: Job, *, may_wait: bool) -> Ownership | None:
        ownership = job.ownership
        if (
            ownership is not None
            and ownership.call.invocation.tally.interrupted is None
            and not ownership.call.consults
            and self._engine.may_start(ownership)
        ):
            return ownership
        if ownership is None and job.known is None:
            # Its token may be in the middle of a release; wait, or its own row would refuse it.
            async with self._releasing:
                pass
        # If it is cancelled, the token is in `job.ownership` and is released when the batch is closed.
        try:
            while True:
                ownership = await through_async(self._starting(job, may_wait=may_wait), self._clock)
                # Other work may have blocked the loop meanwhile, and the lease may have expired.
                if ownership is None or self._engine.may_start(ownership):
                    return ownership
        except (SystemExit, KeyboardInterrupt) as error:
            raise Left(error) from error

    def _starting(self, job: Job, *, may_wait: bool) -> Waits[Ownership | None]:
        """Return the ownership under which *job* runs now; None if it does not run."""
        if job.call is None:
            return None
        if job.ownership is None and (job.known is None or (may_wait and job.is_in_progress)):
            try:
                job.acquired((yield from self._engine.acquire(job.call, may_wait=may_wait)))
            except OnceError as error:
                job.acquired(error)
        job.call.invocation.tally.raise_interruption()
        try:
            if job.ownership is not None:
                job.acquired((yield from self._engine.make_ready(job.ownership, may_wait=may_wait)))
        except OnceError as error:
            job.acquired(error)
        job.take_outcome()
        return job.ownership

    def _is_withdrawn(self, job: Job) -> bool:
        """
        Whether *job* must not begin. Near the end of the invocation no further job begins.

        All jobs that have not begun are failed here at once, before any token is released: `_close` releases
        them after the completions are written.
        """
        if not self._over and self._deadline is not None and self._deadline.is_final():
            self._over = True
            self._withdraw(_TOO_LATE)
        return isinstance(job.error, Unstarted)

    def _withdrawn(self) -> list[Ownership]:
        """Fail all jobs that have not begun, to be retried; return the ownerships to release."""
        self._withdraw("completions of earlier records could not be written; retry later")
        return self._unstarted()

    def _withdraw(self, message: str) -> None:
        jobs, self._open = self._open, []
        for job in jobs:
            is_open = not job.begun and job.error is None and job.known is None
            if is_open and (job.call is not None or job.unprotected is not None):
                job.fail(Unstarted(message, token=None if job.call is None else job.call.token))

    def _before_waiting(self) -> list[Ownership]:
        """
        Return the ownerships to release before a job waits, and acquire none ahead any more.

        A waiting job holds no other token, or two invocations could deadlock.
        """
        while self._left:
            self._left.popleft().ahead = False
        return self._unstarted()

    def _unstarted(self) -> list[Ownership]:
        """Take the ownerships from the jobs that have not begun, and return them."""
        ownerships = []
        for job in [*self._unbegun]:  # a thread may be acquiring more of them
            self._unbegun.pop(job)
            if job.ownership is not None:
                ownerships.append(job.ownership)
                job.ownership = None
        return ownerships

    def _give_up(self, job: Job) -> None:
        """Call *on_give_up* if *job* can never succeed. The job is then done, or fails if the call raises."""
        error = job.error
        if self._on_give_up is None or not isinstance(error, GiveUp) or not may_be_given_up(error):
            return
        try:
            self._on_give_up(job, error)
        except Exception as failed:  # noqa: BLE001  (it is the user's, and the record's error from now on)
            job.fail(failed)
        else:
            job.error = None

    async def _give_up_async(self, job: Job) -> None:
        if self._on_give_up is None or not isinstance(job.error, GiveUp):
            return
        try:
            await off_loop(self._give_up, job)
        except (SystemExit, KeyboardInterrupt) as error:
            raise Left(error) from error

    def _returned(self, job: Job, ownership: Ownership, value: Any) -> Waits[None]:
        self._finisher.make_ready(ownership)
        if ownership.completed is None:
            yield from self._finish(job, self._finisher.prepare_return(ownership, value))

    def _failed(self, job: Job, ownership: Ownership, error: BaseException) -> Waits[None]:
        ownership.call.report(Event.RAISED, ownership, error=type(error).__name__, exception=error)
        job.fail(_failure(error))
        self._finisher.make_ready(ownership)
        if ownership.completed is None:
            finish = self._finisher.prepare_error(ownership, error)
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
        """Process the answer to *finish*; *error* is the exception that its caller would get, or None."""
        if error is not None and not is_final(error):
            job.fail(error)
        elif error is not None:
            job.error = None
        elif (
            finish.error is not None
            and finish.event is Event.STORED
            and finish.ownership.finished is not Event.STORED
        ):
            job.fail(finish.error)

    def _begin(self, jobs: list[Job]) -> None:
        """
        Mark the tokens to acquire ahead of the work.

        If lapsed work is held or probed, each token is acquired just before its job runs: a crash must not
        hold work that never began. Only the first job of a token is marked.
        """
        self._jobs = self._open = jobs
        first: dict[str, Job] = {}
        failures: Failures = {}
        for position, job in enumerate(jobs):
            job.position, job.failures = position, failures
            if job.call is not None and job.call.settings.rule is OnLapse.TAKE_OVER:
                job.ahead = first.setdefault(job.call.token, job) is job
        self._left.extend(first.values())
        workable = [job.call for job in jobs if job.call is not None]
        invocations = [call.invocation for call in workable]
        invocations += [job.unprotected.invocation for job in jobs if job.unprotected is not None]
        if invocations:
            self._deadline = invocations[0].deadline
        if self._deadline is not None and len(workable) > 1:
            self._pipeline = Pipeline(self._finisher, self._deadline, len(workable))

    def _acquire_ahead(self, job: Job) -> None:
        """Acquire the tokens of *job* and of later jobs together, up to `MOST_AHEAD`."""
        some = [job]
        while self._left and len(some) < MOST_AHEAD - len(self._unbegun):
            later = self._left.popleft()
            if later.ahead and later.error is None and later is not job:
                some.append(later)
        calls = [each.call for each in some if each.call is not None]
        for each, acquisition in zip(some, self._engine.acquire_all(calls), strict=True):
            each.acquired(acquisition)
            each.ahead = False
            if each.ownership is not None:
                self._unbegun[each] = None

    def _close(self) -> None:
        """Write what is left, and release the tokens of jobs that did not start."""
        try:
            if self._pipeline is not None:
                call = next(job.call for job in self._jobs if job.call is not None)
                with call.invocation.reporter.segment("once.complete"):
                    self._pipeline.close()
                for job in self._jobs:  # a completion may be refused after the next one has begun
                    skip_behind_failure(job)
        finally:
            unstarted = [job.ownership for job in self._jobs if job.ownership is not None]
            self._finisher.give_back(*unstarted, in_one_line=self._over)


def _failure(error: BaseException) -> BaseException:
    """Return why a record fails that raised *error*, an Exception or a cancellation that leaked."""
    if isinstance(error, Exception):
        return error
    failure = LeakedCancellation(_LEAKED)
    failure.__cause__ = error
    return failure


def _is_cancellation(error: BaseException) -> bool:
    import asyncio

    return isinstance(error, asyncio.CancelledError)


def _is_being_cancelled() -> bool:
    """Whether this task is being cancelled."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
