"""
One SQS batch: which records are one work, in which order they run, and which go back to the queue.

Records with one token and one fingerprint are one `Job`: the first runs, the others share its outcome. The
jobs of a standard queue are independent; those of a FIFO queue stand in *lanes*, one a message group (groups
that share a job share a lane). The first failure ends each group that has a record in it: what follows there
goes back unstarted, so that the order is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.core.lifecycle import OnLapse
from lambda_once.engine.engine import finished
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.pipeline import Pipeline
from lambda_once.engine.waiting import has_running_loop, off_loop, through, through_async, uncancelled
from lambda_once.errors import InProgress, OnceError, ResultUnavailable, RetryLater, StoredError
from lambda_once.observability.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from lambda_once.engine.acquire import Admission
    from lambda_once.engine.call import Call
    from lambda_once.engine.engine import Engine
    from lambda_once.engine.ownership import Ending
    from lambda_once.engine.waiting import Waits


class Job:
    """One piece of work of a batch, and what has become of it."""

    __slots__ = ("admission", "begun", "call", "error", "follows", "groups", "ids", "subject")

    def __init__(self, id_: str | None, group: str | None) -> None:
        self.ids = [id_]
        """The messageIds that stand for it."""
        self.groups = set() if group is None else {group}
        """The message groups that its records belong to, on a FIFO queue."""
        self.call: Call | None = None
        """None: the record is bad, and `error` says why."""
        self.follows = False
        """Another payload under the token of a job before it, whose end it waits for."""
        self.subject: Any = None
        self.admission: Admission | None = None
        """The token, or what there was instead of it; None: not asked for yet, or the work has begun."""
        self.begun = False
        """Whether it was its turn: it is being started, or over."""
        self.error: BaseException | None = None
        """Why its records go back to the queue; None: they do not."""

    def fold(self, id_: str | None, group: str | None) -> None:
        """Let another record share the outcome."""
        self.ids.append(id_)
        if group is not None:
            self.groups.add(group)


class Skipped(RetryLater):
    """An earlier record of the message group failed: this one was not started, to keep their order."""


class Unstarted(RetryLater):
    """The table does not take the completions of the records before it, so this one was not started."""


class LeakedCancellation(Exception):
    """The work raised CancelledError although nobody cancelled it: one of its own awaits was cancelled."""


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
        self._clock = engine.clock
        self._function = function
        self._context = context
        self._pipeline: Pipeline | None = None
        self._jobs: list[Job] = []

    def work(self, jobs: list[Job]) -> None:
        """Work all *jobs*, one after the other."""
        self._jobs = jobs
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

        self._jobs = jobs
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
        if not self._is_turn(self._pipeline, job):
            self._engine.abandon(*self._withdrawn())
        if isinstance(job.error, Unstarted):
            return
        job.begun = True
        attempt = through(self._starting(job, may_wait=may_wait and not has_running_loop()), self._clock)
        if attempt is None:
            return
        job.admission = None
        try:
            with self._engine.as_current(attempt):
                value = finished(self._function(job.subject, self._context), attempt)
        except Exception as error:  # noqa: BLE001  (one failing record must not take the batch down)
            through(self._raised(job, attempt, error), self._clock)
        except BaseException as error:
            if _is_cancellation(error):  # plain work cannot be cancelled: it was somebody else's
                through(self._raised(job, attempt, error), self._clock)
                return
            through(self._engine.failed(attempt, error), self._clock)
            raise
        else:
            through(self._returned(job, attempt, value), self._clock)

    async def _work_async(self, job: Job, *, may_wait: bool) -> None:
        pipeline = self._pipeline
        must_ask = pipeline is not None and (job.follows or not pipeline.is_ready)
        if must_ask and not await off_loop(self._is_turn, pipeline, job):
            await off_loop(self._engine.abandon, *self._withdrawn())
        if isinstance(job.error, Unstarted):
            return
        job.begun = True
        attempt = await self._started_async(job, may_wait=may_wait)
        if attempt is None:
            return
        job.admission = None
        try:
            with self._engine.as_current(attempt):
                value = finished(await self._function(job.subject, self._context), attempt)
        except Exception as error:  # noqa: BLE001  (as above)
            await self._settling(attempt, self._raised(job, attempt, error))
        except BaseException as error:
            if _is_cancellation(error) and not _is_being_cancelled():
                await self._settling(attempt, self._raised(job, attempt, error))
                return
            await uncancelled(self._engine.settlement.off_loop(attempt, self._engine.failed(attempt, error)))
            if isinstance(error, SystemExit | KeyboardInterrupt):
                raise Left(error) from error
            raise
        else:
            await self._settling(attempt, self._returned(job, attempt, value))

    async def _settling(self, attempt: Ownership, settling: Waits[None]) -> None:
        """Do *settling* here where the pipeline does the writing, and off the loop where it may wait."""
        if self._pipeline is not None and attempt.close() is None and not attempt.unprotected:
            through(settling, self._clock)
        else:
            await uncancelled(self._engine.settlement.off_loop(attempt, settling))

    async def _started_async(self, job: Job, *, may_wait: bool) -> Ownership | None:
        admission = job.admission
        if isinstance(admission, Ownership) and self._may_start(admission):
            return admission
        # Cancelled meanwhile, the token is in `job.admission`, and released when the batch is closed.
        try:
            return await through_async(self._starting(job, may_wait=may_wait), self._clock)
        except (SystemExit, KeyboardInterrupt) as error:
            raise Left(error) from error

    def _may_start(self, attempt: Ownership) -> bool:
        interrupted = attempt.call.invocation.tally.interrupted is not None
        return not interrupted and self._engine.admissions.may_start(attempt)

    def _starting(self, job: Job, *, may_wait: bool) -> Waits[Ownership | None]:
        """Return the attempt under which *job* is to be worked now; None where it is not."""
        admissions = self._engine.admissions
        if job.call is None:
            return None
        if job.admission is None or may_wait:
            (job.admission,) = yield from admissions.admit_all([job.call], may_wait=may_wait)
        job.call.invocation.tally.raise_interruption()
        try:
            if isinstance(job.admission, Ownership):
                job.admission = yield from admissions.make_ready(job.admission, may_wait=may_wait)
        except OnceError as error:
            job.admission = error
        refused = isinstance(job.admission, OnceError) and not _is_settled(job.admission)
        job.error = job.admission if refused and isinstance(job.admission, OnceError) else None
        return job.admission if isinstance(job.admission, Ownership) else None

    def _is_turn(self, pipeline: Pipeline | None, job: Job) -> bool:
        """Return once *job* may start; False where the table takes no completions, and nothing may."""
        if pipeline is None:
            return True
        return (not job.follows or pipeline.wait_until_written()) and pipeline.wait_until_ready()

    def _withdrawn(self) -> list[Ownership]:
        """Let all that has not begun go back to where it came from; return the attempts to be released."""
        attempts = []
        for job in self._jobs:
            if job.begun or job.error is not None or job.call is None or _is_answered(job):
                continue
            if isinstance(job.admission, Ownership):
                attempts.append(job.admission)
            message = "completions of earlier records could not be written; retry later"
            job.admission, job.error = None, Unstarted(message, token=job.call.token)
        return attempts

    def _is_skipped(self, job: Job, lane: list[Job]) -> bool:
        """Mark *job* as one that goes back unstarted, where one before it in one of its groups has failed."""
        failed = next(
            (
                other
                for other in lane[: lane.index(job)]
                if other.error is not None and other.groups & job.groups
            ),
            None,
        )
        if failed is not None and job.error is None:
            job.error = Skipped(f"an earlier message of its group failed: {failed.ids[0]}")
        return failed is not None

    # ---------------------------------------------------------------- how a job ends

    def _returned(self, job: Job, attempt: Ownership, value: Any) -> Waits[None]:
        self._engine.settlement.make_ready(attempt)
        if attempt.settled is None:
            yield from self._settle(job, self._engine.settlement.of_return(attempt, value))

    def _raised(self, job: Job, attempt: Ownership, error: BaseException) -> Waits[None]:
        self._engine.story.of_exception(attempt, error)
        job.error = error if isinstance(error, Exception) else _leaked(error)
        self._engine.settlement.make_ready(attempt)
        if attempt.settled is None:
            ending = self._engine.settlement.of_error(attempt, error)
            if ending.happening is Event.STORED:
                job.error = None  # settled, unless that cannot be written
            yield from self._settle(job, ending)

    def _settle(self, job: Job, ending: Ending) -> Waits[None]:
        if self._pipeline is not None:
            self._pipeline.submit(ending, lambda error: self._concluded(job, ending, error))
            return
        try:
            yield from self._engine.settlement.settle(ending)
        except OnceError as error:
            self._concluded(job, ending, error)
        else:
            self._concluded(job, ending, None)

    def _concluded(self, job: Job, ending: Ending, error: BaseException | None) -> None:
        """Take what the table says of *ending*; *error* is what its caller would get, if it was fenced."""
        if error is not None:
            job.error = None if _is_settled(error) else error
        elif ending.happening is Event.STORED and ending.attempt.happened is not Event.STORED:
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
            admissions = through(self._engine.admissions.admit_all(calls, may_wait=False), self._clock)
            for job, admission in zip(first.values(), admissions, strict=True):
                job.admission = admission

    def _close(self, jobs: list[Job]) -> None:
        """Return when all that was done is written, and release the tokens of what was not started."""
        try:
            if self._pipeline is not None:
                with self._engine.story.segment("once.complete"):
                    self._pipeline.close()
                for lane in lanes(jobs):  # a completion may have been refused after the next one had begun
                    for job in lane:
                        self._is_skipped(job, lane)
        finally:
            self._engine.abandon(*(job.admission for job in jobs if isinstance(job.admission, Ownership)))


def lanes(jobs: Iterable[Job]) -> list[list[Job]]:
    """
    Return what must be worked in order, each in the order of *jobs*.

    These are the message groups of a FIFO queue, joined where a job has records of several, else each job
    by itself.
    """
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
    return [
        job
        for job in jobs
        if not job.groups
        and job.call is not None
        and (job.call.plan.waits or job.call.waits_for_own)
        and isinstance(job.error, InProgress)
    ]


def _is_answered(job: Job) -> bool:
    """Tell whether *job* needs no token: it has its outcome already."""
    return job.admission is not None and not isinstance(job.admission, Ownership)


def _is_cancellation(error: BaseException) -> bool:
    import asyncio

    return isinstance(error, asyncio.CancelledError)


def _is_being_cancelled() -> bool:
    """Tell whether somebody wants this task to end."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _leaked(error: BaseException) -> LeakedCancellation:
    leaked = LeakedCancellation(
        "the handler raised CancelledError, but its task was not cancelled; only this record failed"
    )
    leaked.__cause__ = error
    return leaked


def _is_settled(error: BaseException) -> bool:
    """Tell whether the work is settled although it has no result: its message must not come again."""
    return isinstance(error, StoredError | ResultUnavailable)
