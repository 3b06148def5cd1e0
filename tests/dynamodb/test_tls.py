"""Which certificates a connection trusts: Amazon's roots first, all of them where these do not do."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from ssl import PEM_cert_to_DER_cert, SSLContext
from typing import Any

import pytest
from botocore import httpsession
from botocore.exceptions import SSLError

from lambda_once.dynamodb import tls
from lambda_once.dynamodb.lean import LeanClient
from lambda_once.dynamodb.pool import Endpoint
from lambda_once.dynamodb.tls import AMAZON, Certificates, bundle_of
from tests.kit.host import serving, standing_for_aws
from tests.kit.tls import Authority

REGION = "eu-central-1"
NAME = f"dynamodb.{REGION}.amazonaws.com"
KEY = {"lockToken": {"S": "t"}}
ENVIRON = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "geheim"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority that nobody trusts yet."""
    return Authority(tmp_path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read, in its order: "amazon" and "all"."""
    noted: list[str] = []
    for name, function in (("amazon", "_amazons"), ("all", "_trusting")):
        _noting(monkeypatch, noted, name, function)
    return noted


def _noting(patch: pytest.MonkeyPatch, noted: list[str], name: str, function: str) -> None:
    reads = getattr(tls, function)

    def noting(*given: Any) -> Any:
        noted.append(name)
        return reads(*given)

    patch.setattr(tls, function, noting)


def usual(patch: pytest.MonkeyPatch, folder: Path, authority: Authority, *, is_amazons: bool) -> None:
    """Let the usual bundle have *authority*, as one of Amazon's or as another one, beside Amazon's own."""
    own = authority.bundle.read_text()
    label = "Amazon Root CA 9" if is_amazons else "Example Root"
    file = folder / "usual.pem"
    botocores = Path(httpsession.DEFAULT_CA_BUNDLE).read_text("utf-8")
    file.write_text(f'{botocores}\n# Issuer: CN=x\n# Label: "{label}"\n# Serial: 1\n{own}', "utf-8")
    patch.setattr(tls, "_usual", lambda: str(file))
    if is_amazons:
        patch.setattr(tls, "AMAZON", AMAZON | {sha256(PEM_cert_to_DER_cert(own)).hexdigest()})


@contextmanager
def client(context: SSLContext, environ: dict[str, str] | None = None) -> Iterator[LeanClient]:
    """Make a client of AWS' host, which *context* answers for."""
    with serving(context=context) as host, standing_for_aws(host):
        lean = LeanClient(
            Endpoint(f"https://{NAME}", REGION), ENVIRON | (environ or {}), connect=1, answer=3, connections=2
        )
        try:
            yield lean
        finally:
            lean.close()


def ask(lean: LeanClient) -> object:
    """Send a request."""
    return lean.get_item(TableName="t", Key=KEY).get("Item")


def test_amazons_roots_are_botocores() -> None:
    """Each is in botocore's own bundle, and they alone are trusted."""
    certificates = Certificates(None)
    context = certificates.first_for(NAME)
    assert context is not certificates.all()
    shown = {sha256(each).hexdigest() for each in context.get_ca_certs(binary_form=True)}
    assert shown == AMAZON


def test_amazons_roots_do(
    authority: Authority, read: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is read."""
    usual(monkeypatch, tmp_path, authority, is_amazons=True)
    with client(authority.server(NAME)) as lean:
        ask(lean)
    assert read == ["amazon"]


def test_another_chain_is_tried_with_all(
    authority: Authority, read: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, by a second connection; later connections trust all from the start."""
    usual(monkeypatch, tmp_path, authority, is_amazons=False)
    with client(authority.server(NAME)) as lean:
        ask(lean)
        lean.close()
        ask(lean)
    assert read == ["amazon", "all"]


def test_an_unknown_chain_is_refused(authority: Authority, read: list[str]) -> None:
    """By both; the error is botocore's."""
    with client(authority.server(NAME)) as lean, pytest.raises(SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(lean)
    assert read == ["amazon", "all"]


def test_a_certificate_of_another_host_is_refused(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever issued it."""
    usual(monkeypatch, tmp_path, authority, is_amazons=False)
    with client(authority.server("elsewhere.example")) as lean, pytest.raises(SSLError, match="mismatch"):
        ask(lean)


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_a_named_bundle_is_all(authority: Authority, read: list[str], variable: str) -> None:
    """Amazon's roots are not tried: whoever names a bundle trusts that."""
    with client(authority.server(NAME), {variable: str(authority.bundle)}) as lean:
        ask(lean)
    assert read == ["all"]


def test_which_bundle_is_named() -> None:
    """AWS' variable goes first, as with botocore."""
    assert bundle_of({}) is None
    assert bundle_of({"AWS_CA_BUNDLE": "a", "REQUESTS_CA_BUNDLE": "r"}) == "a"


def test_several_threads_at_once(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of their first connections falls back."""
    usual(monkeypatch, tmp_path, authority, is_amazons=False)
    with client(authority.server(NAME)) as lean, ThreadPoolExecutor(6) as threads:
        assert list(threads.map(lambda _: ask(lean), range(6))) == [None] * 6


@pytest.mark.parametrize(
    ("host", "is_first"),
    [
        (NAME, True),
        (f"dynamodb.{REGION}.api.aws", True),
        (f"123456789012.ddb.{REGION}.amazonaws.com", True),
        ("dynamodb-fips.us-east-1.amazonaws.com", True),
        ("dynamodb.us-gov-west-1.amazonaws.com", False),
        ("dynamodb.us-gov-west-1.api.aws", False),
        ("dynamodb.cn-north-1.amazonaws.com.cn", False),
        ("dynamodb.us-iso-east-1.c2s.ic.gov", False),
        ("amazonaws.com.example", False),
        ("localhost", False),
    ],
)
def test_hosts_of_the_standard_partition(host: str, is_first: bool) -> None:
    """Elsewhere all certificates are trusted from the start."""
    certificates = Certificates(None)
    assert (certificates.first_for(host) is not certificates.all()) is is_first


@pytest.mark.parametrize("content", ["", "no certificate", "lacks one"])
def test_a_usual_bundle_that_is_not_as_expected(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    """It is trusted whole: whoever packs botocore anew may have packed it with another bundle."""
    file = tmp_path / "usual.pem"
    whole = Path(httpsession.DEFAULT_CA_BUNDLE).read_text("utf-8")
    file.write_text(whole.replace('"Amazon Root CA 3"', '"Another"') if content == "lacks one" else content)
    monkeypatch.setattr(tls, "_usual", lambda: str(file))
    monkeypatch.setattr(tls, "_trusting", lambda bundle: bundle)
    trusted: object = Certificates(None).first_for(NAME)
    assert trusted == str(file)
    assert read == ["amazon"]


def test_the_usual_bundle_is_botocores() -> None:
    """The file that botocore itself would read."""
    assert tls._usual() == httpsession.get_cert_path(True)
