"""Who answers, replaces or forwards botocore's requests does so with our direct client's: moto, a proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import wrapt
from botocore import awsrequest, handlers
from botocore.exceptions import ProxyConnectionError
from botocore.httpsession import URLLib3Session
from botocore.stub import Stubber
from moto import mock_aws
from moto.core.models import botocore_stubber, patch_client

from lambda_once.dynamodb.client import botocore_client, new_client
from lambda_once.testing import create_table
from tests.kit.host import Host, serving, standing_for_aws

KEY = {"lockToken": {"S": "t"}}
NAME = "dynamodb.eu-central-1.amazonaws.com"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def get(client: Any) -> Any:
    """Read a row."""
    return client.get_item(TableName="tokens", Key=KEY).get("Item")


def put(client: Any) -> None:
    """Write the row."""
    client.put_item(TableName="tokens", Item=KEY)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No proxy, and DynamoDB's own name in plain HTTP."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"http://{NAME}")
    return monkeypatch


@pytest.fixture
def aws(environment: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host that stands for all of AWS."""
    with serving() as host, standing_for_aws(host):
        yield host


@pytest.fixture
def client(aws: Host) -> Iterator[Any]:
    """The client that the package has by default."""
    client = new_client()
    yield client
    client.close()


def ways(host: Host) -> list[str]:
    """Return who sent each request that came."""
    return ["botocore" if request.by_botocore else "direct" for request in host.requests]


# -- moto


def test_moto_answers_while_it_is_on(aws: Host, client: Any) -> None:
    """Nothing goes out; when it is off, all does, and directly."""
    with mock_aws():
        create_table(client, "tokens")
        put(client)
        assert get(client) == KEY
    assert aws.requests == []
    assert get(client) is None
    assert ways(aws) == ["direct"]


def test_moto_that_is_on_again_answers_again(aws: Host, client: Any) -> None:
    """A client of a test before, with a connection that is kept."""
    get(client)
    for _ in range(2):
        with mock_aws():
            create_table(client, "tokens")
            put(client)
            assert get(client) == KEY
    get(client)
    assert ways(aws) == ["direct"] * 2


@pytest.mark.parametrize("make", [new_client, botocore_client])
def test_moto_that_is_imported_later(
    aws: Host, environment: pytest.MonkeyPatch, make: Callable[[], Any]
) -> None:
    """It answers a client that there was only after `patch_client`, as moto's documentation has it."""
    before = [each for each in handlers.BUILTIN_HANDLERS if each[1] is not botocore_stubber]
    with environment.context() as patch:
        patch.setattr(handlers, "BUILTIN_HANDLERS", before)
        client = make()
    with mock_aws():
        create_table(make(), "tokens")
        put(client)
        assert len(aws.requests) == 1
        patch_client(client)
        put(client)
        assert get(client) == KEY
    assert len(aws.requests) == 1
    client.close()


# -- botocore's Stubber


def test_a_stubber_answers(aws: Host, client: Any) -> None:
    """Its answers and its errors; when it is off, requests go out."""
    with Stubber(client) as stubber:
        stubber.add_response("get_item", {"Item": KEY}, {"TableName": "tokens", "Key": KEY})
        stubber.add_client_error("put_item", "ConditionalCheckFailedException", http_status_code=400)
        assert get(client) == KEY
        with pytest.raises(client.exceptions.ConditionalCheckFailedException):
            put(client)
        stubber.assert_no_pending_responses()
    assert aws.requests == []
    put(client)
    assert ways(aws) == ["direct"]


# -- who replaces what sends


def _replaced(_self: Any, request: Any) -> Any:
    del request
    return awsrequest.AWSResponse(
        f"http://{NAME}/",
        200,
        {"content-type": "application/x-amz-json-1.0", "x-amzn-requestid": "R"},
        _Raw(),
    )


class _Raw:
    """The body of a response that was recorded."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield b'{"Item":{"lockToken":{"S":"t"}}}'


def test_a_replaced_send_is_used(aws: Host, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a recorder does it, or a test; before and after it requests go out directly."""
    get(client)
    with monkeypatch.context() as patch:
        patch.setattr(URLLib3Session, "send", _replaced)
        assert get(client) == KEY
    get(client)
    assert ways(aws) == ["direct"] * 2


@pytest.mark.parametrize("path", ["httpsession.URLLib3Session.send", "endpoint.Endpoint.make_request"])
def test_a_wrapped_function_sees_the_request(
    aws: Host, client: Any, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The wrappers of wrapt, which tracers use, have the attributes of what they wrap."""
    seen = []

    def wrapper(wrapped: Any, _: Any, args: Any, options: Any) -> Any:
        seen.append(path)
        return wrapped(*args, **options)

    monkeypatch.setattr(f"botocore.{path}", wrapt.FunctionWrapper(_found(path), wrapper))
    get(client)
    assert seen == [path]
    assert ways(aws) == ["botocore"]


def _found(path: str) -> Any:
    module, name, function = path.split(".")
    return vars(getattr(__import__("botocore", fromlist=[module]), module))[name].__dict__[function]


def test_a_replaced_connection_is_used(aws: Host, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder such as vcr puts its own in the place of botocore's."""
    used = []

    class Recording(awsrequest.AWSHTTPConnection):  # type: ignore[misc]  # botocore has no types
        def connect(self) -> None:
            used.append(self.host)
            super().connect()

    monkeypatch.setattr(awsrequest.AWSHTTPConnectionPool, "ConnectionCls", Recording)
    get(client)
    assert used == [NAME]
    assert ways(aws) == ["botocore"]


# -- proxies


@pytest.fixture
def proxy() -> Iterator[Host]:
    """A proxy that answers for whoever is behind it."""
    with serving() as proxy:
        yield proxy


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy"])
def test_a_proxy_gets_the_request(aws: Host, proxy: Host, environment: pytest.MonkeyPatch, name: str) -> None:
    """By botocore."""
    environment.setenv(name, proxy.url)
    client = new_client()
    get(client)
    client.close()
    assert [request.line for request in proxy.requests] == [f"POST http://{NAME}/ HTTP/1.1"]
    assert ways(proxy) == ["botocore"]
    assert aws.requests == []


def test_a_proxy_for_tls_is_asked_to_connect(aws: Host, proxy: Host, environment: pytest.MonkeyPatch) -> None:
    """By botocore: this one refuses."""
    proxy.answer = lambda _: b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"
    environment.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"https://{NAME}")
    environment.setenv("HTTPS_PROXY", proxy.url)
    client = new_client()
    with pytest.raises(ProxyConnectionError):
        get(client)
    client.close()
    assert [request.line.rpartition(" ")[0] for request in proxy.requests] == [f"CONNECT {NAME}:443"]
    assert aws.requests == []


@pytest.mark.parametrize(
    "variables",
    [
        {"HTTP_PROXY": "{}", "NO_PROXY": NAME},
        {"HTTP_PROXY": "{}", "no_proxy": ".amazonaws.com,localhost"},
        {"HTTPS_PROXY": "{}"},
        {"NO_PROXY": "localhost"},
    ],
    ids=str,
)
def test_a_proxy_that_is_not_for_this_host(
    aws: Host, proxy: Host, environment: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    """One for another scheme, and a host that is named as an exception: requests are sent directly."""
    for name, value in variables.items():
        environment.setenv(name, value.format(proxy.url))
    client = new_client()
    get(client)
    client.close()
    assert proxy.requests == []
    assert ways(aws) == ["direct"]
