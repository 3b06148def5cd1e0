"""Kept connections to one endpoint. Dead ones are not reused."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit
from weakref import finalize

from botocore.exceptions import (
    BotoCoreError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)

from lambda_once.dynamodb.answers import ParsedResponse, answer_of
from lambda_once.dynamodb.connection import Connection

if TYPE_CHECKING:
    from lambda_once.core.clock import Deadline
    from lambda_once.dynamodb.tls import Certificates

_OF_AWS: Final = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")
"""Endings of the hosts that send a checksum with every response."""


class Endpoint(NamedTuple):
    """DynamoDB's endpoint: *url* has a scheme and a host, and may have a port."""

    url: str
    region: str

    @classmethod
    def of(cls, url: str, region: str) -> Endpoint | None:
        """Return the endpoint of *url*; None if it has a path or a user."""
        parts = urlsplit(url)
        if parts.path not in ("", "/") or parts.query or parts.username or not parts.hostname:
            return None
        return cls(url, region)

    def connect(self, seconds: float, context: ssl.SSLContext | None) -> Connection:
        """Return a new connection. Raises botocore's error where there is none in *seconds*."""
        port = urlsplit(self.url).port or (443 if self.is_encrypted else 80)
        sock = None
        try:
            sock = socket.create_connection((self.name, port), seconds)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=self.name)
        except OSError as error:
            if sock is not None:
                sock.close()
            raise _kind_of(error)(endpoint_url=self.url, error=error) from error
        return Connection(sock, self.url)

    @property
    def name(self) -> str:
        """The name of the host, which its certificate has."""
        return urlsplit(self.url).hostname or ""

    @property
    def is_encrypted(self) -> bool:
        return urlsplit(self.url).scheme == "https"

    @property
    def is_of_aws(self) -> bool:
        """Whether this is DynamoDB itself, not an emulator or a proxy."""
        return self.name.endswith(_OF_AWS)

    @property
    def host(self) -> str:
        """The Host header: without the scheme's own port, as botocore signs it."""
        parts = urlsplit(self.url)
        return parts.netloc.removesuffix(":443" if parts.scheme == "https" else ":80")


class Pool:
    """
    Connections to one endpoint, the last used first.

    A kept connection may have died meanwhile, for instance while the environment was frozen: one that has
    something to read, its end included, is not used again. Where it ends before a response begins, the
    request is sent again at once, on a fresh connection: writes are recognised by their ids (guarantee 3).
    The other kept connections are closed then, and after a timeout: they are likely to be as dead.
    """

    def __init__(self, endpoint: Endpoint, certificates: Certificates, connect: float, size: int) -> None:
        self.endpoint = endpoint
        self._certificates = certificates
        self._connect = connect
        self._size = size
        self._context = certificates.first_for(endpoint.name) if endpoint.is_encrypted else None
        self._kept: list[Connection] = []
        self._lock = threading.Lock()
        finalize(self, _close, self._kept)  # as urllib3 does: an open socket that is collected is a warning

    def post(self, request: bytes, deadline: Deadline) -> ParsedResponse:
        """Return the answer, a refusal too. Raises botocore's error where there is none."""
        kept = self._take()
        if kept is not None:
            try:
                return self._exchanged(kept, request, deadline)
            except ConnectionClosedError:
                self.close()
            except ReadTimeoutError:
                self.close()
                raise
        return self._exchanged(self._connected(deadline), request, deadline)

    def _exchanged(self, connection: Connection, request: bytes, deadline: Deadline) -> ParsedResponse:
        """Send *request*, and read the answer. The connection is kept only after a sound one."""
        try:
            response = connection.exchange(request, deadline)
            answer = answer_of(response, checked=self.endpoint.is_of_aws)
        except BaseException:
            connection.close()
            raise
        if response.last:
            connection.close()
        else:
            self._keep(connection)
        return answer

    def _connected(self, deadline: Deadline) -> Connection:
        """Connect; where the certificates tried first do not do, with all of them, from then on."""
        context = self._context
        try:
            return self._connect_by(deadline, context)
        except SSLError as error:
            if not isinstance(error.__cause__, ssl.SSLCertVerificationError):
                raise
            self._context = self._certificates.all()
            if self._context is context:
                raise
            return self._connect_by(deadline, self._context)

    def _connect_by(self, deadline: Deadline, context: ssl.SSLContext | None) -> Connection:
        seconds = min(self._connect, deadline.remaining())
        if seconds <= 0:
            raise ConnectTimeoutError(endpoint_url=self.endpoint.url)
        return self.endpoint.connect(seconds, context)

    def close(self) -> None:
        with self._lock:
            kept = self._kept.copy()
            self._kept.clear()
        _close(kept)

    def _take(self) -> Connection | None:
        while True:
            with self._lock:
                kept = self._kept.pop() if self._kept else None
            if kept is None or kept.is_quiet():
                return kept
            kept.close()

    def _keep(self, connection: Connection) -> None:
        with self._lock:
            if len(self._kept) < self._size:
                self._kept.append(connection)
                return
        connection.close()


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()


def _kind_of(error: OSError) -> type[BotoCoreError]:
    """Return botocore's class for an *error* of connecting."""
    if isinstance(error, TimeoutError):
        return ConnectTimeoutError  # type: ignore[no-any-return]
    return SSLError if isinstance(error, ssl.SSLError) else EndpointConnectionError  # type: ignore[no-any-return]
