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
from typing import TYPE_CHECKING, Any

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
    from lambda_once.engine.replay import Replayed


class Job:
    """
    One piece of work in a batch, and its progress.

    A call says what is asked of a token, whoever asks. A job exists as a batch has more to know of it: which
    records it is for, what must come before it, and how far it is, in whatever order its steps are taken.
    """

    bad: Exception | None = None
    """Why the record is bad; its error in its turn."""
    unprotected: Tokenless | None = None
    """How it runs, in its turn, without a token; None: it doesn't."""
    follows = False
    """Whether an earlier job has its token with another payload; it waits for that job's finish."""
    position = 0
    """Its index among the jobs of the batch."""
    ahead = False
    """Whether its token is to be acquired ahead of the work, or is being acquired."""
    ownership: Ownership | None = None
    """Ownership of its token, from the acquisition until the work begins."""
    known: Replayed | OnceError | None = None
    """The result of its acquisition if that is no ownership."""
    begun = False
    """Whether it has begun, or needs no run."""
    error: BaseException | None = None
    """Why its records are retried; None: they are not."""
    undecided = False
    """Whether its error, if it is a `GiveUp`, may still be passed to ``on_give_up``."""

    def __init__(
        self,
        id_: object,
        group: str | None,
        sequence: str | None,
        call: Call | None = None,
        argument: Any = None,
    ) -> None:
        self.id = id_
        """The id of its first record."""
        self.groups = set() if group is None else {group}
        """The groups of its records; empty if they are unordered."""
        self.sequences = set() if sequence is None else {sequence}
        """The sequences that its failure stops."""
        self.call = call
        """None: the record is bad, or *unprotected*."""
        self.argument = argument
        self.failures: Failures = {}
        """The failures of the whole batch."""

    @property
    def waits(self) -> bool:
        """Whether, in its turn, it waits for another attempt that holds its token."""
        return self.call is not None and self.call.source.redelivery is Redelivery.IN_ORDER

    def fold(self, group: str | None, sequence: str | None) -> None:
        """Add another record, which shares the outcome."""
        if group is not None:
            self.groups.add(group)
        if sequence is not None:
            self.sequences.add(sequence)

    def fail(self, error: BaseException) -> None:
        """Fail with *error*; this stops the later jobs of its sequences."""
        self.error = error
        for sequence in self.sequences:
            insort(self.failures.setdefault(sequence, []), (self.position, self))

    def first_failure(self) -> Job | None:
        """Return the first failed job before it in any of its sequences."""
        first = None
        for sequence in self.sequences:
            for position, job in self.failures.get(sequence, ()):
                if position >= (self if first is None else first).position:
                    break
                if job.has_failed:
                    first = job
        return first

    @property
    def has_failed(self) -> bool:
        """Whether its records, and all later ones of their sequences, are retried."""
        return self.error is not None and not (self.undecided and may_be_given_up(self.error))

    @property
    def is_in_progress(self) -> bool:
        """Whether its token is held by another attempt."""
        return isinstance(self.known, InProgress)

    def acquired(self, acquisition: Acquisition) -> None:
        """Store the result of its acquisition."""
        if isinstance(acquisition, Ownership):
            self.ownership, self.known = acquisition, None
        else:
            self.ownership, self.known = None, acquisition

    def take_known_outcome(self, *, may_wait: bool) -> bool:
        """
        Take the outcome of a bad record or a duplicate, and return True; False if there is none yet.

        With *may_wait*, a token in progress is not an outcome, as the job waits for it. An interrupted batch
        takes no outcome of a duplicate.
        """
        if self.call is None and self.unprotected is None:
            self.begun = True
            if self.bad is not None:
                self.fail(self.bad)
            return True
        if self.call is None or self.known is None or (may_wait and self.is_in_progress):
            return False
        if self.call.invocation.tally.interrupted is not None:
            return False
        self.take_outcome()
        return True

    def take_outcome(self) -> None:
        """Mark the job as begun, and fail it if the token was refused."""
        self.begun = True
        if isinstance(self.known, OnceError) and not is_final(self.known):
            self.fail(self.known)
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


class LeakedCancellation(Exception):
    """The work raised CancelledError although its task was not cancelled, but something it awaited was."""


def skip_behind_failure(job: Job) -> bool:
    """Fail *job* if an earlier job of one of its sequences has failed; return whether one has."""
    failed = job.first_failure()
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
        if len(job.groups) > 1:
            first, *others = {*map(end, job.groups)}
            same |= dict.fromkeys(others, first)
    found: dict[object, list[Job]] = {}
    for job in jobs:
        lane = end(next(iter(job.groups))) if job.groups else job
        found.setdefault(lane, []).append(job)
    return [*found.values()]


def waiting(jobs: Iterable[Job]) -> list[Job]:
    """Return the unordered jobs whose token is in progress and that may wait for the other attempt."""
    refused = [(job, job.call) for job in jobs if not job.groups and isinstance(job.error, InProgress)]
    return [
        job
        for job, call in refused
        if call is not None
        and (call.settings.longest_wait is not None or call.source.redelivery is Redelivery.SAME_REQUEST)
    ]


def may_be_given_up(error: BaseException) -> bool:
    """Whether ``on_give_up`` is called for *error*: the record can never succeed."""
    return isinstance(error, GiveUp) and not isinstance(error, Misconfigured)


def is_final(error: BaseException) -> bool:
    """Whether *error* is a final outcome: the message must not be retried."""
    return isinstance(error, StoredError | ResultUnavailable)
