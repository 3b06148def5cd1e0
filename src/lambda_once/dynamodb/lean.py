"""
A client for DynamoDB without botocore's: JSON, Signature Version 4, and a pool of kept connections.

It has the methods of boto3's client that this package calls, takes and returns the same values, and raises
botocore's exceptions. One call is one request: `Transport` retries. Of botocore only the exceptions are
imported: the rest is most of a cold start and of a request (docs/performance.md).
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from base64 import b64decode, b64encode
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit
from zlib import crc32

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    ResponseStreamingError,
    SSLError,
)

from lambda_once.core.clock import Clock, Deadline, SystemClock
from lambda_once.dynamodb.connection import Connection, Response
from lambda_once.dynamodb.errors import NotDynamoDB, is_from_dynamodb
from lambda_once.dynamodb.sigv4 import Credentials, Signer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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

EXPIRED: Final = frozenset({"ExpiredTokenException", "UnrecognizedClientException"})
"""Errors after which the credentials are read once more."""

_UNSIGNED: Final = "user-agent: lambda-once\r\naccept-encoding: identity\r\n"
"""Identity: the checksum is over the bytes as they come."""
_REDIRECT, _SERVER_ERROR = 300, 500
_CHECKSUM: Final = "x-amz-crc32"
_OF_AWS: Final = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")
"""Endings of the hosts that send a checksum with every response."""


class Endpoint(NamedTuple):
    """Where DynamoDB is: *url* has a scheme and a host, and may have a port."""

    url: str
    region: str

    def connect(self, seconds: float, context: ssl.SSLContext | None) -> Connection:
        """Return a new connection. Raises botocore's error where there is none in *seconds*."""
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or (443 if self.is_encrypted else 80)
        sock = None
        try:
            sock = socket.create_connection((host, port), seconds)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=host)
        except OSError as error:
            if sock is not None:
                sock.close()
            raise _kind_of(error)(endpoint_url=self.url, error=error) from error
        return Connection(sock, self.url)

    @property
    def is_encrypted(self) -> bool:
        return urlsplit(self.url).scheme == "https"

    @property
    def is_of_aws(self) -> bool:
        """Whether DynamoDB itself is there, not an emulator or a proxy."""
        return (urlsplit(self.url).hostname or "").endswith(_OF_AWS)

    @property
    def host(self) -> str:
        """The Host header: without the scheme's own port, as botocore signs it."""
        parts = urlsplit(self.url)
        return parts.netloc.removesuffix(":443" if parts.scheme == "https" else ":80")


class LeanClient:
    """
    Sends requests to DynamoDB, and keeps up to *connections* connections. Safe from several threads.

    *connect* and *answer* are seconds. *environ* is read again when the credentials have expired; without new
    ones there, the error is raised.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        environ: Mapping[str, str],
        *,
        connect: float,
        answer: float,
        connections: int,
        clock: Clock | None = None,
    ) -> None:
        credentials = Credentials.of(environ)
        if credentials is None:
            raise ValueError("the lean client needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        self._endpoint = endpoint
        self._environ = environ
        self._clock = clock or SystemClock()
        self._signer = Signer(credentials, endpoint.region, endpoint.host)
        self._pool = Pool(endpoint, environ, connect, connections)
        self._answer = timedelta(seconds=answer)

    def __repr__(self) -> str:
        return f"LeanClient({self._endpoint.url})"

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        """Return the method that sends one of OPERATIONS."""
        if method not in OPERATIONS:
            raise AttributeError(f"the lean client has no {method}")
        return partial(self._call, OPERATIONS[method])

    @property
    def endpoint(self) -> Endpoint:
        """Where requests are sent."""
        return self._endpoint

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.close()

    def _call(self, operation: str, /, **arguments: Any) -> dict[str, Any]:
        """Send one request. Raises ClientError for a refusal, a BotoCoreError without a whole answer."""
        body = _ENCODER.encode(arguments).encode()
        signer = self._signer
        try:
            return self._sent(operation, body, signer)
        except ClientError as error:
            fresh = self._fresh(error, signer)
            if fresh is None:
                raise
        self._signer = fresh
        return self._sent(operation, body, fresh)

    def _sent(self, operation: str, body: bytes, signer: Signer) -> dict[str, Any]:
        now = self._clock.now()
        headers = signer.headers(operation, body, now)
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = f"POST / HTTP/1.1\r\n{lines}{_UNSIGNED}content-length: {len(body)}\r\n\r\n"
        deadline = Deadline(self._clock, now + self._answer)
        answer = self._pool.post(head.encode("latin-1") + body, operation, deadline)
        if isinstance(answer, ClientError):
            raise _without(signer.credentials, answer)
        return answer

    def _fresh(self, error: ClientError, signer: Signer) -> Signer | None:
        """Return a signer with new credentials where *error* asks for them and the environment has them."""
        if error.response["Error"]["Code"] not in EXPIRED:
            return None
        credentials = Credentials.of(self._environ)
        if credentials is None or credentials == signer.credentials:
            return None
        return Signer(credentials, self._endpoint.region, self._endpoint.host)


class Pool:
    """
    Connections to one endpoint, the last used first.

    A kept connection may have died meanwhile, for instance while the environment was frozen: one that has
    something to read, its end included, is not used again. Where it ends before a response begins, the
    request is sent again at once, on a fresh connection: writes are recognised by their ids (guarantee 3).
    The other kept connections are closed then, and after a timeout: they are likely to be as dead.
    """

    def __init__(self, endpoint: Endpoint, environ: Mapping[str, str], connect: float, size: int) -> None:
        self._endpoint = endpoint
        self._connect = connect
        self._size = size
        self._context = tls_context(environ) if endpoint.is_encrypted else None
        self._kept: list[Connection] = []
        self._lock = threading.Lock()

    def post(self, request: bytes, operation: str, deadline: Deadline) -> dict[str, Any] | ClientError:
        """Return the answer to *operation*, a refusal too. Raises botocore's error where there is none."""
        kept = self._take()
        if kept is not None:
            try:
                return self._exchanged(kept, request, operation, deadline)
            except ConnectionClosedError:
                self.close()
            except ReadTimeoutError:
                self.close()
                raise
        return self._exchanged(self._connected(), request, operation, deadline)

    def _exchanged(
        self, connection: Connection, request: bytes, operation: str, deadline: Deadline
    ) -> dict[str, Any] | ClientError:
        """Send *request*, and read the answer. The connection is kept only after a sound one."""
        try:
            response = connection.exchange(request, deadline)
            answer = answer_of(response, operation, checked=self._endpoint.is_of_aws)
        except BaseException:
            connection.close()
            raise
        if response.last:
            connection.close()
        else:
            self._keep(connection)
        return answer

    def _connected(self) -> Connection:
        return self._endpoint.connect(self._connect, self._context)

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

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


def _kind_of(error: OSError) -> type[BotoCoreError]:
    """Return botocore's class for an *error* of connecting."""
    if isinstance(error, TimeoutError):
        return ConnectTimeoutError  # type: ignore[no-any-return]
    return SSLError if isinstance(error, ssl.SSLError) else EndpointConnectionError  # type: ignore[no-any-return]


def tls_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """
    Return a context for TLS 1.2 and newer that checks names.

    It trusts what the first of these names: AWS_CA_BUNDLE, SSL_CERT_FILE, botocore's own file, the system.
    """
    named = environ.get("AWS_CA_BUNDLE") or environ.get("SSL_CERT_FILE")
    bundle = Path(named) if named else _of_botocore()
    # As botocore makes it. `create_default_context` is strict since Python 3.13, and refuses a private
    # authority without a key identifier.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if bundle is None:
        context.load_default_certs()
    elif bundle.is_dir():
        context.load_verify_locations(capath=str(bundle))
    else:
        context.load_verify_locations(cafile=str(bundle))
    return context


def _of_botocore() -> Path | None:
    spec = find_spec("botocore")
    origin = None if spec is None else spec.origin
    bundle = None if origin is None else Path(origin).with_name("cacert.pem")
    return bundle if bundle is not None and bundle.exists() else None


# -- answers


def answer_of(response: Response, operation: str, *, checked: bool = False) -> dict[str, Any] | ClientError:
    """
    Return what boto3 would return for *response*, or raise: for a status from 300 on a ClientError.

    *checked*: the response must have a checksum. Raises `NotDynamoDB` for somebody else's page, and
    ResponseStreamingError for a body that is not what was sent: an empty one would be a grant.
    """
    status, headers, body, _ = response
    checksum = headers.get(_CHECKSUM)
    if checksum is not None and checksum != str(crc32(body)):
        raise ResponseStreamingError(error="the checksum of the body is wrong")
    if checksum is None and checked and status < _SERVER_ERROR:
        raise ResponseStreamingError(error="the response has no checksum")
    if status < _REDIRECT:
        if not is_from_dynamodb(headers):
            raise NotDynamoDB(status=status)
        if not body:
            raise ResponseStreamingError(error="the response is empty")
    content = _object(body)
    if content is None and status < _SERVER_ERROR:
        raise NotDynamoDB(status=status)
    metadata = {
        "RequestId": headers.get("x-amzn-requestid", ""),
        "HTTPStatusCode": status,
        "HTTPHeaders": dict(headers),
        "RetryAttempts": 0,
    }
    if status < _REDIRECT:
        return {**(content or {}), "ResponseMetadata": metadata}
    found = content or {}
    kind = str(found.pop("__type", status))
    code = kind.partition(":")[0].rpartition("#")[2]
    message = found.pop("message", found.pop("Message", _phrase(status)))
    error = {**found, "Error": {"Message": message, "Code": code}, "ResponseMetadata": metadata}
    return ClientError(error, operation)


def _phrase(status: int) -> str:
    from http import HTTPStatus  # for a page of a proxy: no cold start needs it

    try:
        return HTTPStatus(status).phrase
    except ValueError:  # no known status
        return ""


def _object(body: bytes) -> dict[str, Any] | None:
    """Read *body*, with binary values as bytes; None where it is not a JSON object."""
    decoder = _BINARY_DECODER if b'"B' in body else _DECODER
    try:
        content = decoder.decode(body.decode()) if body else {}
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _with_bytes(found: dict[str, Any]) -> dict[str, Any]:
    """Decode an attribute value of type B or BS: nothing else in an answer looks like one."""
    if len(found) == 1:
        match found:
            case {"B": str(text)}:
                return {"B": b64decode(text)}
            case {"BS": [*texts]} if all(isinstance(text, str) for text in texts):
                return {"BS": [b64decode(text) for text in texts]}
    return found


def _base64(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    raise TypeError(f"a request to DynamoDB has a {type(value).__name__}; give low-level attribute values")


# `json.dumps` and `json.loads` would make one a request.
_ENCODER: Final = json.JSONEncoder(default=_base64, separators=(",", ":"))
_DECODER: Final = json.JSONDecoder()
_BINARY_DECODER: Final = json.JSONDecoder(object_hook=_with_bytes)


def _without(credentials: Credentials, error: ClientError) -> ClientError:
    """Return *error* without the session token, which DynamoDB quotes where a signature is wrong."""
    token, answer = credentials.token, error.response
    if token is None or token not in answer["Error"]["Message"]:
        return error
    hidden = {**answer["Error"], "Message": answer["Error"]["Message"].replace(token, "…")}
    return ClientError({**answer, "Error": hidden}, error.operation_name)
