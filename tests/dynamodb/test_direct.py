"""boto3's client sends over our own connections: for whom it does, and what listeners see and may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import botocore
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, ConnectionClosedError

from lambda_once.dynamodb import direct
from lambda_once.dynamodb.client import new_client
from lambda_once.dynamodb.direct import _forwarded, _is_plain
from lambda_once.dynamodb.pool import Endpoint, Pool
from tests.dynamodb.scripted import Server, answer, refusal

KEY = {"lockToken": {"S": "t"}}
TOKEN = "wimpel"
BOTOCORES = "amz-sdk-invocation-id"
"""A header that only botocore's own way of sending adds."""


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Credentials and a region, as Lambda sets them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "geheim")
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    return monkeypatch


@pytest.fixture
def serving(environment: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Any, Server]]]:
    """Return a client and the server that it reaches, by the responses of each connection."""
    made: list[tuple[Any, Server]] = []

    def serve(*connections: list[bytes], path: str = "") -> tuple[Any, Server]:
        server = Server(*connections)
        environment.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"http://127.0.0.1:{server.port}{path}")
        made.append((new_client(), server))
        return made[-1]

    yield serve
    for client, server in made:
        client.close()
        server.close()


Serving = Callable[..., tuple[Any, Server]]


def get(client: Any) -> Any:
    """Read an item."""
    return client.get_item(TableName="t", Key=KEY).get("Item")


# ---------------------------------------------------------------- connections


def test_a_connection_is_kept(serving: Serving) -> None:
    """Two requests, one connection; botocore's own sending has no part in it."""
    client, server = serving([answer({"Item": KEY}), answer({"Item": KEY})])
    assert [get(client), get(client)] == [KEY, KEY]
    assert server.connections == 1
    assert not [headers for headers, _ in server.requests if BOTOCORES in headers]


def test_the_pool_made_with_the_client_is_used(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request makes no second one, which would read the certificates again, in an invocation."""
    made: list[str] = []

    class Counted(Pool):
        def __init__(self, endpoint: Endpoint, *limits: Any) -> None:
            made.append(endpoint.url)
            super().__init__(endpoint, *limits)

    monkeypatch.setattr(direct, "Pool", Counted)
    client, _ = serving([answer({"Item": KEY})])
    assert len(made) == 1
    get(client)
    assert len(made) == 1


def test_closing_the_client_closes_its_connections(serving: Serving) -> None:
    """What comes next goes by a connection of its own: a response may have been another request's."""
    client, server = serving([answer({"Item": KEY})] * 2, [answer({"Item": KEY})])
    get(client)
    client.close()
    assert get(client) == KEY
    assert server.connections == 2


# ---------------------------------------------------------------- what is left to botocore


def _adds_a_header(params: dict[str, Any], **_: Any) -> None:
    params["headers"]["x-amz-extra"] = "1"


def _signs_for_another_service(context: dict[str, Any], **_: Any) -> None:
    context["signing"] = {"signing_name": "dax"}


def _has_credentials_of_its_own(context: dict[str, Any], **_: Any) -> None:
    from botocore.credentials import Credentials

    context["signing"] = {"request_credentials": Credentials("id", "secret")}


LISTENERS: dict[str, tuple[str, Callable[..., None]]] = {
    "a header that is to be signed": ("before-call", _adds_a_header),
    "another service": ("provide-client-params", _signs_for_another_service),
    "credentials of one request": ("provide-client-params", _has_credentials_of_its_own),
}


@pytest.mark.parametrize("name", LISTENERS)
def test_what_a_listener_changes_is_sent_by_botocore(serving: Serving, name: str) -> None:
    """It knows what follows from it."""
    client, server = serving([answer({"Item": KEY})])
    event, listener = LISTENERS[name]
    client.meta.events.register(f"{event}.dynamodb", listener)
    assert get(client) == KEY
    (headers, _), *_ = server.requests
    assert BOTOCORES in headers


def test_an_added_header_is_signed(serving: Serving) -> None:
    """As botocore signs it."""
    client, server = serving([answer({"Item": KEY})])
    client.meta.events.register("before-call.dynamodb", _adds_a_header)
    get(client)
    assert "x-amz-extra" in server.requests[0][0]["authorization"]


def test_an_endpoint_with_a_path(serving: Serving) -> None:
    """A gateway in front of an emulator."""
    client, server = serving([answer({"Item": KEY})], path="/dynamo")
    assert get(client) == KEY
    assert BOTOCORES in server.requests[0][0]


def test_a_description_of_a_table(serving: Serving) -> None:
    """It has times, which botocore reads."""
    client, server = serving([answer({"Table": {"CreationDateTime": 1.7e9}})])
    assert client.describe_table(TableName="t")["Table"]["CreationDateTime"].year == 2023
    assert BOTOCORES in server.requests[0][0]


def test_without_credentials(environment: pytest.MonkeyPatch) -> None:
    """The error is botocore's."""
    from botocore.exceptions import NoCredentialsError

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        environment.delenv(name)
    environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
    environment.setenv("AWS_CONFIG_FILE", "/dev/null")
    environment.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    environment.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9")
    with pytest.raises(NoCredentialsError):
        get(new_client())


PLAIN: dict[str, Any] = {"body": b"{}"}
SIGNER = SimpleNamespace(signature_version="v4", signing_name="dynamodb")
UNSIGNED = SimpleNamespace(signature_version=botocore.UNSIGNED, signing_name="dynamodb")
NOT_PLAIN: dict[str, tuple[str, dict[str, Any], Any, dict[str, Any]]] = {
    "a body that is streamed": ("GetItem", {"body": [b"{}"]}, SIGNER, {}),
    "another algorithm": ("GetItem", PLAIN, SIGNER, {"auth_type": "v4a"}),
    "no signature": (
        "GetItem",
        PLAIN,
        UNSIGNED,
        {},
    ),
    "endpoint discovery": ("GetItem", PLAIN, SIGNER, {"discovery": {"identifiers": {}}}),
    "an unknown operation": ("UpdateTable", PLAIN, SIGNER, {}),
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain(name: str) -> None:
    """What botocore would sign or send in another way is left to it; the first of the pair is not."""
    operation, params, signer, context = NOT_PLAIN[name]
    assert _is_plain(SimpleNamespace(name="GetItem"), PLAIN, SIGNER, {})
    assert not _is_plain(SimpleNamespace(name=operation), params, signer, context)


HEADERS = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "DynamoDB_20120810.GetItem"}


@pytest.mark.parametrize(
    ("more", "is_sent"),
    [
        ({"User-Agent": "shop", "X-Amzn-Trace-Id": "Root=1"}, True),
        ({"User-Agent": "shop\r\nx-amz-target: DynamoDB_20120810.DeleteItem"}, False),
        ({"X-Amzn-Trace-Id": "Wurzel=ä"}, False),
        ({"Content-Type": "application/cbor"}, False),
        ({"X-Amz-Target": "DynamoDB_20120810.PutItem"}, False),
        ({"X-Other": "1"}, False),
    ],
)
def test_headers_that_are_forwarded(more: dict[str, str], is_sent: bool) -> None:
    """Those that are not signed, and that a line of a request can have."""
    assert (_forwarded(HEADERS | more, "GetItem") is not None) is is_sent


# ---------------------------------------------------------------- listeners


def test_before_send_may_answer(serving: Serving) -> None:
    """As under moto: nothing goes out, and an error is the client's own."""
    client, server = serving()

    def answers(request: Any, **_: Any) -> AWSResponse:
        assert request.headers["X-Amz-Target"] == b"DynamoDB_20120810.GetItem"
        assert (request.method, request.body[:1]) == ("POST", b"{")
        body = b'{"__type": "ResourceNotFoundException", "message": "no table"}'
        raw = SimpleNamespace(stream=lambda: iter([body]))
        return AWSResponse(request.url, 400, {"X-Amzn-RequestId": "R7"}, raw)

    client.meta.events.register("before-send.dynamodb", answers)
    with pytest.raises(client.exceptions.ResourceNotFoundException, match="no table") as raised:
        get(client)
    assert raised.value.response["ResponseMetadata"]["RequestId"] == "R7"
    assert server.requests == []


def test_before_send_may_change_a_header(serving: Serving) -> None:
    """It goes out as the listener leaves it."""
    client, server = serving([answer({"Item": KEY})])

    def adds(request: Any, **_: Any) -> None:
        request.headers["traceparent"] = "00-1-2-01"

    client.meta.events.register("before-send.dynamodb", adds)
    assert get(client) == KEY
    assert server.requests[0][0]["traceparent"] == "00-1-2-01"


def test_after_call_sees_the_response(serving: Serving) -> None:
    """Status, headers and body are those that came."""
    client, _ = serving([answer({"Item": KEY})])
    seen: list[Any] = []
    client.meta.events.register("after-call.dynamodb", lambda http_response, **_: seen.append(http_response))
    get(client)
    (response,) = seen
    assert (response.status_code, response.headers["X-Amzn-RequestId"]) == (200, "R1")
    assert response.content == response.raw.read() == b'{"Item": {"lockToken": {"S": "t"}}}'
    assert response.text == response.content.decode()


def test_after_call_error_sees_the_failure(serving: Serving) -> None:
    """As where botocore fails to send."""
    client, _ = serving([b""])
    seen: list[Any] = []
    client.meta.events.register("after-call-error.dynamodb", lambda exception, **_: seen.append(exception))
    with pytest.raises(ConnectionClosedError) as raised:
        get(client)
    assert seen == [raised.value]


def test_no_error_shows_the_session_token(serving: Serving) -> None:
    """DynamoDB quotes the canonical request where a signature is wrong."""
    client, _ = serving([refusal("InvalidSignatureException", f"should be x-amz-security-token:{TOKEN}")])
    with pytest.raises(ClientError) as raised:
        get(client)
    assert "should be" in str(raised.value)
    assert TOKEN not in f"{raised.value} {raised.value.response}"
