"""
The parts of an identity; each is in the token, compared with the first delivery's, or left out (`parts_of`).

Theory of operation. Beside the content of a delivery, a source names who asks, which operation, where it was
published (origin), its place there (position), and what the sender wrote beside the payload (attributes):

    part        without key=                                   under key=
    content     in the token; with a position: compared        compared
    attributes  in the token; with a position: compared        compared
    origin      in the token                                   compared
    position    in the token                                   left out

Tenant, operation and the stable identity of the caller are in the token, whatever the key; the last two are
parts of the scope. A credential that changes, such as an access token, is compared, whatever the key.

Each part is compared by itself: the fingerprint has the content's hash, then a short digest each of origin,
attributes and the bytes that a schema decoded. Two fingerprints are compared by the hash and by the parts
that both have, so if you ignore a part from now on, it's ignored for older rows, too. An empty part has a
digest; one that the source doesn't have has none.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from lambda_once.errors import KeyMissing, Misconfigured, OnceError

# ------------------------------------------------------------------ the parts


class Nothing(Enum):
    """The type of `NOTHING`, so that type checkers can narrow by `is`."""

    NOTHING = "NOTHING"


NOTHING: Final = Nothing.NOTHING
"""Nothing there: distinct from every payload and key, `None` included. Compare it by `is`."""


def itself(payload: object) -> object:
    """Return *payload*, the content of most sources."""
    return payload


class Presented(NamedTuple):
    """The credential of a request, compared with the first request's. Its repr does not show it."""

    credential: str | None
    """None: requests of this kind may have a credential, but this one has none."""
    proof: bool = True
    """
    False: nothing proves who sent the request, although users differ. It gets no stored outcome; it may run
    if there is none, as the handler then checks the caller.
    """
    advice: str | None = None
    """What the developer can do about a refusal, for the log; None: the usual advice."""

    def __repr__(self) -> str:
        return "Presented(…)"

    @property
    def is_compared(self) -> bool:
        """Whether the row gets a mark that a duplicate must match."""
        return self.credential is not None or not self.proof

    def mark(self, salt: str) -> str | None:
        """
        Return the mark for a row: *salt*, an attempt id, and the HMAC with it. None if nothing is compared.

        Without proof, a word replaces the HMAC; no credential matches it. The mark contains the salt, because
        resolving a token changes its attempt id. Two rows never have the same mark, so marks do not reveal
        which callers are the same.
        """
        if not self.proof:
            return f"{salt}.unverified"
        if self.credential is None:
            return None
        text = self.credential.encode("utf-8", "surrogatepass")
        return f"{salt}.{hmac.digest(salt.encode(), text, 'sha256').hex()}"


class Who(NamedTuple):
    """Who asks for the work."""

    joins: tuple[str, ...]
    """What is stable and verified about them: a part of the scope."""
    presented: Presented | None
    """The credential, which a duplicate must present, too; None: nothing is compared."""


class Given(NamedTuple):
    """Takes the place of a position: the key that a client or a block gives."""

    key: object


class Among(NamedTuple):
    """The positions of records among the arguments of a function, whose key is the hash of its payload."""

    positions: object


class OfEach(dict[str, Any]):
    """A part of several records among the arguments of a function, by the names of the arguments."""


class Refused(NamedTuple):
    """Work that can't be identified, not by ``key=`` either: a record that can't be processed, for one."""

    error: OnceError


class Flaw(NamedTuple):
    """What is wrong with a payload that ``key=`` may identify all the same."""

    error: KeyMissing | Misconfigured | None = None
    """Why it makes no key by itself; None: it makes one."""
    unread: str | None = None
    """What the error begins with if an expression selects nothing from it."""


class Content(NamedTuple):
    """What the work is about, and how it is read."""

    payload: object
    """The payload for key, fingerprint and ignore: parsed, with envelopes opened."""
    counted: Callable[[object], object] = itself
    """From a payload without ignored fields to what is hashed if there is no key."""
    parsed: bool = True
    """Whether payload and envelope are parsed JSON; if not, expressions see their plain form."""
    view: object = NOTHING
    """What expressions see in place of the payload: a record or event as the function gets it."""
    data: object = NOTHING
    """The bytes that a schema decoded to *payload* (`BYTES`)."""
    flaw: Refused | Flaw | None = None


class Identity(NamedTuple):
    """Which work it is: all that a source says of it, equal in all its deliveries. `NOTHING`: not said."""

    who: Who | Nothing
    operation: tuple[object, ...] | Nothing
    """Which kind of work is asked for, a part of the scope; of a block its ``scope=``."""
    origin: object
    """Where it was published: account and name of its queue, topic, stream or table."""
    position: object
    """Where it stands there, such as an offset or an event id: the default key. Or `Given`, or `Among`."""
    attributes: Any
    """What counts of what the sender wrote beside the payload: by name, or Kafka's pairs in their order."""
    content: Content

    def seen_as(self, view: object) -> Identity:
        """Return it with *view*, what the function gets: expressions see it in place of the payload."""
        return self._replace(content=self.content._replace(view=view))


def whole(
    content: Content, operation: tuple[object, ...] | Nothing = NOTHING, position: object = NOTHING
) -> Identity:
    """Return the identity of an event in which everything that counts is in its *content*."""
    return Identity(
        who=NOTHING,
        operation=operation,
        origin=NOTHING,
        position=position,
        attributes=NOTHING,
        content=content,
    )


# ------------------------------------------------------------------ what becomes of them

ORIGIN: Final = "@origin"
"""Where a unit was published. No JMESPath begins so."""
ATTRIBUTES: Final = "@attributes"
"""What names of a message's attributes begin with: ``@attributes.sentAt``."""
POSITION: Final = "@position"
TENANT: Final = "tenant"
CALLER: Final = "caller"
"""What of the caller is stable and verified."""
CREDENTIAL: Final = "credential"
"""What of the caller is fresh."""
OPERATION: Final = "operation"
BYTES: Final = "@bytes"
"""The bytes that a schema decoded to the payload: a lenient reader may decode two values to the same."""
CONTENT: Final = "content"
_IGNORED_WHOLE: Final = frozenset({ORIGIN, ATTRIBUTES, BYTES})
"""What ``ignore=`` may name as a whole. Not the position: nothing else identifies such a delivery."""
_IN_SCOPE: Final = frozenset({TENANT, CALLER, OPERATION})
_APART: Final = "~"
_SECRETS: Final = frozenset({"authorization", "cookie", "x-api-key"})


class KeyFrom(Enum):
    """The source of a unit's key."""

    OPTION = "key="
    SOURCE = "what the source itself identifies it by"
    HASH = "the hash of its payload"


class Standing(Enum):
    """What becomes of a part of an identity."""

    IN_TOKEN = "in the token"
    COMPARED = "compared"
    LEFT_OUT = "left out"


# Before Python 3.12 a member of an enum takes longer to look up than all of `standing`.
_IN_TOKEN, _COMPARED, _LEFT_OUT = Standing
_OPTION, _, _HASH = KeyFrom


def standing(part: str, key_from: KeyFrom, ignore: tuple[str, ...] = ()) -> Standing:
    """Return what becomes of *part* of an identity whose key is *key_from*. The one place that decides it."""
    if part in _IN_SCOPE:
        return _IN_TOKEN
    if part == CREDENTIAL:
        return _COMPARED
    if part in _IGNORED_WHOLE and part in ignore:
        return _LEFT_OUT
    if part == BYTES and in_content(ignore):
        return _LEFT_OUT  # the bytes contain the ignored field
    if part == POSITION:
        return _LEFT_OUT if key_from is _OPTION else _IN_TOKEN
    if part == ORIGIN:
        return _COMPARED if key_from is _OPTION else _IN_TOKEN
    return _IN_TOKEN if key_from is _HASH else _COMPARED  # attributes, bytes, content


def in_content(ignore: Sequence[str]) -> tuple[str, ...]:
    """
    Return what *ignore* names in the content; the rest of it names parts beside the content.

    A payload may have such names, too: PHP and others write the attributes of XML as ``"@attributes"``.
    """
    return tuple(path for path in ignore if path.partition(".")[0] not in _IGNORED_WHOLE)


class Parts(NamedTuple):
    """The parts of an identity beside its content, by their `Standing`, without what is ignored."""

    key_from: KeyFrom
    key: object
    """The key that was given or made of the position; `NOTHING`: ``key=`` selects it, or it's a hash."""
    scope: tuple[object, ...]
    """Operation and who: in the token beside every key."""
    in_token: dict[str, object]
    """By name: hashed with the content, or part of the key that is made of the position."""
    compared: dict[str, object]
    """By name: each has a digest in the fingerprint."""


def parts_of(
    identity: Identity, ignore: tuple[str, ...] = (), *, has_option: bool, narrows: bool = False
) -> Parts:
    """
    Return what becomes of *identity*, of which *ignore* is left out.

    *has_option*: ``key=`` is given. *narrows*: what ``fingerprint=`` selects takes the content's place.
    """
    position, key_from = identity.position, KeyFrom.SOURCE
    if has_option or isinstance(position, Given):
        key_from = _OPTION
    elif position is NOTHING or isinstance(position, Among):
        key_from = _HASH
    in_token: dict[str, object] = {}
    compared: dict[str, object] = {}
    for name, part in (
        (ORIGIN, identity.origin),
        (POSITION, position.positions if isinstance(position, Among) else position),
        (ATTRIBUTES, _not_ignored(identity.attributes, ignore) if ignore else identity.attributes),
        (BYTES, NOTHING if narrows else identity.content.data),
    ):
        becomes = _LEFT_OUT if part is NOTHING else standing(name, key_from, ignore)
        if becomes is _COMPARED:
            compared[name] = part
        elif becomes is _IN_TOKEN and part != {}:  # an empty part adds nothing to a hash; compared, it counts
            in_token[name] = part
    key: object = NOTHING
    if key_from is KeyFrom.SOURCE:
        key = default_key(in_token.get(ORIGIN), position)
    elif isinstance(position, Given) and not has_option:
        key = position.key
    return Parts(key_from, key, scope_of(identity), in_token, compared)


def scope_of(identity: Identity) -> tuple[object, ...]:
    """Return the part of the scope that the source adds: the operation and the verified caller."""
    operation = () if identity.operation is NOTHING else identity.operation
    return operation if identity.who is NOTHING else (*operation, *identity.who.joins)


class Scoping(IntEnum):
    """What the tokens of a name have before their keys."""

    NONE = 0
    SCOPE = 1
    """A scope, whose parts can be passed to `Once.outcome`."""
    CALLER = 2
    """A digest of their caller, too, which nobody can pass."""


def _not_ignored(attributes: object, ignore: tuple[str, ...]) -> object:
    """Return *attributes*, of one record or of several, without those that *ignore* names."""
    if isinstance(attributes, OfEach):
        return OfEach({argument: _not_ignored(each, ignore) for argument, each in attributes.items()})
    if isinstance(attributes, Mapping):
        return {name: form for name, form in attributes.items() if f"{ATTRIBUTES}.{name}" not in ignore}
    if isinstance(attributes, list):  # Kafka's headers, in their order
        return [pair for pair in attributes if f"{ATTRIBUTES}.{pair[0]}" not in ignore]
    return attributes


class Part(NamedTuple):
    """A part of an identity, as `explain` prints it."""

    name: str
    value: object
    """`NOTHING` for content, and for who asks."""
    standing: Standing


def standings(
    identity: Identity, parts: Parts, tenant: str | None, ignore: tuple[str, ...], *, compares: bool
) -> list[Part]:
    """
    Return each part of *identity*, whose *parts* are given, and what becomes of it; *tenant*: the process's.

    *compares*: whether there is a fingerprint; without one nothing is compared but a credential.
    """
    who, position = identity.who, identity.position
    presented = None if who is NOTHING else who.presented
    values = {
        TENANT: NOTHING if tenant is None else tenant,
        OPERATION: identity.operation,
        ORIGIN: identity.origin,
        POSITION: position.positions if isinstance(position, Among) else position,
        ATTRIBUTES: _not_ignored(identity.attributes, ignore),
        BYTES: identity.content.data,
    }
    present = {name for name, part in values.items() if not (part is NOTHING or isinstance(part, Given))}
    present |= {CALLER} if who is not NOTHING and who.joins else set()
    present |= {CREDENTIAL} if presented is not None and presented.is_compared else set()
    present.add(CONTENT)
    listed: list[Part] = []
    for name in (TENANT, CALLER, CREDENTIAL, OPERATION, ORIGIN, POSITION, ATTRIBUTES, BYTES, CONTENT):
        if name in present:
            value = parts.in_token.get(name, parts.compared.get(name, values.get(name, NOTHING)))
            becomes = standing(name, parts.key_from, ignore)
            is_narrowed = name == BYTES and BYTES not in parts.compared  # by ``fingerprint=``
            if is_narrowed or (becomes is _COMPARED and name != CREDENTIAL and not compares):
                becomes = _LEFT_OUT
            listed.append(Part(name, value, becomes))
    return listed


def default_key(origin: object, position: object) -> object:
    """
    Return the default key of the delivery at *position* in *origin*, which may be None.

    ``account/name/position``, which an operator can read, if all are text and no name has a slash;
    else both values, which become a digest.
    """
    parts = origin if isinstance(origin, list) else []
    names = [part for part in parts if isinstance(part, str) and "/" not in part]
    match position:
        case [str(offset)] if origin in (None, names):  # every name of the origin is plain text
            return "/".join([*names, offset])
        case _:
            return position if origin is None else [origin, position]


def shown(origin: object) -> str:
    """Return *origin* as text for a person: account, queue and topic, or the names they came by."""
    if isinstance(origin, Mapping):
        return ", ".join(f"{name}: {shown(part)}" for name, part in origin.items())
    return "/".join(map(shown, origin)) if isinstance(origin, list) else str(origin)


def is_secret(name: str) -> bool:
    """Whether *name* is a credential's: its value is hashed with others, never stored as a checksum alone."""
    return name.lower() in _SECRETS


def apart(fingerprint: str, parts: dict[str, str]) -> str:
    """Return *fingerprint* with *parts*: digests, by name."""
    return _APART.join([fingerprint, *(f"{name}:{digest}" for name, digest in parts.items())])


def differing(stored: str, requested: str) -> tuple[str, ...]:
    """Return what differs between two fingerprints: `CONTENT`, and the names of parts that both have."""
    (content, *first), (other, *second) = stored.split(_APART), requested.split(_APART)
    digests, others = (dict(part.split(":", 1) for part in parts) for parts in (first, second))
    different = [name for name in digests.keys() & others.keys() if digests[name] != others[name]]
    is_other = content != other or BYTES in different
    return (*((CONTENT,) if is_other else ()), *sorted(different, reverse=True))
