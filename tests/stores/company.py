"""A store whose every acquisition and write travels in a batch, as one of several."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Course, OnLapse, Record, State, decide
from lambda_once.core.writes import Acquire, Holder, Release, Unclaimed, Write
from lambda_once.stores.contract import AcquireAnswer, Refused, Store, Won, WriteAnswer, Written

numbers = itertools.count()


class InCompany:
    """
    Sends a companion along with whatever is asked of *store*, and asks again as the engine does.

    A companion always gets what it wants: one that fails takes none of the others down, nor do they it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        if not acquisitions:
            return self._store.acquire(acquisitions, deadline)
        companion = self._companion(deadline)
        *answers, won = self._store.acquire([*acquisitions, companion], deadline)
        assert isinstance(won, Won), won
        write = Write(companion.token, Holder(companion.attempt_id), Release(), companion.now, 1, "w")
        assert self._store.write([write], deadline) == [Written.WRITTEN]
        return [
            self._store.acquire([acquisition._replace(known=True)], deadline)[0]
            if _is_free(acquisition, answer)
            else answer
            for acquisition, answer in zip(acquisitions, answers, strict=True)
        ]

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if not writes:
            return self._store.write(writes, deadline)
        companion = self._companion(deadline)
        self._store.acquire([companion], deadline)
        write = Write(companion.token, Holder(companion.attempt_id), Release(), companion.now, 1, "w")
        *answers, written = self._store.write([*writes, write], deadline)
        assert written == Written.WRITTEN
        return answers

    def _companion(self, deadline: Deadline) -> Acquire:
        now = deadline.clock.now()
        token = f"orders/charge/companion-{next(numbers)}"
        return Acquire(token, "companion", "orders/r", now, deadline.at, Unclaimed(take_over=True), ttl=None)

    def read(self, token: str, deadline: Deadline) -> Record | None:
        return self._store.read(token, deadline)

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        return self._store.chunks(record, deadline)

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        return self._store.transact(finish, items, deadline)

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        return self._store.unfinished(state, deadline, before)


def _is_free(acquisition: Acquire, answer: AcquireAnswer) -> bool:
    """Tell whether the row that stood in the way may be taken all the same: released, expired or lapsed."""
    if not isinstance(answer, Refused) or not isinstance(acquisition.take, Unclaimed):
        return False
    on_lapse = OnLapse.TAKE_OVER if acquisition.take.take_over else OnLapse.HOLD
    course = decide(answer.record, acquisition.now, acquisition.attempt_id, acquisition.fingerprint, on_lapse)
    return course is Course.RUN
