"""One try of an end: its answer is awaited while time remains, whatever the limits of the client."""

from __future__ import annotations

import gc
import itertools
import json
import logging
import math
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError

from lambda_once import Once
from lambda_once.core import threads
from lambda_once.core.clock import FINAL, Deadline
from lambda_once.dynamodb.client import _PATCH_BOTOCORE, ANSWER, CONNECT, longest_try
from lambda_once.dynamodb.transport import Transport
from lambda_once.testing import FakeClock
from tests.docs.pages import ROOT
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

    def __init__(self, ask: Callable[[], Any], connect: float | None = 1, read: float = 3) -> None:
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
    """Its two limits together; botocore's own retries have no bound to rely on."""
    assert longest_try(_client(**limits)) == longest


@pytest.mark.parametrize(("name", "longest"), [("", CONNECT + ANSWER), ("crt", CONNECT + ANSWER)])
def test_how_long_our_own_clients_may_take(
    name: str, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as they are made to, from when they are made."""
    monkeypatch.setattr(sys, "modules", {k: v for k, v in sys.modules.items() if k not in _PATCH_BOTOCORE})
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    transport = Transport(name)
    assert transport._longest == math.inf
    transport.prepare()
    assert transport._longest == longest


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


@pytest.fixture(autouse=True)
def _no_idle_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is kept from another test."""
    monkeypatch.setattr(threads, "_kept", [])


def _until_idle(many: int) -> bool:
    """Wait until *many* threads are kept."""
    patience = threading.Event()
    return any(len(threads._kept) == many or patience.wait(0.01) for _ in range(WAIT_SECONDS * 100))


@pytest.mark.parametrize("connect", [60, None], ids=["a long limit", "no limit"])
def test_requests_use_one_thread_one_after_the_other(connect: float | None) -> None:
    """It is idle before its answer is there, so the next request never starts another; so after a refusal."""
    answers = itertools.cycle([True, False])

    def ask() -> str:
        if next(answers):
            return "answered"
        raise client_error("ConditionalCheckFailedException", "refused", "UpdateItem")

    client = Stub(ask, connect)
    for _ in range(20):
        with suppress(ClientError):
            _asked(client, 30)
    assert len(client.askers) == 20
    assert len({*client.askers}) == 1


def test_twin_that_is_idle_after_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next request finds no idle thread, and starts another."""

    def keep(begin: Any, kept: Any) -> None:
        while True:
            publish = begin.get()()
            publish()
            threading.Event().wait(SHORT)
            kept.append(begin)

    monkeypatch.setattr(threads, "_keep", keep)
    with pytest.raises(AssertionError):
        test_requests_use_one_thread_one_after_the_other(60)


def test_as_many_threads_are_kept_as_were_busy_at_once() -> None:
    """Two requests at once have two, and the next two use both."""
    for _ in range(2):
        both = threading.Barrier(2, timeout=WAIT_SECONDS)
        client = Stub(both.wait, 60)
        callers = [threading.Thread(target=_asked, args=(client, 30)) for _ in range(2)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert len({*client.askers}) == len(client.askers) == 2
        assert _until_idle(2)


def test_a_request_that_hangs_holds_no_other_up() -> None:
    """Its thread is not idle, so the next ones have another, which they share."""
    gate = threading.Event()
    hanging, client = Stub(lambda: gate.wait(WAIT_SECONDS), 60), Stub(lambda: "answered", 60)
    with pytest.raises(ReadTimeoutError):
        _asked(hanging, SHORT)
    assert [_asked(client, 30) for _ in range(3)] == ["answered"] * 3
    (asker,) = {*client.askers}
    assert asker not in hanging.askers
    gate.set()
    assert _until_idle(2)


def test_an_idle_thread_keeps_no_response() -> None:
    """A response has up to 16 MB, and an error the locals of its frames."""

    class Answer:
        pass

    answers = [Answer()]
    kept = weakref.ref(answers[0])
    _asked(Stub(answers.pop, 60), 30)
    assert _until_idle(1)
    gc.collect()
    patience = threading.Event()
    assert any(kept() is None or patience.wait(0.01) for _ in range(WAIT_SECONDS * 100))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, "takes 4 s at most; it waits in a kept thread if less remains"),
        ({"retries": None}, "so each request waits in a kept thread; give it Config("),
        ({"read": None}, "or has no timeout, so each request waits"),
    ],
    ids=str,
)
def test_the_limits_of_a_given_client_are_logged_once(
    limits: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At first use, and nothing of a client that is made here."""
    caplog.set_level("INFO", "shop")
    lines: list[logging.LogRecord] = []
    for client in (None, _client(**limits)):
        caplog.clear()
        once = Once(table="tokens", client=client, service="shop", logger=logging.getLogger("shop"))
        for disabled in ("false", "true", "false"):
            with pytest.MonkeyPatch.context() as environment:
                environment.setenv("LAMBDA_ONCE_DISABLED", disabled)
                assert once._runtime.engine is not None
        lines = [line for line in caplog.records if line.message == "once.client_limits"]
        assert len(lines) == (0 if client is None else 1)
    assert said in vars(lines[0])["reason"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_threads_of_its_own() -> None:
    """Its parent's idle thread is not there: a request that waited for it would never be sent."""
    script = (
        "import os, signal\n"
        "from tests.stores.test_bounded_waits import Stub, _asked\n"
        "client = Stub(lambda: 'answered', 60)\n"
        "print(_asked(client, 30), flush=True)\n"
        "if not (child := os.fork()):\n"
        f"    signal.alarm({WAIT_SECONDS})\n"
        "    print(_asked(client, 3), flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["answered", "answered"]


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
    assert _until_idle(1)
    assert _asked(Stub(lambda: "answered", 60), 1) == "answered"


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
