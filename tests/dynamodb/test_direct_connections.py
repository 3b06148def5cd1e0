"""Connections of the direct client: each to the right host, and none that died with a frozen environment."""

from __future__ import annotations

import gc
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.config import Config

from lambda_once.dynamodb.client import botocore_client, new_client
from lambda_once.dynamodb.direct import Direct
from lambda_once.dynamodb.transport import Transport
from lambda_once.testing import FakeClock
from tests.kit import tables
from tests.kit.host import Host, Request, nothing, serving, standing_for_aws
from tests.kit.tls import Authority

REGION = "us-east-1"
KEY = {"lockToken": {"S": "t"}}
ACCOUNT, ANOTHER = "111122223333", "444455556666"
VPCE = f"vpce-1a2b3c4d-5e6f.dynamodb.{REGION}.vpce.amazonaws.com"
MANY = 3
TEN_MINUTES = 600
SECONDS = 30


def get(client: Any, table: str = "tokens") -> Any:
    """Read a row."""
    return client.get_item(TableName=table, Key=KEY).get("Item")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's proxies are not set."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


# -- hosts


@contextmanager
def known_as(name: str, folder: Path) -> Iterator[tuple[Host, list[str]]]:
    """Serve all of AWS by a host that is *name*; yield it, and the names that are looked up."""
    authority = Authority(folder)
    with (
        serving(nothing, authority.server(name)) as host,
        standing_for_aws(host) as names,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("AWS_CA_BUNDLE", str(authority.bundle))
        yield host, names


HOSTS: dict[str, tuple[dict[str, str], str]] = {
    "region": ({}, f"dynamodb.{REGION}.amazonaws.com"),
    "another region": ({"AWS_DEFAULT_REGION": "eu-south-2"}, "dynamodb.eu-south-2.amazonaws.com"),
    "another partition": ({"AWS_DEFAULT_REGION": "us-gov-west-1"}, "dynamodb.us-gov-west-1.amazonaws.com"),
    "FIPS": ({"AWS_USE_FIPS_ENDPOINT": "true"}, f"dynamodb-fips.{REGION}.amazonaws.com"),
    "dual-stack": ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, f"dynamodb.{REGION}.api.aws"),
    "FIPS and dual-stack": (
        {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
        f"dynamodb-fips.{REGION}.api.aws",
    ),
    "FIPS in Canada": (
        {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_DEFAULT_REGION": "ca-central-1"},
        "dynamodb-fips.ca-central-1.amazonaws.com",
    ),
    "FIPS in GovCloud": (
        {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_DEFAULT_REGION": "us-gov-west-1"},
        "dynamodb.us-gov-west-1.amazonaws.com",
    ),
    "dual-stack in China": (
        {"AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_DEFAULT_REGION": "cn-north-1"},
        "dynamodb.cn-north-1.api.amazonwebservices.com.cn",
    ),
    "an interface endpoint, whatever the switches": (
        {
            "AWS_ENDPOINT_URL_DYNAMODB": f"https://{VPCE}",
            "AWS_USE_FIPS_ENDPOINT": "true",
            "AWS_USE_DUALSTACK_ENDPOINT": "true",
            "AWS_ACCOUNT_ID": ACCOUNT,
        },
        VPCE,
    ),
    "account": ({"AWS_ACCOUNT_ID": ACCOUNT}, f"{ACCOUNT}.ddb.{REGION}.amazonaws.com"),
    "account, switched off": (
        {"AWS_ACCOUNT_ID": ACCOUNT, "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled"},
        f"dynamodb.{REGION}.amazonaws.com",
    ),
}


with_accounts = pytest.mark.skipif(
    not hasattr(Config(), "account_id_endpoint_mode"), reason="this botocore has no hosts of accounts"
)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=with_accounts) if case == "account" else case for case in HOSTS]
)
@pytest.mark.parametrize("make", [new_client, botocore_client])
def test_the_host_is_that_of_botocores_rules(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Callable[[], Any], case: str
) -> None:
    """It is looked up, named in the certificate, and signed, with the region."""
    variables, name = HOSTS[case]
    for variable, value in ({"AWS_DEFAULT_REGION": REGION} | variables).items():
        monkeypatch.setenv(variable, value)
    with known_as(name, tmp_path) as (host, names):
        client = make()
        get(client)
        client.close()
    (request,) = host.requests
    assert names == [f"{name}:443"]
    assert request.headers["host"] == name
    assert f"/{os.environ['AWS_DEFAULT_REGION']}/dynamodb/aws4_request" in request.headers["authorization"]
    assert request.by_botocore == (make is botocore_client)


@pytest.mark.parametrize("make", [new_client, botocore_client])
def test_an_endpoint_with_a_port(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]) -> None:
    """The port is part of the host that is signed."""
    with serving() as host:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", host.url)
        client = make()
        get(client)
        client.close()
    (request,) = host.requests
    assert request.headers["host"] == f"127.0.0.1:{host.port}"
    assert request.by_botocore == (make is botocore_client)


@with_accounts
def test_each_account_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One client reads tables of two accounts: a request never goes to the other one's host."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with known_as(f"*.ddb.{REGION}.amazonaws.com", tmp_path) as (host, names):
        client = new_client()
        for account in (ACCOUNT, ANOTHER) * 2:
            get(client, f"arn:aws:dynamodb:{REGION}:{account}:table/tokens")
        client.close()
    hosts = [f"{account}.ddb.{REGION}.amazonaws.com" for account in (ACCOUNT, ANOTHER)]
    assert names == [f"{name}:443" for name in hosts]
    assert [request.headers["host"] for request in host.requests] == hosts * 2
    first, second, *again = [request.connection for request in host.requests]
    assert first != second
    assert again == [first, second]
    assert not any(request.by_botocore for request in host.requests)


@pytest.mark.parametrize("name", tables.CLIENTS)
def test_a_client_that_is_dropped_closes_its_connections(name: str) -> None:
    """Nobody calls `close`: no warning of an open socket breaks a user's tests."""
    with serving() as host:
        client = tables.CLIENTS[name](host.url)
        get(client)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            del client
            gc.collect()
    assert found == []


# -- a frozen environment


@contextmanager
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, Any, FakeClock]]:
    """A client with MANY kept connections, its host, and its clock."""
    at_once, clock = threading.Barrier(MANY), FakeClock()

    def together(request: Request) -> bytes:
        at_once.wait(SECONDS)
        return nothing(request)

    with serving(together) as host:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", host.url)
        session = botocore.session.get_session()
        client = Direct(session, connect=1, answer=3, connections=10, clock=clock).client()
        with ThreadPoolExecutor(MANY) as pool:
            list(pool.map(get, [client] * MANY))
        assert len({request.connection for request in host.requests}) == MANY
        host.requests.clear()
        host.answer = nothing
        yield host, client, clock
        client.close()


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_the_first_request_of_a_thawed_environment(monkeypatch: pytest.MonkeyPatch, reset: bool) -> None:
    """The host ended the kept connections meanwhile: one request, on a new one, signed at the new time."""
    with kept(monkeypatch) as (host, client, clock):
        get(client)
        host.end_connections(reset=reset)
        clock.advance(TEN_MINUTES)
        get(client)
    before, after = host.requests
    assert before.connection != after.connection
    assert after.headers["x-amz-date"] == f"{clock.now():%Y%m%dT%H%M%SZ}" > before.headers["x-amz-date"]
    assert not after.by_botocore


def test_the_end_of_kept_connections_is_heard_only_by_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a NAT gateway, which forgets them silently. One is tried; then a new one, and no other."""
    with kept(monkeypatch) as (host, client, clock):
        old = True

        def answer(request: Request) -> bytes:
            nonlocal old
            if old:
                old = False
                raise ConnectionResetError
            return nothing(request)

        host.answer = answer
        clock.advance(TEN_MINUTES)
        get(client)
        get(client)
    first, second, third = [request.connection for request in host.requests]
    assert first != second
    assert second == third


# -- a forked process


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on Windows")
def test_a_forked_process_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent's stays usable, and is not closed by its end."""
    with serving() as host:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", host.url)
        transport = Transport()
        get(transport._connected())
        assert _forked(lambda: get(transport._connected())) == 0
        get(transport._connected())
        transport._connected().close()
    parents, childs, again = [request.connection for request in host.requests]
    assert parents != childs
    assert again == parents
    assert not any(request.by_botocore for request in host.requests)


def _forked(work: Callable[[], object]) -> int:
    """Do *work* in a fork of this process, and return its exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads here hold no lock that it needs
        child = os.fork()
    if not child:
        try:
            signal.alarm(SECONDS)  # one that hangs would outlive the test
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
