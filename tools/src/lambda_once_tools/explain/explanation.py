"""
Which token an event gets: the `Identification` that a decorator runs from, described.

Nothing runs and nothing is stored; no table is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, assert_never

from lambda_once.core.canonical import plain, unwrapped, written
from lambda_once.core.identity import (
    ATTRIBUTES,
    BYTES,
    NOTHING,
    OPERATION,
    ORIGIN,
    TENANT,
    Identity,
    KeyFrom,
    OfEach,
    Refused,
    Standing,
    shown,
    standings,
)
from lambda_once.core.tenant import TENANCY
from lambda_once.core.unit import Unit
from lambda_once.decorators.identify import Identification, Identifier
from lambda_once.errors import CallerMissing, Misconfigured, OnceError
from lambda_once.sources import envelopes, event, http
from lambda_once.sources.caller import Caller, Origin
from lambda_once.sources.envelopes import TooDeep, parse
from lambda_once.sources.function import FunctionIdentifier
from lambda_once.sources.headers import KEY_HEADER
from lambda_once.sources.http import HttpIdentifier
from lambda_once.sources.records import Records
from lambda_once.sources.source import Source, source_of

if TYPE_CHECKING:
    from inspect import BoundArguments

    from lambda_once.core.fields import Printed

NOBODY: Final = "nothing"
"""Stands for the caller if there is neither a name nor a credential."""
_UNIDENTIFIED: Final = Identification()
_EVENT_ID = "the id of the EventBridge event: its detail is empty, or AWS itself is its source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A path of ``ignore=``, and at how many places of this delivery there is something to leave out."""

    path: str
    places: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the identity: what it is, if that may be shown, and what becomes of it."""

    name: str
    text: str | None
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How one unit of work is identified, as far as possible, in words; None for what does not exist."""

    decorator: str
    source: str
    service: str
    name: str
    payload: str
    """What `key`, `ignore` and `fingerprint` see."""
    delivery: str | None = None
    tenant: str | None = None
    """The tenant that the context names, which is in the token."""
    identity: Identification = _UNIDENTIFIED
    parts: tuple[Part, ...] = ()
    """Those of its identity: in the token, compared or left out."""
    key_from: str | None = None
    within: object = None
    """What a hash is the key within, such as a queue; None: no more than its name and scope."""
    scope_from: str | None = None
    caller_from: str | None = None
    """What named the caller of a request, and what of it joins the token; never a name or a credential."""
    caller_joins: str | None = None
    hashed: Printed | None = None
    """What the key or the fingerprint is the hash of."""
    ignored: tuple[Ignored, ...] = ()
    problem: str | None = None
    """The error that would be raised, and why."""
    unprotected: str | None = None
    """Why it would run without a token."""

    @property
    def token(self) -> str | None:
        return self.identity.token or None if self.identity.error is None else None

    @property
    def key(self) -> object:
        """The selected key; None if the key is a hash."""
        return None if self.identity.key_from is KeyFrom.HASH else _plain(self.identity.key)

    @property
    def scope(self) -> object:
        return _plain(self.identity.scope)

    @property
    def hashed_for(self) -> str | None:
        if self.token is None:
            return None
        if self.identity.key_from is not KeyFrom.HASH:
            return "the fingerprint"
        return "the key" if self.within is None else f"the key, within {self.within}"


Protected = Records | HttpIdentifier | FunctionIdentifier | Identifier
"""The ``__once__`` of a decorated function, or the identifier of a route."""


def identifier_of(function: object) -> Protected | None:
    """Return the identifier of *function* itself; None if it is not decorated."""
    found = getattr(function, "__once__", None)
    return found if isinstance(found, Protected) else None


def explain(protected: Protected, given: Any, context: object = None) -> list[Explanation]:
    """
    Explain each unit of *given*: an event, or a call of a function as ``{"args": [...], "kwargs": {...}}``.

    *context*: what Lambda passes beside it, as far as that is known. A method is called without self. Raises
    `Misconfigured` for an event of another source and for a malformed call.
    """
    with TENANCY.fresh():
        protected.runtime.serve(context)
        return _explained(protected, given, context)


def _explained(protected: Protected, given: Any, context: object) -> list[Explanation]:
    match protected:
        case Records():
            return [_record(protected, record, context) for record in protected.source.read(given)]
        case HttpIdentifier():
            return [_request(protected, given, context)]
        case FunctionIdentifier():
            return [_call(protected, given)]
        case Identifier():
            return _events(protected, given, context)
        case _ as unreachable:
            assert_never(unreachable)


def _events(identifier: Identifier, given: Any, context: object) -> list[Explanation]:
    decorator, source, payload = "once.event", source_of(given).title, "the whole event"
    try:
        units = event.read(given, None, event.CallerLookup(context, identifier.settings))
    except CallerMissing as error:
        return [_bare(identifier, decorator, source, payload, problem=_described(error))]
    return [explained(identifier, decorator, source, unit, payload, _EVENT_ID, context) for unit in units]


def _request(identifier: HttpIdentifier, given: Mapping[str, Any], context: object) -> Explanation:
    decorator = identifier.decorator
    kind, method = http.kind_of(given), http.method_of(given)
    bare = identifier.of_kind(kind)
    source = f"{kind.value}: {method}"
    body = f"the body of the request, {_shape(given.get('body'))}"
    if not identifier.covers(method):
        reason = f"{method} is not among the methods that are protected"
        return _bare(bare, decorator, source, body, unprotected=reason)
    try:
        found = identifier.read(given, kind, method, None, context)
    except OnceError as error:
        return _bare(bare, decorator, source, body, problem=_described(error))
    if found is None:
        reason = f'the request has no {KEY_HEADER}, and without_key is "run"'
        return _bare(bare, decorator, source, body, unprotected=reason)
    body = f"the body of the request, {_named(found.unit.what.content.payload)}"
    of_kind = identifier.of_kind(kind, found.keep)
    shown = explained(of_kind, decorator, source, found.unit, body, f"the header {KEY_HEADER}", context)
    return replace(shown, **_caller(found.caller, identifier.caller_selector))


def _call(function: FunctionIdentifier, given: object) -> Explanation:
    wrong = 'a call is written as {"args": [...], "kwargs": {...}}: one of them or both'
    if not isinstance(given, dict) or not given or given.keys() - {"args", "kwargs"}:
        raise Misconfigured(wrong)
    args, kwargs = given.get("args", []), given.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise Misconfigured(wrong)
    args = [None, *args] if function.is_method else args
    try:
        unit, bound = function.unit(tuple(args), kwargs)
    except TypeError as error:
        raise Misconfigured(f"the call does not fit {function.identifier.name}: {error}") from None
    payload = f"the arguments by name: {', '.join(unit.record.envelope) or 'none'}"
    return explained(function.identifier, "once.function", "a call", unit, payload, "", None, bound)


def explained(
    identifier: Identifier,
    decorator: str,
    source: str,
    unit: Unit,
    payload: str,
    default: str,
    context: object,
    given: BoundArguments | None = None,
) -> Explanation:
    """Explain *unit* as *identifier* identifies it; *default* describes the default key of the source."""
    settings, what, delivery = identifier.settings, unit.what, unit.record.delivery
    found = identifier.identify(unit, given, context=context)
    if found.error is not None and identifier.runs_without(found.error):
        reason = 'key= selects nothing, and without_key is "run"'
        return _bare(identifier, decorator, source, payload, delivery=delivery, unprotected=reason)
    is_hash = found.key_from is KeyFrom.HASH
    return _bare(
        identifier,
        decorator,
        source,
        payload,
        delivery=delivery,
        identity=found,
        parts=tuple(
            Part(name=name, text=_part_text(name, value), standing=standing)
            for name, value, standing in standings(
                what,
                found.parts,
                TENANCY.tenant,
                tuple(settings.ignore),
                compares=settings.fingerprint is not False,
            )
        ),
        key_from=_key_from(settings.key, found.key_from, default),
        within=shown(found.parts.in_token[ORIGIN]) if is_hash and ORIGIN in found.parts.in_token else None,
        scope_from=_scope_from(settings.scope, found.parts.scope),
        hashed=(
            identifier.content(what.content, found.payload, found.key_from)
            if is_hash and found.error is None
            else found.hashed
        ),
        ignored=tuple(Ignored(path=path, places=_ignored_places(what, path)) for path in settings.ignore),
        problem=None if found.error is None else _described(found.error),
    )


def _part_text(name: str, value: object) -> str | None:
    if value is NOTHING or name == BYTES:
        return None
    if name == TENANT:
        return f"{value}, by the context"
    if name == OPERATION and isinstance(value, tuple):
        return " ".join(map(str, value))
    return shown(value) if name == ORIGIN else written(value)


def _bare(identifier: Identifier, decorator: str, source: str, payload: str, **known: Any) -> Explanation:
    return Explanation(
        decorator=decorator,
        source=source,
        service=identifier.runtime.environment().service,
        name=identifier.name,
        payload=payload,
        tenant=TENANCY.tenant,
        **known,
    )


def _described(error: Exception) -> str:
    if isinstance(error, OnceError):
        return f"{type(error).__name__}: {error}"
    return f"{type(error).__name__}: its key, scope or model raised"


def _plain(selected: object) -> object:
    """Return a key or a scope in plain values; None where it has none, and so makes no token."""
    try:
        return plain(selected)
    except Exception:  # noqa: BLE001  (arguments of any kind may be in it)
        return None


# ---------------------------------------------------------------- descriptions


def _record(records: Records, unit: Unit, context: object) -> Explanation:
    kind = records.source.source
    decorator, source, default = records.source.decorator, kind.title, records.source.identity
    if kind is Source.SQS:
        source += ", standard queue" if unit.record.group is None else ", FIFO queue"
    delivery, envelope, flaw = unit.record.delivery, unit.record.envelope, unit.what.content.flaw
    if isinstance(flaw, Refused):
        return _bare(
            records.identifier, decorator, source, "none", delivery=delivery, problem=str(flaw.error)
        )
    content = _named(unit.what.content.payload)
    if kind in (Source.SQS, Source.SNS):
        text = envelopes.at(envelope, "body") or envelopes.at(envelope, "Sns", "Message")
        content = _layers(str(text))
        default = _EVENT_ID if unit.what.attributes is NOTHING else default
    payload = f"{records.source.payload}, {content}"
    try:
        unit = records.validated(unit)
    except OnceError as error:
        known = {"delivery": delivery, "problem": _described(error)}
        return _bare(records.identifier, decorator, source, payload, **known)
    return explained(records.identifier, decorator, source, unit, payload, default, context)


def _layers(text: str, most: int = envelopes.MOST_ENVELOPES) -> str:
    """Describe the envelopes of *text*, a message, that are opened, and what is in them."""
    found = parse(text)
    if most > 0 and envelopes.is_notification(found):
        return f"an SNS notification, opened: its Message, {_layers(str(found['Message']), most - 1)}"
    if envelopes.is_eventbridge(found):
        return f"an EventBridge event, opened: its detail, {_named(found['detail'])}"
    return "an S3 notification" if envelopes.is_s3(found) else _named(found)


def _shape(body: object) -> str:
    try:
        return _named(parse(body) if isinstance(body, str) else body)
    except TooDeep:
        return "JSON that is nested too deeply"


def _named(found: object) -> str:
    match found:
        case None:
            return "nothing"
        case str():
            return "text that is not a JSON object"
        case bytes():
            return "bytes"
        case Mapping():
            return "a JSON object"
        case list():
            return "a JSON list"
        case _:
            return "a JSON value"


def _key_from(selector: object, key_from: KeyFrom, default: str) -> str:
    match key_from:
        case KeyFrom.OPTION if selector is not None:
            return _selector("key", selector)
        case KeyFrom.OPTION | KeyFrom.SOURCE:
            return default
        case KeyFrom.HASH:
            return "no key=: the hash of what counts"
        case _ as unreachable:
            assert_never(unreachable)


def _scope_from(selector: object, added: tuple[object, ...]) -> str | None:
    parts = [] if selector is None else [_selector("scope", selector)]
    if added:
        parts.append("what its source adds: the operation and, where one joins, the caller")
    return "; ".join(parts) or None


_NAMED_BY: Final = {
    Origin.JWT_AUTHORIZER: "the JWT authorizer: the token's iss and sub",
    Origin.IAM: "IAM: the principal",
    Origin.LAMBDA_AUTHORIZER: "the Lambda authorizer: its principalId",
    Origin.CERTIFICATE: "the client certificate: issuer and subject",
    Origin.API_KEY_ID: "the id of the API key",
    Origin.LOAD_BALANCER: "x-amzn-oidc-data, unverified: iss, sub and signer",
    Origin.CLAIMS: "the JWT in Authorization, unverified: iss and sub, client_id or azp",
    Origin.BASIC: "the user name of Basic authorization",
    Origin.AUTHORIZATION: "Authorization, whole",
    Origin.API_KEY: "x-api-key, whole",
    Origin.COOKIES: "the cookies, all of them",
    Origin.RESOLVER_CONTEXT: "what AppSync's Lambda authorizer returned, whole",
    Origin.CONNECTION: "the connection",
    Origin.COGNITO_IDENTITY: "Cognito's identity",
}


def _caller(caller: Caller, selector: object) -> dict[str, Any]:
    """Describe the rule that named *caller*, without showing the name."""
    if selector is False:
        return {"caller_from": "caller=False: it counts for nothing"}
    words = _NAMED_BY | ({} if selector is None else {Origin.OPTION: _selector("caller", selector)})
    joins = [words[name.origin] for name in caller.names]
    return {
        "caller_from": "; ".join(words[origin] for origin in caller.origins) or NOBODY,
        "caller_joins": f"SHA-256 of {', and '.join(joins)}" if joins else None,
    }


def _selector(option: str, selector: object) -> str:
    if isinstance(selector, str):
        quote = "'" if '"' in selector else '"'
        return f"{option}={quote}{selector}{quote}"
    return f"{option}= the callable {getattr(selector, '__qualname__', type(selector).__qualname__)}"


def _ignored_places(what: Identity, path: str) -> int:
    """Return at how many places of the content of *what*, or beside it, there is something by *path*."""
    beside = {ORIGIN: what.origin, ATTRIBUTES: what.attributes, BYTES: what.content.data}
    if path in beside:
        return int(beside[path] is not NOTHING and beside[path] not in ({}, []))
    name = path.removeprefix(f"{ATTRIBUTES}.")
    return (
        _places(what.content.payload, path.split(".")) if name == path else _named_so(what.attributes, name)
    )


def _named_so(attributes: Any, name: str) -> int:
    """Return how many of *attributes*, of one record or of several, have *name*."""
    if isinstance(attributes, OfEach):
        return sum(_named_so(each, name) for each in attributes.values())
    if isinstance(attributes, list):  # Kafka's headers
        return sum(header == name for header, _ in attributes)
    return int(isinstance(attributes, Mapping) and name in attributes)


def _places(found: object, way: list[str]) -> int:
    found = unwrapped(found)
    if isinstance(found, list | tuple):
        return sum(_places(each, way) for each in found)
    if not isinstance(found, Mapping) or way[0] not in found:
        return 0
    return 1 if len(way) == 1 else _places(found[way[0]], way[1:])
