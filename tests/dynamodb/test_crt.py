"""The client on AWS' Common Runtime: what goes out, what comes back, and what counts as lost."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path
from stat import S_ISSOCK
from typing import Any, Final

import pytest
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

import lambda_once
from lambda_once.core.clock import monotonic
from lambda_once.dynamodb import crt
from lambda_once.dynamodb.crt import OPERATIONS, CrtClient
from lambda_once.dynamodb.errors import CrossedResponse, UnreadableCertificates, is_transient
from lambda_once.integrations import private
from lambda_once.testing import FakeClock
from tests.dynamodb.scripted import Server
from tests.dynamodb.scripted import answer as scripted
from tests.kit.host import Host, Request, http, refusal, serving
from tests.kit.tls import Authority

REGION = "eu-central-1"
KEY = {"lockToken": {"S": "t"}}
IDS = count()
TASKS = Path("/proc/self/task")
FOREVER: Final = 30.0
"""Seconds after which a test that hangs fails."""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's but these credentials."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "geheim")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "wimpel")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for file in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(file, os.devnull)


@pytest.fixture
def made() -> Iterator[Callable[..., CrtClient]]:
    """Make clients for a server, a port or a URL, which are closed after the test."""
    with ExitStack() as ends:

        def make(to: Host | Server | int | str, **options: Any) -> CrtClient:
            url = to if isinstance(to, str) else f"http://127.0.0.1:{to if isinstance(to, int) else to.port}"
            client = CrtClient(url, REGION, **{"connect": 1.0, "answer": 5.0, "connections": 10, **options})
            return ends.enter_context(closing(client))

        yield make


Made = Callable[..., CrtClient]


def answer(content: object, status: int = 200, **headers: str | None) -> bytes:
    """Return an HTTP response as DynamoDB sends it, each with an id of its own."""
    return scripted(content, status, **{"x_amzn_RequestId": f"R{next(IDS)}", **headers})


def get(client: CrtClient) -> Any:
    """Send a read, and return the item."""
    return client.get_item(TableName="t", Key=KEY).get("Item")


def failure(client: CrtClient) -> BotoCoreError:
    """Send a read that fails, and return the error."""
    with pytest.raises(BotoCoreError) as raised:
        get(client)
    return raised.value


@contextmanager
def served(*connections: list[bytes]) -> Iterator[Server]:
    """Serve *connections*, and yield the server."""
    with closing(Server(*connections)) as server:
        yield server


def pause(seconds: float) -> None:
    """Let the other threads of a test go on: what is tested is what crosses on a socket."""
    threading.Event().wait(seconds)


@contextmanager
def silent() -> Iterator[socket.socket]:
    """Listen, and accept nothing; the backlog takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def port_of(listener: socket.socket) -> int:
    """Return the port of *listener*."""
    return int(listener.getsockname()[1])


def echoing(request: Request) -> bytes:
    """Answer with the key that was asked for."""
    return http(200, json.dumps({"Item": request.arguments["Key"]}).encode())


# ---------------------------------------------------------------- a request, and its answer


def test_a_request_is_json_and_signed(made: Made) -> None:
    """Binary values go as base64, and come back as bytes, nested ones too; a map may have a name B."""
    item = {
        "lockToken": {"S": "ü"},
        "result": {"B": b64encode(b"\0\1").decode()},
        "more": {"M": {"B": {"BS": [b64encode(b"x").decode()]}, "BS": {"L": [{"N": "1"}]}}},
    }
    with served([answer({"Attributes": item})]) as server:
        got = made(server).update_item(TableName="t", Key={"lockToken": {"B": b"\xff"}})
    [(headers, body)] = server.requests
    assert json.loads(body) == {"TableName": "t", "Key": {"lockToken": {"B": "/w=="}}}
    assert headers["x-amz-target"] == "DynamoDB_20120810.UpdateItem"
    assert headers["content-type"] == "application/x-amz-json-1.0"
    assert headers["accept-encoding"] == "identity"
    assert headers["host"] == f"127.0.0.1:{server.port}"
    assert headers["x-amz-security-token"] == "wimpel"
    assert re.match(
        r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/eu-central-1/dynamodb/aws4_request, ",
        headers["authorization"],
    )
    assert got["Attributes"] == {
        "lockToken": {"S": "ü"},
        "result": {"B": b"\0\1"},
        "more": {"M": {"B": {"BS": [b"x"]}, "BS": {"L": [{"N": "1"}]}}},
    }
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert got["ResponseMetadata"]["RequestId"].startswith("R")


def test_the_signature_is_botocores(made: Made) -> None:
    """The same request at the same time is signed alike."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    clock = FakeClock()
    with serving() as host:
        get(made(host, clock=clock))
        [request] = host.requests
    given, signed = request.headers["authorization"].rsplit("SignedHeaders=", 1)[1].split(", Signature=")
    theirs = AWSRequest(
        "POST", host.url, {name: request.headers[name] for name in given.split(";")}, request.body
    )
    theirs.context["timestamp"] = request.headers["x-amz-date"]
    auth = SigV4Auth(Credentials("AKIDEXAMPLE", "geheim", "wimpel"), "dynamodb", REGION)
    assert request.headers["x-amz-date"] == clock.now().strftime("%Y%m%dT%H%M%SZ")
    assert auth.signature(auth.string_to_sign(theirs, auth.canonical_request(theirs)), theirs) == signed


def test_the_host_is_without_the_schemes_own_port(made: Made) -> None:
    """As botocore signs it; an IPv6 address keeps its brackets."""
    hosts = {
        "https://dynamodb.eu-central-1.amazonaws.com": "dynamodb.eu-central-1.amazonaws.com",
        "https://proxy.example:443/": "proxy.example",
        "http://proxy.example:443": "proxy.example:443",
        "http://[::1]:8000": "[::1]:8000",
    }
    assert {url: made(url)._host for url in hosts} == hosts


def test_every_operation_that_the_package_sends_is_known() -> None:
    """Those of operators and patterns, too; nothing else is."""
    package = Path(lambda_once.__file__).parent  # where it is installed, without sources beside it, too
    text = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    sent = set(re.findall(r'\.(?:call|asked|send)\(\s*"([a-z_]+)"|\bsend\(\s*"([a-z_]+)"', text))
    names = {name for pair in sent for name in pair if name}
    assert {"update_item", "batch_get_item", "describe_time_to_live"} <= names
    assert names <= OPERATIONS.keys()
    with pytest.raises(AttributeError, match="create_table"):
        _ = CrtClient("http://x", REGION, connect=1, answer=1, connections=1).create_table


def test_a_refusal_is_botocores_error(made: Made) -> None:
    """With the row that DynamoDB returns, its binary values as bytes; the connection is kept."""
    row = {"lockToken": {"S": "t"}, "fields": {"B": b64encode(b"f").decode()}}
    name = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
    refused = answer({"__type": name, "message": "The conditional request failed", "Item": row}, 400)
    with served([refused, answer({})]) as server:
        client = made(server)
        with pytest.raises(ClientError) as raised:
            client.update_item(TableName="t", Key=KEY)
        get(client)
    response = raised.value.response
    assert response["Error"] == {
        "Code": "ConditionalCheckFailedException",
        "Message": "The conditional request failed",
    }
    assert response["Item"] == {"lockToken": {"S": "t"}, "fields": {"B": b"f"}}
    assert raised.value.operation_name == "UpdateItem"
    assert server.connections == 1


def test_a_fault_of_the_server_is_transient(made: Made) -> None:
    """A proxy's page of status 502, too."""
    page = b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
    with served([page]) as server, pytest.raises(ClientError) as raised:
        get(made(server))
    assert is_transient(raised.value)
    assert raised.value.response["Error"] == {"Code": "502", "Message": "Bad Gateway"}


def test_a_value_that_json_cannot_write(made: Made) -> None:
    """The developer's mistake, such as a set instead of a list, is named."""
    with pytest.raises(TypeError, match="has a set; give low-level attribute values"):
        made(1).put_item(TableName="t", Item={"n": {"NS": {"1"}}})


# ---------------------------------------------------------------- connections


def test_a_connection_that_ends_while_it_is_kept_is_not_used(made: Made) -> None:
    """As where the environment was frozen: the next request is sent on a new one without an error."""
    with serving(echoing) as host:
        client = made(host)
        get(client)
        for reset in (False, True):
            host.end_connections(reset=reset)
            assert get(client) == KEY
        assert len({request.connection for request in host.requests}) == 3


def test_a_kept_connection_that_dies_costs_no_try(made: Made) -> None:
    """The server ends it as the request comes: it is sent again at once, and the other kept are closed."""
    with served([answer({}), b""], [answer({"Item": KEY}), b""]) as server, silent() as listener:
        client, other = made(server), made(port_of(listener))
        get(client)
        client._kept.appendleft(crt._Kept(other._connected()))
        assert get(client) == KEY
        assert len(client._kept) == 1
    assert (server.connections, len(server.requests)) == (2, 3)


def test_a_new_connection_that_dies_is_an_error(made: Made) -> None:
    """It is not sent again here: the retries of the transport know the deadline."""
    with served([b""], [b""]) as server:
        error = failure(made(server))
    assert isinstance(error, ConnectionClosedError)
    assert (server.connections, is_transient(error)) == (1, True)


def test_no_more_connections_are_kept_than_asked_for(made: Made) -> None:
    """The oldest goes, and is closed."""
    with serving(echoing) as host:
        client = made(host, connections=1)
        get(client)
        ended = client._kept[0].connection.shutdown_future
        client._kept.append(crt._Kept(client._connected()))
        ended.exception(FOREVER)
        assert len(client._kept) == 1
        assert get(client) == KEY


@pytest.mark.parametrize(
    "last", [answer({}, Connection="close"), answer({}) + b"x"], ids=["said to end", "bytes behind it"]
)
def test_a_connection_that_is_said_to_end_is_not_kept(last: bytes, made: Made) -> None:
    """Though it is still open, and would answer; nor one with bytes that the next request would see."""
    with served([last, answer({})], [answer({"Item": KEY})]) as server:
        client = made(server)
        get(client)
        assert get(client) == KEY
    assert server.connections == 2


def test_close_ends_what_is_kept(made: Made) -> None:
    """The client can be used again."""
    with serving(echoing) as host:
        client = made(host)
        get(client)
        [kept] = client._kept
        client.close()
        kept.connection.shutdown_future.exception(FOREVER)
        assert not client._kept
        assert get(client) == KEY


def test_a_refused_connection_is_transient(made: Made) -> None:
    """As botocore's is; so is a name that nobody knows."""
    with silent() as listener:
        port = port_of(listener)
    for url in (f"http://127.0.0.1:{port}", "http://nowhere.invalid"):
        error = failure(made(url))
        assert isinstance(error, EndpointConnectionError)
        assert is_transient(error)


def test_a_connection_that_is_late_is_kept_for_the_next_try(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow look-up of a name costs tries, and not the request: nothing was sent."""
    with serving(echoing) as host:
        connection, coming = made(host)._connected(), Future[Any]()
        client = made(host, connect=0.01)
        monkeypatch.setattr("awscrt.http.HttpClientConnection.new", lambda *_: coming)
        error = failure(client)
        assert isinstance(error, ConnectTimeoutError)
        assert is_transient(error)
        assert host.requests == []
        coming.set_result(connection)
        assert get(client) == KEY


# ---------------------------------------------------------------- in time


def test_a_silent_server(made: Made) -> None:
    """The request fails after its time, and no connection that was kept with it is used again."""
    with silent() as listener:
        client = made(port_of(listener), answer=0.05)
        client._kept.extend(crt._Kept(client._connected()) for _ in range(2))
        error = failure(client)
        assert isinstance(error, ReadTimeoutError)
        assert is_transient(error)
        assert not client._kept


def test_a_call_takes_no_longer_than_its_two_limits(made: Made) -> None:
    """Nor where a kept connection ends late, and the request is sent again."""
    over = threading.Event()
    with silent() as listener:

        def end_the_first() -> None:
            first, _ = listener.accept()
            over.wait(0.4)
            first.close()

        client = made(port_of(listener), connect=0.1, answer=0.5)
        client._kept.append(crt._Kept(client._connected()))
        thread = threading.Thread(target=end_the_first)
        thread.start()
        began = monotonic()
        error = failure(client)
        assert monotonic() - began < 0.8  # not 0.4 and 0.5
        assert isinstance(error, ReadTimeoutError)
        thread.join()


def test_an_answer_that_drips(made: Made) -> None:
    """The limit is that of the whole answer."""
    whole, over = answer({"Item": KEY}), threading.Event()
    with silent() as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                for at in range(len(whole)):
                    if over.wait(0.02):
                        return
                    connection.sendall(whole[at : at + 1])

        thread = threading.Thread(target=drip)
        thread.start()
        assert isinstance(failure(made(port_of(listener), answer=0.2)), ReadTimeoutError)
        over.set()
        thread.join()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError, RuntimeError, OSError])
def test_what_a_signal_handler_raises_passes(kind: type[BaseException], made: Made) -> None:
    """It is no error of the network: nothing is sent again, and the connection is closed."""

    def interrupt(*_: object) -> None:
        raise kind("of the handler")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with silent() as listener:
            client = made(port_of(listener))
            client._kept.append(crt._Kept(client._connected()))
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(kind, match="of the handler"):
                get(client)
            assert not client._kept
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_handler_may_send(made: Made) -> None:
    """While the same thread waits for an answer, by the same client."""
    asked, released = threading.Event(), threading.Event()

    def slow(request: Request) -> bytes:
        if request.arguments["Key"] == KEY:
            asked.set()
            assert released.wait(FOREVER)
        return echoing(request)

    with serving(slow) as host:
        client = made(host)
        got: list[object] = []

        def send(*_: object) -> None:
            got.append(client.get_item(TableName="t", Key={"lockToken": {"S": "of the handler"}})["Item"])
            released.set()

        before = signal.signal(signal.SIGALRM, send)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            assert get(client) == KEY
        finally:
            signal.signal(signal.SIGALRM, before)
        assert got == [{"lockToken": {"S": "of the handler"}}]


# ---------------------------------------------------------------- whose answer it is, and whether it is whole


class Surplus:
    """Sends the first answer of each connection once more, so many seconds late."""

    def __init__(self, late: float) -> None:
        self._late = late
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = port_of(self._listener)
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            self.connections += 1
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as reader:
            is_first = True
            while line := reader.readline():
                length = 0
                while (line := reader.readline()) != b"\r\n":
                    name, _, value = line.lower().partition(b":")
                    length = int(value) if name == b"content-length" else length
                body = json.loads(reader.read(length))
                pause(0.003)  # a round trip: a request that is sent at once meets the surplus
                whole = answer({"Item": body["Key"]})
                connection.sendall(whole)
                if is_first:
                    pause(self._late)
                    connection.sendall(whole)
                is_first = False


def wrong(client: CrtClient, many: int = 60) -> int:
    """Return how many of *many* requests got the answer of another one, or fail."""
    found = 0
    for n in range(many):
        key = {"lockToken": {"S": f"{n}"}}
        with suppress(CrossedResponse, ResponseStreamingError):  # lost answers, the latter of two in one read
            found += client.get_item(TableName="t", Key=key)["Item"] != key
    return found


@pytest.mark.parametrize("late", [0.0, 0.001, 0.002], ids=str)
def test_one_surplus_answer_is_no_other_requests(late: float, made: Made) -> None:
    """Whether it comes at once or after the next request has gone out."""
    assert wrong(made(Surplus(late))) == 0


def test_twin_without_the_check_each_later_answer_is_wrong(
    monkeypatch: pytest.MonkeyPatch, made: Made
) -> None:
    """The check is what tells them apart: every answer of that connection is shifted by one."""
    monkeypatch.setattr(crt, "REQUEST_ID", "none")
    assert wrong(made(Surplus(0.001))) > 30


def test_answers_without_an_id_are_not_compared(made: Made) -> None:
    """An emulator may send none."""
    plain = answer({}, x_amzn_RequestId=None)
    with served([plain, plain]) as server:
        client = made(server)
        get(client)
        get(client)
    assert server.connections == 1


@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_that_is_cut_anywhere_is_lost(status: int, made: Made) -> None:
    """Whether in its head or in its body, with a length or in chunks."""
    body = json.dumps({"__type": "a#ConditionalCheckFailedException"} if status == 400 else {}).encode()
    head = answer({}, status, Content_Length=None, x_amz_crc32=None, Transfer_Encoding="chunked")
    chunked = head.partition(b"\r\n\r\n")[0] + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    for whole in (answer(body, status), answer(body, status, x_amz_crc32=None), chunked):
        with served(*([whole[:at]] for at in range(len(whole)))) as server:
            client = made(server)
            for _ in range(len(whole)):
                assert is_transient(failure(client))


@pytest.mark.parametrize("whole", [answer({}), answer({"Item": KEY})], ids=["empty", "row"])
def test_an_answer_that_is_cut_on_a_kept_connection_is_lost(whole: bytes, made: Made) -> None:
    """A head that was cut is none: the request is sent again at once. A body that was cut is an error."""
    head = whole.index(b"\r\n\r\n") + 4
    for at in (0, 1, head - 1, head + 1):
        with served([answer({}), whole[:at]], [answer({"Item": KEY})]) as server:
            client = made(server)
            get(client)
            if at < head:
                assert get(client) == KEY
            else:
                assert isinstance(failure(client), ResponseStreamingError)


BROKEN: Final[dict[str, bytes]] = {
    "a length that is no number": answer({}, Content_Length="x"),
    "no length at all": answer({}, Content_Length=""),
    "a negative length": answer({}, Content_Length="-5"),
    "two lengths": answer({}, Content_Length="2\r\nContent-Length: 3"),
    "a length and chunks": answer({}, Transfer_Encoding="chunked"),
    "a length that is too small": answer({"Item": KEY}, Content_Length="9", x_amz_crc32=None),
    "a length that is too large": answer({}, Content_Length="999", x_amz_crc32=None),
    "a body until the end": answer({}, Content_Length=None),
    "a refusal until the end": answer({"__type": "a#b"}, 400, Content_Length=None, x_amz_crc32=None),
    "a wrong checksum": answer({}, x_amz_crc32="1"),
    "a refusal with a wrong checksum": answer({"__type": "a#b"}, 400, x_amz_crc32="1"),
    "an empty result": answer(b""),
    "status 204": b"HTTP/1.1 204 No Content\r\nx-amzn-RequestId: R1\r\n\r\n",
    "a list": answer(b"[]"),
    "half an object": answer(b'{"Item": {'),
    "no UTF-8": answer(b'{"a": "\xff"}'),
    "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
    "an interim status alone": b"HTTP/1.1 103 Early Hints\r\n\r\n",
    "another protocol from now on": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "a header that is no text": answer({}, x_odd="\xff").replace(b"\xc3\xbf", b"\xff"),
    "a control character": answer({}, x_odd="a\0b"),
}


@pytest.mark.parametrize("name", ["a body until the end", "an empty result", "status 204"])
def test_twin_without_the_check_a_broken_answer_is_a_result(
    name: str, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime takes these for whole answers, and no row would be a grant."""
    monkeypatch.setattr(crt, "answer_of", lambda response: json.loads(response.body or b"{}"))
    with served([BROKEN[name]]) as server:
        assert get(made(server)) is None


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_lost(name: str, made: Made) -> None:
    """It is transient, and its connection is closed."""
    with served([BROKEN[name]]) as server:
        client = made(server)
        assert is_transient(failure(client))
        assert not client._kept


STRANGERS: Final[dict[str, bytes]] = {
    "a page": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 6\r\n\r\n<html>",
    "not found": b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
}


@pytest.mark.parametrize("name", STRANGERS)
def test_somebody_elses_page_is_refused(name: str, made: Made) -> None:
    """It would be an acquisition; a retry does not help."""
    with served([STRANGERS[name]]) as server:
        assert not is_transient(failure(made(server)))


@pytest.mark.parametrize("status", [100, 102, 103])
def test_an_interim_answer_is_skipped(status: int, made: Made) -> None:
    """The answer comes behind it."""
    interim = f"HTTP/1.1 {status} Later\r\n\r\n".encode()
    with served([interim + answer({"Item": KEY}), answer({"Item": KEY})]) as server:
        client = made(server)
        assert [get(client), get(client)] == [KEY, KEY]
    assert server.connections == 1


@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_answer_that_is_too_long_is_lost(
    is_chunked: bool, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime has no limit of its own, and memory has one."""
    monkeypatch.setattr(crt, "LARGEST_BODY", 100)
    longest = answer({"x": "x" * 500}, x_amz_crc32=None)
    if is_chunked:
        head, _, body = answer(b"x" * 500, Content_Length=None, Transfer_Encoding="chunked").partition(
            b"\r\n\r\n"
        )
        longest = head + b"\r\n\r\n" + (b"1f4\r\n" + body + b"\r\n") * 20
    with served([longest]) as server:
        client = made(server)
        assert isinstance(failure(client), ResponseStreamingError)
        assert not client._kept


# ---------------------------------------------------------------- credentials


@pytest.mark.parametrize("code", ["ExpiredTokenException", "UnrecognizedClientException"])
def test_refused_credentials_are_asked_for_anew(
    code: str, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same request is sent once more with the new ones, and those after it."""

    def answered(request: Request) -> bytes:
        if request.headers["x-amz-security-token"] == "wimpel":
            monkeypatch.setenv("AWS_SESSION_TOKEN", "neu")
            return refusal(code)
        return echoing(request)

    with serving(answered) as host:
        client = made(host)
        assert [get(client), get(client)] == [KEY, KEY]
    assert [request.headers["x-amz-security-token"] for request in host.requests] == ["wimpel", "neu", "neu"]


def test_refused_credentials_are_asked_for_once_a_minute(
    made: Made, containers: Containers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind them may be a role: one more request to STS for each refused one would be a storm."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    clock = FakeClock()
    with serving(lambda _: refusal("UnrecognizedClientException")) as host:
        client = made(host, clock=clock)
        asked = []
        for seconds in (0, 1, 58, 1):
            clock.advance(seconds)
            with pytest.raises(ClientError, match="Unrecognized"):
                get(client)
            asked.append((len(containers.asked), len(host.requests)))
    assert asked == [(2, 2), (2, 3), (2, 4), (3, 6)]


def test_if_there_are_no_new_credentials_the_refusal_is_told(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that they have expired; that their source failed since then says less."""

    def answered(_: Request) -> bytes:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        return refusal("ExpiredTokenException")

    with serving(answered) as host, pytest.raises(ClientError, match="ExpiredToken"):
        get(made(host))
    assert len(host.requests) == 1


def test_without_credentials(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is botocore's, and no retry helps."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with serving() as host:
        error = failure(made(host))
    assert isinstance(error, NoCredentialsError)
    assert not is_transient(error)
    assert host.requests == []


def test_no_error_shows_a_credential(made: Made) -> None:
    """DynamoDB quotes the canonical request when a signature is wrong, and the session token is in it."""
    quoted = "The Canonical String should have been 'POST\n/\n\nx-amz-security-token:wimpel'"
    with served([refusal("InvalidSignatureException", quoted)]) as server:
        client = made(server)
        with pytest.raises(ClientError) as raised:
            get(client)
    shown = f"{raised.value} {raised.value.response} {client!r}"
    assert "should have been" in shown
    assert not [secret for secret in ("AKIDEXAMPLE", "geheim", "wimpel") if secret in shown]


class Containers(HTTPServer):
    """The source of credentials that Lambda gives a function under SnapStart."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Role)
        self.asked: list[str | None] = []


class _Role(BaseHTTPRequestHandler):
    server: Containers

    def do_GET(self) -> None:
        self.server.asked.append(self.headers["Authorization"])
        number = len(self.server.asked)
        body = json.dumps(
            {
                "AccessKeyId": f"ASIA{number}",
                "SecretAccessKey": "s",
                "Token": f"token-{number}",
                "Expiration": "2090-01-01T00:00:00Z",
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def containers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Containers]:
    """Serve container credentials, as the environment names them."""
    with Containers() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/role"
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer b")
        yield server
        server.shutdown()
        thread.join()


def test_credentials_of_a_container(
    containers: Containers, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked for once, with the token of the environment."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with serving(echoing) as host:
        client = made(host)
        assert [get(client), get(client)] == [KEY, KEY]
    assert containers.asked == ["Bearer b"]
    assert {request.headers["x-amz-security-token"] for request in host.requests} == {"token-1"}


@pytest.mark.parametrize(
    ("listens", "limit", "kind"),
    [(False, 5.0, EndpointConnectionError), (True, 0.05, ConnectTimeoutError)],
    ids=["gone", "silent"],
)
def test_a_source_of_credentials_that_does_not_answer_is_transient(
    listens: bool, limit: float, kind: type[BotoCoreError], made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime tries several times by itself, and goes on asking; nothing was sent."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with silent() as listener:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{port_of(listener)}/")
        if not listens:
            listener.close()
        error = failure(made(1, answer=limit))
    assert isinstance(error, kind)
    assert is_transient(error)


# ---------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One for all: keys take a while."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_tls_with_an_authority_of_ones_own(
    authority: Authority, made: Made, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either variable names the file, as with botocore."""
    monkeypatch.setenv(variable, str(authority.bundle))
    with serving(echoing, authority.server("localhost")) as host:
        client = made(f"https://localhost:{host.port}")
        assert [get(client), get(client)] == [KEY, KEY]
        host.end_connections()
        assert get(client) == KEY
    assert len({request.connection for request in host.requests}) == 2


Trust = Callable[[Authority, Path], str]
WRONG: Final[dict[str, tuple[str, Trust]]] = {
    "another name": ("dynamodb.example", lambda authority, _: str(authority.bundle)),
    "another authority": ("localhost", lambda _, folder: str(Authority(folder).bundle)),
    "a private authority": ("localhost", lambda _authority, _folder: ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_tls_with_a_wrong_certificate(
    authority: Authority, made: Made, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent to it. The runtime waits 10 to 30 s before it tells, so the error is that of time."""
    host_name, trust = WRONG[name]
    monkeypatch.setenv("AWS_CA_BUNDLE", trust(authority, tmp_path))
    with serving(echoing, authority.server(host_name)) as host:
        error = failure(made(f"https://localhost:{host.port}"))
    assert isinstance(error, ConnectTimeoutError)
    assert host.requests == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_bundle_that_cannot_be_read(
    made: Made, content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, and no retry helps."""
    bundle = tmp_path / "bundle.pem"
    if content is not None:
        bundle.write_text(content)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    error = failure(made("https://localhost:1"))
    assert isinstance(error, UnreadableCertificates)
    assert "bundle.pem" in str(error)


# ---------------------------------------------------------------- threads and processes


def test_threads_get_their_own_answers(made: Made) -> None:
    """Sixteen at once, more than connections are kept."""
    with serving(echoing) as host:
        client = made(host)
        get(client)

        def work(thread: int) -> list[bool]:
            keys = [{"lockToken": {"S": f"{thread}/{n}"}} for n in range(50)]
            return [client.get_item(TableName="t", Key=key)["Item"] == key for key in keys]

        with ThreadPoolExecutor(16) as threads:
            assert all(all(right) for right in threads.map(work, range(16)))
        assert len(client._kept) <= 10


@pytest.mark.skipif(not TASKS.is_dir(), reason="needs Linux")
def test_no_thread_is_made_for_a_request(made: Made) -> None:
    """One thread of the runtime's, and one that looks up names, are for all."""
    with serving(echoing) as host:
        client = made(host)
        get(client)
        before = len(list(TASKS.iterdir()))
        for _ in range(50):
            get(client)
        assert len(list(TASKS.iterdir())) <= before


def test_forked_processes_have_a_runtime_of_their_own(made: Made) -> None:
    """While other threads send; children and parent get their own answers, and no parent's socket is used."""
    with serving(echoing) as host, ThreadPoolExecutor(4) as threads:
        client, over = made(host), threading.Event()
        get(client)

        def busy(thread: int) -> bool:
            right = True
            for n in count():
                if over.is_set():
                    return right
                key = {"lockToken": {"S": f"{thread}/{n}"}}
                right &= client.get_item(TableName="t", Key=key)["Item"] == key
            return right

        # CPython 3.11 can hang in the fork itself while a thread of C's enters Python (its issue 112275).
        working = [threads.submit(busy, thread) for thread in range(4 if sys.version_info >= (3, 12) else 0)]
        ends = [_forked(client) for _ in range(8)]
        over.set()
        assert all(each.result(FOREVER) for each in working)
        assert ends == [0] * 8
        assert get(client) == KEY


def _forked(client: CrtClient) -> int:
    """Fork, send from the child, and return its exit code; one that hangs is killed."""
    child = os.fork()
    if child:
        killer = threading.Timer(FOREVER, os.kill, (child, signal.SIGKILL))
        killer.start()
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        finally:
            killer.cancel()
    try:
        key = {"lockToken": {"S": f"{os.getpid()}"}}
        answers = [client.get_item(TableName="t", Key=key)["Item"] for _ in range(3)]
        os._exit(0 if answers == [key] * 3 else 1)
    finally:  # else a child that fails would go on with the parent's tests
        os._exit(2)


# ---------------------------------------------------------------- Nagle's algorithm

DESCRIPTORS = Path("/proc/self/fd")
needs_proc = pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="descriptors are listed on Linux")


def delays(port: int) -> list[int]:
    """Return TCP_NODELAY of each connection of this process to *port*."""
    found = []
    for each in [int(entry.name) for entry in DESCRIPTORS.iterdir()]:
        with suppress(OSError):
            if S_ISSOCK(os.fstat(each).st_mode):
                with socket.socket(fileno=os.dup(each)) as copy:
                    if copy.family == socket.AF_INET and copy.getpeername()[1] == port:
                        found.append(copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    return found


@needs_proc
def test_no_request_waits_for_an_acknowledgement(made: Made) -> None:
    """Nagle's algorithm is off, on a connection that was late, too; no descriptor is left behind."""
    with serving(echoing) as host:
        client = made(host)
        get(client)
        assert delays(host.port) == [1]
        late: Future[Any] = Future()
        late.set_result(client._connected())
        client._keep_late(late)
        assert delays(host.port) == [1, 1]
        descriptors = len(list(DESCRIPTORS.iterdir()))
        private.without_nagle(host.port)
        assert len(list(DESCRIPTORS.iterdir())) == descriptors


@needs_proc
def test_twin_awscrt_leaves_it_on(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of awscrt 0.38.1: once it doesn't, `without_nagle` may go."""
    monkeypatch.setattr(crt, "without_nagle", lambda _: None)
    with serving(echoing) as host:
        get(made(host))
        assert delays(host.port) == [0]


def test_where_it_cannot_be_switched_off_that_is_said(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a process; the requests are sent."""
    monkeypatch.setattr(private, "_DESCRIPTORS", "/nowhere")
    private._delayed.cache_clear()
    with serving(echoing) as host:
        with pytest.warns(RuntimeWarning, match="may wait 40 ms"):
            assert get(made(host)) == KEY
        assert get(made(host)) == KEY  # warnings are errors here
    private._delayed.cache_clear()


@needs_proc
def test_no_other_socket_is_touched(made: Made) -> None:
    """With a default timeout, as functions set it, one that is looked at would stop to block."""
    ours, theirs = socket.socketpair()
    try:
        socket.setdefaulttimeout(5)
        with serving(echoing) as host:
            get(made(host))
            socket.setdefaulttimeout(None)
            assert (os.get_blocking(ours.fileno()), os.get_blocking(theirs.fileno())) == (True, True)
            assert 1 in delays(host.port)
    finally:
        socket.setdefaulttimeout(None)
        ours.close()
        theirs.close()


def test_a_late_answer_is_late_by_any_clock(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests stop the clock: the wait is over all the same."""
    monkeypatch.setattr(crt, "monotonic", lambda: 5.0)
    with silent() as listener:
        assert isinstance(failure(made(port_of(listener), answer=0.2)), ReadTimeoutError)
