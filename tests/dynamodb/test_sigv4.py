"""Signatures are AWS': those of its published vectors, and botocore's for any request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.dynamodb.sigv4 import (
    ALGORITHM,
    Credentials,
    Signer,
    canonical_request,
    signature,
    signing_key,
)

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
STAMP = "20150830T123600Z"
HOST = {"host": "example.amazonaws.com", "x-amz-date": STAMP}
SESSION_TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGd"
    "QrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+"
    "scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)
VECTORS = {
    "get-vanilla": (
        ("GET", HOST, b""),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "post-vanilla": (
        ("POST", HOST, b""),
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    "post-x-www-form-urlencoded": (
        ("POST", HOST | {"content-type": "application/x-www-form-urlencoded"}, b"Param1=value1"),
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
    "get-header-value-trim": (
        ("GET", HOST | {"my-header1": " value1", "my-header2": '  "a   b   c"'}, b""),
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    "post-sts-header-before": (
        ("POST", HOST | {"x-amz-security-token": SESSION_TOKEN}, b""),
        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_the_published_vectors(name: str) -> None:
    """AWS' signature test suite (aws-sig-v4-test-suite, and the copies in its SDKs)."""
    (method, headers, body), wanted = VECTORS[name]
    request, _ = canonical_request(method, "/", headers, body)
    key = signing_key(SECRET, "20150830", "us-east-1", "service")
    hashed = sha256(request.encode()).hexdigest()
    assert signature(key, STAMP, "20150830/us-east-1/service/aws4_request", hashed) == wanted


TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)
TIMES = st.datetimes(timezones=st.just(UTC), min_value=datetime(2015, 1, 1), max_value=datetime(2050, 1, 1))  # noqa: DTZ001  (hypothesis adds it)


@given(
    key_id=TEXTS,
    secret=st.text(min_size=1, max_size=60).filter(lambda text: text.isprintable()),
    token=st.none() | TEXTS,
    body=st.binary(max_size=200) | st.text().map(str.encode),
    now=TIMES,
    region=st.sampled_from(["eu-central-1", "us-east-1", "mx-central-1"]),
    host=st.sampled_from(["dynamodb.eu-central-1.amazonaws.com", "127.0.0.1:8000"]),
)
def test_any_request_is_signed_as_botocore_does(
    key_id: str, secret: str, token: str | None, body: bytes, now: datetime, region: str, host: str
) -> None:
    """Session tokens, text beyond ASCII, and empty bodies included."""
    ours = Signer(Credentials(key_id, secret, token), region, host).headers("UpdateItem", body, now)
    auth = SigV4Auth(BotocoreCredentials(key_id, secret, token), "dynamodb", region)
    unsigned = {name: value for name, value in ours.items() if name not in ("authorization", "host")}
    theirs = AWSRequest("POST", f"https://{host}/", headers=unsigned, data=body)
    theirs.context["timestamp"] = ours["x-amz-date"]
    text = auth.string_to_sign(theirs, auth.canonical_request(theirs))
    assert ours["authorization"].endswith(f"Signature={auth.signature(text, theirs)}")
    assert ours["authorization"].startswith(f"{ALGORITHM} Credential={auth.scope(theirs)}, SignedHeaders=")


def test_across_midnight() -> None:
    """The date of the scope is that of X-Amz-Date, and the kept key is of that day."""
    signer = Signer(Credentials("id", "secret", None), "eu-central-1", "localhost")
    evening = datetime(2026, 11, 20, 23, 59, 59, 999_000, UTC)
    before = evening - timedelta(milliseconds=500)
    for now in (before, evening, evening + timedelta(milliseconds=1), evening):
        fresh = Signer(Credentials("id", "secret", None), "eu-central-1", "localhost")
        headers = signer.headers("GetItem", b"{}", now)
        assert headers == fresh.headers("GetItem", b"{}", now)
        assert f"/{headers['x-amz-date'][:8]}/" in headers["authorization"]


def test_credentials_are_not_shown() -> None:
    """Neither their own text nor that of what holds them has a part of them."""
    credentials = Credentials("AKIDEXAMPLE", "geheim", "token")
    assert repr(credentials) == "Credentials(…)"
    signer = Signer(credentials, "r", "h")
    signer.headers("GetItem", b"{}", datetime(2026, 11, 20, tzinfo=UTC))
    assert not any(part in str(vars(signer)) for part in credentials if part)


def test_requests_of_one_second_and_of_the_next() -> None:
    """Each is signed as if it were the first: nothing of one is left in another."""
    credentials, now = Credentials("id", "secret", "token"), datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
    signer = Signer(credentials, "eu-central-1", "localhost")
    for milliseconds in (0, 999, 999, 1_000, 5_000, 0):
        at = now + timedelta(milliseconds=milliseconds)
        for operation, body in (("GetItem", b"{}"), ("UpdateItem", b"[]"), ("GetItem", b"[]")):
            fresh = Signer(credentials, "eu-central-1", "localhost")
            assert signer.headers(operation, body, at) == fresh.headers(operation, body, at)


@pytest.mark.parametrize("missing", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_half_of_the_credentials_are_none(missing: str) -> None:
    """An empty session token is none, too."""
    environ = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": ""}
    assert Credentials.of(environ) == ("id", "secret", None)
    assert Credentials.of(environ | {missing: ""}) is None
