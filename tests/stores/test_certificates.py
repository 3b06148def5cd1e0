"""A bundle of certificates that cannot be read is the developer's mistake, with each client."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from botocore.exceptions import SSLError

from lambda_once import Misconfigured, StoreUnavailable
from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.dynamodb import errors
from lambda_once.stores.store import DynamoDBStore
from tests.dynamodb.scripted import answer
from tests.kit import tables
from tests.kit.host import Request, serving
from tests.kit.tls import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One for all: keys take a while."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's."""
    for name in os.environ:
        if name.lower().endswith("_proxy") or name.endswith("CA_BUNDLE"):
            monkeypatch.delenv(name)


def _written(content: str) -> Callable[[Path, Authority], None]:
    def write(bundle: Path, _: Authority) -> None:
        bundle.write_text(content)

    return write


def _half(bundle: Path, authority: Authority) -> None:
    whole = authority.bundle.read_text()
    bundle.write_text(whole[: len(whole) // 2])


UNREADABLE: Final[dict[str, Callable[[Path, Authority], None]]] = {
    "missing": lambda _bundle, _authority: None,
    "a folder": lambda bundle, _: bundle.mkdir(),
    "empty": _written(""),
    "no certificate": _written("hello"),
    "a broken certificate": _written("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    "half a certificate": _half,
}


def _nothing(_: Request) -> bytes:
    return answer({})


def _read(name: str, authority: Authority, bundle: Path, patch: pytest.MonkeyPatch) -> tuple[Any, int]:
    """Read a token with client *name*; return the row, or the error, and how many requests came."""
    patch.setenv("AWS_CA_BUNDLE", str(bundle))
    with serving(_nothing, authority.server("localhost")) as host:
        tables.session.cache_clear()
        with closing(tables.CLIENTS[name](f"https://localhost:{host.port}", 1)) as client:
            clock = SystemClock()
            deadline = Deadline(clock, clock.now() + timedelta(seconds=1))
            try:
                return DynamoDBStore("tokens", client).read("orders/charge/1", deadline), len(host.requests)
            except (Misconfigured, StoreUnavailable) as error:
                return error, len(host.requests)


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("name", tables.CLIENTS)
def test_a_bundle_that_cannot_be_read(
    authority: Authority, name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request says which file, and what to do; nothing is sent."""
    bundle = tmp_path / "bundle.pem"
    UNREADABLE[kind](bundle, authority)
    error, requests = _read(name, authority, bundle, monkeypatch)
    assert isinstance(error, Misconfigured)
    assert f"no certificates can be read from {bundle}; set AWS_CA_BUNDLE" in str(error)
    assert requests == 0


@pytest.mark.parametrize("name", tables.CLIENTS)
def test_a_bundle_that_can_be_read(authority: Authority, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is sent."""
    assert _read(name, authority, authority.bundle, monkeypatch) == (None, 1)


@pytest.mark.parametrize("name", tables.CLIENTS)
def test_a_server_that_is_not_trusted_is_an_outage(
    authority: Authority, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle can be read: the server's certificate may be right again later."""
    error, requests = _read(name, authority, Authority(tmp_path).bundle, monkeypatch)
    assert isinstance(error, StoreUnavailable)
    assert requests == 0


def test_a_bundle_that_may_not_be_read() -> None:
    """Root may read all, so this is by hand."""
    for reason, permanent in ((PermissionError(13, "no"), True), (ConnectionResetError(104, "no"), False)):
        error = SSLError(endpoint_url="https://localhost", error=OSError(reason))
        assert errors.is_without_certificates(error) is permanent
        assert errors.is_transient(error) is not permanent


@pytest.mark.parametrize("name", tables.CLIENTS)
def test_twin_that_takes_it_for_an_outage(
    authority: Authority, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the check the developer reads that it may help to wait, or what AWS' library says."""
    monkeypatch.setattr(errors, "is_without_certificates", lambda _: False)
    monkeypatch.setattr("lambda_once.stores.transport.is_without_certificates", lambda _: False)
    with pytest.raises(AssertionError):
        test_a_bundle_that_cannot_be_read(authority, name, "missing", tmp_path, monkeypatch)
