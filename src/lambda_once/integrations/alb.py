"""
The user whom an Application Load Balancer has authenticated, verified: `alb_user`, for ``caller=``.

Theory of operation. The load balancer sends the claims of its user in the header x-amzn-oidc-data, a JWT that
it signs anew for each request (ELB user guide, "Authenticate users": ES256, padded base64, the region's keys
by their ids). A duplicate is answered before any handler runs, so the JWT is verified here, what costs least
first: a forged one seldom reaches the key server, and then at a limited rate.

    one value, of three parts and 16 KB at most          else 400
    header: ES256, our signer, not expired, kid a UUID   else 400
    the key of kid, remembered or fetched                unknown to the server 400; no answer 503
    signature, then iss and sub, not expired             else 400

A key that has verified a signature is remembered for a day. Requests with other key ids cause at most
`MOST_FETCHES` fetches a minute, and may delay a new key until the next minute. Only the name of the check
that failed is logged.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn
from urllib.parse import SplitResult, urlsplit

from lambda_once.core.clock import INVOCATION_DEADLINE, Deadline, SystemClock
from lambda_once.dynamodb.client import forget_in_child
from lambda_once.dynamodb.tls import Certificates, bundle_of
from lambda_once.dynamodb.transport import in_thread
from lambda_once.errors import CallerUnverified, Misconfigured
from lambda_once.sources.api_gateway import header_values
from lambda_once.sources.caller import OIDC_DATA, base64url, oidc_data
from lambda_once.sources.unit import MalformedRequest

if TYPE_CHECKING:
    from jwt.algorithms import Algorithm

LONGEST: Final = 16 * 1024
"""Characters of the header: a load balancer takes header lines of 16 KB (ELB user guide, quotas)."""
LARGEST_KEY: Final = 4 * 1024
"""Bytes of a key in PEM; one of P-256 has 178."""
MOST_KEYS: Final = 16
KEPT: Final = timedelta(days=1)
"""How long a key is remembered, so that a withdrawn one is not trusted for the life of an environment."""
MOST_FETCHES: Final = 10
"""Requests to the key server within a minute."""
ANSWER: Final = 2.0
"""Seconds in which a key is there, or the client gets 503."""

_ALGORITHM: Final = "ES256"
_FORM: Final = "is not a JWT of a load balancer"
_MINUTE: Final = timedelta(minutes=1)
_ARN: Final = re.compile(
    r"arn:(aws[a-z-]*):elasticloadbalancing:([a-z0-9-]+):[0-9]{12}:loadbalancer/app/[A-Za-z0-9-]+/[0-9a-z]+"
)
_ADDRESS: Final = re.compile(r"https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")
_KID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# ELB user guide, "User claims encoding and signature verification". It has no address for other partitions.
_KEYS: Final = {
    "aws": "https://public-keys.auth.elb.{region}.amazonaws.com",
    "aws-us-gov": "https://s3-{region}.amazonaws.com/aws-elb-public-keys-prod-{region}",
}
_PASSING: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


def alb_user(*, signer: str, keys: str | None = None) -> Callable[[Mapping[str, Any]], dict[str, str]]:
    """
    Return a function for ``caller=``: of an event, the verified user of the load balancer *signer*.

    *signer*: the ARN of the Application Load Balancer. *keys*: the https address under which its public keys
    are, by default that of its region; outside of AWS' standard and GovCloud partitions there is none.

    The function returns ``iss`` and ``sub``. It raises `MalformedRequest`, a 400, for a request without the
    header and for a header that is forged, expired, or another load balancer's; `CallerUnverified`, a 503,
    where the key server does not respond. Raises `Misconfigured` for invalid arguments, and without PyJWT.
    """
    found = _ARN.fullmatch(str(signer))
    if found is None:
        raise Misconfigured(
            f"signer={signer!r} is not the ARN of an Application Load Balancer: "
            "arn:aws:elasticloadbalancing:REGION:ACCOUNT:loadbalancer/app/NAME/ID"
        )
    address = _address_of(found[1], found[2]) if keys is None else keys
    if not _ADDRESS.fullmatch(str(address)):
        raise Misconfigured(f"keys={address!r} must be an https address: a host, and a path or none")
    return _Verifier(signer, _Keys(urlsplit(address), _es256()))


def _address_of(partition: str, region: str) -> str:
    if partition not in _KEYS:
        raise Misconfigured(
            f"AWS documents no address of the keys in partition {partition}: pass keys=, an https address"
        )
    return _KEYS[partition].format(region=region)


def _es256() -> Algorithm:
    try:
        from jwt import get_algorithm_by_name

        return get_algorithm_by_name(_ALGORITHM)
    except (ImportError, NotImplementedError) as error:  # the second: PyJWT without cryptography
        raise Misconfigured("alb_user needs PyJWT[crypto]: pip install 'lambda-once[alb]'") from error


class _Verifier:
    """Verifies the users of one load balancer. Safe from several threads."""

    def __init__(self, signer: str, keys: _Keys) -> None:
        self._signer = signer
        self._keys = keys

    def __repr__(self) -> str:
        return f"alb_user(signer={self._signer!r})"

    def __call__(self, event: Mapping[str, Any]) -> dict[str, str]:
        data = oidc_data(header_values(event))
        if not data:
            _refuse("is missing")
        deadline = INVOCATION_DEADLINE.get() or Deadline(SystemClock(), datetime.max.replace(tzinfo=UTC))
        now = deadline.clock.now().timestamp()
        jwt = _Jwt.of(data)
        if jwt.header.get("signer") != self._signer:
            _refuse("was signed by another load balancer")
        _check_time(jwt.header, now)
        if not self._keys.have_signed(jwt, deadline):
            _refuse("has a wrong signature")
        claims = _object(jwt.claims)
        if "exp" in claims:
            _check_time(claims, now)
        return _named(jwt.header, claims)


class _Jwt(NamedTuple):
    """A JWT of a load balancer, by its form; nothing of it is verified."""

    header: dict[str, Any]
    kid: str
    claims: str
    """Still encoded."""
    signed: bytes
    """What the signature is over: the text itself, with its padding."""
    signature: bytes

    @classmethod
    def of(cls, data: str) -> _Jwt:
        """Return *data* in its parts. Raises `MalformedRequest`."""
        parts = data.split(".") if len(data) <= LONGEST and data.isascii() else []
        if len(parts) != len(("header", "claims", "signature")):
            _refuse(_FORM)
        head, claims, signature = parts
        header = _object(head)
        kid = header.get("kid")
        if header.get("alg") != _ALGORITHM or "crit" in header or not isinstance(kid, str):
            _refuse(_FORM)
        if not _KID.fullmatch(kid):  # it becomes a part of an address
            _refuse(_FORM)
        return cls(header, kid, claims, f"{head}.{claims}".encode(), _decoded(signature))


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(_decoded(part))
    except (ValueError, RecursionError):  # also of UTF-8
        _refuse(_FORM)
    if not isinstance(found, dict):
        _refuse(_FORM)
    return found


def _decoded(part: str) -> bytes:
    try:
        return base64url(part)
    except ValueError:
        _refuse(_FORM)


def _check_time(part: Mapping[str, Any], now: float) -> None:
    until = part.get("exp")
    if not isinstance(until, int | float) or not until > now:  # not: NaN is later than nothing
        _refuse("has expired")


def _named(header: Mapping[str, Any], claims: Mapping[str, Any]) -> dict[str, str]:
    issuer, subject = claims.get("iss") or header.get("iss"), claims.get("sub")
    if not (isinstance(issuer, str) and issuer and isinstance(subject, str) and subject):
        _refuse("names no user")
    return {"iss": issuer, "sub": subject}


def _refuse(what: str) -> NoReturn:
    raise MalformedRequest(f"The header {OIDC_DATA} {what}.")


# ------------------------------------------------------------------ keys


class _Known(NamedTuple):
    key: Any
    until: datetime


_Asking = Future[tuple[int, bytes]]
"""A request to the key server, which is awaited by all that need its key."""


class _Keys:
    """The public keys under *address*. Safe from several threads, which await one request for one key."""

    def __init__(self, address: SplitResult, algorithm: Algorithm) -> None:
        self._address = address
        self._algorithm = algorithm
        self._certificates = Certificates(bundle_of(os.environ))
        self._known: dict[str, _Known] = {}
        self._asked: deque[datetime] = deque(maxlen=MOST_FETCHES)
        self._forget()
        forget_in_child(self)

    def _forget(self) -> None:
        """Leave requests under way to the process that this one was forked from: threads are not forked."""
        self._asking: dict[str, _Asking] = {}
        self._lock = threading.Lock()

    def have_signed(self, jwt: _Jwt, deadline: Deadline) -> bool:
        """
        Return whether the key of *jwt* has signed it.

        Raises `MalformedRequest` for a key that the server does not have, `CallerUnverified` without one.
        """
        now = deadline.clock.now()
        found = self._found(jwt.kid, now)
        if isinstance(found, _Known):
            return self._algorithm.verify(jwt.signed, found.key, jwt.signature)
        try:
            key = self._key_in(*_awaited(found, deadline))
            has_signed = self._algorithm.verify(jwt.signed, key, jwt.signature)
            if has_signed:  # the server has the keys of others, too: none of those takes the place of ours
                self._remember(jwt.kid, _Known(key, now + KEPT))
        finally:
            self._is_answered(jwt.kid, found)
        return has_signed

    def _found(self, kid: str, now: datetime) -> _Known | _Asking:
        """Return the key, or the request for it that is under way; it ends once the key is remembered."""
        try:
            with self._lock:
                known = self._known.get(kid)
                if known is not None and known.until > now:
                    return known
                if kid not in self._asking:
                    self._count(now)
                    self._asking[kid] = in_thread(partial(self._get, kid))
                return self._asking[kid]
        except RuntimeError as error:
            raise _unverified("no thread can be started") from error

    def _is_answered(self, kid: str, asking: _Asking) -> None:
        with self._lock:
            if self._asking.get(kid) is asking:
                del self._asking[kid]

    def _remember(self, kid: str, known: _Known) -> None:
        with self._lock:
            others = [each for each in self._known.items() if each[0] != kid]
            self._known = dict([*others, (kid, known)][-MOST_KEYS:])

    def _key_in(self, status: int, body: bytes) -> Any:
        if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _PASSING:
            _refuse("was signed with an unknown key")  # S3 answers 403 for what is not there
        if status != HTTPStatus.OK or len(body) > LARGEST_KEY:
            raise _unverified(f"the server responded with status {status} and {len(body)} bytes")
        try:
            return self._algorithm.prepare_key(body)
        except Exception as error:
            raise _unverified("the response is no public key of P-256") from error

    def _count(self, now: datetime) -> None:
        """Raise `CallerUnverified` if the requests of this minute are used up."""
        if len(self._asked) == MOST_FETCHES and abs(now - self._asked[0]) < _MINUTE:
            raise _unverified(f"there were {MOST_FETCHES} requests within a minute", _MINUTE.total_seconds())
        self._asked.append(now)

    def _get(self, kid: str) -> tuple[int, bytes]:
        at = self._address
        context = self._certificates.all()
        with closing(
            HTTPSConnection(at.hostname or "", at.port, timeout=ANSWER, context=context)
        ) as connection:
            connection.request("GET", f"{at.path.rstrip('/')}/{kid}")
            response = connection.getresponse()
            return response.status, response.read(LARGEST_KEY + 1)


def _awaited(asking: _Asking, deadline: Deadline) -> tuple[int, bytes]:
    """Return status and body. Of a thread: nothing else bounds the look-up of a name, or slow bytes."""
    seconds = min(ANSWER, deadline.before_final())
    try:
        return asking.result(seconds)
    except (OSError, HTTPException) as error:
        raise _unverified(f"{type(error).__name__} within {seconds:.1f} s") from error


def _unverified(reason: str, retry_after: float | None = None) -> CallerUnverified:
    return CallerUnverified(
        f"no key of the load balancer: {reason}; the function must reach the address of its keys",
        retry_after=retry_after,
    )
