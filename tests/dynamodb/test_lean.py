"""The lean client on a socket: what goes out, what comes back, and what fails."""

from __future__ import annotations

import json
import math
import re
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    ResponseStreamingError,
    SSLError,
)

import lambda_once
from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.dynamodb.answers import answer_of
from lambda_once.dynamodb.connection import Connection, Response
from lambda_once.dynamodb.errors import NotDynamoDB, is_transient
from lambda_once.dynamodb.lean import OPERATIONS, LeanClient
from lambda_once.dynamodb.pool import Endpoint
from lambda_once.dynamodb.tls import Certificates
from lambda_once.dynamodb.transport import Transport
from tests.dynamodb.scripted import Server, answer, refusal
from tests.kit.tls import Authority

ENVIRON = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "geheim",
    "AWS_SESSION_TOKEN": "wimpel",
}
KEY = {"lockToken": {"S": "t"}}


CLIENTS: list[LeanClient] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close the connections that clients of a test have kept."""
    yield
    while CLIENTS:
        CLIENTS.pop().close()


@contextmanager
def serving(*connections: list[bytes], context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve *connections*, and yield the server."""
    server = Server(*connections, context=context)
    try:
        yield server
    finally:
        server.close()


def client(server: Server | int, environ: dict[str, str] | None = None, **options: Any) -> LeanClient:
    """Return a client of *server*, or of a port."""
    port = server if isinstance(server, int) else server.port
    endpoint = Endpoint(options.pop("url", f"http://127.0.0.1:{port}"), "eu-central-1")
    limits = {"connect": 1.0, "answer": 5.0, "connections": 10}
    made = LeanClient(endpoint, ENVIRON if environ is None else environ, **{**limits, **options})
    CLIENTS.append(made)
    return made


def test_a_request_is_json_and_signed() -> None:
    """Binary values go as base64, and come back as bytes, nested ones too; a map may have a name B."""
    item = {
        "lockToken": {"S": "ü"},
        "result": {"B": b64encode(b"\0\1").decode()},
        "more": {"M": {"B": {"BS": [b64encode(b"x").decode()]}, "BS": {"L": [{"N": "1"}]}}},
    }
    with serving([answer({"Attributes": item})]) as server:
        got = client(server).update_item(TableName="t", Key={"lockToken": {"B": b"\xff"}})
    [(headers, body)] = server.requests
    assert json.loads(body) == {"TableName": "t", "Key": {"lockToken": {"B": "/w=="}}}
    assert headers["x-amz-target"] == "DynamoDB_20120810.UpdateItem"
    assert headers["accept-encoding"] == "identity"
    assert headers["host"] == f"127.0.0.1:{server.port}"
    assert headers["x-amz-security-token"] == "wimpel"
    assert got["Attributes"] == {
        "lockToken": {"S": "ü"},
        "result": {"B": b"\0\1"},
        "more": {"M": {"B": {"BS": [b"x"]}, "BS": {"L": [{"N": "1"}]}}},
    }
    assert got["ResponseMetadata"]["RequestId"] == "R1"
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://dynamodb.eu-central-1.amazonaws.com", "dynamodb.eu-central-1.amazonaws.com"),
        ("https://proxy.example:443/", "proxy.example"),
        ("http://proxy.example:443", "proxy.example:443"),
        ("http://[::1]:8000", "[::1]:8000"),
    ],
)
def test_the_host_is_signed_as_it_is_sent(url: str, host: str) -> None:
    """Without the scheme's own port; an IPv6 address keeps its brackets."""
    assert Endpoint(url, "eu-central-1").host == host


def test_every_operation_that_the_package_sends_is_known() -> None:
    """Those of operators and patterns, too: LAMBDA_ONCE_CLIENT is for all of a function's tables."""
    package = Path(lambda_once.__file__).parent  # where it is installed, without sources beside it, too
    text = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    sent = set(re.findall(r'\.(?:call|asked|send)\(\s*"([a-z_]+)"|\bsend\(\s*"([a-z_]+)"', text))
    names = {name for pair in sent for name in pair if name}
    assert {"update_item", "batch_get_item", "describe_time_to_live"} <= names
    assert names <= OPERATIONS.keys()


def test_connections_are_kept() -> None:
    """Two requests, one connection."""
    with serving([answer({}), answer({})]) as server:
        lean = client(server)
        lean.get_item(TableName="t", Key=KEY)
        lean.get_item(TableName="t", Key=KEY)
    assert (server.connections, len(server.requests)) == (1, 2)


def test_a_kept_connection_that_died_costs_no_try() -> None:
    """The server closed it meanwhile: the request is sent at once on a fresh connection."""
    with serving([answer({})], [answer({"Item": KEY})]) as server:
        lean = client(server)
        lean.get_item(TableName="t", Key=KEY)
        transport = Transport(lean)
        once = Deadline(SystemClock(), SystemClock().now() + timedelta(seconds=60), math.inf)
        assert transport.call("get_item", {"TableName": "t", "Key": KEY}, once)["Item"] == KEY
    assert server.connections == 2


def test_after_a_timeout_no_kept_connection_is_used() -> None:
    """Those that were kept with it are as dead."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        lean = client(listener.getsockname()[1], answer=0.05)
        keep(lean, 2)
        with pytest.raises(ReadTimeoutError):
            lean.get_item(TableName="t", Key=KEY)
        assert lean._pool._kept == []


def keep(lean: LeanClient, many: int) -> None:
    """Let *lean* keep *many* new connections."""
    later = Deadline(SystemClock(), SystemClock().now() + timedelta(seconds=60))
    for connection in [lean._pool._connected(later) for _ in range(many)]:
        lean._pool._keep(connection)


def test_after_a_death_no_kept_connection_is_used() -> None:
    """The others are likely to be as dead, and each could cost another try."""
    with serving([b""], [b""], [answer({"Item": KEY})]) as server:
        lean = client(server)
        keep(lean, 2)
        lean._pool._kept.reverse()  # the server serves the first one first
        assert lean.get_item(TableName="t", Key=KEY)["Item"] == KEY
        assert len(lean._pool._kept) == 1
    assert server.connections == 3


def test_a_connection_that_is_said_to_end_is_not_kept() -> None:
    """Though it is still open, and would answer."""
    ending = answer({}, Connection="close")
    with serving([ending, answer({})], [answer({"Item": KEY})]) as server:
        lean = client(server)
        lean.get_item(TableName="t", Key=KEY)
        assert lean._pool._kept == []
        assert lean.get_item(TableName="t", Key=KEY)["Item"] == KEY
    assert server.connections == 2


def _of(token: str) -> bytes:
    return answer({"Attributes": {"lockToken": {"S": token}}})


def _asked(lean: LeanClient, token: str) -> Any:
    return lean.update_item(TableName="t", Key={"lockToken": {"S": token}})["Attributes"]["lockToken"]["S"]


@pytest.mark.parametrize(
    "left",
    [b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n", _of("z")],
    ids=["103", "102", "a whole response"],
)
def test_no_request_gets_the_response_of_another(left: bytes) -> None:
    """Bytes before a response would leave it on the connection, for the next request."""
    with serving([_of("a"), left + _of("b")], [_of("b"), _of("c")]) as server:
        lean = client(server)
        assert _asked(lean, "a") == "a"
        with pytest.raises(HTTPClientError) as raised:
            _asked(lean, "b")
        assert is_transient(raised.value)
        assert [_asked(lean, token) for token in "bc"] == ["b", "c"]


def test_an_unrequested_response_ends_the_connection() -> None:
    """It came while the connection was kept: the next request would get it."""
    with serving([_of("a")], [_of("b")]) as server:
        lean = client(server)
        assert _asked(lean, "a") == "a"
        (kept,) = lean._pool._kept
        near, far = socket.socketpair()
        with far:
            far.sendall(_of("a"))
            kept.close()
            lean._pool._kept[:] = [Connection(near, "http://table")]
            assert _asked(lean, "b") == "b"
    assert server.connections == 2


EMPTY = {
    "no content": b"HTTP/1.1 204 No Content\r\nx-amzn-RequestId: R1\r\n\r\n",
    "an empty body": b"HTTP/1.1 200 OK\r\nx-amzn-RequestId: R1\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_response_is_none(name: str) -> None:
    """It would be a grant."""
    with serving([EMPTY[name], answer({})]) as server:
        lean = client(server)
        with pytest.raises(ResponseStreamingError):
            lean.update_item(TableName="t", Key=KEY)
        assert lean._pool._kept == []


@pytest.mark.parametrize("status", [200, 400])
def test_the_response_of_aws_has_a_checksum(status: int) -> None:
    """An emulator's may have none; a server's fault is what it is."""
    headers = {"x-amzn-requestid": "R1"}
    assert "Error" not in answer_of(Response(200, headers, b"{}")).parsed
    with pytest.raises(ResponseStreamingError):
        answer_of(Response(status, headers, b"{}"), checked=True)
    sound = headers | {"x-amz-crc32": str(crc32(b"{}"))}
    assert ("Error" in answer_of(Response(status, sound, b"{}"), checked=True).parsed) == (status != 200)
    assert "Error" in answer_of(Response(502, {}, b""), checked=True).parsed


@pytest.mark.parametrize(
    ("url", "is_of_aws"),
    [
        ("https://dynamodb.eu-central-1.amazonaws.com", True),
        ("https://vpce-1.dynamodb.eu-central-1.vpce.amazonaws.com", True),
        ("http://localhost:8000", False),
        ("https://amazonaws.com.example", False),
    ],
)
def test_the_endpoint_of_aws(url: str, is_of_aws: bool) -> None:
    """By the end of its host."""
    assert Endpoint(url, "eu-central-1").is_of_aws is is_of_aws


def test_a_fresh_connection_that_dies_is_no_answer() -> None:
    """It is not sent again here: the retries of the transport know the deadline."""
    with serving([b""], [b""]) as server, pytest.raises(ConnectionClosedError) as raised:
        client(server).get_item(TableName="t", Key=KEY)
    assert (server.connections, is_transient(raised.value)) == (1, True)


@pytest.mark.parametrize("cut", [1, 5], ids=str)
def test_half_an_answer_is_none(cut: int) -> None:
    """The connection ends within the body: it is not sent again at once."""
    with serving([answer({}), answer({"Item": KEY})[:-cut]], [answer({})]) as server:
        lean = client(server)
        lean.get_item(TableName="t", Key=KEY)
        with pytest.raises(ResponseStreamingError) as raised:
            lean.get_item(TableName="t", Key=KEY)
    assert (server.connections, is_transient(raised.value)) == (1, True)


def test_a_wrong_checksum_is_no_answer() -> None:
    """The body was altered on its way."""
    with serving([answer({}, x_amz_crc32="1")]) as server, pytest.raises(ResponseStreamingError) as raised:
        client(server).get_item(TableName="t", Key=KEY)
    assert is_transient(raised.value)


def test_no_answer_in_time() -> None:
    """The limit is that of the whole answer."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, pytest.raises(ReadTimeoutError) as raised:
        client(listener.getsockname()[1], answer=0.05).get_item(TableName="t", Key=KEY)
    assert is_transient(raised.value)


def test_a_refused_connection_is_transient() -> None:
    """A refused connection is transient, as botocore's is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(EndpointConnectionError) as raised:
        client(port).get_item(TableName="t", Key=KEY)
    assert is_transient(raised.value)


STRANGERS: dict[str, bytes] = {
    "page": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "redirect": b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 6\r\n\r\n<html>",
    "not found": b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "a list": b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: 2\r\n\r\n[]",
}


@pytest.mark.parametrize("name", STRANGERS)
def test_somebody_elses_page_is_refused(name: str) -> None:
    """An empty answer would be an acquisition."""
    with serving([STRANGERS[name]]) as server, pytest.raises(NotDynamoDB):
        client(server).update_item(TableName="t", Key=KEY)


def test_no_http_at_all() -> None:
    """What answers does not speak HTTP."""
    with serving([b"SSH-2.0-OpenSSH\r\n\r\n"]) as server, pytest.raises(HTTPClientError):
        client(server).update_item(TableName="t", Key=KEY)


def test_a_fault_of_the_server_is_transient() -> None:
    """A proxy's page of status 502, too."""
    page = b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
    with serving([page]) as server, pytest.raises(ClientError) as raised:
        client(server).update_item(TableName="t", Key=KEY)
    assert is_transient(raised.value)
    assert raised.value.response["Error"] == {"Code": "502", "Message": "Bad Gateway"}


def test_a_refusal_is_botocores_error() -> None:
    """With the row that DynamoDB returns, its binary values as bytes."""
    row = {"lockToken": {"S": "t"}, "fields": {"B": b64encode(b"f").decode()}}
    with (
        serving(
            [refusal("ConditionalCheckFailedException", "The conditional request failed", Item=row)]
        ) as server,
        pytest.raises(ClientError) as raised,
    ):
        client(server).update_item(TableName="t", Key=KEY)
    response = raised.value.response
    assert response["Error"] == {
        "Code": "ConditionalCheckFailedException",
        "Message": "The conditional request failed",
    }
    assert response["Item"] == {"lockToken": {"S": "t"}, "fields": {"B": b"f"}}
    assert raised.value.operation_name == "UpdateItem"


@pytest.mark.parametrize("code", ["ExpiredTokenException", "UnrecognizedClientException"])
def test_expired_credentials_are_read_again_once(code: str) -> None:
    """The environment has new ones: they sign the same request, and those after it."""
    environ = dict(ENVIRON)
    with serving([refusal(code), answer({"Item": KEY}), answer({})]) as server:
        lean = client(server, environ)
        environ["AWS_SESSION_TOKEN"] = "neu"
        assert lean.get_item(TableName="t", Key=KEY)["Item"] == KEY
        lean.get_item(TableName="t", Key=KEY)
    tokens = [headers["x-amz-security-token"] for headers, _ in server.requests]
    assert tokens == ["wimpel", "neu", "neu"]


def test_without_new_credentials_the_refusal_is_returned() -> None:
    """One request, and the error that becomes `Misconfigured`."""
    with (
        serving([refusal("ExpiredTokenException")]) as server,
        pytest.raises(ClientError, match="ExpiredToken"),
    ):
        client(server).get_item(TableName="t", Key=KEY)
    assert len(server.requests) == 1


def test_no_error_shows_a_credential() -> None:
    """DynamoDB quotes the canonical request when a signature is wrong, and the session token is in it."""
    quoted = "The Canonical String should have been 'POST\n/\n\nx-amz-security-token:wimpel'"
    with (
        serving([refusal("InvalidSignatureException", quoted)]) as server,
        pytest.raises(ClientError) as raised,
    ):
        client(server).get_item(TableName="t", Key=KEY)
    shown = f"{raised.value} {raised.value.response} {client(server)!r}"
    assert "should have been" in shown
    assert not [secret for secret in ENVIRON.values() if secret in shown]


def test_a_hidden_credential_hides_nothing_else() -> None:
    """The row of a refusal stays, whatever its message says."""
    refused = refusal("ConditionalCheckFailedException", "wimpel", Item=KEY)
    with serving([refused]) as server, pytest.raises(ClientError) as raised:
        client(server).get_item(TableName="t", Key=KEY)
    assert raised.value.response["Item"] == KEY


def test_a_value_that_json_cannot_write() -> None:
    """The developer's mistake, such as Decimal instead of {"N": "1"}, is named."""
    with pytest.raises(TypeError, match="has a set; give low-level attribute values"):
        client(1).put_item(TableName="t", Item={"n": {"NS": {"1"}}})


def test_threads_share_the_pool() -> None:
    """Requests at once have connections of their own, and no more than asked for are kept."""
    one = [answer({}), answer({})]
    with serving(one) as server:
        lean = client(server, connections=1)
        for _ in range(2):
            thread = threading.Thread(target=lean.get_item, kwargs={"TableName": "t", "Key": KEY})
            thread.start()
            thread.join()
    assert server.connections == 1


# ------------------------------------------------------------------ TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One for all: keys take a while."""
    return Authority(tmp_path_factory.mktemp("authority"))


def _named(server: Server) -> dict[str, Any]:
    return {"url": f"https://localhost:{server.port}"}


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_tls_with_an_authority_of_ones_own(authority: Authority, variable: str) -> None:
    """Either variable names the file."""
    environ = ENVIRON | {variable: str(authority.bundle)}
    with serving([answer({"Item": KEY})], context=authority.server("localhost")) as server:
        assert client(server, environ, **_named(server)).get_item(TableName="t", Key=KEY)["Item"] == KEY


def test_the_context_is_as_botocores(authority: Authority) -> None:
    """Not strict, whatever Python's default is: botocore accepts an authority without a key identifier."""
    context = Certificates(str(authority.bundle)).all()
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


Trust = Callable[[Authority, Path], dict[str, str]]
WRONG: dict[str, tuple[str, Trust]] = {
    "another name": ("dynamodb.example", lambda authority, _: {"AWS_CA_BUNDLE": str(authority.bundle)}),
    "another authority": ("localhost", lambda _, folder: {"AWS_CA_BUNDLE": str(Authority(folder).bundle)}),
    "a private authority": ("localhost", lambda _authority, _folder: {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_tls_with_a_wrong_certificate(authority: Authority, tmp_path: Path, name: str) -> None:
    """Nothing is sent to it."""
    host, trust = WRONG[name]
    with (
        serving([answer({})], context=authority.server(host)) as server,
        pytest.raises(SSLError),
    ):
        client(server, ENVIRON | trust(authority, tmp_path), **_named(server)).get_item(
            TableName="t", Key=KEY
        )
    assert server.requests == []


def test_old_tls_is_refused(authority: Authority) -> None:
    """TLS 1.2 is the oldest."""
    context = authority.server("localhost")
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    environ = ENVIRON | {"AWS_CA_BUNDLE": str(authority.bundle)}
    with serving([answer({})], context=context) as server, pytest.raises(SSLError):
        client(server, environ, **_named(server)).get_item(TableName="t", Key=KEY)
