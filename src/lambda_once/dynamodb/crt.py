"""
A client for DynamoDB on AWS' Common Runtime, the C library under AWS' CLI and SDKs (``client="crt"``).

HTTP, TLS, Signature Version 4 and the chain of credentials are the runtime's. Here are the methods of boto3's
client that this package calls, JSON, the connections that are kept, and what an answer must have to count.
Values and exceptions are botocore's; one call is one request, and `Transport` retries.

Seen with awscrt 0.38.1, and not mended here: it reads a head of any size until the time is over, and a
response without an `x-amzn-requestid` that comes once too often is taken for the next one's.
Not mended either: under CPython 3.11 (its issue 112275) a process that is forked while another thread waits
for an answer can hang in the fork itself; 3.12 does not.
"""

from __future__ import annotations

import math
import os
from collections import deque
from concurrent.futures import Future
from datetime import timedelta
from functools import cache, partial
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from awscrt.auth import AwsCredentialsProvider, AwsSigningConfig, aws_sign_request
from awscrt.http import HttpClientConnection, HttpHeaders, HttpRequest
from awscrt.io import (
    ClientBootstrap,
    ClientTlsContext,
    DefaultHostResolver,
    EventLoopGroup,
    SocketOptions,
    TlsContextOptions,
    TlsVersion,
)
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from lambda_once.core.clock import Clock, SystemClock, monotonic
from lambda_once.dynamodb.answers import Response, answer_of
from lambda_once.dynamodb.bodies import encoded
from lambda_once.dynamodb.errors import REDIRECT, REQUEST_ID, CrossedResponse, UnreadableCertificates
from lambda_once.integrations.private import without_nagle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

OPERATIONS: Final = {
    "batch_execute_statement": "BatchExecuteStatement",
    "batch_get_item": "BatchGetItem",
    "batch_write_item": "BatchWriteItem",
    "delete_item": "DeleteItem",
    "describe_table": "DescribeTable",
    "describe_time_to_live": "DescribeTimeToLive",
    "get_item": "GetItem",
    "put_item": "PutItem",
    "query": "Query",
    "scan": "Scan",
    "transact_get_items": "TransactGetItems",
    "transact_write_items": "TransactWriteItems",
    "update_item": "UpdateItem",
}
"""The methods, and DynamoDB's name of each operation (API reference)."""

LARGEST_BODY: Final = 134_217_728
"""Bytes. A response has at most 16 MB of items (API reference, BatchGetItem); JSON and base64 add to that."""
RENEWED_EVERY: Final = timedelta(minutes=1)
"""How often refused credentials are asked for anew at most: behind them may be a role, and STS throttles."""
_OUTDATED: Final = frozenset({"ExpiredTokenException", "UnrecognizedClientException"})
"""Errors after which the credentials are asked for once more."""
_LATE: Final = frozenset({"AWS_IO_SOCKET_TIMEOUT", "AWS_IO_TLS_NEGOTIATION_TIMEOUT"})
_SOURCE: Final = "the source of the credentials"
_CONTAINERS: Final = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
"""Lambda sets one under SnapStart."""


class Meta(NamedTuple):
    """Where a client sends to, named as in boto3's ``client.meta``."""

    region_name: str
    endpoint_url: str


class _Kept(NamedTuple):
    """A connection, and the request id of the last response on it."""

    connection: HttpClientConnection
    last: str | None = None


class CrtClient:
    """
    Sends requests to *endpoint*, a URL without a path. Safe from several threads. It has no lock.

    *connect* and *answer* are seconds: to connect, and from then on until the whole answer is there. A call
    takes no longer than both, whatever it waits for: credentials, a name, a request that is sent again. Up to
    *connections* connections are kept, the last used first. A kept one may have died meanwhile, for instance
    while the environment was frozen. If it ends before a response begins, the request is sent again at once,
    on a new one: writes are recognised by their ids (guarantee 3). The other kept connections are closed
    then, and after a timeout, since they are likely to be as dead.
    """

    def __init__(
        self,
        endpoint: str,
        region: str,
        *,
        connect: float,
        answer: float,
        connections: int,
        clock: Clock | None = None,
    ) -> None:
        self._process = os.getpid()
        self.meta = Meta(region, endpoint)
        parts = urlsplit(endpoint)
        self._is_encrypted = parts.scheme == "https"
        self._name = parts.hostname or ""
        self._port = parts.port or (443 if self._is_encrypted else 80)
        self._host = parts.netloc.removesuffix(":443" if self._is_encrypted else ":80")
        self._connect, self._answer = connect, answer
        self._clock = clock or SystemClock()
        self._kept: deque[_Kept] = deque(maxlen=connections)  # no lock: what interrupts a call may send, too
        self._context: ClientTlsContext | None = None
        self._credentials: AwsCredentialsProvider | None = None
        self._renewed: datetime | None = None

    def __repr__(self) -> str:
        return f"CrtClient({self.meta.endpoint_url})"

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        """Return the method for one of OPERATIONS."""
        if method not in OPERATIONS:
            raise AttributeError(f"crt's client has no {method}")
        return partial(self._call, OPERATIONS[method])

    def close(self) -> None:
        """Close the kept connections."""
        self._forget_the_parents()
        for kept in _taken(self._kept):
            kept.connection.close()

    def __del__(self) -> None:
        self._forget_the_parents()

    def _forget_the_parents(self) -> None:
        """Begin anew in a forked process. What its parent has is never freed here: that needs its thread."""
        if self._process != os.getpid():
            _OF_THE_PARENT.append((*_taken(self._kept), self._context, self._credentials))
            self._context = self._credentials = None
            self._process = os.getpid()

    def _call(self, operation: str, /, **arguments: Any) -> dict[str, Any]:
        """Send one request. Raises ClientError for a refusal, a BotoCoreError without a whole answer."""
        self._forget_the_parents()
        until = monotonic() + self._connect + self._answer
        body = encoded(arguments)
        try:
            return self._sent(operation, body, self._signed(operation, body, until), until)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _OUTDATED or not self._forgets_credentials():
                raise
            try:
                signed = self._signed(operation, body, until)
            except BotoCoreError:  # why they were refused says more
                raise error from None
        return self._sent(operation, body, signed, until)

    # ---------------------------------------------------------------- credentials

    def _signed(self, operation: str, body: bytes, until: float) -> HttpRequest:
        headers = [
            ("host", self._host),
            ("x-amz-target", f"DynamoDB_20120810.{operation}"),
            ("content-type", "application/x-amz-json-1.0"),
            ("content-length", str(len(body))),
            ("user-agent", "lambda-once"),
            ("accept-encoding", "identity"),  # the checksum is over the bytes as they come
        ]
        credentials = self._credentials  # read once: another thread may forget them
        if credentials is None:
            credentials = self._credentials = _credentials()
        config = AwsSigningConfig(
            credentials_provider=credentials,
            region=self.meta.region_name,
            service="dynamodb",
            date=self._clock.now(),
            signed_body_value=sha256(body).hexdigest(),
        )
        signing = aws_sign_request(HttpRequest("POST", "/", HttpHeaders(headers)), config)
        failed = _failure(signing, self._answer, until)
        if failed is None:
            return signing.result()
        if isinstance(failed, TimeoutError):  # the runtime goes on asking, and the next try may have them
            raise ConnectTimeoutError(endpoint_url=_SOURCE) from failed
        if any(os.environ.get(name) for name in _CONTAINERS):  # there is a source, and it fails
            raise EndpointConnectionError(endpoint_url=_SOURCE, error=failed) from failed
        raise NoCredentialsError from failed

    def _forgets_credentials(self) -> bool:
        """Return whether the next request asks for credentials anew: not twice within RENEWED_EVERY."""
        now = self._clock.now()
        if self._renewed is not None and abs(now - self._renewed) < RENEWED_EVERY:
            return False
        self._renewed, self._credentials = now, None
        return True

    # ---------------------------------------------------------------- connections

    def _sent(self, operation: str, body: bytes, request: HttpRequest, until: float) -> dict[str, Any]:
        status, parsed = self._exchanged(request, body, until)
        if status >= REDIRECT:
            raise ClientError(parsed, operation)
        return parsed

    def _exchanged(self, request: HttpRequest, body: bytes, until: float) -> tuple[int, dict[str, Any]]:
        """Return the answer, a refusal too, and its status. Raises botocore's error where there is none."""
        for kept in _taken(self._kept):
            if kept.connection.is_open():
                try:
                    return self._exchanged_on(kept, request, body, until)
                except ConnectionClosedError:
                    self.close()
                    break
        return self._exchanged_on(_Kept(self._connected(until)), request, body, until)

    def _exchanged_on(
        self, kept: _Kept, request: HttpRequest, body: bytes, until: float
    ) -> tuple[int, dict[str, Any]]:
        """Send *request*, and read the answer. The connection is kept only after a sound one."""
        try:
            response = self._response(kept, request, body, until)
            parsed = answer_of(response)
        except BaseException as error:
            kept.connection.close()
            if isinstance(error, ReadTimeoutError):
                self.close()
            raise
        if kept.connection.is_open():
            now_kept = kept._replace(last=response.headers.get(REQUEST_ID))
            self._kept.append(now_kept)  # the oldest ends if there are too many
        return response.status, parsed

    def _response(self, kept: _Kept, request: HttpRequest, body: bytes, until: float) -> Response:
        """Return the whole response. Raises ConnectionClosedError only where none began."""
        connection = kept.connection
        url = self.meta.endpoint_url
        request.body_stream = BytesIO(body)
        received = _Received(connection)
        try:
            stream = connection.request(request, received.begin, received.add)
            stream.activate()
        except RuntimeError as error:
            if connection.is_open():
                raise
            raise ConnectionClosedError(endpoint_url=url, error=error) from error
        failed = _failure(stream.completion_future, self._answer, until)
        if isinstance(failed, TimeoutError):
            raise ReadTimeoutError(endpoint_url=url, error=failed) from failed
        if failed is not None and received.status is None:
            raise ConnectionClosedError(endpoint_url=url, error=failed) from failed
        if failed is not None:
            raise ResponseStreamingError(error=failed) from failed
        response = received.response()
        if kept.last is not None and response.headers.get(REQUEST_ID) == kept.last:  # it came once too often
            raise CrossedResponse
        return response

    def _connected(self, until: float = math.inf) -> HttpClientConnection:
        """Connect. One that is late is kept for the next try, to which a slow look-up of the name counts."""
        options = SocketOptions()
        options.connect_timeout_ms = int(self._connect * 1_000)
        options.keep_alive = True
        tls = None
        if self._is_encrypted:
            self._context = self._context or _context()
            tls = self._context.new_connection_options()
            tls.set_server_name(self._name)
        coming = HttpClientConnection.new(self._name, self._port, _bootstrap(os.getpid()), options, tls)
        failed = _failure(coming, self._connect, until)
        if failed is None:
            without_nagle(self._port)
            return coming.result()
        coming.add_done_callback(self._keep_late)
        is_late = isinstance(failed, TimeoutError) or getattr(failed, "name", "") in _LATE
        kind = ConnectTimeoutError if is_late else EndpointConnectionError
        raise kind(endpoint_url=self.meta.endpoint_url, error=failed) from failed

    def _keep_late(self, coming: Future[HttpClientConnection]) -> None:
        if coming.exception() is None:
            without_nagle(self._port)
            self._kept.append(_Kept(coming.result()))


class _Received:
    """What has come of a response. Its methods are called on the runtime's thread."""

    def __init__(self, connection: HttpClientConnection) -> None:
        self._connection = connection
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0
        self.status: int | None = None

    def begin(self, status_code: int, headers: list[tuple[str, str]], **_: object) -> None:
        for given, value in headers:
            name = given.lower()
            self._headers[name] = f"{self._headers[name]}, {value}" if name in self._headers else value
        self.status = status_code

    def add(self, chunk: bytes, **_: object) -> None:
        self._size += len(chunk)
        if self._size > LARGEST_BODY:
            self._connection.close()
        else:
            self._body.append(chunk)

    def response(self) -> Response:
        if self.status is None or self._size > LARGEST_BODY:
            raise ResponseStreamingError(error="the response is too long")
        return Response(self.status, self._headers, b"".join(self._body))


def _taken(kept: deque[_Kept]) -> Iterator[_Kept]:
    """Yield what is kept, the last first, each to one thread alone."""
    while True:
        try:
            yield kept.pop()
        except IndexError:
            return


# ---------------------------------------------------------------- the runtime

_OF_THE_PARENT: Final[list[object]] = []
"""What a forked process never frees."""


def _failure(future: Future[Any], seconds: float, until: float) -> BaseException | None:
    """
    Return why *future* has no result in *seconds*, nor *until* then (`monotonic`); None: it has one.

    What a signal handler raises passes.
    """
    if future.done():
        return future.exception()
    left = max(min(seconds, until - monotonic()), 0.0)
    try:
        return future.exception(left)
    except TimeoutError as late:
        if not _is_the_futures(late):
            raise
    return future.exception() if future.done() else TimeoutError(f"more than {left:.3g} s")


def _is_the_futures(late: TimeoutError) -> bool:
    """Whether the wait itself raised *late*, and no signal handler meanwhile: clocks may be a test's."""
    frame = late.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_code is Future.exception.__code__


@cache
def _bootstrap(process: int) -> ClientBootstrap:
    """Return the runtime's thread for *process*: a forked one has another, and never frees its parent's."""
    del process
    loop = EventLoopGroup(1)
    return ClientBootstrap(loop, DefaultHostResolver(loop))


def _credentials() -> AwsCredentialsProvider:
    # The chain begins with the environment, too, but reads certificates for its other links: 0.1 s of CPU.
    if os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
        return AwsCredentialsProvider.new_environment()
    return AwsCredentialsProvider.new_default_chain(_bootstrap(os.getpid()))


def _context() -> ClientTlsContext:
    """Return what connections trust: the bundle that botocore would find named, or the system's."""
    options = TlsContextOptions()
    options.min_tls_ver = TlsVersion.TLSv1_2
    bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
    try:
        if bundle:
            options.override_default_trust_store_from_path(None, bundle)
        return ClientTlsContext(options)
    except (OSError, RuntimeError) as error:
        raise UnreadableCertificates(bundle=bundle or "the system", error=error) from error
