"""A token table in memory that records the requests for each token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from lambda_once.core.clock import Deadline, stamp
from lambda_once.core.writes import (
    Acquire,
    Change,
    Complete,
    Extend,
    Hold,
    Keep,
    Pin,
    Release,
    Resolver,
    Write,
)
from lambda_once.stores.contract import AcquireAnswer, Refused, Won, WriteAnswer, Written
from lambda_once.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.lifecycle import Record


class RecordedCall(NamedTuple):
    """One request for a token, and its outcome."""

    at: datetime
    text: str


class RecordingStore(MemoryStore):
    """
    A `MemoryStore` that also records requests; `using` and ``once_store`` return one.

    ``history`` maps lock tokens to their requests, in order; ``acquisitions`` maps them to their number of
    attempts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[str, list[RecordedCall]] = {}
        self.acquisitions: dict[str, int] = {}

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        answers = super().acquire(acquisitions, deadline)
        for acquisition, answer in zip(acquisitions, answers, strict=True):
            if isinstance(answer, Won):
                with self._lock.alone():
                    self.acquisitions[acquisition.token] = self.acquisitions.get(acquisition.token, 0) + 1
            self._add(acquisition.token, acquisition.now, _of_acquisition(acquisition, answer))
        return answers

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        answers = super().write(writes, deadline)
        for write, answer in zip(writes, answers, strict=True):
            self._add(write.token, write.now, _of_write(write, answer))
        return answers

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        answer = super().transact(finish, items, deadline)
        if finish is not None:
            self._add(finish.token, finish.now, f"{_of_write(finish, answer)}, in one transaction")
        return answer

    def _add(self, token: str, at: datetime, text: str) -> None:
        with self._lock.alone():
            self.history.setdefault(token, []).append(RecordedCall(at, text))


def _of_acquisition(acquisition: Acquire, answer: AcquireAnswer) -> str:
    match answer:
        case Won(fence, took_over):
            verb = "taken over" if took_over else "acquired"
            return (
                f"{verb} by {acquisition.locked_by} (attempt {acquisition.attempt_id}, fence {fence}), "
                f"lease until {stamp(acquisition.lease)}"
            )
        case Refused(record):
            return f"refused to {acquisition.locked_by}: {_state_of(record)}"
        case _:
            return f"acquisition by {acquisition.locked_by}: no response"


def _of_write(write: Write, answer: WriteAnswer) -> str:
    done = _of_change(write.change)
    who = f"attempt {write.attempt_id}"
    if isinstance(write.by, Resolver):
        who = (
            f"a third party, over attempt {write.by.seen}" if not write.decisions else write.decisions[-1].by
        )
    match answer:
        case Written():
            return f"{done}, by {who}"
        case Refused(record):
            return f"not {done}: {who} was refused, {_state_of(record)}"
        case _:
            return f"not {done}: no response to {who}"


def _of_change(change: Change) -> str:
    match change:
        case Complete(error=error):
            return "completed" if error is None else f"completed with the error {error.kind}"
        case Hold(error):
            return f"held after {error.kind}"
        case Release(error):
            return "released" if error is None else f"released after {error.kind}"
        case Extend(lease):
            return f"extended until {stamp(lease)}"
        case Pin():
            return "pinned"
        case Keep():
            return "kept"
        case _ as unreachable:
            assert_never(unreachable)


def _state_of(record: Record | None) -> str:
    return "there is no row" if record is None else f"it is {record.state.value}"
