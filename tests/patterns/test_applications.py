"""The examples of the patterns, and the numbers of docs/recipes.md, on a bad line with redeliveries."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import pytest

from lambda_once import RetryLater
from lambda_once.patterns.documents import Documents
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.results import Conflict
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, dynamodb_stream_event, sqs_event, using
from tests.docs.pages import ROOT, blocks
from tests.kit.faulty import FaultyClient, by_seed
from tests.patterns.conftest import Ground
from tests.patterns.fifo.queues import QUEUE, Fifo

M = TypeVar("M")
NOW = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
seeds = pytest.mark.parametrize("seed", range(3))


def deliver(messages: Sequence[M], work: Callable[[M], object], seed: int) -> None:
    """Work *messages* in any order, every third one twice, and again after a `RetryLater`."""
    dice = random.Random(seed)
    waiting = [*messages, *dice.sample(messages, len(messages) // 3)]
    dice.shuffle(waiting)
    for _ in range(100 * len(waiting)):
        if not waiting:
            return
        message = waiting.pop()
        try:
            work(message)
        except RetryLater:
            waiting.insert(dice.randint(0, len(waiting)), message)
    pytest.fail("delivered again and again")


@seeds
def test_sensors(ground: Ground, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The newest reading of each sensor, whatever comes late; a calibration counts once."""
    example, line = import_module("examples.patterns.sensors"), FaultyClient(ground.client, by_seed(seed))
    table = ground.table("site", "sensor")

    def sensors(client: Any) -> Ratchet:
        return Ratchet(table, client, key=("site", "sensor"), stamp="at", clock=FakeClock(NOW))

    monkeypatch.setattr(example, "sensors", sensors(line))

    def event(sensor: str, n: float, **more: object) -> dict[str, Any]:
        at = (NOW + timedelta(microseconds=300 * n)).isoformat()
        return {"type": "reading", "site": "north", "sensor": sensor, "at": at, "celsius": n, **more}

    events = [event(sensor, n) for sensor in ("t1", "t2") for n in range(5)]
    events += [event("t2", 9, type="removed")]
    calibrations = [{"site": "north", "sensor": "t1", "id": f"c{n}", "by": "0.01"} for n in range(4)]
    deliver(events, example.record, seed)
    deliver(calibrations, example.calibrate, seed)
    line.deliver()
    monkeypatch.setattr(example, "sensors", sensors(ground.client))
    assert example.latest("north") == {"t1": 4}
    calibrated = example.sensors.get({"site": "north#calibration", "sensor": "t1"})
    assert calibrated["offset"] == Decimal("0.04")


@seeds
def test_contracts(ground: Ground, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Each amendment is made once; a contract is signed once, and stays cancelled."""
    example, line = import_module("examples.patterns.contracts"), FaultyClient(ground.client, by_seed(seed))
    table = ground.table("pk", "sk")

    def contracts(client: Any) -> Documents:
        return Documents(table, client, prefix="CONTRACT#", part_bytes=100, clock=FakeClock())

    monkeypatch.setattr(example, "contracts", contracts(ground.client))
    for name in ("lease", "power"):
        example.sign("ann", name, {"rent": "900.00", "deposit": "1800.50"})
    with pytest.raises(Conflict):
        example.sign("ann", "lease", {"rent": "1"})
    amendments = [
        {"id": str(n), "clause": clause, "amount": f"0.{n}0"}
        for n, clause in enumerate(("rent", "deposit", "rent"))
    ]
    monkeypatch.setattr(example, "contracts", contracts(line))
    deliver(amendments, lambda amendment: example.amend("ann", "lease", amendment), seed)
    deliver(["power"] * 3, lambda name: example.cancel("ann", name), seed)
    line.deliver()
    monkeypatch.setattr(example, "contracts", contracts(ground.client))
    assert list(example.totals("ann")) == [("lease", Decimal("2700.80"))]


def test_an_order_feed(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published and delivered twice, an event is stored once; an amended one fails, and its group waits."""
    monkeypatch.setenv("ORDER_EVENTS_QUEUE_URL", QUEUE)
    example, queue = import_module("examples.patterns.order_feed"), Fifo(FakeClock())
    table, store = ground.table("pk", "sk"), example.order_events
    monkeypatch.setattr(example.feed, "_client", queue)
    monkeypatch.setattr(store, "_table", table)
    monkeypatch.setattr(store, "_sender", type(store._sender)(ground.client))
    events = [{"orderId": Decimal(1), "sequence": Decimal(n), "amount": Decimal("1.50")} for n in range(3)]
    amended = events[1] | {"amount": Decimal(2)}
    for image in (*events, *events, None, amended, events[2] | {"sequence": Decimal(3)}):
        example.publish_changes(dynamodb_stream_event((events[0], image), key="orderId"), None)
    batch = sqs_event(*(entry.body for entry in queue.delivered), fifo_groups="1")
    ids = [record["messageId"] for record in batch["Records"]]
    assert len(ids) == 5
    for _ in range(2):
        failed = example.store_events(batch, None)["batchItemFailures"]
        assert [failure["itemIdentifier"] for failure in failed] == ids[3:]
        assert ground.client.scan(TableName=table)["Count"] == 3


@seeds
def test_the_recipes_numbers(ground: Ground, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Each order gets one invoice number, the same at each delivery, and none is left out."""
    page = ModuleType("recipes")
    monkeypatch.setitem(sys.modules, page.__name__, page)
    for block in blocks(ROOT / "docs" / "recipes.md"):
        if block.language == "python":
            exec(block.text, page.__dict__)
    line, clock = FaultyClient(ground.client, by_seed(seed, sound=0.8)), FakeClock()
    page.__dict__["numbers"] = Ledger(ground.table(), line, window=timedelta(days=14), clock=clock)
    found: dict[str, set[int]] = {f"order_{n}": set() for n in range(8)}
    with using(page.once, DynamoDBStore(ground.tokens(), line), clock):
        deliver([*found], lambda order: found[order].add(page.invoice_number(order, "2026")), seed)
    assert all(len(numbers) == 1 for numbers in found.values())
    assert sorted(number for (number,) in found.values()) == list(range(1, 9))
