"""Guarantee 11 on sockets: with each client a handler answers in time, whatever holds up the table."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final

import pytest
from botocore.config import Config

from lambda_once import Once, StoreUnavailable
from lambda_once.core.clock import monotonic
from lambda_once.dynamodb import client as made
from lambda_once.testing import lambda_context
from tests.kit import tables

pytestmark = pytest.mark.timed

LIMIT: Final = 0.2
"""Seconds of each of a client's two limits."""
REMAINING: Final = 1.5
"""Seconds of an invocation: more than both limits, so a client that kept them could be asked here."""
MANY: Final = 12
"""Addresses that do not answer: their limits add up to more than the invocation."""


def _given(endpoint: str, patience: float | None = None) -> Any:
    """Make a client as a user does who follows the page."""
    limits = Config(connect_timeout=patience, read_timeout=patience, retries={"total_max_attempts": 1})
    return tables.session().client("dynamodb", endpoint_url=endpoint, config=limits)


def _patient(endpoint: str, patience: float | None = None) -> Any:
    """Make one as a user does who follows no page."""
    del patience
    return tables.session().client("dynamodb", endpoint_url=endpoint)


CLIENTS: Final[dict[str, tables.Maker]] = {**tables.CLIENTS, "given": _given, "given, patient": _patient}


@contextmanager
def _silent(_: pytest.MonkeyPatch) -> Iterator[int]:
    """A server that takes connections, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


@contextmanager
def _dripping(_: pytest.MonkeyPatch) -> Iterator[int]:
    """A server that sends a byte before each limit is over."""
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection:
            for byte in b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 5:
                if over.wait(LIMIT / 2):
                    return
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    return

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]
        over.set()
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def _dead(patch: pytest.MonkeyPatch) -> Iterator[int]:
    """A name of many addresses, none of which takes a connection: the backlog is full."""
    with ExitStack() as ends:
        listener = ends.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = int(listener.getsockname()[1])
        for _ in range(4):
            waiting = ends.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        address = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        patch.setattr(socket, "getaddrinfo", lambda *_, **__: [address] * MANY)
        yield port


@contextmanager
def _unresolved(patch: pytest.MonkeyPatch) -> Iterator[int]:
    """A name server that is silent."""
    over = threading.Event()

    def look_up(*_: object, **__: object) -> Any:
        over.wait(2 * REMAINING)
        raise socket.gaierror(socket.EAI_AGAIN, "over")

    patch.setattr(socket, "getaddrinfo", look_up)
    patch.setattr("awscrt.http.HttpClientConnection.new", lambda *_: Future[Any]())
    yield 9
    over.set()


Trouble = Callable[[pytest.MonkeyPatch], Any]
TROUBLES: Final[dict[str, Trouble]] = {
    "silent": _silent,
    "dripping": _dripping,
    "dead addresses": _dead,
    "no look-up": _unresolved,
}


def _handler(client: Any) -> Callable[[Any, Any], Any]:
    once = Once(table="tokens", client=client, service="orders", logger=logging.getLogger("orders"))

    @once.function(key="order", name="charge")
    def charge(order: str) -> str:
        raise AssertionError(f"{order} was charged without a token")

    def handler(event: str, context: Any) -> str:
        with once.invocation(context):
            try:
                return charge(event)
            except StoreUnavailable:
                return "later"

    return handler


HELD: Final = [
    *((name, trouble) for name in ("crt", "given, patient") for trouble in TROUBLES),
    *((name, "silent") for name in ("boto3", "given")),
]
"""What the guarantee covers."""


@pytest.mark.parametrize(("name", "trouble"), HELD)
def test_a_handler_answers_in_time(name: str, trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the kill, with the invocation's work refused: it may be delivered again."""
    monkeypatch.setattr(made, "CONNECT", LIMIT)
    monkeypatch.setattr(made, "ANSWER", LIMIT)
    with (
        TROUBLES[trouble](monkeypatch) as port,
        closing(CLIENTS[name](f"http://127.0.0.1:{port}", LIMIT)) as client,
    ):
        handler = _handler(client)
        began = monotonic()
        assert handler("o-1", lambda_context(remaining_ms=int(REMAINING * 1000))) == "later"
        assert monotonic() - began < REMAINING - 0.1


@pytest.mark.parametrize("name", [*tables.CLIENTS, "given"])
def test_no_thread_is_added_by_a_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a client that ends by itself: the thread that awaited the last answer awaits the next."""
    counts: list[int] = []
    with _silent(monkeypatch) as port, closing(CLIENTS[name](f"http://127.0.0.1:{port}", LIMIT)) as client:
        handler = _handler(client)
        for _ in range(3):
            assert handler("o-1", lambda_context(remaining_ms=int(REMAINING * 1000))) == "later"
            threading.Event().wait(2 * LIMIT)  # its last try ends meanwhile
            counts.append(threading.active_count())
    assert len({*counts}) == 1


@pytest.mark.parametrize("trouble", ["dripping", "dead addresses", "no look-up"])
def test_twin_that_relies_on_boto3s_limits(trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold for one address and one read: the invocation is killed meanwhile, as the page says."""
    with pytest.raises(AssertionError):
        test_a_handler_answers_in_time("given", trouble, monkeypatch)
