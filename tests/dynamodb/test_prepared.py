"""Which client a transport makes, when, and for what it is made again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import boto3
import pytest
from botocore.exceptions import NoRegionError

from lambda_once.dynamodb.client import of_modules
from lambda_once.dynamodb.errors import NoClient
from lambda_once.dynamodb.transport import Transport


class Crt:
    """In place of crt's client."""

    def __init__(self, endpoint: str, region: str, **limits: Any) -> None:
        self.made_for = endpoint, region, limits


@pytest.fixture(autouse=True)
def _as_in_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    """No module but crt's is a reason, and the machine's proxies and bundles are not set."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "requests_ca_bundle"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    while (reason := of_modules(sys.modules)) is not None:
        monkeypatch.delitem(sys.modules, reason.removesuffix(" is loaded"))
    crt = ModuleType("lambda_once.dynamodb.crt")
    crt.CrtClient = Crt  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lambda_once.dynamodb.crt", crt)


def _prepared(transport: Transport) -> object:
    transport.prepare()
    return transport._client


def test_the_prepared_client_is_the_one_that_is_used() -> None:
    """Preparing twice makes one."""
    transport = Transport("crt")
    client = _prepared(transport)
    assert isinstance(client, Crt)
    assert _prepared(transport) is client
    assert transport._connected() is client


CHANGES: dict[str, Mapping[str, str]] = {
    "credentials": {"AWS_SESSION_TOKEN": "another"},
    "region": {"AWS_DEFAULT_REGION": "eu-west-1"},
    "endpoint": {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:1"},
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kind", ["crt", ""])
def test_it_is_made_again_for_other_surroundings(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    """As after a restored snapshot; from its first use on a client stays."""
    transport = Transport(kind)
    client = _prepared(transport)
    for variable, value in CHANGES[name].items():
        monkeypatch.setenv(variable, value)
    used = transport._connected()
    assert used is not client
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert transport._connected() is used


def test_it_is_made_again_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket is not shared with a forked child."""
    transport = Transport("crt")
    client = _prepared(transport)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert transport._connected() is not client


def test_a_tracing_library_that_is_loaded_later_sees_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing order does not matter: it is detected at first use. One line says why."""
    lines: list[str] = []
    transport = Transport("crt", declined=lines.append)
    assert isinstance(_prepared(transport), Crt)
    monkeypatch.setitem(sys.modules, "ddtrace", ModuleType("ddtrace"))
    assert not isinstance(transport._connected(), Crt)
    assert lines == ["boto3's client is used instead of crt's: ddtrace is loaded"]


def test_a_tracing_library_that_is_loaded_later_costs_boto3s_client_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It patches botocore's classes, and so the client that there is."""
    transport = Transport("")
    client = _prepared(transport)
    monkeypatch.setitem(sys.modules, "ddtrace", ModuleType("ddtrace"))
    assert transport._connected() is client


def test_the_variable_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all transports that were given no client."""
    monkeypatch.setenv("LAMBDA_ONCE_CLIENT", "crt")
    assert isinstance(Transport()._connected(), Crt)
    assert not isinstance(Transport("")._connected(), Crt)
    given = object()
    assert Transport(given)._connected() is given


def test_what_fails_is_raised_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preparing keeps nothing of a failure: the first use raises it, or works by then."""
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    transport = Transport()
    with pytest.raises(NoRegionError):
        transport.prepare()
    with pytest.raises(NoRegionError):
        transport._connected()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert transport._connected() is not None


def test_what_crts_client_is_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS' own endpoint or the one of the environment, with the limits of boto3's client."""
    limits = {"connect": 1.0, "answer": 3.0, "connections": 10}
    made: Any = Transport("crt")._connected()
    assert made.made_for == ("https://dynamodb.eu-central-1.amazonaws.com", "eu-central-1", limits)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1")
    made = Transport("crt")._connected()
    assert made.made_for == ("http://127.0.0.1:1", "eu-central-1", limits)


def test_crt_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what to install; boto3's client would hide that the choice has no effect."""
    monkeypatch.delitem(sys.modules, "lambda_once.dynamodb.crt")
    monkeypatch.setitem(sys.modules, "awscrt", None)
    monkeypatch.setattr(sys, "meta_path", [_Without(), *sys.meta_path])
    with pytest.raises(NoClient, match=r"^client=crt needs awscrt: pip install 'lambda-once\[crt\]'$"):
        Transport("crt")._connected()


class _Without:
    """Finds crt's module as where awscrt is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "lambda_once.dynamodb.crt":
            raise ModuleNotFoundError("No module named 'awscrt.io'", name="awscrt.io")


def test_a_default_session_that_is_set_up_later_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that was prepared from another one is made again; once it was used it stays."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    transport = Transport()
    client = _prepared(transport)
    boto3.client("sts")  # of the same session
    assert transport._connected() is client
    transport = Transport()
    client = _prepared(transport)
    boto3.setup_default_session(region_name="eu-west-1")
    made: Any = transport._connected()
    assert made is not client
    assert made.meta.region_name == "eu-west-1"
