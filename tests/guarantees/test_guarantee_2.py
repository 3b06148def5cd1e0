"""Guarantee 2: a late attempt cannot overwrite or release its successor's token, nor touch its parts."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from lambda_once import InProgress
from lambda_once.core.lifecycle import Record
from lambda_once.core.writes import Release
from lambda_once.stores.requests import part_key
from lambda_once.stores.store import DynamoDBStore
from tests.guarantees.machines import Cluster, deliver, tried

LARGE = {who: random.Random(who).randbytes(60_000).hex() for who in ("first", "second")}


def test_a_late_completion_gets_its_successors_outcome(machines: Cluster) -> None:
    """The first returns after its successor has finished."""
    second = machines.machine("second")

    def outlives_its_lease() -> str:
        machines.lapse()
        deliver(second)
        return "first"

    answers = [tried(machines.machine("first", outlives_its_lease)), tried(second)]
    assert answers == ["second", "second"]


def test_a_late_exception_does_not_release_its_successors_token(machines: Cluster) -> None:
    """The first fails while its successor is in progress; then a third delivery comes."""
    third = machines.machine("third")

    def while_it_runs() -> None:
        with pytest.raises(ZeroDivisionError):
            resume()
        assert isinstance(tried(third), InProgress)

    def resume() -> None:
        """Let the first raise: its write goes out while the second is in progress."""
        error = ZeroDivisionError()
        machines.late(first_id[0], Release())
        raise error

    first_id: list[str] = []

    def outlives_its_lease() -> None:
        first_id.append(machines.attempt("first").id)
        machines.lapse()
        tried(machines.machine("second", while_it_runs))

    tried(machines.machine("first", outlives_its_lease))
    assert machines.ran == ["first", "second"]


def test_a_finished_token_is_final(machines: Cluster) -> None:
    """A release of the attempt arrives after its own completion; then a redelivery comes."""

    def work() -> str:
        attempt = machines.attempt("first")
        attempt.complete("paid")
        machines.late(attempt.id, Release())
        return "ignored"

    deliver(machines.machine("first", work))
    assert tried(machines.machine("second")) == "paid"
    assert machines.ran == ["first"]


def test_late_parts_do_not_touch_the_successors(machines: Cluster) -> None:
    """Both results are large; the first one's parts are written after its successor's."""
    second = machines.machine("second", lambda: LARGE["second"])

    def outlives_its_lease() -> str:
        machines.lapse()
        deliver(second)
        return LARGE["first"]

    tried(machines.machine("first", outlives_its_lease))
    assert tried(second) == LARGE["second"]


class _Interrupted:
    """A client that is killed in the middle of its first completion: after one request, whichever that is."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._completing = 0

    def update_item(self, **arguments: Any) -> Any:
        if "actualCompletion = " in arguments["UpdateExpression"]:
            self._killed_at_the_second()
        return self._client.update_item(**arguments)

    def batch_write_item(self, **arguments: Any) -> Any:
        self._killed_at_the_second()
        return self._client.batch_write_item(**arguments)

    def _killed_at_the_second(self) -> None:
        self._completing += 1
        if self._completing > 1:
            raise KeyboardInterrupt


def test_parts_are_written_before_the_row_is_flipped(machines: Cluster) -> None:
    """One write of a large completion is done, and the machine is gone; a redelivery comes."""
    killed = DynamoDBStore("tokens", _Interrupted(machines.client))
    with pytest.raises(KeyboardInterrupt):
        deliver(machines.machine("first", lambda: LARGE["first"], store=killed))
    answer = tried(machines.machine("second"))
    assert isinstance(answer, InProgress), answer


class _Slow(DynamoDBStore):
    """Two seconds pass between the row and its parts, and DynamoDB deletes the parts that expired."""

    machines: Cluster

    def chunks(self, record: Record, deadline: Any) -> tuple[bytes, ...] | None:
        self.machines.clock.advance(2)
        for n in range(9):
            key = {"lockToken": {"S": part_key(record.token, record.attempt_id, record.write_id, n)}}
            item = self.machines.client.get_item(TableName=self.table, Key=key).get("Item")
            if item and int(item["ttl"]["N"]) <= self.machines.clock.now().timestamp():
                self.machines.client.delete_item(TableName=self.table, Key=key)
        return super().chunks(record, deadline)


def test_parts_outlive_their_row(machines: Cluster) -> None:
    """A redelivery reads the row a second before its ttl, and the parts a second after."""
    keep = timedelta(hours=1)
    deliver(machines.machine("first", lambda: LARGE["first"], keep=keep))
    machines.clock.advance(keep.total_seconds() - 1)
    slow = _Slow("tokens", machines.client)
    slow.machines = machines
    assert tried(machines.machine("second", store=slow, keep=keep)) == LARGE["first"]


def test_a_released_token_is_not_reopened_by_a_ghost(machines: Cluster) -> None:
    """A delayed copy of an acquisition arrives after the release; then a redelivery comes."""

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        deliver(machines.machine("first", fails))
    machines.again(machines.updates[0])
    assert tried(machines.machine("second")) == "second"


def test_under_hold_a_ghost_holds_nothing(machines: Cluster) -> None:
    """The same, where a person would be called for it."""

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        deliver(machines.machine("first", fails, on_lapse="hold"))
    machines.again(machines.updates[0])
    machines.lapse()
    assert tried(machines.machine("second", on_lapse="hold")) == "second"
