"""An HTTP proxy before DynamoDB, on which requests and responses meet the fates of a plan."""

from __future__ import annotations

import http.client
import json
import re
import socket
import struct
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, cast

from lambda_once.core.clock import SystemClock
from tests.chaos.partial import is_batch, part_of
from tests.chaos.plan import Fate, Plan

ATTEMPT = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
"""An attempt id in the text of a request."""
HOP_BY_HOP = {"connection", "content-length", "host", "transfer-encoding", "x-amz-crc32"}
NAMESPACE = "com.amazonaws.dynamodb.v20120810"


class Victim(Protocol):
    """The process whose requests these are. The latter two do nothing where *pid* is gone."""

    def current(self) -> int | None: ...
    def kill(self, pid: int | None) -> None: ...
    def pause(self, pid: int | None, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Delays:
    """In seconds."""

    patience: float
    """The read timeout of the clients."""
    pause: float
    """How long a worker is paused: longer than a lease. A ghost is at most as late."""


@dataclass(frozen=True, slots=True)
class Request:
    """What came from the client. Names of *headers* are in lower case: each client has its own."""

    headers: Mapping[str, str]
    body: bytes
    sender: int | None = None
    """The process that ran when its connection was opened; None: it was gone by then."""

    @property
    def operation(self) -> str:
        return self.headers.get("x-amz-target", "").rpartition(".")[2]

    @property
    def attempts(self) -> set[str]:
        return set(ATTEMPT.findall(self.body.decode()))


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back to the client."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Ending(Protocol):
    """How a connection ends without an answer."""

    def __call__(self, connection: socket.socket, /) -> None: ...


def closed(connection: socket.socket) -> None:
    """End *connection* in good order (FIN): the response was dropped."""
    connection.shutdown(socket.SHUT_RDWR)


def reset(connection: socket.socket) -> None:
    """Abort *connection* (RST): SO_LINGER of no seconds sends one at close. socket(7)."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def refusal(status: int, code: str) -> Reply:
    """Return an error as DynamoDB words it."""
    body = {"__type": f"{NAMESPACE}#{code}", "message": "as the plan wants it"}
    return Reply(status, {"Content-Type": "application/x-amz-json-1.0"}, json.dumps(body).encode())


_AT_ONCE: dict[Fate, tuple[bool, Reply | Ending | None]] = {
    Fate.ARRIVES: (True, None),
    Fate.REQUEST_DROPPED: (False, closed),
    Fate.RESPONSE_DROPPED: (True, closed),
    Fate.RESET_BEFORE: (False, reset),
    Fate.RESET_AFTER: (True, reset),
    Fate.SERVER_ERROR: (False, refusal(500, "InternalServerError")),
    Fate.SERVER_ERROR_WRITTEN: (True, refusal(500, "InternalServerError")),
    Fate.THROTTLED: (False, refusal(400, "ThrottlingException")),
    Fate.THROUGHPUT_EXCEEDED: (False, refusal(400, "ProvisionedThroughputExceededException")),
}
"""Whether the request arrives, and what its sender sees; None: the engine's own answer."""


class Proxy:
    """Sits between one worker and the engine at *upstream* (host, port), on a free loopback port."""

    def __init__(self, upstream: tuple[str, int], plan: Plan, victim: Victim, delays: Delays) -> None:
        self._upstream = upstream
        self._plan = plan
        self._victim = victim
        self._delays = delays
        self._clock = SystemClock()
        self._closing = threading.Event()
        self.troubled: defaultdict[str, list[str]] = defaultdict(list)
        """For each attempt id, the fates of those of its requests that did not arrive and return in time."""
        self.senders: dict[str, int | None] = {}
        """For each attempt id, the process that sent its requests; None: it was gone by then."""
        self._server = _Server(("127.0.0.1", 0), _Exchange)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="chaos-proxy")
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Let what is late arrive at once, and end when all of it has. The worker must be gone."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # ---------------------------------------------------------------- one request

    def answer(self, request: Request) -> Reply | Ending:
        """Let *request* meet its fate; return what its sender sees of that."""
        began = self._clock.now()
        for attempt in request.attempts:
            self.senders.setdefault(attempt, request.sender)
        batch = is_batch(request.operation, json.loads(request.body))
        fate = self._plan.fate(request.operation, batch=batch)
        if fate is not Fate.ARRIVES:
            self._note(request, fate.value)
        try:
            seen = self._met(fate, request)
        except (OSError, http.client.HTTPException) as failed:
            self._note(request, f"the engine failed: {type(failed).__name__}")
            seen = closed
        # Half of the patience: its sender may have lost the other half waiting for a processor.
        if self._clock.now() - began > timedelta(seconds=self._delays.patience / 2):
            self._note(request, "slow")
        return seen

    def sender(self) -> int | None:
        """Return whose connection is opened now."""
        return self._victim.current()

    def lost(self, request: Request) -> None:
        """Note that the sender of *request* did not wait for the answer."""
        self._note(request, "no client waited")

    def _note(self, request: Request, trouble: str) -> None:
        for attempt in request.attempts:
            self.troubled[attempt].append(trouble)

    def _met(self, fate: Fate, request: Request) -> Reply | Ending:
        if fate in _AT_ONCE:
            arrives, seen = _AT_ONCE[fate]
            reply = self._forwarded(request) if arrives else None
            return seen or reply or closed
        if fate is Fate.PARTLY_THROTTLED:
            return self._partly(request)
        if fate in (Fate.REQUEST_LATE, Fate.RESPONSE_LATE):
            return self._late(fate, request)
        return self._interrupted(fate, request)

    def _late(self, fate: Fate, request: Request) -> Reply:
        soonest = self._delays.patience * 1.2
        if fate is Fate.REQUEST_LATE:
            self._closing.wait(soonest + self._plan.share() * (self._delays.pause - soonest))
            return self._forwarded(request)
        reply = self._forwarded(request)
        self._closing.wait(soonest)
        return reply

    def _interrupted(self, fate: Fate, request: Request) -> Reply | Ending:
        """Do to the sender what *fate* says, before or after its request arrives."""
        if fate in (Fate.KILLED_BEFORE, Fate.KILLED_AFTER):
            if fate is Fate.KILLED_AFTER:
                self._forwarded(request)
            self._victim.kill(request.sender)
            return closed
        self._victim.pause(request.sender, self._delays.pause)
        if fate is Fate.PAUSED_BEFORE:
            self._closing.wait(self._delays.pause)
        return self._forwarded(request)

    def _partly(self, request: Request) -> Reply:
        part = part_of(request.operation, json.loads(request.body), self._plan.share())
        reply = self._forwarded(replace(request, body=json.dumps(part.request).encode()))
        if reply.status != 200:
            return reply
        return Reply(200, reply.headers, json.dumps(part.whole(json.loads(reply.body))).encode())

    def _forwarded(self, request: Request) -> Reply:
        connection = http.client.HTTPConnection(*self._upstream, timeout=30)
        try:
            connection.request("POST", "/", request.body, _end_to_end(request.headers))
            answer = connection.getresponse()
            return Reply(answer.status, _end_to_end(dict(answer.getheaders())), answer.read())
        finally:
            connection.close()


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    """Leave out what concerns one connection, and the checksum, which a changed body would not match."""
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # `close` waits for the ghosts
    request_queue_size = 128  # of 5, workers that connect at once find it full, and wait a second
    proxy: Proxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that was killed; anything else is a fault of the proxy's own."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    connection: socket.socket

    def setup(self) -> None:
        """Note whose connection it is, before another process may run."""
        self.sender = cast("_Server", self.server).proxy.sender()
        super().setup()

    def do_POST(self) -> None:
        """Read one request, and do to its sender what the proxy answers."""
        proxy = cast("_Server", self.server).proxy
        length = int(self.headers.get("Content-Length", 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(headers, self.rfile.read(length), self.sender)
        if len(request.body) < length:  # its sender died
            self.close_connection = True
            return
        seen = proxy.answer(request)
        if isinstance(seen, Reply):
            self._reply(proxy, request, seen)
            return
        self.close_connection = True
        with suppress(OSError):
            seen(self.connection)

    def _reply(self, proxy: Proxy, request: Request, reply: Reply) -> None:
        try:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
        except OSError:
            proxy.lost(request)
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name is http.server's)
        """Keep quiet."""
