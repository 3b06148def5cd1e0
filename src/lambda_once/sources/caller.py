"""
The caller of an HTTP request: which names join the token, and what a duplicate must present again.

Theory of operation. A replay is answered before any check that the handler makes. So a stored response goes
only to the caller that it was made for (guarantee 9). The first rule that finds something names the caller:

    1  what the gateway verified       joins the token; nothing is compared, except:
       a Lambda authorizer's principal may be a constant, so the credential sent with it, or none, is compared
    2  a load balancer's user          joins; nothing proves it, so no response is returned
    3  the request's own credential    its stable name joins; the whole credential is compared (`Presented`)
    4  its cookies                     join if the request is keyed by hash; nothing is compared
    -  nothing                         joins nothing

If a Lambda authorizer has verified somebody without naming them, rule 3 applies to Authorization alone;
without that header nothing proves the caller, and no response is returned. A client certificate and the id of
an API key join under each rule: they name an application, not its user. An unverified name chooses a token
and never unlocks a response: it is hashed together with its origin, so that a forged claim never equals a
verified one. Pure: no I/O, no clock, and nothing here is logged.

What we're not happy with: rule 3 reads claims that nobody has verified. They choose a token, so a forged one
can occupy another caller's key, though it never gets the response.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from math import isnan
from typing import Final, Literal, NamedTuple

from lambda_once.core.canonical import NotCanonical, canonical, digest
from lambda_once.core.fields import LONGEST_NAME, printable
from lambda_once.core.identity import Presented, Who
from lambda_once.core.keys import is_nothing, labels_of, select, select_from
from lambda_once.core.objects import by_alias
from lambda_once.core.unit import BadRequest, MalformedRequest
from lambda_once.errors import CallerMissing, KeyMissing, Misconfigured
from lambda_once.sources.envelopes import at_each

Values = Mapping[str, tuple[str, ...]]
"""Every value of each header, by its name in lower case."""

LONGEST_JWT = 8 * 1024
"""Characters of a JWT that is read; a longer one is opaque. Gateways allow some 10 KB for all headers."""


class Origin(Enum):
    """What named a caller. It is hashed with the name: equal names of two origins are two callers."""

    JWT_AUTHORIZER = "jwt authorizer"
    IAM = "iam"
    LAMBDA_AUTHORIZER = "lambda authorizer"
    CERTIFICATE = "client certificate"
    API_KEY_ID = "api key id"
    LOAD_BALANCER = "x-amzn-oidc-data"
    CLAIMS = "jwt claims"
    BASIC = "basic user"
    AUTHORIZATION = "authorization"
    API_KEY = "x-api-key"
    COOKIES = "cookies"
    RESOLVER_CONTEXT = "resolverContext"
    CONNECTION = "connectionId"
    COGNITO_IDENTITY = "cognito identity"
    OPTION = "caller="


_APPLICATION: Final = frozenset({Origin.CERTIFICATE, Origin.API_KEY_ID, Origin.API_KEY, Origin.COOKIES})
"""Origins that identify an application or a browser, not reliably its user."""


_SHARED: Final = _APPLICATION - {Origin.COOKIES}
"""Origins that many users share, each with content of their own."""

_NOBODY: Final = (
    'the request names no caller, and unscoped= is "refuse": use an authorizer or caller=, '
    "or caller=False if everyone who sends the same key may get the response"
)

_UNSCOPED: Final = (
    "the request identifies no user, at most an application (API key, certificate, cookie): "
    "users who send the same key or content share a response; use an authorizer or caller=, "
    "or caller=False if that is intended"
)


class Name(NamedTuple):
    """A name that joins the token, and its origin."""

    origin: Origin
    parts: tuple[object, ...]

    def __repr__(self) -> str:
        """Show the origin alone: a name may be personal or a secret."""
        return f"<a name by {self.origin.value}>"


class Caller(NamedTuple):
    """The caller of a request, as far as it is known."""

    origins: tuple[Origin, ...]
    """The origins of all names, whether or not they join the token."""
    names: tuple[Name, ...]
    """The names that join the token, always as one SHA-256."""
    presented: Presented | None
    """The credential that a duplicate must present, too; None: nothing is compared."""

    @property
    def who(self) -> Who:
        """What joins the token, one SHA-256 or nothing, and what is compared."""
        joins = (digest([[name.origin.value, *name.parts] for name in self.names]),) if self.names else ()
        return Who(joins, self.presented)

    @property
    def is_unscoped(self) -> bool:
        """Whether nothing names the caller, or only an application does."""
        return _APPLICATION.issuperset(self.origins)

    @property
    def is_nobody(self) -> bool:
        """Whether nothing joins the token and no credential is compared, and that was not declared."""
        presented = None if self.presented is None else self.presented.credential
        return not self.names and presented is None and self is not NO_CALLER

    @property
    def joins_as_user(self) -> bool:
        """Whether a user or a browser joins the token, so that equal requests of others get another token."""
        return any(name.origin not in _SHARED for name in self.names)

    @property
    def is_unproven(self) -> bool:
        """Whether users differ and nothing proves which one sent the request: no response is returned."""
        return self.presented is not None and not self.presented.proof

    @property
    def advice(self) -> str | None:
        """What the developer can do about a refused duplicate, for the log."""
        return None if self.presented is None else self.presented.advice

    @property
    def refusal(self) -> str:
        """What the developer can do about a request that `is_nobody`, for the log."""
        return f"a response {self.advice}" if self.is_unproven else _NOBODY

    @property
    def warning(self) -> str | None:
        """Why users who send the same key are not distinguished, for the log; None: there is no reason to."""
        if self.is_unproven:
            return f"a response {self.advice}"
        return _UNSCOPED if self.is_unscoped else None


def _is_no_name(value: object) -> bool:
    """Whether *value* names nobody; 0 is somebody's number."""
    if isinstance(value, str | bytes):
        return _is_invisible(value if isinstance(value, str) else value.decode(errors="replace"))
    if isinstance(value, Decimal):
        return value.is_nan()
    return value is False or is_nothing(value) or (isinstance(value, float) and isnan(value))


_VISIBLE: Final = r"[!-~]"
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and a symbol that are drawn as nothing: fillers of Hangul, and Braille without dots."""


def _is_invisible(text: str) -> bool:
    """Whether *text* has only separators, controls, marks without a base, and blank letters and symbols."""
    if re.search(_VISIBLE, text):
        return False
    from unicodedata import category  # a large library, for names that are not ASCII

    return all(character in _BLANK or category(character)[0] in "CMZ" for character in text)


NO_CALLER: Final = Caller((Origin.OPTION,), (), None)
"""``caller=False``: callers are ignored."""


def given(selected: object, *, are_parts: bool = False) -> Caller:
    """
    Return the caller that ``caller=`` *selected*.

    *are_parts*: the elements of a list were put together as parts of a name, and each has to name somebody.
    Raises `CallerMissing` if it names nobody, `Misconfigured` for a value without canonical form.
    """
    parts: Iterable[object] = (selected,)
    if isinstance(selected, list | tuple | set | frozenset):
        parts = selected
    elif isinstance(selected, Mapping):
        parts = selected.values()
    nobody = [_is_no_name(part) for part in parts]
    if all(nobody) or (are_parts and isinstance(selected, list | tuple) and any(nobody)):
        raise CallerMissing(
            "the caller is missing: caller= selected null, false, NaN or text without a visible character"
        )
    try:
        canonical(selected)
    except NotCanonical as error:
        raise Misconfigured(f"caller= returned a value that is not JSON-serialisable: {error}") from None
    return Caller((Origin.OPTION,), (Name(Origin.OPTION, (selected,)),), None)


def by_option(
    selector: str | Callable[..., object] | Literal[False], event: object, context: object, view: object
) -> Caller:
    """
    Return the caller of *event* by ``caller=``: an expression, which sees *view*, or a function of two.

    Raises `CallerMissing` if that selects nothing, and as `given` does.
    """
    if selector is False:
        return NO_CALLER
    try:
        if isinstance(selector, str):
            return given(select(selector, view, "caller"), are_parts=bool(labels_of(selector)))
        return given(select_from(selector, (event, context), {}, "caller"), are_parts=True)
    except BadRequest:
        raise
    except KeyMissing as error:
        raise CallerMissing(str(error)) from None


_NAMELESS: Final = Caller((), (), Presented(None))
"""Of a request in which no rule finds anything."""


def caller_of(event: Mapping[str, object], headers: Values, *, hashed: bool) -> Caller:
    """
    Return the caller of *event*, an HTTP request with *headers*, by the rules above.

    *hashed*: the key is a hash of the request. An opaque credential joins the token only then: two users who
    send the same body are two pieces of work, but a refreshed credential must find the row of its
    Idempotency-Key.
    Raises `MalformedRequest` for two different values of Authorization or of the load balancer's user.
    """
    context = event.get("requestContext")
    key_id = _api_key_id(context)
    beside = [*_certificate(context, headers), *key_id]
    authorization = _authorization(headers)
    credential = authorization or (None if key_id else _api_key(headers))
    authorizer = context_of(context)
    if authorizer is not None and authorizer.principal is not None:
        return _of_authorizer(authorizer, beside, credential)
    verified = _verified(context)
    if verified is not None:
        return _of_verified(verified, beside, hashed=hashed)
    user = _of_load_balancer(context, headers)
    if user is not None:
        return _caller([*beside, user], _UNPROVEN_USER)
    unnamed = None if authorizer is None else authorizer.presented(authorization and authorization.whole)
    if credential is not None:
        joins = [*beside, credential.name] if hashed or not credential.opaque else beside
        return _caller([*beside, credential.name], unnamed or Presented(credential.whole), joins)
    cookies = _cookies(event, headers)
    if not (cookies or beside or unnamed):
        return _NAMELESS
    joins = [*beside, *cookies] if hashed else beside
    return _caller([*beside, *cookies], unnamed or Presented(None), joins)


def _of_authorizer(
    authorizer: AuthorizerContext, beside: Sequence[Name], credential: _Credential | None
) -> Caller:
    """
    Return the caller that *authorizer* names, with whose principal *credential* was sent.

    The principal is often a constant, so the credential distinguishes users, too. The name in a JWT joins,
    as the authorizer has checked it; any other credential is compared. So is its absence: the authorizer may
    let some users pass by a header of its own, and they aren't those who send a credential.
    """
    names = [*beside, Name(Origin.LAMBDA_AUTHORIZER, (authorizer.principal,))]
    if credential is None:
        return _caller(names, authorizer.presented(_NOTHING_BESIDE))
    all_names = [*names, credential.name]
    joins = names if credential.opaque else all_names
    is_checked = credential.name.origin is Origin.CLAIMS
    return _caller(all_names, None if is_checked else authorizer.presented(credential.whole), joins)


def _caller(
    names: Sequence[Name], presented: Presented | None = None, joins: Sequence[Name] | None = None
) -> Caller:
    """Return the caller of *names*, all of which join the token, unless *joins* has those that do."""
    return Caller(tuple(name.origin for name in names), tuple(names if joins is None else joins), presented)


def cookies_of(event: Mapping[str, object], headers: Values) -> Mapping[str, str]:
    """Return the cookies of *event* by name, the first of each; payload 2.0 has them beside the headers."""
    beside = event.get("cookies")
    if not beside and "cookie" not in headers:
        return {}
    texts = beside if isinstance(beside, list) else headers.get("cookie", ())
    cookies: dict[str, str] = {}
    for pair in ";".join(map(str, texts)).split(";"):
        name, _, content = pair.strip().partition("=")
        if name:
            cookies.setdefault(name, content)
    return cookies


def _cookies(event: Mapping[str, object], headers: Values) -> list[Name]:
    """Return all cookies as one name, except the load balancer's, which change with every response."""
    cookies = [pair for pair in cookies_of(event, headers).items() if not pair[0].startswith("AWSALB")]
    return [Name(Origin.COOKIES, tuple(sorted(cookies)))] if cookies else []


# ------------------------------------------------------------------ 1: what the gateway verified

_JWT: Final = (("authorizer", "jwt", "claims"), ("authorizer", "claims"))
"""HTTP API; REST API with Cognito, and HTTP API under payload 1.0."""

_IAM: Final = (
    ("authorizer", "iam", "cognitoIdentity", "identityId"),
    ("authorizer", "iam", "userArn"),
    ("identity", "cognitoIdentityId"),
    ("identity", "userArn"),
)


def _verified(context: object) -> Name | None:
    """Return the name that the gateway itself verified; it writes *context*, a client cannot."""
    if _member(context, "authorizer") is None and _member(context, "identity") is None:
        return None
    for claims in at_each(context, _JWT):
        name = _named_by(claims)
        if name is not None:
            return Name(Origin.JWT_AUTHORIZER, name)
    for principal in at_each(context, _IAM):
        if isinstance(principal, str) and principal:
            return Name(Origin.IAM, (principal,))
    return None


def _of_verified(verified: Name, beside: Sequence[Name] = (), *, hashed: bool = False) -> Caller:
    """
    Return the caller that IAM or an authorizer has *verified*. An assumed role has a new session each time.

    The session joins a hash; under a key it's compared, so no session gets the response to another one's.
    """
    role = role_in(verified.parts[0]) if verified.origin is Origin.IAM else None
    if role is None or hashed:
        return _caller([*beside, verified])
    whole = "\0".join((verified.origin.value, str(verified.parts[0])))
    return _caller([*beside, Name(Origin.IAM, (role,))], Presented(whole, advice=_OF_SESSION))


_OF_SESSION: Final = (
    "was acquired in another session of its role: if those who share the role may get each other's "
    "responses, pass caller=role_of"
)


_ASSUMED: Final = r"(arn:[^:]*:sts::[^:]*:assumed-role/[^/]+)/.*"


def role_in(arn: object) -> str | None:
    """Return the role in *arn* (IAM user guide, "IAM identifiers"), without its session; None if none is."""
    match = re.fullmatch(_ASSUMED, arn) if isinstance(arn, str) else None
    return None if match is None else match[1]


def role_of(event: object) -> str | None:
    """
    Return the IAM role or user that has signed *event*, a request of HTTP, AppSync or a WebSocket API.

    Of AppSync's batch it's the first one's. For ``caller=``: all sessions of a role are one caller, and its
    users share responses. None, which is `CallerMissing`, if IAM has verified nobody.
    """
    paths = (("requestContext", "authorizer", "iam", "userArn"), ("requestContext", "identity", "userArn"))
    first = event[0] if isinstance(event, list) and event else event
    sent = first if isinstance(first, Mapping) else by_alias(first)  # a parser may have made it
    for arn in at_each(sent, (*paths, ("identity", "userArn"))):
        if isinstance(arn, str) and arn:
            return role_in(arn) or arn
    return None


def of_identity(identity: object) -> Caller:
    """
    Return the caller by *identity*, what AppSync has verified (AppSync developer guide, "Identity").

    A Lambda authorizer's ``resolverContext`` may be new with each request, so it's compared (`_fresh`).
    """
    claims = _member(identity, "claims")
    issuer, subject = _member(identity, "issuer"), _member(identity, "sub")
    name = _named_by({"iss": issuer, "sub": subject}) or _named_by(claims)
    if name is not None:
        return _of_verified(Name(Origin.JWT_AUTHORIZER, name))
    principal = _text(identity, "cognitoIdentityId") or _text(identity, "userArn")
    if principal is not None:
        return _of_verified(Name(Origin.IAM, (principal,)))
    context = _member(identity, "resolverContext")
    if isinstance(context, Mapping) and context:
        return _fresh(Name(Origin.RESOLVER_CONTEXT, (context,)), "identity.resolverContext.userId")
    return _NAMELESS


def of_connection(context: object) -> Caller:
    """
    Return the caller of a WebSocket API's *context*: its authorizer's principal, or IAM's; or the connection.

    A connection is compared (`_fresh`): a client that reconnects has another one.
    """
    authorizer = context_of(context)
    if authorizer is not None and authorizer.principal is not None:
        return _caller([Name(Origin.LAMBDA_AUTHORIZER, (authorizer.principal,))])
    verified = _verified(context)
    if verified is not None:
        return _of_verified(verified)
    connection = Name(Origin.CONNECTION, (_member(context, "connectionId"),))
    return _fresh(connection, "requestContext.authorizer.userId")


def of_cognito(identity: object) -> Caller:
    """Return the caller by *identity*, Cognito's, which the mobile SDKs put into a Lambda context."""
    identity_id = getattr(identity, "cognito_identity_id", None)
    if not isinstance(identity_id, str) or not identity_id:
        return NO_CALLER
    return _caller([Name(Origin.COGNITO_IDENTITY, (identity_id,))])


def _fresh(name: Name, path: str) -> Caller:
    """Return the caller of *name*, which is compared, as the same user may come back with another one."""
    advice = f"was acquired by another {name.origin.value}: pass what names the user, such as caller={path!r}"
    presented = Presented("\0".join((name.origin.value, digest(list(name.parts)))), advice=advice)
    return _caller([name], presented, joins=())


def _api_key_id(context: object) -> list[Name]:
    """Return the id of the API key that API Gateway has checked; a rotated key has another id."""
    key_id = _text(_member(context, "identity"), "apiKeyId")
    return [] if key_id is None else [Name(Origin.API_KEY_ID, (key_id,))]


def _certificate(context: object, headers: Values) -> list[Name]:
    """Return issuer and subject of the client certificate; not its serial number, which a renewal changes."""
    if _member(context, "elb") is not None:
        names: list[object] = [
            next(iter(headers.get(f"x-amzn-mtls-clientcert-{part}", ())), None)
            for part in ("issuer", "subject")
        ]
    else:
        certificate = _member(_member(context, "identity"), "clientCert")
        certificate = certificate or _member(_member(context, "authentication"), "clientCert")
        if certificate is None:
            return []
        names = [_member(certificate, field) for field in ("issuerDN", "subjectDN")]
    is_named = any(isinstance(name, str) and name for name in names)
    return [Name(Origin.CERTIFICATE, tuple(names))] if is_named else []


# ------------------------------------------------------------------ 2: the user of a load balancer

_OIDC_DATA: Final = "x-amzn-oidc-data"
_UNPROVEN_USER: Final = Presented(
    None,
    proof=False,
    advice=(
        f"cannot be replayed: nothing has verified {_OIDC_DATA}, and on a replay no handler runs. "
        "Pass a function that verifies its signature as caller=: docs/api.md has one"
    ),
)


def _of_load_balancer(context: object, headers: Values) -> Name | None:
    """
    Return the user in the JWT of the load balancer; None if none can be read.

    It is signed anew for each request, so there is nothing to compare. `x-amzn-oidc-identity` has no
    signature, and is not read (ELB user guide, "User claims encoding and signature verification").
    Raises `MalformedRequest` for two different values: handlers differ in which of them they read.
    """
    if _member(context, "elb") is None:
        return None
    tokens = {part.strip() for value in headers.get(_OIDC_DATA, ()) for part in value.split(",")} - {""}
    if len(tokens) > 1:
        raise MalformedRequest(f"The header {_OIDC_DATA} was sent with different values: send one.")
    header, claims = _read_jwt("".join(tokens))
    issuer, subject = _text(claims, "iss") or _text(header, "iss"), _text(claims, "sub")
    return None if subject is None else Name(Origin.LOAD_BALANCER, (issuer, subject, _text(header, "signer")))


# ------------------------------------------------------------------ 3: the request's credential


class _Credential(NamedTuple):
    name: Name
    whole: str
    """What is compared."""
    opaque: bool = False
    """Whether its name is the credential itself."""

    def __repr__(self) -> str:
        return f"<a credential by {self.name.origin.value}>"


# Each request has another value (AWS SigV4 and SigV4a, RFC 5849, RFC 7616, Hawk, HTTP signatures).
_SIGNING: Final = r"aws4-.*|oauth|digest|hawk|hmac(-.*)?|signature"

_NOTHING_BESIDE: Final = "nothing"
"""Compared if no credential was sent with a principal; a credential begins with its origin and NUL."""

_ONE_WORD: Final = frozenset({"bearer", "basic", "dpop"})
"""
Schemes whose credential has no comma: a comma means that the gateway has joined two headers.

The scheme alone is not a credential.
"""

NO_VALUE: Final = frozenset({"", "null", "undefined"})
"""In lower case, what clients send in a header if they have no value for it: JavaScript's texts for none."""


def _authorization(headers: Values) -> _Credential | None:
    if "authorization" not in headers:
        return None
    values = {  # equal ones are one
        (scheme, part.strip())
        for value in headers["authorization"]
        for scheme, text in [_split(value)]
        for part in _credentials_in(scheme, text)
        if part.strip().lower() not in NO_VALUE
    }
    if len(values) > 1:
        raise MalformedRequest("The header Authorization was sent with different values: send one.")
    for scheme, text in values:
        if not re.fullmatch(_SIGNING, scheme, re.IGNORECASE):
            return _of_authorization(scheme, text)
    return None


def _api_key(headers: Values) -> _Credential | None:
    if "x-api-key" not in headers:
        return None
    keys = tuple(key for key in headers["x-api-key"] if key.strip().lower() not in NO_VALUE)
    return _opaque(Origin.API_KEY, *keys) if keys else None


def _split(value: str) -> tuple[str, str]:
    """Return the scheme of *value*, in lower case, and the rest; a value without a scheme is all rest."""
    first, _, rest = value.strip().partition(" ")
    scheme = first.lower()
    return (scheme, rest.strip()) if rest or scheme in _ONE_WORD else ("", first)


def _credentials_in(scheme: str, text: str) -> list[str]:
    """Return the credentials of *text*, which may be several headers in one, each with its scheme."""
    if scheme not in _ONE_WORD:
        return [text]
    parts = [part.strip() for part in text.split(",")]
    return [part[len(scheme) :] if f"{part.lower()} ".startswith(f"{scheme} ") else part for part in parts]


def _of_authorization(scheme: str, text: str) -> _Credential:
    whole = f"{Origin.AUTHORIZATION.value}\0{scheme}\0{text}"
    _, claims = _read_jwt(text)
    name = _named_by(claims)
    if name is not None:
        return _Credential(Name(Origin.CLAIMS, name), whole)
    user = _user(text) if scheme == "basic" else None
    if user:
        return _Credential(Name(Origin.BASIC, (user,)), whole)
    return _opaque(Origin.AUTHORIZATION, scheme, text)


def _opaque(origin: Origin, *parts: str) -> _Credential:
    return _Credential(Name(origin, parts), "\0".join((origin.value, *parts)), opaque=True)


def _named_by(claims: object) -> tuple[str | None, str, str] | None:
    """Return issuer, claim and name in *claims*: sub, else client_id (RFC 9068), else azp."""
    for claim in ("sub", "client_id", "azp"):
        name = _text(claims, claim)
        if name is not None:
            return _text(claims, "iss"), claim, name
    return None


def _text(claims: object, name: str) -> str | None:
    text = _member(claims, name)
    return text if isinstance(text, str) and text else None


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, (dict, Mapping)) else None  # dict first: it's quick


def _read_jwt(text: str) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Return header and claims of *text*, unverified; none if it is not a JWT, is encrypted or too long."""
    parts = text.split(".") if len(text) <= LONGEST_JWT else []
    if len(parts) != len(("header", "claims", "signature")):
        return {}, {}
    try:
        header, claims = (json.loads(_base64url(part).decode()) for part in parts[:2])
    except (ValueError, RecursionError):  # also of base64 and of UTF-8
        return {}, {}
    return (header, claims) if isinstance(header, dict) and isinstance(claims, dict) else ({}, {})


def _base64url(part: str) -> bytes:
    """Return the bytes of *part* of a JWT, with or without padding. Raises ValueError."""
    unpadded = part.rstrip("=")  # load balancers pad, RFC 7515 does not
    return b64decode(unpadded + "=" * (-len(unpadded) % 4), altchars=b"-_", validate=True)


def _user(text: str) -> str | None:
    """Return the user name of RFC 7617; None if there is none."""
    try:
        user, colon, _ = b64decode(text, validate=True).partition(b":")
    except binascii.Error:
        return None
    return user.decode("utf-8", "backslashreplace") if colon else None


# ------------------------------------------------------------------ Lambda authorizers

CONSTANTS: Final = frozenset({"user", "me", "user|a1b2c3d4"})
"""Principals of AWS' sample authorizers, which are the same for everybody."""

_OF_GATEWAY: Final = frozenset({"principalId", "integrationLatency"})
_LISTED: Final = 10
"""Most names of a context that a log line lists."""
_UNQUOTED: Final = r"[A-Za-z_][A-Za-z0-9_]*"
"""A name that JMESPath reads without quotes."""


class AuthorizerContext(NamedTuple):
    """
    The context that a Lambda authorizer adds to events, the expression that selects it, and advice.

    API Gateway writes it, a client cannot. A REST API has the context beside `principalId`, which the
    authorizer must return; an HTTP API has the context alone, and a simple response may have none.
    """

    path: str
    values: Mapping[str, object]

    @property
    def principal(self) -> str | None:
        """Its `principalId`; None for a constant one, which does not identify a caller."""
        principal = self.values.get("principalId")
        is_name = isinstance(principal, str) and principal and principal not in CONSTANTS
        return str(principal) if is_name else None

    def presented(self, credential: str | None) -> Presented:
        """Return what a request that the authorizer accepted presents: *credential*, or no proof."""
        if credential is None:
            return Presented(None, proof=False, advice=f"cannot be replayed: {self._unnamed()}")
        if self.principal is None:
            advice = self._unnamed()
        else:
            advice = (
                f'if principalId is a person\'s id and no constant, pass caller="{self.path}.principalId"'
            )
        return Presented(credential, advice=f"was acquired with other credentials: {advice}")

    def _unnamed(self) -> str:
        names = [str(name) for name in self.values if name not in _OF_GATEWAY]
        listed = ", ".join(printable(name) for name in names[:_LISTED]) or "nothing"
        likely = [name for name in names if name.lower() == "sub" or "user" in name.lower()]
        name = next((name for name in (*likely, *names) if len(name) <= LONGEST_NAME), None)
        way = (
            "Let it return the user's id as userId, and pass"
            if name is None
            else "Pass the one that is the user's id, such as"
        )
        write = _as_caller(self.path, name or "userId")
        return f"the Lambda authorizer names no user; its context has {listed}. {way} {write}"


def _as_caller(path: str, name: str) -> str:
    """Return ``caller=`` with the expression that selects *name* below *path*, as it is written in Python."""
    if re.fullmatch(_UNQUOTED, name):
        return f'caller="{path}.{name}"'
    return f"caller={f'{path}.{json.dumps(name)}'!r}"


def context_of(context: object) -> AuthorizerContext | None:
    """Return the authorizer's part of *context*, that of a request; None if no Lambda authorizer ran."""
    path = "requestContext.authorizer"
    authorizer = _member(context, "authorizer")
    if not authorizer or not isinstance(authorizer, Mapping):
        return None
    if "lambda" in authorizer:  # payload format 2.0
        values = authorizer["lambda"]
        return AuthorizerContext(f"{path}.lambda", values if isinstance(values, Mapping) else {})
    others = (authorizer.get(name, "") for name in ("claims", "jwt", "iam"))
    of_another = any(each is None or isinstance(each, Mapping) for each in others)
    is_none = of_another and not authorizer.get("principalId")
    return None if is_none else AuthorizerContext(path, authorizer)
