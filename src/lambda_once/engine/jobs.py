"""
The jobs of a batch: which records share one, in which order they run, and what a failure stops.

Records with one token and one fingerprint are one `Job`: the first runs, the others share its outcome. The
jobs of a standard queue are independent. Where order counts they are in *lanes*, one for each group (groups
that share a job share a lane). A failure stops each order that has a record in the job: what follows there is
retried unstarted, so that the order is kept. On a FIFO queue each group is an order; in a stream the shard is
one, with a group for each partition key where work is concurrent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.engine.invocation import Call, Redelivery
from lambda_once.engine.replay import Replayed
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

    from lambda_once.engine.acquire import Acquisition


class Job:
    """One piece of work of a batch, and how far it is."""

    __slots__ = (
        "acquisition",
        "argument",
        "bad",
        "begun",
        "call",
        "error",
        "follows",
        "groups",
        "id",
        "orders",
        "undecided",
        "waits",
    )

    def __init__(
        self,
        id_: object,
        group: str | None,
        order: str | None,
        call: Call | None = None,
        argument: Any = None,
    ) -> None:
        self.id = id_
        """The id of its first record."""
        self.groups = set() if group is None else {group}
        """The groups that its records belong to, where order counts."""
        self.orders = set() if order is None else {order}
        """The orders that its failure stops."""
        self.waits = call is not None and call.redelivery is Redelivery.IN_ORDER
        """Whether it waits in its turn for the attempt that holds its token."""
        self.call = call
        """None: the record is bad."""
        self.bad: Exception | None = None
        """Why the record is bad: its error when it is its turn."""
        self.follows = False
        """Another payload under the token of an earlier job, whose finish it waits for."""
        self.argument = argument
        self.acquisition: Acquisition | None = None
        """None: not tried yet, or the work has begun."""
        self.begun = False
        """Whether it is being started, or over."""
        self.error: BaseException | None = None
        """Why its records are retried; None: they are not."""
        self.undecided = False
        """Whether its error, if it is a `GiveUp`, may still be given to ``on_give_up``."""

    def fold(self, group: str | None, order: str | None) -> None:
        """Add another record, which shares the outcome."""
        if group is not None:
            self.groups.add(group)
        if order is not None:
            self.orders.add(order)

    @property
    def has_failed(self) -> bool:
        """Whether its records are retried, and what follows them with them."""
        return self.error is not None and not (self.undecided and may_be_given_up(self.error))

    @property
    def is_in_progress(self) -> bool:
        """Whether its token is held by another attempt."""
        return isinstance(self.acquisition, InProgress)

    def take_known_outcome(self, *, may_wait: bool) -> bool:
        """
        Take the outcome of a bad record or a duplicate, and return True; False where there is none yet.

        *may_wait*: a token in progress is waited for, so that is no outcome. Nor is any while the batch is
        interrupted.
        """
        call, found = self.call, self.acquisition
        if call is None:
            self.begun, self.error = True, self.bad
            return True
        if not isinstance(found, Replayed | OnceError) or (may_wait and self.is_in_progress):
            return False
        if call.invocation.tally.interrupted is not None:
            return False
        self.take_outcome()
        return True

    def take_outcome(self) -> None:
        """Begin, and fail if the token was refused."""
        self.begun = True
        found = self.acquisition
        self.error = found if isinstance(found, OnceError) and not is_final(found) else None


class Skipped(RetryLater):
    """An earlier record of the same order failed: this one was not started, to keep the order."""


class Unstarted(RetryLater):
    """Not started: the table does not take the completions of earlier records, or too little time remains."""


def skip_behind_failure(job: Job, jobs: Sequence[Job]) -> bool:
    """Fail *job* if one of *jobs* before it in one of its orders has failed; return whether one has."""
    if not job.orders:
        return False
    earlier = jobs[: jobs.index(job)]
    failed = next((each for each in earlier if each.has_failed and each.orders & job.orders), None)
    if failed is not None and job.error is None:
        job.error = Skipped(f"an earlier record of its order failed: {failed.id}")
    return failed is not None


def lanes(jobs: Sequence[Job]) -> list[list[Job]]:
    """
    Return the jobs that must run in order as lists, each in the order of *jobs*.

    That is one for each group (joined where a job has records of several), or for each job without one.
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
    """Return the jobs that may wait for the other attempt's outcome now; none of them is in an order."""
    refused = [(job, job.call) for job in jobs if not job.groups and isinstance(job.error, InProgress)]
    return [
        job
        for job, call in refused
        if call is not None and (call.plan.waits or call.redelivery is Redelivery.SAME_REQUEST)
    ]


def may_be_given_up(error: BaseException) -> bool:
    """Whether ``on_give_up`` gets *error*: its record can never succeed."""
    return isinstance(error, GiveUp) and not isinstance(error, Misconfigured)


def is_final(error: BaseException) -> bool:
    """Whether the outcome is final although it is no result: its message must not be retried."""
    return isinstance(error, StoredError | ResultUnavailable)
