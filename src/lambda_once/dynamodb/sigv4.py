"""
Signature Version 4 for requests to DynamoDB.

Source: IAM user guide, "Create a signed AWS API request". Pure: the time is an argument.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SERVICE: Final = "dynamodb"
CONTENT_TYPE: Final = "application/x-amz-json-1.0"
_UNSENDABLE: Final = re.compile(r"[^!-~]")


class Credentials(NamedTuple):
    """Static credentials. The repr does not show them."""

    key_id: str
    secret: str
    token: str | None

    def __repr__(self) -> str:
        return "Credentials(…)"

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Credentials | None:
        """Read the variables that Lambda sets. None where they are missing, or not usable."""
        names = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
        return cls.usable(*[environ.get(name) for name in names])

    @classmethod
    def usable(cls, key_id: str | None, secret: str | None, token: str | None) -> Credentials | None:
        """Return the credentials. None where the id or the secret is missing, or a header cannot have one."""
        token = token or None
        if not (key_id and secret) or _UNSENDABLE.search(f"{key_id}{token}"):
            return None
        return cls(key_id, secret, token)


def canonical_request(method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[str, str]:
    """Return the canonical request and its SignedHeaders. *headers* has names in lower case; no query."""
    names = sorted(headers)
    signed = ";".join(names)
    lines = "".join([f"{name}:{' '.join(headers[name].split())}\n" for name in names])
    return f"{method}\n{path}\n\n{lines}\n{signed}\n{sha256(body).hexdigest()}", signed


def signing_key(secret: str, date: str, region: str, service: str = SERVICE) -> bytes:
    """Return the key that signs all requests of *date* (``YYYYMMDD``, UTC)."""
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def signature(key: bytes, stamp: str, scope: str, request: str) -> str:
    """Return the signature in hex of the canonical request whose SHA-256 in hex is *request*."""
    text = f"{ALGORITHM}\n{stamp}\n{scope}\n{request}"
    return hmac.digest(key, text.encode(), "sha256").hex()


def target_of(operation: str) -> str:
    """Return the header that names *operation*."""
    return f"DynamoDB_20120810.{operation}"


class _Second(NamedTuple):
    """The common part of requests that are signed in the same second. Its repr shows nothing."""

    at: datetime
    headers: dict[str, str]
    key: bytes
    scope: str
    begin: Any
    """SHA-256 of the canonical request before the operation."""
    end: str
    """The canonical request between the operation and the hash of the body."""
    authorization: str
    """The header before the signature."""

    def __repr__(self) -> str:
        return "_Second(…)"


class Signer:
    """Signs the requests to one host with one set of credentials. Safe from several threads."""

    def __init__(self, credentials: Credentials, region: str, host: str, path: str = "/") -> None:
        self.credentials = credentials
        self._region = region
        self._host = host
        self._path = path
        self._key = ("", b"")
        """The day's signing key, after its date. Replaced as a whole, since threads share it."""
        self._second: _Second | None = None
        """Replaced as a whole, too."""

    def headers(self, operation: str, body: bytes, now: datetime) -> dict[str, str]:
        """Return the headers of a POST of *body* for *operation*, signed at *now*."""
        second = self._second
        if second is None or second.at != now.replace(microsecond=0):
            second = self._second = self._prepared(now.replace(microsecond=0))
        request = second.begin.copy()
        request.update(f"{operation}{second.end}{sha256(body).hexdigest()}".encode())
        stamp = second.headers["x-amz-date"]
        signed = signature(second.key, stamp, second.scope, request.hexdigest())
        return {
            **second.headers,
            "x-amz-target": target_of(operation),
            "authorization": f"{second.authorization}{signed}",
        }

    def _prepared(self, at: datetime) -> _Second:
        stamp = f"{at:%Y%m%dT%H%M%SZ}"  # the date of the scope is part of it, across midnight too
        date = stamp[:8]
        signed_on, key = self._key
        if signed_on != date:
            key = signing_key(self.credentials.secret, date, self._region)
            self._key = (date, key)
        headers = {"content-type": CONTENT_TYPE, "host": self._host, "x-amz-date": stamp}
        if self.credentials.token is not None:
            headers["x-amz-security-token"] = self.credentials.token
        # The target is the last header: what varies, it and the body's hash, comes at the end.
        whole, names = canonical_request("POST", self._path, headers | {"x-amz-target": target_of("")}, b"")
        end = f"\n\n{names}\n"
        begin = whole[: whole.rindex(end)]
        scope = f"{date}/{self._region}/{SERVICE}/aws4_request"
        authorization = (
            f"{ALGORITHM} Credential={self.credentials.key_id}/{scope}, SignedHeaders={names}, Signature="
        )
        return _Second(at, headers, key, scope, sha256(begin.encode()), end, authorization)
