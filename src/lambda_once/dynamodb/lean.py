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
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, responses
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
    HTTPClientError,
    ReadTimeoutError,
    ResponseStreamingError,
    SSLError,
)

from lambda_once.core.clock import Clock, SystemClock
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

_UNSIGNED: Final = {"user-agent": "lambda-once", "accept-encoding": "identity"}
"""Identity: the checksum is over the bytes as they come."""
_REDIRECT, _SERVER_ERROR = 300, 500
_DIED = (
    ConnectionResetError,
    BrokenPipeError,
    ConnectionAbortedError,
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
)
"""How a kept connection fails that the other side has closed (http.client's RemoteDisconnected included)."""


class Endpoint(NamedTuple):
    """Where DynamoDB is: *url* has a scheme and a host, and may have a port."""

    url: str
    region: str

    def connection(self, timeout: float, context: ssl.SSLContext | None) -> HTTPConnection:
        parts = urlsplit(self.url)
        if context is None:
            return HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
        return HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout, context=context)

    @property
    def is_encrypted(self) -> bool:
        return urlsplit(self.url).scheme == "https"

    @property
    def host(self) -> str:
        """The Host header: without the scheme's own port, as botocore signs it."""
        parts = urlsplit(self.url)
        return parts.netloc.removesuffix(":443" if parts.scheme == "https" else ":80")


class Response(NamedTuple):
    """A whole HTTP response. Names of *headers* are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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
        self._pool = Pool(endpoint, environ, connect, answer, connections)

    def __repr__(self) -> str:
        return f"LeanClient({self._endpoint.url})"

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        """Return the method that sends one of OPERATIONS."""
        if method not in OPERATIONS:
            raise AttributeError(f"the lean client has no {method}")
        return partial(self._call, OPERATIONS[method])

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
        headers = signer.headers(operation, body, self._clock.now()) | _UNSIGNED
        response = self._pool.post(body, headers)
        try:
            return answer_of(response, operation)
        except ClientError as error:
            raise _without(signer.credentials, error) from None

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

    A kept connection may have died meanwhile, for instance while the environment was frozen. Where it ends
    before an answer begins, the request is sent again at once, on a fresh connection: writes are recognised
    by their ids (guarantee 3). The other kept connections are closed then, and after a timeout.
    """

    def __init__(
        self, endpoint: Endpoint, environ: Mapping[str, str], connect: float, answer: float, size: int
    ) -> None:
        self._endpoint = endpoint
        self._connect = connect
        self._answer = answer
        self._size = size
        self._context = tls_context(environ) if endpoint.is_encrypted else None
        self._kept: list[HTTPConnection] = []
        self._lock = threading.Lock()

    def post(self, body: bytes, headers: dict[str, str]) -> Response:
        """Return the answer. Raises botocore's error where there is none, or only a part."""
        kept = self._take()
        if kept is not None:
            try:
                return self._exchanged(kept, body, headers)
            except ConnectionClosedError:
                self.close()
            except ReadTimeoutError:
                self.close()
                raise
        return self._exchanged(self._connected(), body, headers)

    def _exchanged(self, connection: HTTPConnection, body: bytes, headers: dict[str, str]) -> Response:
        """Send *body*, and read the answer. Raises ConnectionClosedError only where no answer began."""
        try:
            connection.request("POST", "/", body, headers)
            answer = connection.getresponse()
            whole = self._read(answer)
        except BaseException as error:
            connection.close()
            failure = _failure(error, self._endpoint.url)
            if failure is None:
                raise
            raise failure from error
        if answer.will_close:
            connection.close()
        else:
            self._keep(connection)
        return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, whole)

    def _read(self, answer: HTTPResponse) -> bytes:
        """Return the body. Raises ResponseStreamingError for a part of it."""
        try:
            return answer.read()
        except TimeoutError:
            raise
        except (HTTPException, OSError) as error:
            raise ResponseStreamingError(error=error) from error

    def _connected(self) -> HTTPConnection:
        connection = self._endpoint.connection(self._connect, self._context)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise _kind_of(error)(endpoint_url=self._endpoint.url, error=error) from error
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.sock.settimeout(self._answer)
        return connection

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

    def _take(self) -> HTTPConnection | None:
        with self._lock:
            return self._kept.pop() if self._kept else None

    def _keep(self, connection: HTTPConnection) -> None:
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


def _failure(error: BaseException, url: str) -> BotoCoreError | None:
    """Return botocore's error for an *error* of an exchange; None where it has none, or is one."""
    if isinstance(error, BotoCoreError):  # some of these are OSErrors
        return None
    if isinstance(error, TimeoutError):
        return ReadTimeoutError(endpoint_url=url, error=error)
    if isinstance(error, _DIED):
        return ConnectionClosedError(endpoint_url=url, error=error)
    return HTTPClientError(error=error) if isinstance(error, HTTPException | OSError) else None


def tls_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """
    Return a context for TLS 1.2 and newer that checks names.

    It trusts what the first of these names: AWS_CA_BUNDLE, SSL_CERT_FILE, botocore's own file, the system.
    """
    named = environ.get("AWS_CA_BUNDLE") or environ.get("SSL_CERT_FILE")
    bundle = Path(named) if named else _of_botocore()
    if bundle is None:
        context = ssl.create_default_context()
    elif bundle.is_dir():
        context = ssl.create_default_context(capath=str(bundle))
    else:
        context = ssl.create_default_context(cafile=str(bundle))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _of_botocore() -> Path | None:
    spec = find_spec("botocore")
    origin = None if spec is None else spec.origin
    bundle = None if origin is None else Path(origin).with_name("cacert.pem")
    return bundle if bundle is not None and bundle.exists() else None


# -- answers


def answer_of(response: Response, operation: str) -> dict[str, Any]:
    """
    Return what boto3 would return for *response*.

    Raises what botocore would raise: ClientError for a status from 300 on. Raises `NotDynamoDB` for somebody
    else's page, ResponseStreamingError for a body that is not what was sent.
    """
    status, headers, body = response
    checksum = headers.get("x-amz-crc32", "")
    if checksum.isdecimal() and int(checksum) != crc32(body):
        raise ResponseStreamingError(error="the checksum of the body is wrong")
    if status < _REDIRECT and not is_from_dynamodb(headers):
        raise NotDynamoDB(status=status)
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
    message = found.pop("message", found.pop("Message", responses.get(status, "")))
    error = {**found, "Error": {"Message": message, "Code": code}, "ResponseMetadata": metadata}
    raise ClientError(error, operation)


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
