"""An object with an async `__call__`, and a partial, are as async as an `async def`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import AsyncMock  # noqa: TID251  (users decorate it in their tests)

import pytest

from lambda_once.testing import api_event, kafka_event, kinesis_event, sqs_event
from tests.decorators.rig import Rig, in_memory

pytestmark = in_memory


class Ship:
    """Work as an object."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.met = asyncio.Barrier(2)

    async def __call__(self, record: Any) -> dict[str, int]:
        self.seen.append(record)
        return {"statusCode": 201}


class Meeting(Ship):
    """Work that ends only if two records are worked at once."""

    async def __call__(self, record: Any) -> dict[str, int]:
        await self.met.wait()
        return await super().__call__(record)


EVENTS: dict[str, Any] = {
    "sqs": sqs_event("a", "b"),
    "kinesis": kinesis_event("a", "b", partition_keys=["a", "b"]),
    "kafka": kafka_event("a", "b", partitions=[1, 2]),
}


@pytest.mark.parametrize("made", [lambda ship: ship, partial], ids=["object", "partial"])
@pytest.mark.parametrize("decorator", EVENTS)
def test_records_run_at_once(rig: Rig, decorator: str, made: Callable[[Ship], Any]) -> None:
    """Under ``concurrency=``, which it takes."""
    ship = Meeting()
    handler = getattr(rig.once, decorator)(name="ship", concurrency=2)(made(ship))
    assert handler(EVENTS[decorator], rig.context()) in (None, {"batchItemFailures": []})
    assert len(ship.seen) == 2


def test_an_object_is_awaited_everywhere(rig: Rig) -> None:
    """Under the decorators of events, requests and functions, and by `once.run`."""
    ship = Ship()
    request = api_event("POST", "/orders", {"id": 1}, {"Idempotency-Key": "1"})
    assert rig.once.event(name="event", key="id")(ship)({"id": 1}, rig.context()) == {"statusCode": 201}
    assert rig.once.api_gateway(name="api")(ship)(request, rig.context())["statusCode"] == 201
    work = rig.once.function(name="function", key="record")(ship)
    assert asyncio.run(work(1)) == {"statusCode": 201}
    assert asyncio.run(rig.once.run("run", "1", ship, 1)) == {"statusCode": 201}
    assert len(ship.seen) == 4


def test_an_async_mock_is_one(rig: Rig) -> None:
    """Its annotations are None."""
    work = rig.once.function(name="work")(AsyncMock(return_value=5))
    assert asyncio.run(work(1)) == asyncio.run(work(1)) == 5
