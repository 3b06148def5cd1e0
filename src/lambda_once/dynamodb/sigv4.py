"""
Signature Version 4 for requests to DynamoDB.

Source: IAM user guide, "Create a signed AWS API request". Pure: the time is an argument.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SERVICE: Final = "dynamodb"
CONTENT_TYPE: Final = "application/x-amz-json-1.0"
_UNSENDABLE: Final = re.compile(r"[^!-~]")


class Credentials(NamedTuple):
    """Static credentials. Their repr shows nothing of them."""

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
    """Return the signature of the canonical *request* in hex, 64 characters."""
    text = f"{ALGORITHM}\n{stamp}\n{scope}\n{sha256(request.encode()).hexdigest()}"
    return hmac.digest(key, text.encode(), "sha256").hex()


def target_of(operation: str) -> str:
    """Return the header that names *operation*."""
    return f"DynamoDB_20120810.{operation}"


class Signer:
    """Signs the requests to one host with one set of credentials. Safe from several threads."""

    def __init__(self, credentials: Credentials, region: str, host: str, path: str = "/") -> None:
        self.credentials = credentials
        self._region = region
        self._host = host
        self._path = path
        self._key = ("", b"")
        """The day's signing key, after its date. Replaced as a whole, since threads share it."""

    def headers(self, operation: str, body: bytes, now: datetime) -> dict[str, str]:
        """Return the headers of a POST of *body* for *operation*, signed at *now*."""
        stamp = f"{now:%Y%m%dT%H%M%SZ}"  # the date of the scope is part of it, across midnight too
        date = stamp[:8]
        signed_on, key = self._key
        if signed_on != date:
            key = signing_key(self.credentials.secret, date, self._region)
            self._key = (date, key)
        headers = {
            "content-type": CONTENT_TYPE,
            "host": self._host,
            "x-amz-date": stamp,
            "x-amz-target": target_of(operation),
        }
        if self.credentials.token is not None:
            headers["x-amz-security-token"] = self.credentials.token
        request, names = canonical_request("POST", self._path, headers, body)
        scope = f"{date}/{self._region}/{SERVICE}/aws4_request"
        headers["authorization"] = (
            f"{ALGORITHM} Credential={self.credentials.key_id}/{scope}, SignedHeaders={names}, "
            f"Signature={signature(key, stamp, scope, request)}"
        )
        return headers
