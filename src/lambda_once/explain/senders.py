"""
An HTTP event as others would send it: the same request with other credentials.

Each change is made wherever an event has the credential: headers of both forms, cookies, and what the gateway
writes into the request's context. It is what arrives at the function, so a forged header is what a client can
send past the gateway's own check: nothing that only the gateway writes. Pure; no credential is shown.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from lambda_once.core.keys import Selector
from lambda_once.errors import OnceError
from lambda_once.sources.api_gateway import header_values
from lambda_once.sources.authorizer import CONSTANTS, context_of
from lambda_once.sources.caller import Caller, Name, Origin, caller_of, is_tenant

Event = dict[str, Any]
Change = Callable[[str], str]


class Sender(Enum):
    """Who sends the request again, by the credentials that it has then."""

    SAME = "same"
    REFRESHED = "refreshed"
    NOBODY = "nobody"
    SAME_NAME = "same-name"
    OTHER_USER = "other-user"
    OTHER_TENANT = "other-tenant"
    OTHER_KEY = "other-key"
    OTHER_COOKIES = "other-cookies"
    FORGED = "forged"

    @property
    def is_first_caller(self) -> bool:
        """Whether it is the caller that the response was made for."""
        return self in {Sender.SAME, Sender.REFRESHED}


class Altered(NamedTuple):
    """The request of one sender."""

    who: str
    """The sender in words, or why there is none such."""
    event: Event | None
    """None: not applicable."""


def sent_by(sender: Sender, event: Mapping[str, Any], selector: Selector | Literal[False] = None) -> Altered:
    """
    Return *event*, an HTTP request, as *sender* sends it.

    *selector* is ``caller=``: it declares that whoever has its value is the caller, and headers that its
    expression names are credentials, too.
    """
    request = _Request(event, selector)
    who, why = _WAYS[sender](request)
    if why is not None:
        return Altered(why, None)
    _number(request.event)
    return Altered(who, request.event)


class _Request:
    """A copy of the event, to be changed in place, and who sent it by the rules of `sources.caller`."""

    def __init__(self, event: Mapping[str, Any], selector: Selector | Literal[False]) -> None:
        self.first = event
        self.event: Event = _copied(event)
        self.declared = selector is not None and selector is not False
        self.caller = _caller(event)
        names = header_values(event)
        text = selector.lower() if isinstance(selector, str) else ""
        self.own = frozenset(
            name
            for name in names
            if not _is_credential(name) and (f'"{name}"' in text or f"headers.{name}" in text)
        )
        """Other headers that ``caller=`` names."""

    @property
    def context(self) -> dict[str, Any]:
        found = self.event.get("requestContext")
        return found if isinstance(found, dict) else {}

    @property
    def has_changed(self) -> bool:
        return self.event != self.first

    def change(self, changes: Mapping[str, Change]) -> None:
        """Change every value of the headers that *changes* has, by lower-case name."""
        for headers in self._headers():
            for name in headers:
                if (change := changes.get(name.lower())) is not None:
                    headers[name] = _each(headers[name], change)

    def change_cookies(self) -> None:
        """Change every cookie: another browser's. Those of payload 2.0 are beside the headers."""
        self.change({"cookie": _other_cookies})
        if isinstance(self.event.get("cookies"), list):
            self.event["cookies"] = _each(self.event["cookies"], _other_cookies)

    def drop(self, is_dropped: Callable[[str], bool]) -> None:
        """Remove the headers whose lower-case names *is_dropped* accepts."""
        for headers in self._headers():
            for name in [name for name in headers if is_dropped(name.lower())]:
                del headers[name]

    def write(self, name: str, text: str) -> None:
        """Add one value of the header *name*, in the form of each place."""
        if not any(True for _ in self._headers()):
            self.event["headers"] = {}
        for place in ("headers", "multiValueHeaders"):
            headers = self.event.get(place)
            if isinstance(headers, dict):
                several = any(isinstance(each, list) for each in headers.values())
                headers[name] = [text] if several or place != "headers" else text

    def _headers(self) -> Iterator[dict[str, Any]]:
        for place in ("headers", "multiValueHeaders"):
            if isinstance(self.event.get(place), dict):
                yield self.event[place]


_Way = tuple[str, str | None]
"""The sender in words, and why it is not applicable."""


def _caller(event: Mapping[str, Any]) -> Caller:
    """Return the caller by the rules, with opaque credentials as names; nobody for a malformed request."""
    try:
        return caller_of(event, header_values(event), hashed=True)
    except OnceError:
        return Caller((), (), None)


def _number(event: Event) -> None:
    """Give *event* a request id of its own."""
    context = event.get("requestContext")
    if isinstance(context, dict) and isinstance(context.get("requestId"), str):
        context["requestId"] = _other(context["requestId"])


# ---------------------------------------------------------------- the senders


def _same(_request: _Request) -> _Way:
    return "the first caller again", None


def _refreshed(request: _Request) -> _Way:
    request.change(dict.fromkeys(_TOKENS, _refreshed_token))
    for claims in _claims_in(request.context.get("authorizer")):
        _replace(claims, _TIMES, _later)
    for holder in ("identity", "authentication"):
        certificate = _at(request.context, holder, "clientCert")
        if isinstance(certificate, dict):
            _replace(certificate, ("serialNumber",), _other)
    request.change({"x-amzn-mtls-clientcert-serial-number": _other})
    why = None if request.has_changed else "the event has no token that expires"
    return "the first caller with a refreshed token or certificate", why


def _nobody(request: _Request) -> _Way:
    _anonymous(request)
    request.drop(request.own.__contains__)
    return "somebody without credentials, if they are let through", None


def _same_name(request: _Request) -> _Way:
    origins = frozenset(request.caller.origins)
    if request.declared:
        return "", "caller= declares that whoever has its value is the first caller"
    if context_of(request.context) is not None:
        _other_credentials(request)
        return "another user, for whom the Lambda authorizer returns the same", None
    if Origin.CLAIMS in origins:
        request.change({"authorization": _refreshed_token})
        return "somebody else with a JWT of the same iss and sub", None
    if Origin.BASIC in origins:
        request.change({"authorization": partial(_other_token, password_only=True)})
        return "somebody with the user name and another password", None
    if origins & _APPLICATION and request.caller.is_unscoped:
        request.change_cookies()
        return "another user of the same application (API key, certificate)", None
    return "", _no_same_name(origins)


def _no_same_name(origins: frozenset[Origin]) -> str:
    if origins & {Origin.JWT_AUTHORIZER, Origin.IAM}:
        return "the gateway has verified the name: whoever has it is the first caller"
    if Origin.LOAD_BALANCER in origins:
        return "the load balancer signs a name anew for each request: see refreshed and forged"
    if Origin.AUTHORIZATION in origins:
        return "the credential is opaque, and names nobody"
    return "nothing in the event names a user or an application"


def _other_user(request: _Request) -> _Way:
    _other_credentials(request)
    for claims in _claims_in(request.context.get("authorizer")):
        _replace(claims, _personal(claims) or ("client_id", "azp"), _other)
    for place in (("authorizer", "iam"), ("authorizer", "iam", "cognitoIdentity"), ("identity",)):
        found = _at(request.context, *place)
        if isinstance(found, dict):
            _replace(found, _PRINCIPALS, _other)
    given = context_of(request.context)
    if given is not None and isinstance(given.found, dict):
        _replace(given.found, _personal(given.found) or tuple(given.found), _other)
    if request.caller.is_unscoped and Origin.CERTIFICATE in request.caller.origins:
        _other_certificate(request)
    named = not request.caller.is_unscoped or Origin.CERTIFICATE in request.caller.origins
    known = named or given is not None or bool(request.own)
    why = None if known and request.has_changed else "nothing in the event names a user"
    return "another user, with credentials of their own", why


def _other_tenant(request: _Request) -> _Way:
    for claims in _claims_in(request.context.get("authorizer")):
        _replace(claims, tuple(filter(is_tenant, map(str, claims))), _other)
    why = None if request.has_changed else "no verified claim names a tenant"
    return "the same user for another tenant", why


def _other_key(request: _Request) -> _Way:
    request.change({"x-api-key": _other})
    identity = request.context.get("identity")
    if isinstance(identity, dict):
        _replace(identity, ("apiKey", "apiKeyId"), _other)
    return "somebody with another API key", _beside(request, "no API key")


def _other_browser(request: _Request) -> _Way:
    request.change_cookies()
    return "another browser, with other cookies", _beside(request, "no cookies")


def _beside(request: _Request, missing: str) -> str | None:
    if not request.has_changed:
        return f"the event has {missing}"
    return (
        None if request.caller.is_unscoped else "the first caller is named beside it, and would be the same"
    )


def _forged(request: _Request) -> _Way:
    origins, claims = request.caller.origins, _claims_to_forge(request.caller.names)
    certificate = Origin.CERTIFICATE in origins and _at(request.context, "elb") is not None
    _anonymous(request, kept=_is_certificate if certificate else None)
    if Origin.LOAD_BALANCER in origins:
        (user,) = header_values(request.first)["x-amzn-oidc-data"][:1]
        request.write("x-amzn-oidc-data", _refreshed_token(user))
        return "a forged x-amzn-oidc-data with the first caller's name", None
    if claims is not None:
        request.write("authorization", f"Bearer {_encoded({'alg': 'none'})}.{_encoded(claims)}.")
        return f"a forged Bearer JWT with the first caller's name{_stripped(request)}", None
    if certificate:
        return "forged x-amzn-mtls-clientcert headers: no page of AWS says that they are stripped", None
    if request.own:
        return "somebody who sends the header that caller= reads, with the same value", None
    return "", "the first caller has no name that a header could claim"


def _stripped(request: _Request) -> str:
    is_lattice = "raw_path" in request.first
    return " (VPC Lattice strips a forged x-amzn-lattice-identity)" if is_lattice else ""


_WAYS: Final[Mapping[Sender, Callable[[_Request], _Way]]] = {
    Sender.SAME: _same,
    Sender.REFRESHED: _refreshed,
    Sender.NOBODY: _nobody,
    Sender.SAME_NAME: _same_name,
    Sender.OTHER_USER: _other_user,
    Sender.OTHER_TENANT: _other_tenant,
    Sender.OTHER_KEY: _other_key,
    Sender.OTHER_COOKIES: _other_browser,
    Sender.FORGED: _forged,
}
_APPLICATION: Final = frozenset({Origin.API_KEY_ID, Origin.API_KEY, Origin.CERTIFICATE})


# ---------------------------------------------------------------- where events have credentials

_TOKENS: Final = ("authorization", "x-amzn-oidc-data", "x-amzn-oidc-accesstoken")
_TIMES: Final = ("exp", "iat", "nbf", "auth_time", "jti", "origin_jti", "uti")
"""Claims of which a refreshed token has others."""
_PRINCIPALS: Final = (
    *("userArn", "user", "caller", "userId", "callerId"),
    *("cognitoIdentityId", "identityId", "principal", "sessionName"),
)
"""What IAM and identity pools leave of a user, in REST APIs, HTTP APIs, Function URLs and VPC Lattice."""
_IDENTITY: Final = (*_PRINCIPALS, "apiKey", "apiKeyId", "clientCert", "accessKey", "type")
_PERSONAL: Final = re.compile(r"^sub$|user|email|^principalId$", re.IGNORECASE)
"""Names of claims, and of an authorizer's context, whose values differ between users."""


def _is_credential(name: str) -> bool:
    known = {*_TOKENS, "x-api-key", "cookie", "x-amzn-oidc-identity", "x-amzn-lattice-identity"}
    return name in known or _is_certificate(name)


def _is_certificate(name: str) -> bool:
    return name.startswith("x-amzn-mtls-clientcert")


def _anonymous(request: _Request, kept: Callable[[str], bool] | None = None) -> None:
    """Remove all credentials, and what gateways write of those that they verified; *kept* headers stay."""
    request.drop(lambda name: _is_credential(name) and not (kept and kept(name)))
    request.event.pop("cookies", None)
    for name in ("authorizer", "authentication"):
        request.context.pop(name, None)
    identity = request.context.get("identity")
    if isinstance(identity, dict):
        for name in (*_IDENTITY, *(each for each in identity if each.startswith(("cognito", "x509")))):
            identity.pop(name, None)


def _other_credentials(request: _Request) -> None:
    """Let another user's Authorization, headers and cookies take the place of the first caller's."""
    request.change({
        **dict.fromkeys(request.own, _other),
        **dict.fromkeys(_TOKENS, _other_token),
        "x-amzn-oidc-identity": _other,
        "x-amzn-lattice-identity": _other_principal,
    })  # fmt: skip
    request.change_cookies()


def _other_certificate(request: _Request) -> None:
    request.change({"x-amzn-mtls-clientcert-subject": _other})
    for holder in ("identity", "authentication"):
        certificate = _at(request.context, holder, "clientCert")
        if isinstance(certificate, dict):
            _replace(certificate, ("subjectDN",), _other)


def _claims_in(authorizer: object) -> Iterator[dict[str, Any]]:
    for place in (("jwt", "claims"), ("claims",)):
        found = _at(authorizer, *place)
        if isinstance(found, dict):
            yield found


def _personal(found: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of what differs between users, as far as names show it."""
    return tuple(name for name in found if _PERSONAL.search(name))


def _claims_to_forge(names: Iterable[Name]) -> Event | None:
    """Return what a forged JWT would claim to be taken for one of *names*; None: none of them is a user's."""
    known = {name.origin: name.parts for name in names}
    for origin in (Origin.JWT_AUTHORIZER, Origin.CLAIMS):
        if origin in known:
            issuer, claim, name = known[origin]
            return {"iss": issuer, str(claim): name}
    for origin in (Origin.IAM, Origin.LAMBDA_AUTHORIZER, Origin.BASIC):
        if origin in known:
            return {"sub": known[origin][0]}
    return None


# ---------------------------------------------------------------- other values


def _at(found: object, *names: str) -> Any:
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _replace(found: dict[str, Any], names: Container[str], change: Callable[[Any], Any]) -> None:
    found.update({name: change(value) for name, value in found.items() if name in names})


def _copied(found: Any, levels: int = 5) -> Any:
    """Return a copy of the mappings in *found* that are altered: claims are four levels below the event."""
    if not isinstance(found, Mapping) or not levels:
        return found
    return {name: _copied(each, levels - 1) for name, each in found.items()}


def _each(found: object, change: Change) -> object:
    """Change a text, or each text in a list."""
    if isinstance(found, list):
        return [change(each) if isinstance(each, str) else each for each in found]
    return change(found) if isinstance(found, str) else found


def _other(found: Any) -> Any:
    """Return another value of the same kind; a constant of AWS' sample authorizers stays what it is."""
    match found:
        case str() if found and found not in CONSTANTS:
            return f"{found}-other"
        case int() if not isinstance(found, bool):
            return found + 1
        case _:
            return found


def _later(found: Any) -> Any:
    is_number = isinstance(found, str) and found.isascii() and found.isdigit()
    return str(int(found) + 3600) if is_number else _other(found)


def _other_cookies(text: str) -> str:
    return "; ".join(_other(pair.strip()) for pair in text.split(";"))


def _other_principal(text: str) -> str:
    """Change the principal in `x-amzn-lattice-identity`, and no other field of it."""
    return re.sub(r"((?:^|;)\s*Principal=[^;]+)", r"\1-other", text)


def _other_token(raw: str, *, password_only: bool = False) -> str:
    """Return a value of Authorization, or a JWT, of another user, in the same form."""
    scheme, blank, credential = raw.rpartition(" ")
    claims = _claims_of(credential)
    if claims is not None:
        _replace(claims, _personal(claims) or ("client_id", "azp"), _other)
        return f"{scheme}{blank}{_with_claims(credential, claims)}"
    user, password = _user_of(credential) if scheme.lower() == "basic" else (None, "")
    if user is None:
        return f"{raw}-other"
    user = user if password_only else f"{user}-other"
    return f"{scheme}{blank}{b64encode(f'{user}:{password}-other'.encode()).decode()}"


def _refreshed_token(raw: str) -> str:
    """Return a later value of Authorization, or a later JWT, of the same user; a password stays."""
    scheme, blank, credential = raw.rpartition(" ")
    claims = _claims_of(credential)
    if claims is not None:
        return f"{scheme}{blank}{_with_claims(credential, claims | {'exp': _later(claims.get('exp', 0))})}"
    return raw if scheme.lower() == "basic" else f"{raw}-other"


def _with_claims(credential: str, claims: Event) -> str:
    header, _, signature = credential.split(".")
    return f"{header}.{_encoded(claims)}.{signature}-other"


def _encoded(part: Event) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def _claims_of(credential: str) -> Event | None:
    """Return the claims of a JWT; None: it is none."""
    parts = credential.split(".")
    if len(parts) != len(("header", "claims", "signature")):
        return None
    try:
        text = parts[1].rstrip("=")
        claims = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):  # also of base64 and of UTF-8
        return None
    return claims if isinstance(claims, dict) else None


def _user_of(credential: str) -> tuple[str | None, str]:
    """Return user and password of Basic authorization; no user: it is none."""
    try:
        user, colon, password = b64decode(credential, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None, ""
    return (user, password) if colon else (None, "")
