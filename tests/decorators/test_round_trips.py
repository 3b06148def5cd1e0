"""Round trips, counted on the wire: a new event costs two, a duplicate one, a remembered one none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

from lambda_once import HOLD, STORE, Once
from tests.faults.tables import Layers, made
from tests.kit.strict.mounted import mounted
from tests.kit.wire import Wire
from tests.sources.samples import (
    batch,
    eventbridge,
    fifo_record,
    http,
    rest,
    s3_record,
    sns_event,
    sqs_record,
)

RESULT = {"statusCode": 200, "body": "{}"}
Face = Callable[[Once, Layers, dict[str, Any]], Callable[[], Any]]


def answer(_: object) -> dict[str, Any]:
    """What every handler does."""
    return RESULT


@pytest.fixture
def wire() -> Iterator[Wire]:
    """A wire to an account of the strict engine."""
    with mounted():
        yield Wire()


@pytest.fixture
def layers(wire: Wire) -> Layers:
    """Both layers at the other end of the wire."""
    return made(wire.client)


def handler_of(face: str, event: dict[str, Any]) -> Face:
    """A handler of *face*, to be called with *event*."""

    def made(once: Once, layers: Layers, options: dict[str, Any]) -> Callable[[], Any]:
        handler = getattr(once, face)(**options)(answer)
        return lambda: handler(event, layers.context())

    return made


def route(once: Once, layers: Layers, options: dict[str, Any]) -> Callable[[], Any]:
    """A protected route."""
    app = APIGatewayHttpResolver()

    @app.post("/orders/<order>/pay", middlewares=[once.route(**options)])
    def pay(order: str) -> dict[str, str]:
        return {"paid": order}

    return lambda: app.resolve(http(headers={"idempotency-key": "k"}), layers.context())


def async_function(once: Once, layers: Layers, options: dict[str, Any]) -> Callable[[], Any]:
    """A protected coroutine function."""

    @once.function(**options)
    async def work(order: int) -> int:
        return order

    return lambda: asyncio.run(work(5))


def function(once: Once, layers: Layers, options: dict[str, Any]) -> Callable[[], Any]:
    """A protected function."""

    @once.function(**options)
    def work(order: int) -> int:
        return order

    return lambda: work(5)


def block(once: Once, layers: Layers, options: dict[str, Any]) -> Callable[[], Any]:
    """The explicit form."""

    def work() -> None:
        with once.begin("k", name="work", **options):
            pass

    return work


FACES = [
    pytest.param(handler_of("sqs", batch(sqs_record("x"))), id="sqs"),
    pytest.param(handler_of("sqs", batch(fifo_record("x"))), id="sqs fifo"),
    pytest.param(handler_of("sns", sns_event("x")), id="sns"),
    pytest.param(handler_of("event", eventbridge({"order": 5})), id="eventbridge"),
    pytest.param(handler_of("event", batch(s3_record())), id="s3"),
    pytest.param(handler_of("event", {"order": 5}), id="direct"),
    pytest.param(handler_of("api_gateway", rest(headers={"Idempotency-Key": ["k"]})), id="api"),
    pytest.param(route, id="route"),
    pytest.param(function, id="function"),
    pytest.param(async_function, id="async function"),
    pytest.param(block, id="begin"),
]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("policy", [{}, {"on_error": HOLD}], ids=["take_over", "hold"])
def test_new_two_duplicate_one(layers: Layers, wire: Wire, face: Face, policy: dict[str, Any]) -> None:
    """One conditional write acquires, one completes; a duplicate is told by the one that is refused."""
    call = face(layers.once(), layers, policy)
    assert wire.of(call) == ["UpdateItem", "UpdateItem"]
    assert wire.of(call) == ["UpdateItem"]


@pytest.mark.parametrize("face", FACES)
def test_a_remembered_duplicate_costs_none(layers: Layers, wire: Wire, face: Face) -> None:
    """With cache= the environment that did the work, or replayed it once, asks the table nothing."""
    call = face(layers.once(), layers, {"cache": 10})
    assert wire.of(call) == ["UpdateItem", "UpdateItem"]
    assert wire.of(call) == []
    other = face(layers.once(), layers, {"cache": 10})
    assert wire.of(other) == ["UpdateItem"]
    assert wire.of(other) == []


@pytest.mark.parametrize("result", [0, {}, [], "", False, None])
def test_falsy_results_cost_no_more(layers: Layers, wire: Wire, result: object) -> None:
    """A falsy result is stored and replayed as any other."""

    @layers.once().function(name="n")
    def work(order: int) -> Any:
        return result

    assert wire.of(lambda: work(5)) == ["UpdateItem", "UpdateItem"]
    assert wire.of(lambda: work(5)) == ["UpdateItem"]


@pytest.mark.slow
def test_a_large_result_costs_one_more_each_way(layers: Layers, wire: Wire) -> None:
    """The parts of a result of 5 MB are written before the row is flipped, and read in bulk."""
    large = ["".join(f"{number:x}" for number in range(start, start + 100_000)) for start in range(12)]

    @layers.once().function
    def work(order: int) -> list[str]:
        return large

    assert sum(map(len, large)) > 5_000_000
    assert wire.of(lambda: work(5)) == ["UpdateItem", "BatchWriteItem", "UpdateItem"]
    assert wire.of(lambda: work(5)) == ["UpdateItem", "BatchGetItem"]
    assert work(5) == large


@pytest.mark.parametrize("on_error", [STORE, HOLD])
def test_a_failure_costs_two_and_its_duplicate_one(layers: Layers, wire: Wire, on_error: Any) -> None:
    """Settling a failure is one write, and finding it one."""

    @layers.once(on_error=on_error).function
    def work(order: int) -> None:
        raise ValueError

    def call() -> None:
        with pytest.raises(Exception, match=r"^$|manual review"):
            work(5)

    assert wire.of(call) == ["UpdateItem", "UpdateItem"]
    assert wire.of(call) == ["UpdateItem"]


def test_transact_is_the_completion(layers: Layers, wire: Wire) -> None:
    """The user's writes and the completion are one request, and no other follows."""
    once = layers.once()
    put = {"Put": {"TableName": "powertools", "Item": {"id": {"S": "order"}}}}

    @once.function
    def work(order: int) -> Any:
        return once.current().transact([put], order)

    assert wire.of(lambda: work(5)) == ["UpdateItem", "TransactWriteItems"]
    assert wire.of(lambda: work(5)) == ["UpdateItem"]


class Abreast:
    """Lets a completion arrive while the next record's token is acquired, as it does at any latency."""

    def __init__(self) -> None:
        self.acquired = self.completed = 0
        self._changed = threading.Condition()

    def __call__(self, request: Any, forward: Callable[[], Any]) -> Any:
        acquires = b"lockedBy" in request.body
        if acquires:
            with self._changed:
                assert self._changed.wait_for(lambda: self.completed == self.acquired, timeout=10)
        answer = forward()
        with self._changed:
            self.acquired += acquires
            self.completed += not acquires
            self._changed.notify_all()
        return answer


@pytest.mark.parametrize(
    "options",
    [
        {"on_lapse": "hold"},
        {"on_lapse": lambda *_: None},
        {"on_error": HOLD},
        {"on_error": {TimeoutError: HOLD}},
    ],
    ids=["hold", "probe", "HOLD", "one HOLD"],
)
def test_records_that_may_be_held_are_acquired_one_by_one(
    layers: Layers, wire: Wire, options: dict[str, Any]
) -> None:
    """Two single writes for each: those behind the one that runs have no token that a crash could lapse."""
    abreast = Abreast()
    wire.fates_of["UpdateItem"] = [abreast] * 20
    event = batch(*(sqs_record(f"order {number}") for number in range(10)))
    assert wire.of(handler_of("sqs", event)(layers.once(), layers, options)) == ["UpdateItem"] * 20
    assert (abreast.acquired, abreast.completed) == (10, 10)
