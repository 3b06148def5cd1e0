"""
One SQS batch: which records are one work, in which order they run, and which go back to the queue.

Records with one token and one fingerprint are one `Job`: the first runs, the others share its outcome. The
jobs of a standard queue are independent; those of a FIFO queue stand in *lanes*, one a message group, and
the first failure ends its lane: what follows goes back unstarted, so that the order is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.core.lifecycle import OnLapse
from lambda_once.errors import InProgress, OnceError, ResultUnavailable, RetryLater, StoredError
from lambda_once.observability.details import Happening
from lambda_once.runner.attempt import Attempt, working
from lambda_once.runner.engine import finished, off_loop
from lambda_once.runner.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from lambda_once.runner.admission import Admission
    from lambda_once.runner.call import Call
    from lambda_once.runner.engine import Engine
    from lambda_once.runner.settlement import Ending


class Job:
    """One piece of work of a batch, and what has become of it."""

    __slots__ = ("admission", "call", "error", "follows", "group", "ids", "subject")

    def __init__(self, ids: list[str | None], group: str | None) -> None:
        self.ids = ids
        """The messageIds that stand for it."""
        self.group = group
        """Its message group on a FIFO queue."""
        self.call: Call | None = None
        """None: the record is bad, and `error` says why."""
        self.follows = False
        """Another payload under the token of a job before it, whose end it waits for."""
        self.subject: Any = None
        self.admission: Admission | None = None
        """The token, or what there was instead of it; None: not asked for yet, or the work has begun."""
        self.error: BaseException | None = None
        """Why its records go back to the queue; None: they do not."""


class Skipped(RetryLater):
    """An earlier record of the message group failed: this one was not started, to keep their order."""


class Left(Exception):
    """
    Work on the event loop raised *error*, a SystemExit or KeyboardInterrupt, which is to be raised outside.

    A task that it leaves by itself stops the loop, and every other record stays where it stands.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


class Batch:
    """Works the jobs of one invocation. *function* gets a job's subject and the context."""

    def __init__(self, engine: Engine, function: Callable[[Any, Any], Any], context: Any) -> None:
        self._engine = engine
        self._function = function
        self._context = context
        self._pipeline: Pipeline | None = None

    def work(self, jobs: list[Job]) -> None:
        """Work all *jobs*, one after the other."""
        try:
            self._acquire(jobs)
            for lane in lanes(jobs):
                for job in lane:
                    if not self._is_skipped(job, lane):
                        self._work(job, may_wait=False)
            for job in waiting(jobs):
                self._work(job, may_wait=True)
        finally:
            self._close(jobs)

    async def work_async(self, jobs: list[Job], concurrency: int) -> None:
        """
        Work all *jobs*, *concurrency* lanes at once.

        Raises `Left` for a SystemExit or KeyboardInterrupt of the work, the other lanes cancelled and over.
        """
        import asyncio

        places = asyncio.Semaphore(concurrency)

        async def along(lane: list[Job], *, may_wait: bool) -> None:
            async with places:
                for job in lane:
                    if not self._is_skipped(job, lane):
                        await self._work_async(job, may_wait=may_wait)

        async def all_of(ways: Iterable[Coroutine[Any, Any, None]]) -> None:
            tasks = [asyncio.ensure_future(way) for way in ways]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        try:
            await off_loop(self._acquire, jobs)
            await all_of(along(lane, may_wait=False) for lane in lanes(jobs))
            await all_of(along([job], may_wait=True) for job in waiting(jobs))
        finally:
            await off_loop(self._close, jobs)

    # ---------------------------------------------------------------- one job

    def _work(self, job: Job, *, may_wait: bool) -> None:
        if self._pipeline is not None:
            self._wait_for(self._pipeline, job)
        attempt = self._started(job, may_wait=may_wait)
        if attempt is None:
            return
        job.admission = None
        try:
            with working(attempt):
                value = finished(self._function(job.subject, self._context), attempt)
        except Exception as error:  # noqa: BLE001  (one failing record must not take the batch down)
            self._raised(job, attempt, error)
        except BaseException as error:
            self._engine.failed(attempt, error)
            raise
        else:
            self._returned(job, attempt, value)

    async def _work_async(self, job: Job, *, may_wait: bool) -> None:
        if self._pipeline is not None and (job.follows or not self._pipeline.is_ready):
            await off_loop(self._wait_for, self._pipeline, job)
        attempt = await self._started_async(job, may_wait=may_wait)
        if attempt is None:
            return
        job.admission = None
        try:
            with working(attempt):
                value = finished(await self._function(job.subject, self._context), attempt)
        except Exception as error:  # noqa: BLE001  (as above)
            await self._settling(self._raised, job, attempt, error)
        except BaseException as error:
            await off_loop(self._engine.failed, attempt, error)
            if isinstance(error, SystemExit | KeyboardInterrupt):
                raise Left(error) from error
            raise
        else:
            await self._settling(self._returned, job, attempt, value)

    async def _settling(self, settle: Callable[..., None], *args: Any) -> None:
        """Do *settle* here where the pipeline does the writing, and off the loop where it is done at once."""
        if self._pipeline is None:
            await off_loop(settle, *args)
        else:
            settle(*args)

    async def _started_async(self, job: Job, *, may_wait: bool) -> Attempt | None:
        if isinstance(job.admission, Attempt) and self._engine.admissions.may_start(job.admission):
            return job.admission
        return await off_loop(lambda: self._started(job, may_wait=may_wait))

    def _started(self, job: Job, *, may_wait: bool) -> Attempt | None:
        """Return the attempt under which *job* is to be worked now; None where it is not."""
        admissions = self._engine.admissions
        if job.call is None:
            return None
        may_wait = may_wait and job.call.plan.waits
        if job.admission is None or may_wait:
            (job.admission,) = admissions.admit_all([job.call], may_wait=may_wait)
        try:
            if isinstance(job.admission, Attempt):
                job.admission = admissions.make_ready(job.admission, may_wait=may_wait)
        except OnceError as error:
            job.admission = error
        refused = isinstance(job.admission, OnceError) and not _is_settled(job.admission)
        job.error = job.admission if refused and isinstance(job.admission, OnceError) else None
        return job.admission if isinstance(job.admission, Attempt) else None

    def _wait_for(self, pipeline: Pipeline, job: Job) -> None:
        if job.follows:
            pipeline.wait_until_written()
        pipeline.wait_until_ready()

    def _is_skipped(self, job: Job, lane: list[Job]) -> bool:
        """Mark *job* as one that goes back unstarted, where one before it in its group has failed."""
        if job.group is None:
            return False
        failed = next((other for other in lane[: lane.index(job)] if other.error is not None), None)
        if failed is not None and job.error is None:
            job.error = Skipped(f"message {failed.ids[0]} of its group failed before it")
        return failed is not None

    # ---------------------------------------------------------------- how a job ends

    def _returned(self, job: Job, attempt: Attempt, value: Any) -> None:
        if attempt.settled is None:
            self._settle(job, self._engine.settlement.of_return(attempt, value))

    def _raised(self, job: Job, attempt: Attempt, error: Exception) -> None:
        self._engine.story.of_exception(attempt, error)
        job.error = error
        if attempt.settled is None:
            ending = self._engine.settlement.of_error(attempt, error)
            if ending.happening is Happening.STORED:
                job.error = None  # settled, unless that cannot be written
            self._settle(job, ending)

    def _settle(self, job: Job, ending: Ending) -> None:
        if self._pipeline is not None:
            self._pipeline.submit(ending, lambda error: self._concluded(job, ending, error))
            return
        try:
            self._engine.settlement.settle(ending)
        except OnceError as error:
            self._concluded(job, ending, error)
        else:
            self._concluded(job, ending, None)

    def _concluded(self, job: Job, ending: Ending, error: BaseException | None) -> None:
        """Take what the table says of *ending*; *error* is what its caller would get, if it was fenced."""
        if error is not None:
            job.error = None if _is_settled(error) else error
        elif ending.happening is Happening.STORED and ending.attempt.happened is not Happening.STORED:
            job.error = ending.error

    # ---------------------------------------------------------------- tokens of many jobs

    def _acquire(self, jobs: list[Job]) -> None:
        """
        Get the tokens of all jobs together.

        Under hold and probe each is got just before it is worked: a crash must not hold work that
        never began. A second payload under a token of this batch waits for the first one's end.
        """
        first: dict[str, Job] = {}
        for job in jobs:
            if job.call is not None and job.call.plan.on_lapse is OnLapse.TAKE_OVER:
                first.setdefault(job.call.token, job)
        calls = [job.call for job in first.values() if job.call is not None]
        workable = [job.call for job in jobs if job.call is not None]
        if len(workable) > 1:
            deadline = workable[0].invocation.deadline
            self._pipeline = Pipeline(self._engine.settlement, deadline, len(workable))
        if calls:
            admissions = self._engine.admissions.admit_all(calls, may_wait=False)
            for job, admission in zip(first.values(), admissions, strict=True):
                job.admission = admission

    def _close(self, jobs: list[Job]) -> None:
        """Return when all that was done is written, and release the tokens of what was not started."""
        if self._pipeline is not None:
            with self._engine.story.segment("once.complete"):
                self._pipeline.close()
            for lane in lanes(jobs):  # a completion may have been refused after the next one had begun
                for job in lane:
                    self._is_skipped(job, lane)
        unstarted = [job.admission for job in jobs if isinstance(job.admission, Attempt)]
        if unstarted:
            self._engine.abandon(*unstarted)


def lanes(jobs: Iterable[Job]) -> list[list[Job]]:
    """Return what must be worked in order: the message groups of a FIFO queue, else each job by itself."""
    found: dict[object, list[Job]] = {}
    for job in jobs:
        found.setdefault(job if job.group is None else job.group, []).append(job)
    return list(found.values())


def waiting(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that may wait for the other attempt's outcome now; FIFO never waits."""
    return [
        job
        for job in jobs
        if job.group is None
        and job.call is not None
        and job.call.plan.waits
        and isinstance(job.error, InProgress)
    ]


def _is_settled(error: BaseException) -> bool:
    """Tell whether the work is settled although it has no result: its message must not come again."""
    return isinstance(error, StoredError | ResultUnavailable)
