"""The proxy: each fate as the client sees it, and as the engine does."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.chaos.plan import Fate, Plan
from tests.chaos.proxy import Delays, Proxy

pytestmark = pytest.mark.timed

CLIENT_TIMEOUT = 0.2
DELAYS = Delays(patience=CLIENT_TIMEOUT, pause=0.6)
ATTEMPT = "0123456789abcdef" * 2
WORKER = 4711


@dataclass
class Worker:
    """A worker that only notes what is done to it, and what had arrived by then."""

    arrived: list[Any]
    done: list[tuple[str, int]] = field(default_factory=list)

    def current(self) -> int | None:
        return WORKER

    def kill(self, pid: int | None) -> None:
        assert pid == WORKER
        self.done.append(("killed", len(self.arrived)))

    def pause(self, pid: int | None, seconds: float) -> None:
        assert (pid, seconds) == (WORKER, DELAYS.pause)
        self.done.append(("paused", len(self.arrived)))


class Engine(HTTPServer):
    """Answers each statement and key of a batch; keeps what arrived."""

    def __init__(self) -> None:
        self.arrived: list[Any] = []
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        engine = self.server
        assert isinstance(engine, Engine)
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        engine.arrived.append(asked)
        body = json.dumps({"Responses": [{"Item": one} for one in asked.get("Statements", [])]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Amz-Crc32", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name is http.server's)
        """Keep quiet."""


@dataclass
class Line:
    """An engine, a proxy whose every request meets one fate, and a client's view of them."""

    engine: Engine
    proxy: Proxy
    worker: Worker

    def send(
        self, body: dict[str, Any], operation: str = "UpdateItem", target: str = "X-Amz-Target"
    ) -> tuple[int, Any]:
        """Send one request as an impatient client; return the status and the body of the answer."""
        host, port = self.proxy.endpoint.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=CLIENT_TIMEOUT)
        try:
            headers = {target: f"DynamoDB_20120810.{operation}"}
            connection.request("POST", "/", json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@contextmanager
def line(fate: Fate) -> Iterator[Line]:
    """Let every request meet *fate*; at the end of the block all that was late has arrived."""
    engine = Engine()
    serving = threading.Thread(target=engine.serve_forever, args=(0.01,))
    serving.start()
    worker = Worker(engine.arrived)
    plan = Plan(1, 0, {fate: 1000})
    proxy = Proxy(("127.0.0.1", engine.server_port), plan, worker, DELAYS)
    try:
        yield Line(engine, proxy, worker)
    finally:
        proxy.close()
        engine.shutdown()
        engine.server_close()
        serving.join()


def request() -> dict[str, Any]:
    """A request that names an attempt."""
    return {"ExpressionAttributeValues": {":a": {"S": ATTEMPT}}}


def test_a_request_arrives() -> None:
    """Without a fault the engine's answer comes back, its checksum left out, and nothing is noted."""
    with line(Fate.ARRIVES) as wire:
        assert wire.send(request()) == (200, {"Responses": []})
        assert wire.engine.arrived == [request()]
        assert wire.proxy.troubled == {}
        assert wire.proxy.senders == {ATTEMPT: WORKER}


@pytest.mark.parametrize(
    ("fate", "error", "arrived"),
    [
        (Fate.REQUEST_DROPPED, http.client.RemoteDisconnected, 0),
        (Fate.RESPONSE_DROPPED, http.client.RemoteDisconnected, 1),
        (Fate.RESET_BEFORE, ConnectionResetError, 0),
        (Fate.RESET_AFTER, ConnectionResetError, 1),
        (Fate.KILLED_BEFORE, http.client.RemoteDisconnected, 0),
        (Fate.KILLED_AFTER, http.client.RemoteDisconnected, 1),
    ],
)
def test_a_connection_breaks(fate: Fate, error: type[Exception], arrived: int) -> None:
    """The client learns nothing, and the request has arrived or has not, as the fate says."""
    with line(fate) as wire:
        with pytest.raises(error) as broken:
            wire.send(request())
        assert type(broken.value) is error
        assert len(wire.engine.arrived) == arrived
        assert wire.proxy.troubled == {ATTEMPT: [fate.value]}


@pytest.mark.parametrize(
    ("fate", "status", "code", "arrived"),
    [
        (Fate.SERVER_ERROR, 500, "InternalServerError", 0),
        (Fate.SERVER_ERROR_WRITTEN, 500, "InternalServerError", 1),
        (Fate.THROTTLED, 400, "ThrottlingException", 0),
        (Fate.THROUGHPUT_EXCEEDED, 400, "ProvisionedThroughputExceededException", 0),
    ],
)
def test_an_error_is_answered(fate: Fate, status: int, code: str, arrived: int) -> None:
    """The client gets an error in DynamoDB's words; a 500 may have been written all the same."""
    with line(fate) as wire:
        answered, body = wire.send(request())
        assert (answered, body["__type"].partition("#")[2]) == (status, code)
        assert len(wire.engine.arrived) == arrived


@pytest.mark.parametrize("fate", [Fate.REQUEST_LATE, Fate.RESPONSE_LATE])
def test_an_answer_comes_too_late(fate: Fate) -> None:
    """The client gives up; a late request arrives afterwards, at the proxy's end at the latest."""
    with line(fate) as wire:
        with pytest.raises(TimeoutError):
            wire.send(request())
        if fate is Fate.RESPONSE_LATE:
            assert wire.engine.arrived == [request()]
    assert wire.engine.arrived == [request()]
    assert fate.value in wire.proxy.troubled[ATTEMPT]


@pytest.mark.parametrize(
    ("fate", "done"),
    [
        (Fate.KILLED_BEFORE, [("killed", 0)]),
        (Fate.KILLED_AFTER, [("killed", 1)]),
        (Fate.PAUSED_BEFORE, [("paused", 0)]),
        (Fate.PAUSED_AFTER, [("paused", 0)]),
        (Fate.RESET_AFTER, []),
    ],
)
def test_a_worker_falls_before_or_after_its_request(fate: Fate, done: list[tuple[str, int]]) -> None:
    """A worker is killed where the fate says so; a pause begins before the request is written."""
    with line(fate) as wire:
        with suppress(OSError):
            wire.send(request())
        assert wire.worker.done == done


@pytest.mark.parametrize("target", ["X-Amz-Target", "x-amz-target"])
def test_of_a_batch_of_statements_a_part_is_throttled(target: str) -> None:
    """
    The statements that did not arrive are answered as throttled, each at its place.

    botocore writes the header that names the operation in capitals, our own clients in small letters.
    """
    statements = [{"Statement": str(number)} for number in range(5)]
    with line(Fate.PARTLY_THROTTLED) as wire:
        status, answer = wire.send({"Statements": statements}, "BatchExecuteStatement", target)
        arrived = len(wire.engine.arrived[0]["Statements"])
    assert status == 200
    assert 0 < arrived < 5
    assert [one.get("Item") for one in answer["Responses"][:arrived]] == statements[:arrived]
    assert {one["Error"]["Code"] for one in answer["Responses"][arrived:]} == {"ThrottlingError"}
    assert len(answer["Responses"]) == 5


@pytest.mark.parametrize(
    ("operation", "back", "asked"),
    [
        ("BatchGetItem", "UnprocessedKeys", {"Keys": [{"k": {"S": str(n)}} for n in range(5)]}),
        ("BatchWriteItem", "UnprocessedItems", [{"PutRequest": {"Item": {"n": n}}} for n in range(5)]),
    ],
)
def test_of_a_batch_of_items_a_part_comes_back(operation: str, back: str, asked: Any) -> None:
    """What did not arrive is named, in the form in which it is asked for again."""
    with line(Fate.PARTLY_THROTTLED) as wire:
        status, answer = wire.send({"RequestItems": {"tokens": asked}}, operation)
        (arrived,) = (one["RequestItems"]["tokens"] for one in wire.engine.arrived)
    left = answer[back]["tokens"]
    assert status == 200
    if isinstance(asked, dict):
        assert arrived["Keys"] + left["Keys"] == asked["Keys"]
    else:
        assert arrived + left == asked
    assert arrived
    assert left


def test_a_single_write_is_never_taken_in_parts() -> None:
    """What has no parts arrives whole."""
    with line(Fate.PARTLY_THROTTLED) as wire:
        assert wire.send(request()) == (200, {"Responses": []})
    assert wire.proxy.troubled == {}


def test_a_calm_plan_lets_all_arrive() -> None:
    """Once a plan is calm there are no faults."""
    plan = Plan(1, 0, {Fate.SERVER_ERROR: 1000})
    assert plan.fate("UpdateItem", batch=False) is Fate.SERVER_ERROR
    plan.calm.set()
    assert plan.fate("UpdateItem", batch=False) is Fate.ARRIVES


def test_a_plan_is_its_seeds() -> None:
    """One seed and worker give the same fates in the same order; another worker gets others."""

    def fates(seed: int, worker: int) -> list[Fate]:
        plan = Plan(seed, worker)
        return [plan.fate("UpdateItem", batch=False) for _ in range(500)]

    assert fates(1, 0) == fates(1, 0)
    assert fates(1, 0) != fates(1, 1)
    assert fates(1, 0) != fates(2, 0)


def test_a_plan_may_mean_one_operation() -> None:
    """The requests of all other operations arrive."""
    plan = Plan(1, 0, {Fate.SERVER_ERROR: 1000}, only="TransactWriteItems")
    assert plan.fate("UpdateItem", batch=False) is Fate.ARRIVES
    assert plan.fate("TransactWriteItems", batch=False) is Fate.SERVER_ERROR
