"""Credentials of the direct client: one whole set for a request, and new ones where they have expired."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import sha256
from itertools import count
from typing import Any

import botocore.session
import pytest
from botocore.credentials import CredentialProvider, CredentialResolver, RefreshableCredentials
from botocore.exceptions import ClientError

from lambda_once.core.clock import SystemClock
from lambda_once.dynamodb import direct
from lambda_once.dynamodb.client import new_client
from lambda_once.dynamodb.direct import Direct
from lambda_once.dynamodb.sigv4 import canonical_request, signature, signing_key
from tests.kit.host import Host, Request, nothing, refusal, serving

REGION = "eu-central-1"
KEY = {"lockToken": {"S": "t"}}
THREADS, EACH = 8, 25
EXPIRED = ["ExpiredTokenException", "UnrecognizedClientException"]


def get(client: Any) -> Any:
    """Read a row."""
    return client.get_item(TableName="tokens", Key=KEY).get("Item")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host in the place of DynamoDB."""
    with serving() as host:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", host.url)
        yield host


# -- expired


@pytest.fixture
def client(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client that was made with the first credentials."""
    use(monkeypatch, "FIRST")
    client = new_client()
    yield client
    client.close()


def use(environment: pytest.MonkeyPatch, key_id: str) -> None:
    """Let the environment have other credentials."""
    environment.setenv("AWS_ACCESS_KEY_ID", key_id)
    environment.setenv("AWS_SECRET_ACCESS_KEY", f"secret of {key_id}")
    environment.setenv("AWS_SESSION_TOKEN", f"token-of-{key_id}")


def expire(host: Host, code: str, *key_ids: str) -> None:
    """Let *host* refuse what is signed by one of *key_ids*."""

    def answer(request: Request) -> bytes:
        return refusal(code) if request.key_id in key_ids else nothing(request)

    host.answer = answer


def used(host: Host) -> list[str]:
    """Return the access key of each request."""
    assert not any(request.by_botocore for request in host.requests)
    assert all(
        request.headers["x-amz-security-token"] == f"token-of-{request.key_id}" for request in host.requests
    )
    return [request.key_id for request in host.requests]


@pytest.mark.parametrize("code", EXPIRED)
def test_new_credentials_are_used_once(
    host: Host, client: Any, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """The request is sent again with what the environment has by then, and so are later ones."""
    get(client)
    expire(host, code, "FIRST")
    use(monkeypatch, "SECOND")
    get(client)
    get(client)
    assert used(host) == ["FIRST", "FIRST", "SECOND", "SECOND"]
    expire(host, code, "FIRST", "SECOND")
    use(monkeypatch, "THIRD")
    get(client)
    assert used(host)[4:] == ["SECOND", "THIRD"]


@pytest.mark.parametrize("code", EXPIRED)
def test_the_same_credentials_are_not_tried_again(host: Host, client: Any, code: str) -> None:
    """One request, and DynamoDB's error."""
    expire(host, code, "FIRST")
    with pytest.raises(ClientError, match=code):
        get(client)
    assert used(host) == ["FIRST"]


def test_new_credentials_that_are_refused_are_not_renewed(
    host: Host, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two requests, and the second one's error."""
    expire(host, EXPIRED[0], "FIRST", "SECOND")
    use(monkeypatch, "SECOND")
    with pytest.raises(ClientError, match=EXPIRED[0]):
        get(client)
    assert used(host) == ["FIRST", "SECOND"]


def test_credentials_that_are_gone(host: Host, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is DynamoDB's."""
    expire(host, EXPIRED[0], "FIRST")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    with pytest.raises(ClientError, match=EXPIRED[0]):
        get(client)
    assert used(host) == ["FIRST"]


def test_another_refusal_asks_for_no_credentials(
    host: Host, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though there are new ones."""
    expire(host, "AccessDeniedException", "FIRST")
    use(monkeypatch, "SECOND")
    with pytest.raises(ClientError, match="AccessDenied"):
        get(client)
    assert used(host) == ["FIRST"]


# -- refreshed


class Rotating(CredentialProvider):  # type: ignore[misc]  # botocore has no types
    """Gives credentials that are due for a refresh as soon as they are there: each use gets another set."""

    METHOD = "rotating"

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()

    def load(self) -> Any:
        """Return the credentials."""
        return RefreshableCredentials.create_from_metadata(
            self._next(), refresh_using=self._next, method=self.METHOD
        )

    def _next(self) -> dict[str, str]:
        number = next(self._numbers)
        return {
            "access_key": f"KEY{number}",
            "secret_key": f"secret-{number}",
            "token": f"token-{number}",
            "expiry_time": (SystemClock().now() + timedelta(seconds=60)).isoformat(),
        }


def test_each_request_is_signed_by_one_whole_set(host: Host) -> None:
    """Under load from several threads: key, secret and token are of one set each time."""
    rotate(host)


def test_twin_that_reads_key_secret_and_token_one_by_one(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are of several sets."""
    monkeypatch.setattr(direct, "_frozen", lambda held: (held.access_key, held.secret_key, held.token))
    with pytest.raises(AssertionError):
        rotate(host)


def rotate(host: Host) -> None:
    """Send requests from several threads while the credentials rotate, and check how each is signed."""
    session = botocore.session.get_session()
    session.register_component("credential_provider", CredentialResolver([Rotating()]))
    client = Direct(session, connect=1, answer=3, connections=THREADS).client(region_name=REGION)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(get, [client] * (THREADS * EACH)))
    client.close()
    assert not any(request.by_botocore for request in host.requests)
    assert len(host.requests) == THREADS * EACH
    assert len({request.key_id for request in host.requests}) > 1
    for request in host.requests:
        number = request.key_id.removeprefix("KEY")
        assert request.headers["x-amz-security-token"] == f"token-{number}"
        assert request.headers["authorization"].endswith(_signature(request, f"secret-{number}"))


def _signature(request: Request, secret: str) -> str:
    """Return the signature that *request* has where *secret* signed it."""
    ((scope, names),) = re.findall(
        r"Credential=[^/]+/([^,]+), SignedHeaders=([^,]+)", request.headers["authorization"]
    )
    signed = {name: request.headers[name] for name in names.split(";")}
    canonical, _ = canonical_request("POST", "/", signed, request.body)
    hashed = sha256(canonical.encode()).hexdigest()
    date, region, _, _ = scope.split("/")
    return signature(signing_key(secret, date, region), request.headers["x-amz-date"], scope, hashed)
