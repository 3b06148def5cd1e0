"""One try of an end: its answer is awaited while time remains, whatever the limits of the client."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from lambda_once.core.clock import FINAL, Deadline
from lambda_once.dynamodb.client import ANSWER, CONNECT, longest_try, new_client
from lambda_once.dynamodb.transport import Transport
from lambda_once.testing import FakeClock
from tests.kit.strict.engine import client_error

WAIT_SECONDS = 10
"""Seconds after which somebody who should have come by now is missed."""
SHORT = 0.02
ONE_TRY = {"total_max_attempts": 1}


def _client(connect: float | None = 1, read: float | None = 3, retries: Any = ONE_TRY, **options: Any) -> Any:
    config = Config(connect_timeout=connect, read_timeout=read, retries=retries)
    return botocore.session.get_session().create_client("dynamodb", config=config, **options)


class Stub:
    """A client of one try and these time limits; *ask* answers its requests. It keeps who asked."""

    def __init__(self, ask: Callable[[], Any], connect: float = 1, read: float = 3) -> None:
        limits = SimpleNamespace(connect_timeout=connect, read_timeout=read, retries=ONE_TRY)
        self.meta = SimpleNamespace(config=limits)
        self.askers: list[threading.Thread] = []
        self._ask = ask

    def update_item(self, **_: Any) -> Any:
        self.askers.append(threading.current_thread())
        return self._ask()


def _asked(client: Any, remaining: float) -> Any:
    clock = FakeClock()
    deadline = Deadline(clock, clock.now() + timedelta(seconds=remaining), math.inf)
    return Transport(client).call("update_item", {}, deadline)


@pytest.mark.parametrize(
    ("limits", "longest"),
    [
        ({}, 4),
        ({"connect": 2, "read": 5}, 7),
        ({"read": None}, float("inf")),
        ({"retries": None}, float("inf")),
        ({"retries": {"max_attempts": 2}}, float("inf")),
    ],
    ids=str,
)
def test_how_long_a_client_may_take(limits: dict[str, Any], longest: float) -> None:
    """Its two limits together; botocore's own retries have no bound that one could rely on."""
    assert longest_try(_client(**limits)) == longest


def test_how_long_our_own_client_may_take() -> None:
    """As long as it is made to."""
    assert longest_try(new_client()) == longest_try(None) == CONNECT + ANSWER


@pytest.mark.parametrize(("remaining", "here"), [(3.999, False), (4, True), (30, True)])
def test_a_thread_is_made_only_where_the_time_is_shorter(remaining: float, here: bool) -> None:
    """A client whose limits end in time is called in the thread that needs the answer."""
    client = Stub(lambda: "answered")
    assert _asked(client, remaining) == "answered"
    assert (client.askers == [threading.current_thread()]) is here


def test_past_the_deadline_nothing_is_sent() -> None:
    """No thread could wait for its answer."""
    client = Stub(lambda: "answered")
    with pytest.raises(ReadTimeoutError):
        _asked(client, 0)
    assert client.askers == []


@pytest.mark.parametrize("remaining", [1, 30], ids=["in a thread", "here"])
def test_a_refusal_is_raised_as_it_came(remaining: float) -> None:
    """For every kind of request."""
    refusal = client_error("ConditionalCheckFailedException", "refused", "UpdateItem")

    def refuse() -> Any:
        raise refusal

    with pytest.raises(type(refusal)) as raised:
        _asked(Stub(refuse), remaining)
    assert raised.value is refusal


@pytest.mark.parametrize("late", ["an answer", ConnectionResetError("late"), SystemExit(3)], ids=repr)
@pytest.mark.filterwarnings("error")
def test_no_request_waits_past_the_deadline(late: Any) -> None:
    """Nothing has come by then, and a later answer is dropped: no thread dies of it."""
    gate = threading.Event()

    def hang() -> Any:
        assert threading.current_thread() is not threading.main_thread(), "the invocation waits"
        assert gate.wait(WAIT_SECONDS)
        if isinstance(late, BaseException):
            raise late
        return late

    client = Stub(hang, 60, 60)
    with pytest.raises(ReadTimeoutError):
        _asked(client, SHORT)
    (asker,) = client.askers
    assert asker.daemon
    gate.set()
    asker.join(WAIT_SECONDS)
    assert not asker.is_alive()


def test_twin_that_relies_on_the_clients_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bound of its own the invocation waits for a minute, and is killed meanwhile."""
    monkeypatch.setattr("lambda_once.dynamodb.transport.longest_try", lambda _client: 0.0)
    with pytest.raises(AssertionError, match="the invocation waits"):
        test_no_request_waits_past_the_deadline("an answer")


@pytest.mark.parametrize(("remaining", "sent"), [(FINAL, False), (FINAL + 0.001, True)])
def test_where_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch, remaining: float, sent: bool
) -> None:
    """The request is sent all the same, but near the end: it could outlast the invocation."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    client = Stub(lambda: "answered")
    with nullcontext() if sent else pytest.raises(ReadTimeoutError):
        assert _asked(client, remaining) == "answered"
    assert client.askers == ([threading.current_thread()] if sent else [])


# ------------------------------------------------------------------ the connection


class Slow(BaseHTTPRequestHandler):
    """Answers each request with its own token; the first one when it is let."""

    protocol_version = "HTTP/1.1"
    gate: threading.Event

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        token = asked["Key"]["lockToken"]
        if token == {"S": "slow"}:
            assert self.gate.wait(WAIT_SECONDS)
        body = json.dumps({"Item": {"lockToken": token}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """An endpoint that keeps its connections."""
    Slow.gate = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Slow.gate.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_late_answer_reaches_no_other_request(server: str) -> None:
    """Its connection is in use until it has come: each of the next requests gets an answer of its own."""
    client = _client(60, 60, endpoint_url=server)
    wire, clock = Transport(client), FakeClock()

    def read(token: str, seconds: float) -> Any:
        deadline = Deadline(clock, clock.now() + timedelta(seconds=seconds), math.inf)
        request = {"TableName": "tokens", "Key": {"lockToken": {"S": token}}}
        return wire.call("get_item", request, deadline)["Item"]["lockToken"]["S"]

    askers: list[threading.Thread] = []
    client.meta.events.register("before-send", lambda **_: askers.append(threading.current_thread()))
    with pytest.raises(ReadTimeoutError):
        read("slow", 0.2)
    assert [read("a", WAIT_SECONDS), read("b", WAIT_SECONDS)] == ["a", "b"]
    Slow.gate.set()
    askers[0].join(WAIT_SECONDS)
    assert [read("c", WAIT_SECONDS), read("d", WAIT_SECONDS)] == ["c", "d"]
    client.close()
