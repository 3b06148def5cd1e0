"""Which client a transport makes, when, and for what it is made again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import ModuleType

import pytest
from botocore.exceptions import NoRegionError

from lambda_once.dynamodb.client import of_modules
from lambda_once.dynamodb.lean import LeanClient
from lambda_once.dynamodb.transport import Transport


@pytest.fixture(autouse=True)
def _as_in_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither moto nor a tracing library is loaded, and the machine's proxies and bundles are not set."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "requests_ca_bundle"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    while (reason := of_modules(sys.modules)) is not None:
        monkeypatch.delitem(sys.modules, reason.removesuffix(" is loaded"))


def _prepared(transport: Transport) -> object:
    transport.prepare()
    return transport._client


def test_the_prepared_client_is_the_one_that_is_used() -> None:
    """Preparing twice makes one."""
    transport = Transport("lean")
    client = _prepared(transport)
    assert isinstance(client, LeanClient)
    assert _prepared(transport) is client
    assert transport._connected() is client


CHANGES: dict[str, Mapping[str, str]] = {
    "credentials": {"AWS_SESSION_TOKEN": "another"},
    "region": {"AWS_DEFAULT_REGION": "eu-west-1"},
    "endpoint": {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:1"},
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kind", ["lean", "botocore"])
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
    transport = Transport("lean")
    client = _prepared(transport)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert transport._connected() is not client


def test_a_tracing_library_that_is_loaded_later_sees_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing order does not matter: it is detected at first use. One line says why."""
    lines: list[str] = []
    transport = Transport("lean", declined=lines.append)
    assert isinstance(_prepared(transport), LeanClient)
    monkeypatch.setitem(sys.modules, "ddtrace", ModuleType("ddtrace"))
    assert not isinstance(transport._connected(), LeanClient)
    assert lines == ["boto3's client is used instead of the lean one: ddtrace is loaded"]


def test_a_tracing_library_that_is_loaded_later_costs_botocores_client_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It patches botocore's classes, and so the client that there is."""
    transport = Transport("botocore")
    client = _prepared(transport)
    monkeypatch.setitem(sys.modules, "ddtrace", ModuleType("ddtrace"))
    assert transport._connected() is client


def test_the_variable_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all transports that were given no client."""
    monkeypatch.setenv("LAMBDA_ONCE_CLIENT", "lean")
    assert isinstance(Transport()._connected(), LeanClient)
    assert not isinstance(Transport("botocore")._connected(), LeanClient)
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
