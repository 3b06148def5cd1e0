"""
What becomes of a job in its turn: one generator, for plain and for async work.

Where plain work blocks and async work must not, the generator yields a `Step` and gets its answer; who takes
the steps, and how, is in `engine/batch.py`. Errors are values here, as a failed record must not stop the
others.

What we're not happy with: a step's answer has no type.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_once.engine.invocation import Call, Tokenless
from lambda_once.engine.lanes import (
    Bad,
    Job,
    Unbegun,
    Unstarted,
    is_final,
    lanes,
    may_be_given_up,
    skip_behind_failure,
)
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.pipeline import Pipeline
from lambda_once.errors import GiveUp, OnceError
from lambda_once.observability.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from lambda_once.core.clock import Waits
    from lambda_once.engine.engine import Engine
    from lambda_once.engine.finish import PreparedFinish

_TOO_LATE = "too little time remains; retry later"
_LEAKED = "the handler raised CancelledError, but its task was not cancelled; only this record failed"


class LeakedCancellation(Exception):
    """The work raised CancelledError although its task was not cancelled, but something it awaited was."""


# ------------------------------------------------------------------ steps


class AcquireAhead(NamedTuple):
    """Acquire the tokens of *job* and of later jobs together. Only one lane at a time does this."""

    job: Job


class AwaitWrites(NamedTuple):
    """Wait until *pipeline* lets another job start (`Pipeline.wait`); the answer is whether it does."""

    pipeline: Pipeline
    written: bool
    """Whether it waits until all that was submitted is written."""


class ReleaseAll(NamedTuple):
    """Release what was acquired ahead, as a job is about to wait, while no lane acquires or begins."""


class Start(NamedTuple):
    """The answer is the ownership under which *job* runs now; None if it does not run."""

    job: Job
    may_wait: bool


class Execute(NamedTuple):
    """Call the function with *argument*; the answer is an `Executed`."""

    argument: Any
    whose: Ownership | Tokenless


class Finish(NamedTuple):
    """Finish *ownership* by *finishing*, which may block and isn't cut short if the lane is cancelled."""

    ownership: Ownership
    finishing: Waits[None]


class Block(NamedTuple):
    """Call *function*, which blocks, with *arguments*."""

    function: Callable[..., object]
    arguments: tuple[Any, ...]


Step = AcquireAhead | AwaitWrites | ReleaseAll | Start | Execute | Finish | Block
"""What plain and async work do differently."""


class Returned(NamedTuple):
    """The function returned *value*."""

    value: Any


class Raised(NamedTuple):
    """The function raised *error*, which concerns this job alone."""

    error: BaseException


class Ended(NamedTuple):
    """The function raised *error*, which ends the batch once the token is finished."""

    error: BaseException


Executed = Returned | Raised | Ended
"""What came of a call of the function."""


# ------------------------------------------------------------------ turns


class Turns:
    """
    The turns of the jobs of one batch, and what they share: tokens, completions, and the time that is left.

    *on_give_up* is called with each job that can never succeed, in its turn, and its error. If it returns,
    the job is done and its sequence continues.
    """

    def __init__(
        self, engine: Engine, jobs: list[Job], on_give_up: Callable[[Job, GiveUp], object] | None
    ) -> None:
        self.jobs = jobs
        self._engine = engine
        self._finisher = engine.finisher
        self._on_give_up = on_give_up
        invocation = next((job.work.invocation for job in jobs if not isinstance(job.work, Bad)), None)
        self._deadline = None if invocation is None else invocation.deadline
        """None: all records of the batch are bad."""
        self._over = False
        """Whether the invocation is about to end; no further job begins then."""
        self._pipeline: Pipeline | None = None
        expected = sum(isinstance(job.work, Call) for job in jobs)
        if self._deadline is not None and expected > 1:
            self._pipeline = Pipeline(self._finisher, self._deadline, expected)
        self.unbegun = Unbegun(jobs)
        self.lanes = lanes(jobs)

    def close(self) -> None:
        """Write what is left, and release the tokens of jobs that did not start."""
        try:
            if self._pipeline is not None:
                call = next(job.work for job in self.jobs if isinstance(job.work, Call))
                with call.invocation.reporter.segment("once.complete"):
                    self._pipeline.close()
                for job in self.jobs:  # a completion may be refused after the next one has begun
                    skip_behind_failure(job)
        finally:
            acquisitions = [job.acquisition for job in self.jobs]
            unstarted = [each for each in acquisitions if isinstance(each, Ownership)]
            if unstarted:
                self._finisher.give_back(*unstarted, in_one_line=self._over)

    def turn(self, job: Job, *, may_wait: bool) -> Generator[Step, Any, None]:
        """Run *job*, unless an earlier failure stops it, and pass it to *on_give_up* if it cannot succeed."""
        if skip_behind_failure(job):
            return
        job.undecided = self._on_give_up is not None
        is_alone = len(self.jobs) == 1
        may_wait = may_wait or job.waits or (is_alone and not job.place.groups)
        if (yield from self._begins(job, may_wait=may_wait)):
            whose: Ownership | Tokenless | None = job.work if isinstance(job.work, Tokenless) else None
            if job.acquisition is not None:
                whose = self._ready(job)
            if whose is None:
                whose = yield Start(job, may_wait)
            if whose is not None:
                job.acquisition = None
                yield from self._work(job, whose)
        if job.undecided and isinstance(job.error, GiveUp):
            yield Block(self._give_up, (job,))
        job.undecided = False

    def _begins(self, job: Job, *, may_wait: bool) -> Generator[Step, Any, bool]:
        """Begin *job* if it has no outcome yet and there is time for it; return whether it begins."""
        if self._withdrawn_if_late(job):
            return False
        if job.ahead:
            yield AcquireAhead(job)
        if job.take_known_outcome(may_wait=may_wait):
            return False
        if self._pipeline is not None:
            may_start = self._pipeline.may_start_at_once(written=job.follows)
            if not may_start:
                may_start = yield AwaitWrites(self._pipeline, job.follows)
            if not may_start and not self._withdrawn_if_late(job):
                yield Block(self._finisher.give_back, (*self._withdraw_stalled(),))
        if isinstance(job.error, Unstarted):
            return False
        if may_wait and job.is_in_progress:
            yield ReleaseAll()
        job.begun = True
        if len(self.jobs) > 1:
            self.unbegun.forget(job)
        return True

    def _work(self, job: Job, whose: Ownership | Tokenless) -> Generator[Step, Any, None]:
        """Call the function, and finish the token by what comes of it."""
        executed: Executed = yield Execute(job.argument, whose)
        if isinstance(whose, Tokenless):
            if isinstance(executed, Raised):
                whose.report(Event.RAISED, error=type(executed.error).__name__, exception=executed.error)
                job.fail(_failure(executed.error))
        elif isinstance(executed, Ended):
            yield Finish(whose, self._engine.failed(whose, executed.error))
        elif self._submits(whose):
            self._submit(job, self._prepared(job, whose, executed))
        else:
            yield Finish(whose, self._finishing(job, whose, executed))
        if isinstance(executed, Ended):
            raise executed.error

    def _ready(self, job: Job) -> Ownership | None:
        """Return the ownership of *job* if it was acquired ahead and may start as it is."""
        ownership = job.acquisition
        if not isinstance(ownership, Ownership) or ownership.call.consults:
            return None
        is_interrupted = ownership.call.invocation.tally.interrupted is not None
        return ownership if not is_interrupted and self._engine.may_start(ownership) else None

    def starting(self, job: Job, *, may_wait: bool) -> Waits[Ownership | None]:
        """Return the ownership under which *job* runs now; None if it does not run."""
        call = job.work
        if not isinstance(call, Call):
            return None
        if job.acquisition is None or (may_wait and job.is_in_progress):
            try:
                job.acquisition = yield from self._engine.acquire(call, may_wait=may_wait)
            except OnceError as error:
                job.acquisition = error
        call.invocation.tally.raise_interruption()
        try:
            if (ownership := job.ownership) is not None:
                if call.consults:  # an interrupted guard may have decided, which a release would undo
                    job.acquisition = None
                job.acquisition = yield from self._engine.make_ready(ownership, may_wait=may_wait)
        except OnceError as error:
            job.acquisition = error
        job.take_outcome()
        return job.ownership

    def _withdrawn_if_late(self, job: Job) -> bool:
        """
        Withdraw all open jobs if the invocation is about to end; return whether *job* is withdrawn.

        All jobs that have not begun are failed here at once, before any token is released: `close` releases
        them after the completions are written.
        """
        if not self._over and self._deadline is not None and self._deadline.is_final():
            self._over = True
            self.unbegun.withdraw(_TOO_LATE)
        return isinstance(job.error, Unstarted)

    def _withdraw_stalled(self) -> list[Ownership]:
        """Fail all jobs that have not begun, to be retried; return the ownerships to release."""
        self.unbegun.withdraw("completions of earlier records could not be written; retry later")
        return self.unbegun.unstarted()

    def acquire_ahead(self, job: Job) -> None:
        """Acquire the tokens of *job* and of later jobs together, up to `lanes.MOST_AHEAD`."""
        jobs = self.unbegun.take(job)
        acquisitions = self._engine.acquire_all([job.work for job in jobs if isinstance(job.work, Call)])
        for taken, acquisition in zip(jobs, acquisitions, strict=True):
            self.unbegun.acquired(taken, acquisition)

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

    def _submits(self, ownership: Ownership) -> bool:
        """Close *ownership* to transactions if the pipeline may write its finish; return whether it does."""
        call = ownership.call
        blocks = self._pipeline is None or call.consults or call.settings.seal is not None
        return not blocks and ownership.close() is None

    def _submit(self, job: Job, finish: PreparedFinish | None) -> None:
        if finish is not None and self._pipeline is not None:
            self._pipeline.submit(finish, partial(self._finished, job, finish))

    def _finishing(self, job: Job, ownership: Ownership, executed: Returned | Raised) -> Waits[None]:
        finish = self._prepared(job, ownership, executed)
        if finish is None or self._pipeline is not None:
            self._submit(job, finish)
            return
        try:
            yield from self._finisher.finish(finish)
        except OnceError as error:
            self._finished(job, finish, error)
        else:
            self._finished(job, finish, None)

    def _prepared(self, job: Job, ownership: Ownership, executed: Returned | Raised) -> PreparedFinish | None:
        """Return the finish of *ownership*; None if its attempt has completed it. Reports what was raised."""
        if isinstance(executed, Raised):
            error = executed.error
            ownership.call.report(Event.RAISED, ownership, error=type(error).__name__, exception=error)
            job.fail(_failure(error))
        self._finisher.await_transaction(ownership)
        if ownership.completed is not None:
            return None
        if isinstance(executed, Returned):
            return self._finisher.prepare_return(ownership, executed.value)
        finish = self._finisher.prepare_error(ownership, executed.error)
        if finish.event is Event.STORED:
            job.error = None  # its outcome is final, unless it cannot be written
        return finish

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


def _failure(error: BaseException) -> BaseException:
    """Return why a record fails that raised *error*, an Exception or a cancellation that leaked."""
    if isinstance(error, Exception):
        return error
    failure = LeakedCancellation(_LEAKED)
    failure.__cause__ = error
    return failure
