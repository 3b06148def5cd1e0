"""`once.event`: EventBridge, S3, direct and Step Functions invocations."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from lambda_once import STORE, InProgress, KeyMissing, StoredError
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig, in_memory, on_every_store
from tests.sources.samples import batch, eventbridge, s3_record, tick

Json = dict[str, Any]


class Invoice(BaseModel):
    number: str


def counting(rig: Rig, **options: Any) -> tuple[Any, list[Any]]:
    """A handler that returns how often it ran, and what it was given."""
    seen: list[Any] = []

    @rig.once.event(**options)
    def handler(event: Any) -> Any:
        seen.append(event)
        return {"run": len(seen)}

    return handler, seen


def test_an_event_put_twice_is_one(rig: Rig) -> None:
    """EventBridge events count by source, detail-type, resources and detail, not by id and time."""
    handler, seen = counting(rig)
    first = handler(eventbridge({"order": 5}), rig.context())
    again = eventbridge({"order": 5}, id="another", time="2026-11-20T11:00:00Z")
    assert handler(again, rig.context("request-2")) == first == {"run": 1}
    assert handler(eventbridge({"order": 6}), rig.context("request-3")) == {"run": 2}
    assert handler(eventbridge({"order": 5}, source="shop.web"), rig.context("request-4")) == {"run": 3}
    assert len(seen) == 3


def test_ticks_of_a_schedule_are_two(rig: Rig) -> None:
    """Equal ticks differ by id; the retry of one is a duplicate."""
    handler, seen = counting(rig)
    handler(tick("one"), rig.context())
    handler(tick("two"), rig.context("request-2"))
    handler(tick("one"), rig.context("request-3"))
    assert [event["id"] for event in seen] == ["one", "two"]


def test_a_key_of_the_detail(rig: Rig) -> None:
    """key= sees the whole event; the same id with another detail is no duplicate."""
    handler, seen = counting(rig, key="detail.id")
    handler(eventbridge({"id": 1, "what": "new"}), rig.context())
    with pytest.raises(Exception, match="was used for another payload"):
        handler(eventbridge({"id": 1, "what": "amended"}), rig.context("request-2"))
    with pytest.raises(KeyMissing):
        handler(eventbridge({"what": "new"}), rig.context("request-3"))
    assert len(seen) == 1


def test_each_record_of_s3_is_a_unit(rig: Rig) -> None:
    """Two objects in one event are two pieces of work; an overlapping event works what is new."""
    handler, seen = counting(rig)
    assert handler(batch(s3_record("a"), s3_record("b")), rig.context()) == [{"run": 1}, {"run": 2}]
    overlap = batch(s3_record("b"), s3_record("c"))
    assert handler(overlap, rig.context("request-2")) == [{"run": 2}, {"run": 3}]
    assert [len(event["Records"]) for event in seen] == [1, 1, 1]


def test_direct_invocations_count_by_their_event(rig: Rig) -> None:
    """A direct or Step Functions invocation with the same event gets the stored result."""
    handler, seen = counting(rig)
    assert handler({"order": 5}, rig.context()) == {"run": 1}
    assert handler({"order": 5}, rig.context("request-2")) == {"run": 1}
    assert handler(["order", 5], rig.context("request-3")) == {"run": 2}
    assert len(seen) == 2


@in_memory
@pytest.mark.parametrize("empty", [{}, [], "", None])
def test_an_empty_event_is_no_key(rig: Rig, empty: Any) -> None:
    """Every empty event would be a duplicate of the first: it is refused, and nothing runs."""
    handler, seen = counting(rig)
    with pytest.raises(KeyMissing, match="key="):
        handler(empty, rig.context())
    assert seen == []


@on_every_store
def test_an_annotation_is_for_type_checkers(rig: Rig) -> None:
    """Lambda writes JSON whatever is declared: first caller and duplicate get the same."""

    @rig.once.event
    def handler(event: Json, context: object) -> Invoice:
        return Invoice(number="1")

    answers: list[object] = [handler({"order": 5}, rig.context(each)) for each in ("request-1", "request-2")]
    assert answers == [{"number": "1"}] * 2


def test_returns_stands_in_for_the_annotation(rig: Rig) -> None:
    """returns= restores a type for `on_replay`, and for what wraps the handler."""

    @rig.once.event(returns=Invoice)
    def handler(event: Json) -> Any:
        return Invoice(number="1")

    handler({"order": 5}, rig.context())
    assert handler({"order": 5}, rig.context("request-2")) == Invoice(number="1")


def test_a_stored_error_keeps_its_name(rig: Rig) -> None:
    """A duplicate of stored work raises an error of the same name, for Step Functions' ErrorEquals."""

    class CardDeclined(Exception): ...

    @rig.once.event(on_error=STORE)
    def handler(event: Json) -> None:
        raise CardDeclined("no credit")

    with pytest.raises(CardDeclined):
        handler({"order": 5}, rig.context())
    with pytest.raises(StoredError, match="no credit") as raised:
        handler({"order": 5}, rig.context("request-2"))
    assert type(raised.value).__name__ == "CardDeclined"
    assert raised.value.token is not None


def test_the_own_retry_gives_up_with_its_time(rig: Rig) -> None:
    """Where the lease outlasts the retry's time it raises, and leaves the token as it is."""
    handler, seen = counting(rig)
    event = eventbridge({"order": 5})
    with rig.crash():
        handler(event, rig.context(seconds=900))
    with pytest.raises(InProgress) as raised:
        handler(event, rig.context(seconds=10))
    assert raised.value.locked_by == "orders/request-1"
    assert rig.row().state is State.IN_PROGRESS
    assert len(seen) == 1


def test_an_async_function_is_a_plain_handler(rig: Rig) -> None:
    """A coroutine function runs to its end inside the handler, and its result replays."""

    @rig.once.event
    async def handler(event: Json) -> Json:
        await asyncio.to_thread(int)
        return {"attempt": rig.once.current().id}

    first = handler({"order": 5}, rig.context())
    assert handler({"order": 5}, rig.context("request-2")) == first


def test_on_replay_dresses_results(rig: Rig) -> None:
    """on_replay is called for duplicates only."""
    handler, _ = counting(rig, on_replay=lambda result, replay: {**result, "replayed": replay.replayed})
    assert handler({"order": 5}, rig.context()) == {"run": 1}
    assert handler({"order": 5}, rig.context("request-2")) == {"run": 1, "replayed": True}


def test_the_loop_survives_an_exit(rig: Rig) -> None:
    """SystemExit in async work releases the token, and the next invocation runs on the same loop."""
    seen: list[Any] = []

    @rig.once.event
    async def handler(event: Json) -> None:
        seen.append(asyncio.get_running_loop())
        if len(seen) == 1:
            raise SystemExit(1)

    with pytest.raises(SystemExit):
        handler({"order": 5}, rig.context())
    assert rig.row().state is State.RELEASED
    handler({"order": 5}, rig.context("request-2"))
    assert rig.row().state is State.COMPLETE
    assert seen[0] is seen[1]
