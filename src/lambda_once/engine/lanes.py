"""
The jobs of a batch and their order, without I/O: what a job is, and which ones must wait for which.

Records with the same token and fingerprint are one `Job`: the first runs, the others share its outcome. Jobs
of a standard queue are independent. Ordered jobs run in *lanes*, one per group (groups that share a job share
a lane). A failed job stops every sequence that has a record in it: later records are not started and are
retried, which keeps the order. On a FIFO queue each group is a sequence; in a stream the shard is one
sequence, with a group per partition key if work is concurrent.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

from lambda_once.core.lifecycle import OnLapse
from lambda_once.engine.invocation import Call, Redelivery, Tokenless
from lambda_once.engine.ownership import Ownership
from lambda_once.errors import (
    GiveUp,
    InProgress,
    Misconfigured,
    OnceError,
    ResultUnavailable,
    RetryLater,
    StoredError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lambda_once.engine.engine import Acquisition

MOST_AHEAD = 100
"""Most tokens acquired ahead of the work: four parallel requests can release that many at the end."""


class Bad(NamedTuple):
    """A record that cannot be processed: it fails with *error*, in its turn."""

    error: Exception


Work = Call | Tokenless | Bad
"""What a job does in its turn: protected work, work without a token, or none."""


_NO_NAMES: Final = frozenset[str]()


class Place(NamedTuple):
    """What must come before a job."""

    position: int
    """The position of its first record in the batch."""
    groups: frozenset[str]
    """The groups of its records; empty if they are unordered."""
    sequences: frozenset[str]
    """The sequences that its failure stops."""
    failures: Failures
    """The failures of the whole batch."""

    @classmethod
    def of(cls, position: int, group: str | None, sequence: str | None, failures: Failures) -> Place:
        """Return the place of a record. *group*: None without an order; *sequence*: None if it stops none."""
        groups = _NO_NAMES if group is None else frozenset((group,))
        sequences = _NO_NAMES if sequence is None else frozenset((sequence,))
        return cls(position, groups, sequences, failures)

    def fold(self, group: str | None, sequence: str | None) -> Place:
        """Return the place of a job that a record of *group* and *sequence* has joined."""
        other = Place.of(self.position, group, sequence, self.failures)
        return other._replace(groups=self.groups | other.groups, sequences=self.sequences | other.sequences)

    def first_failure(self) -> Job | None:
        """Return the first failed job before it in any of its sequences."""
        first, before = None, self.position
        for sequence in self.sequences:
            for position, job in self.failures.get(sequence, ()):
                if position >= before:
                    break
                if job.has_failed:
                    first, before = job, position
        return first


@dataclass(slots=True, eq=False)
class Job:
    """
    One piece of work in a batch, and its progress.

    A `Call` has what the engine asks of a token. A `Job` adds what only a batch needs: which records it is
    for, what must come before it, and how far it is.
    """

    id: object
    """The id of its first record."""
    place: Place
    work: Work
    argument: Any = None
    """What the function gets; None for a bad record."""
    follows: bool = False
    """Whether an earlier job has its token with another payload; it waits for that job's finish."""
    ahead: bool = False
    """Whether its token is to be acquired ahead of the work, or is being acquired."""
    acquisition: Acquisition | None = None
    """The result of its acquisition; None before it, after a release, and once the work has begun."""
    begun: bool = False
    """Whether it has begun, or needs no run."""
    error: BaseException | None = None
    """Why its records are retried; None: they are not."""
    undecided: bool = False
    """Whether its error, if it is a `GiveUp`, may still be passed to ``on_give_up``."""

    @property
    def ownership(self) -> Ownership | None:
        """Ownership of its token, from the acquisition until the work begins."""
        return self.acquisition if isinstance(self.acquisition, Ownership) else None

    @property
    def waits(self) -> bool:
        """Whether, in its turn, it waits for another attempt that holds its token."""
        return isinstance(self.work, Call) and self.work.source.redelivery is Redelivery.IN_ORDER

    def fold(self, group: str | None, sequence: str | None) -> None:
        """Add another record, which shares the outcome."""
        self.place = self.place.fold(group, sequence)

    def fail(self, error: BaseException) -> None:
        """Fail with *error*; this stops the later jobs of its sequences."""
        self.error = error
        for sequence in self.place.sequences:
            insort(self.place.failures.setdefault(sequence, []), (self.place.position, self))

    @property
    def has_failed(self) -> bool:
        """Whether its records, and all later ones of their sequences, are retried."""
        return self.error is not None and not (self.undecided and may_be_given_up(self.error))

    @property
    def is_in_progress(self) -> bool:
        """Whether its token is held by another attempt."""
        return isinstance(self.acquisition, InProgress)

    def take_known_outcome(self, *, may_wait: bool) -> bool:
        """
        Take the outcome of a bad record or a duplicate, and return True; False if there is none yet.

        With *may_wait*, a token in progress is not an outcome, as the job waits for it. An interrupted batch
        takes no outcome of a duplicate.
        """
        work = self.work
        match work:
            case Call():
                if self.acquisition is None or isinstance(self.acquisition, Ownership):
                    return False
                if (may_wait and self.is_in_progress) or work.invocation.tally.interrupted is not None:
                    return False
                self.take_outcome()
                return True
            case Tokenless():
                return False
            case Bad(error):
                self.begun = True
                self.fail(error)
                return True
            case _ as unreachable:
                assert_never(unreachable)

    def take_outcome(self) -> None:
        """Mark the job as begun, and fail it if the token was refused."""
        self.begun = True
        if isinstance(self.acquisition, OnceError) and not is_final(self.acquisition):
            self.fail(self.acquisition)
        else:
            self.error = None


Failures = dict[str, list[tuple[int, Job]]]
"""
By sequence, the failed jobs with their positions, in order.

A job may have been given up or completed since then, so check `Job.has_failed`.
"""


class Skipped(RetryLater):
    """Not started, to keep the order: an earlier record of the same sequence failed."""


class Unstarted(RetryLater):
    """Not started: completions of earlier records could not be written, or too little time remains."""


class Unbegun:
    """
    The jobs of a batch that have not begun, and which of their tokens are acquired ahead of the work.

    If lapsed work is held or probed, each token is acquired just before its job runs: a crash must not hold
    work that never began. Only the first job of a token is acquired ahead, and none that is alone.
    """

    def __init__(self, jobs: list[Job]) -> None:
        self._open = jobs
        """All jobs; empty once those that have not begun are withdrawn."""
        first: dict[str, Job] = {}
        for job in jobs if len(jobs) > 1 else ():
            if isinstance(job.work, Call) and job.work.settings.rule is OnLapse.TAKE_OVER:
                job.ahead = first.setdefault(job.work.token, job) is job
        self._to_acquire = deque(first.values())
        """Jobs whose tokens are to be acquired ahead, in order; some may already be (see `Job.ahead`)."""
        self._acquired: dict[Job, None] = {}
        """Jobs that have not begun and whose tokens were acquired ahead."""

    def take(self, job: Job) -> list[Job]:
        """Return *job* and later jobs, up to `MOST_AHEAD`, to acquire their tokens together."""
        taken = [job]
        while self._to_acquire and len(taken) < MOST_AHEAD - len(self._acquired):
            later = self._to_acquire.popleft()
            if later.ahead and later.error is None and later is not job:
                taken.append(later)
        return taken

    def acquired(self, job: Job, acquisition: Acquisition) -> None:
        """Store what became of the acquisition of *job*, which was taken."""
        job.acquisition, job.ahead = acquisition, False
        if isinstance(acquisition, Ownership):
            self._acquired[job] = None

    def forget(self, job: Job) -> None:
        """Forget *job*, which has begun."""
        self._acquired.pop(job, None)

    def withdraw(self, message: str) -> None:
        """Fail all jobs that have not begun, for the reason in *message*, to be retried."""
        jobs, self._open = self._open, []
        for job in jobs:
            is_open = not job.begun and job.error is None
            if is_open and (job.acquisition is None or job.ownership is not None):
                match job.work:
                    case Call(token=token):
                        job.fail(Unstarted(message, token=token))
                    case Tokenless():
                        job.fail(Unstarted(message))
                    case Bad():
                        pass  # it has its own error, in its turn
                    case _ as unreachable:
                        assert_never(unreachable)

    def unstarted(self) -> list[Ownership]:
        """Take the ownerships from the jobs that have not begun, and return them."""
        ownerships = []
        for job in [*self._acquired]:  # a thread may be acquiring more of them
            self._acquired.pop(job)
            if job.ownership is not None:
                ownerships.append(job.ownership)
                job.acquisition = None
        return ownerships

    def before_waiting(self) -> list[Ownership]:
        """
        Return the ownerships to release before a job waits, and acquire none ahead any more.

        A waiting job holds no other token, or two invocations could deadlock.
        """
        while self._to_acquire:
            self._to_acquire.popleft().ahead = False
        return self.unstarted()


def skip_behind_failure(job: Job) -> bool:
    """Fail *job* if an earlier job of one of its sequences has failed; return whether one has."""
    failed = job.place.first_failure()
    if failed is not None and job.error is None:
        job.fail(Skipped(f"an earlier record of its order failed: {failed.id}"))
    return failed is not None


def lanes(jobs: Sequence[Job]) -> list[list[Job]]:
    """
    Return the lanes: lists of jobs that must run in order, each in the order of *jobs*.

    There is one lane per group, and one per job without a group. Groups that share a job share a lane.
    """
    same: dict[str, str] = {}
    """A union-find forest: from each joined group to another, and finally to the group of the lane."""

    def end(group: str) -> str:
        while group in same:
            same[group] = same.get(same[group], same[group])  # path halving
            group = same[group]
        return group

    for job in jobs:
        if len(job.place.groups) > 1:
            first, *others = {*map(end, job.place.groups)}
            same |= dict.fromkeys(others, first)
    by_lane: dict[object, list[Job]] = {}
    for job in jobs:
        groups = job.place.groups
        by_lane.setdefault(end(next(iter(groups))) if groups else job, []).append(job)
    return [*by_lane.values()]


def waiting(jobs: Iterable[Job]) -> list[Job]:
    """Return the unordered jobs whose token is in progress and that may wait for the other attempt."""
    return [
        job
        for job in jobs
        if isinstance(job.work, Call) and not job.place.groups and isinstance(job.error, InProgress)
        if job.work.settings.longest_wait is not None or job.work.source.redelivery is Redelivery.SAME_REQUEST
    ]


def may_be_given_up(error: BaseException) -> bool:
    """Whether ``on_give_up`` is called for *error*: the record can never succeed."""
    return isinstance(error, GiveUp) and not isinstance(error, Misconfigured)


def is_final(error: BaseException) -> bool:
    """Whether *error* is a final outcome: the message must not be retried."""
    return isinstance(error, StoredError | ResultUnavailable)
