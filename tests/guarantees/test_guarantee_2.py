"""Guarantee 2: a late attempt cannot overwrite or release its successor's token, nor touch its parts."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from lambda_once import InProgress
from lambda_once.core.lifecycle import Record
from lambda_once.core.writes import Release, Write
from lambda_once.stores import requests
from lambda_once.stores.contract import WriteAnswer
from lambda_once.stores.requests import part_key
from lambda_once.stores.store import DynamoDBStore
from tests.guarantees.machines import Cluster, breaks, deliver, holds, tried

ANY_ATTEMPT = requests.OURS.replace("attempt = :a", "(attempt = :a OR attempt <> :a)")
ANY_STATE = "attempt = :a AND (begins_with(#status, :in_progress) OR attribute_exists(lockToken))"
LARGE = {who: random.Random(who).randbytes(60_000).hex() for who in ("first", "second")}


def _late_completion(machines: Cluster) -> None:
    """The first returns after its successor has finished."""
    second = machines.machine("second")

    def overslept() -> str:
        machines.lapse()
        deliver(second)
        return "first"

    answers = [tried(machines.machine("first", overslept)), tried(second)]
    assert answers == ["second", "second"]


def test_a_late_completion_gets_its_successors_outcome() -> None:
    """What the caller of the late one gets is what every duplicate gets."""
    holds(_late_completion)


def _late_exception(machines: Cluster) -> None:
    """The first fails while its successor is at work; then a third delivery comes."""
    third = machines.machine("third")

    def at_work() -> None:
        with pytest.raises(ZeroDivisionError):
            resume()
        assert isinstance(tried(third), InProgress)

    def resume() -> None:
        """Let the first raise: its write goes out while the second is at work."""
        error = ZeroDivisionError()
        machines.late(first_id[0], Release())
        raise error

    first_id: list[str] = []

    def overslept() -> None:
        first_id.append(machines.attempt("first").id)
        machines.lapse()
        tried(machines.machine("second", at_work))

    tried(machines.machine("first", overslept))
    assert machines.ran == ["first", "second"]


def test_a_late_exception_does_not_release_its_successors_token() -> None:
    """The third is told that it is in progress."""
    holds(_late_exception)


@pytest.mark.parametrize("scenario", [_late_completion, _late_exception])
def test_twin_without_the_attempt_a_late_write_counts(monkeypatch: pytest.MonkeyPatch, scenario: Any) -> None:
    """Any attempt's write would be taken while the token is in progress, or freed while it is not ours."""
    # The completion comes after the successor's own: to see it overwritten the state may not count either.
    monkeypatch.setattr(
        requests,
        "OURS",
        ANY_ATTEMPT
        if scenario is _late_exception
        else f"({ANY_ATTEMPT} OR attribute_exists(#status) OR attempt <> :a)",
    )
    breaks(scenario)


def _late_copy_of_a_release(machines: Cluster) -> None:
    """A release of the attempt arrives after its own completion; then a redelivery comes."""

    def work() -> str:
        attempt = machines.attempt("first")
        attempt.complete("paid")
        machines.late(attempt.id, Release())
        return "ignored"

    deliver(machines.machine("first", work))
    assert tried(machines.machine("second")) == "paid"
    assert machines.ran == ["first"]


def test_what_is_settled_is_final() -> None:
    """Not even the attempt itself can change it."""
    holds(_late_copy_of_a_release)


def test_twin_without_the_state_a_late_release_frees_finished_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that was done is done again."""

    def bare(table: str, write: Write, shards: int) -> dict[str, Any]:
        arguments = finish(table, write, shards)
        if isinstance(write.change, Release):
            arguments["UpdateExpression"] += ", #actualCompletion"
            arguments["ExpressionAttributeNames"]["#actualCompletion"] = "actualCompletion"
        return arguments

    finish = requests.finish
    monkeypatch.setattr(requests, "OURS", ANY_STATE)
    monkeypatch.setattr(requests, "finish", bare)
    breaks(_late_copy_of_a_release)


def _late_parts(machines: Cluster) -> None:
    """Both results are large; the first one's parts are written after its successor's."""
    second = machines.machine("second", lambda: LARGE["second"])

    def overslept() -> str:
        machines.lapse()
        deliver(second)
        return LARGE["first"]

    tried(machines.machine("first", overslept))
    assert tried(second) == LARGE["second"]


def test_late_parts_do_not_touch_the_successors() -> None:
    """They lie beside them, and nobody reads them."""
    holds(_late_parts)


def test_twin_with_parts_named_by_token_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The late ones overwrite what the row counts on."""
    monkeypatch.setattr(requests, "part_key", lambda token, _attempt, _write, n: f"{token}##{n}")
    breaks(_late_parts)


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


def _killed_while_completing(machines: Cluster) -> None:
    """One write of a large completion is done, and the machine is gone; a redelivery comes."""
    killed = DynamoDBStore("tokens", _Interrupted(machines.client))
    with pytest.raises(KeyboardInterrupt):
        deliver(machines.machine("first", lambda: LARGE["first"], store=killed))
    answer = tried(machines.machine("second"))
    assert isinstance(answer, InProgress), answer


def test_parts_are_written_before_the_row_is_flipped() -> None:
    """Killed in between it is in progress, never complete without its result."""
    holds(_killed_while_completing)


def test_twin_with_the_row_flipped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is complete, and its result is lost for good."""
    put_parts, finish = DynamoDBStore._put_parts, DynamoDBStore._finish

    def flipped_first(self: DynamoDBStore, write: Write, deadline: Any) -> WriteAnswer:
        answer = finish(self, write, deadline)
        put_parts(self, write, deadline)
        return answer

    monkeypatch.setattr(DynamoDBStore, "_put_parts", lambda _store, write, _deadline: write)
    monkeypatch.setattr(DynamoDBStore, "_finish", flipped_first)
    breaks(_killed_while_completing)


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


def _read_at_the_last_moment(machines: Cluster) -> None:
    """A redelivery reads the row a second before its ttl, and the parts a second after."""
    keep = timedelta(hours=1)
    deliver(machines.machine("first", lambda: LARGE["first"], keep=keep))
    machines.clock.advance(keep.total_seconds() - 1)
    slow = _Slow("tokens", machines.client)
    slow.machines = machines
    assert tried(machines.machine("second", store=slow, keep=keep)) == LARGE["first"]


def test_parts_outlive_their_row() -> None:
    """Whoever has read the row finds its parts."""
    holds(_read_at_the_last_moment)


def test_twin_with_parts_that_expire_with_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is gone under its reader."""
    monkeypatch.setattr(requests, "PART_MARGIN", 0)
    breaks(_read_at_the_last_moment)


def _ghost(machines: Cluster) -> None:
    """A delayed copy of an acquisition arrives after the release; then a redelivery comes."""

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        deliver(machines.machine("first", fails))
    machines.again(machines.updates[0])
    assert tried(machines.machine("second")) == "second"


def test_a_released_token_is_not_reopened_by_a_ghost() -> None:
    """The redelivery runs at once."""
    holds(_ghost)


def test_twin_without_the_ghosts_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is in progress though nothing runs."""
    monkeypatch.setattr(requests, "FREE", requests.FREE.replace(" AND attempt <> :a", ""))
    breaks(_ghost)


def _ghost_under_hold(machines: Cluster) -> None:
    """The same, where a person would be called for it."""

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        deliver(machines.machine("first", fails, on_lapse="hold"))
    machines.again(machines.updates[0])
    machines.lapse()
    assert tried(machines.machine("second", on_lapse="hold")) == "second"


def test_under_hold_a_ghost_calls_nobody() -> None:
    """A released row is taken only as it was seen."""
    holds(_ghost_under_hold)


def test_twin_under_hold_a_ghost_calls_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A released row that anybody may take is taken by the ghost, and held though nothing ran."""
    anybody = "(attribute_not_exists(#status) AND (attribute_not_exists(actualCompletion) OR #ttl <= :now_s))"
    monkeypatch.setattr(requests, "EXPIRED", anybody)
    breaks(_ghost_under_hold)
