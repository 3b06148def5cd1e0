"""
One SQS batch: which records share a job, in which order jobs run, and which records are retried.

Records with one token and one fingerprint are one `Job`: the first runs, the others share its outcome. The
jobs of a standard queue are independent; those of a FIFO queue are in *lanes*, one a message group (groups
that share a job share a lane). A failure stops each group that has a record in the job: what follows there is
retried unstarted, so that the order is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import has_running_loop, through
from lambda_once.core.lifecycle import OnLapse
from lambda_once.engine.engine import done
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.pipeline import Pipeline
from lambda_once.engine.replay import Replayed
from lambda_once.engine.waiting import off_loop, through_async, uncancelled
from lambda_once.errors import InProgress, OnceError, ResultUnavailable, RetryLater, StoredError
from lambda_once.observability.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from lambda_once.core.clock import Waits
    from lambda_once.engine.acquire import Acquisition
    from lambda_once.engine.engine import Engine
    from lambda_once.engine.invocation import Call
    from lambda_once.engine.ownership import PreparedFinish


_LEAKED = "the handler raised CancelledError, but its task was not cancelled; only this record failed"


class Job:
    """One piece of work of a batch, and how far it is."""

    __slots__ = ("acquisition", "argument", "begun", "call", "error", "follows", "groups", "ids")

    def __init__(
        self, id_: str | None, group: str | None, call: Call | None = None, argument: Any = None
    ) -> None:
        self.ids = [id_]
        """The messageIds of its records."""
        self.groups = set() if group is None else {group}
        """The message groups that its records belong to, on a FIFO queue."""
        self.call = call
        """None: the record is bad, and `error` says why."""
        self.follows = False
        """Another payload under the token of an earlier job, whose finish it waits for."""
        self.argument = argument
        self.acquisition: Acquisition | None = None
        """None: not tried yet, or the work has begun."""
        self.begun = False
        """Whether it is being started, or over."""
        self.error: BaseException | None = None
        """Why its records are retried; None: they are not."""

    def fold(self, id_: str | None, group: str | None) -> None:
        """Add another record, which shares the outcome."""
        self.ids.append(id_)
        if group is not None:
            self.groups.add(group)

    @property
    def has_outcome(self) -> bool:
        """Whether it was a duplicate or was refused, and nothing interrupts the batch."""
        call, found = self.call, isinstance(self.acquisition, Replayed | OnceError)
        return found and call is not None and call.invocation.tally.interrupted is None

    def take_outcome(self) -> None:
        """Begin, and fail if the token was refused."""
        self.begun = True
        found = self.acquisition
        self.error = found if isinstance(found, OnceError) and not _is_final(found) else None


class Skipped(RetryLater):
    """An earlier record of the message group failed: this one was not started, to keep their order."""


class Unstarted(RetryLater):
    """The table does not take the completions of the records before it, so this one was not started."""


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
    """Runs the jobs of one invocation. *function* gets a job's argument and the context."""

    def __init__(self, engine: Engine, function: Callable[[Any, Any], Any], context: Any) -> None:
        self._engine = engine
        self._finisher = engine.finisher
        self._clock = engine.clock
        self._function = function
        self._context = context
        self._pipeline: Pipeline | None = None
        self._jobs: list[Job] = []

    def run(self, jobs: list[Job]) -> None:
        """Run all *jobs*, one after the other."""
        self._jobs = jobs
        try:
            self._acquire()
            for lane in lanes(jobs):
                for job in lane:
                    if not self._is_skipped(job, lane):
                        self._run(job, may_wait=False)
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
        places = asyncio.Semaphore(concurrency)

        async def along(lane: list[Job], *, may_wait: bool) -> None:
            async with places:
                for job in lane:
                    if not self._is_skipped(job, lane):
                        await self._run_async(job, may_wait=may_wait)

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
        if not may_wait and job.has_outcome:
            job.take_outcome()
            return
        if not self._is_turn(self._pipeline, job):
            self._engine.release(*self._withdrawn())
        if isinstance(job.error, Unstarted):
            return
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
        if not may_wait and job.has_outcome:
            job.take_outcome()
            return
        pipeline = self._pipeline
        must_ask = pipeline is not None and (job.follows or not pipeline.is_ready)
        if must_ask and not await off_loop(self._is_turn, pipeline, job):
            await off_loop(self._engine.release, *self._withdrawn())
        if isinstance(job.error, Unstarted):
            return
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
        if self._pipeline is not None and attempt.close() is None and not attempt.unprotected:
            through(finishing, self._clock)
        else:
            await uncancelled(self._finisher.off_loop(attempt, finishing))

    async def _started_async(self, job: Job, *, may_wait: bool) -> Ownership | None:
        attempt = job.acquisition
        if (
            isinstance(attempt, Ownership)
            and attempt.call.invocation.tally.interrupted is None
            and self._engine.acquirer.may_start(attempt)
        ):
            return attempt
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
        if job.acquisition is None or may_wait:
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
        attempts = []
        for job in self._jobs:
            if (
                job.begun
                or job.error is not None
                or job.call is None
                or isinstance(job.acquisition, Replayed | OnceError)
            ):
                continue
            if isinstance(job.acquisition, Ownership):
                attempts.append(job.acquisition)
            message = "completions of earlier records could not be written; retry later"
            job.acquisition, job.error = None, Unstarted(message, token=job.call.token)
        return attempts

    def _is_skipped(self, job: Job, lane: list[Job]) -> bool:
        """Whether an earlier job of its group has failed; *job* fails too then, unstarted."""
        earlier = lane[: lane.index(job)]
        failed = next((each for each in earlier if each.error is not None and each.groups & job.groups), None)
        if failed is not None and job.error is None:
            job.error = Skipped(f"an earlier message of its group failed: {failed.ids[0]}")
        return failed is not None

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
            job.error = None if _is_final(error) else error
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
                for lane in lanes(self._jobs):  # a completion may be refused after the next one has begun
                    for job in lane:
                        self._is_skipped(job, lane)
        finally:
            unstarted = [job.acquisition for job in self._jobs if isinstance(job.acquisition, Ownership)]
            if unstarted:
                self._engine.release(*unstarted)


def lanes(jobs: Sequence[Job]) -> list[list[Job]]:
    """
    Return the jobs that must run in order as lists, each in the order of *jobs*.

    That is one for each FIFO message group (joined where a job has records of several) or standard job.
    """
    if not any(job.groups for job in jobs):
        return [[job] for job in jobs]
    found: list[tuple[set[str], list[tuple[int, Job]]]] = []
    for numbered in enumerate(jobs):
        groups = numbered[1].groups
        joined = [lane for lane in found if lane[0] & groups]
        found = [lane for lane in found if not lane[0] & groups]
        lane = sorted([*(one for _, members in joined for one in members), numbered], key=lambda one: one[0])
        found.append((groups.union(*(names for names, _ in joined)), lane))
    found.sort(key=lambda lane: lane[1][0][0])
    return [[job for _, job in members] for _, members in found]


def waiting(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that may wait for the other attempt's outcome now; FIFO never waits."""
    refused = [(job, job.call) for job in jobs if not job.groups and isinstance(job.error, InProgress)]
    return [job for job, call in refused if call is not None and (call.plan.waits or call.waits_for_own)]


def _is_cancellation(error: BaseException) -> bool:
    import asyncio

    return isinstance(error, asyncio.CancelledError)


def _is_being_cancelled() -> bool:
    """Whether this task is being cancelled."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_final(error: BaseException) -> bool:
    """Whether the outcome is final although it is no result: its message must not be retried."""
    return isinstance(error, StoredError | ResultUnavailable)
