"""
What becomes of each part of an identity: it's in the token, compared with the first delivery's, or neither.

Theory of operation. What a source says of a delivery beside its content is who, which operation, where it was
published (origin), where it stands there (position), and what the sender wrote beside it (attributes):

    part        without key=                                   under key=
    content     in the token; with a position: compared        compared
    attributes  in the token; with a position: compared        compared
    origin      in the token                                   compared
    position    in the token                                   left out

Tenant, operation and the caller that is stable are in the token beside every key: they're parts of the scope.
A fresh credential is compared, beside every key.

Compared means compared apart: the fingerprint has the content's hash, then a short digest each of origin and
attributes, and two fingerprints are compared by the hash and by the parts that both have. So a part that's
ignored from now on is ignored for rows of before, too. A part that's empty is written, one that a source
doesn't have isn't.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from lambda_once.core.unit import NOTHING, Among, Given, Identity

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
"""What a payload was decoded from by a schema: a lenient reader takes two framed values for one."""
CONTENT: Final = "content"
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


def standing(part: str, key_from: KeyFrom, ignore: tuple[str, ...] = ()) -> Standing:
    """Return what becomes of *part* of an identity whose key is *key_from*. The one place that decides it."""
    if part in _IN_SCOPE:
        return Standing.IN_TOKEN
    if part == CREDENTIAL:
        return Standing.COMPARED
    if part in ignore and part != CONTENT:  # a field of that name
        return Standing.LEFT_OUT
    if part == BYTES and ignore:  # what's ignored is in them
        return Standing.LEFT_OUT
    if part == POSITION:
        return Standing.LEFT_OUT if key_from is KeyFrom.OPTION else Standing.IN_TOKEN
    if part == ORIGIN:
        return Standing.COMPARED if key_from is KeyFrom.OPTION else Standing.IN_TOKEN
    return Standing.IN_TOKEN if key_from is KeyFrom.HASH else Standing.COMPARED


def key_source(what: Identity, *, has_option: bool) -> KeyFrom:
    """Return where the key of *what* comes from; *has_option*: ``key=`` is given."""
    if has_option or isinstance(what.position, Given):
        return KeyFrom.OPTION
    return KeyFrom.HASH if what.position is NOTHING or isinstance(what.position, Among) else KeyFrom.SOURCE


def beside(
    what: Identity, key_from: KeyFrom, wanted: Standing, ignore: tuple[str, ...] = ()
) -> dict[str, object]:
    """Return what *what* has beside its content, of what is *wanted* of it, without what is ignored."""
    position = what.position
    parts = {
        ORIGIN: what.origin,
        POSITION: position.positions if isinstance(position, Among) else position,
        ATTRIBUTES: what.attributes,
        BYTES: what.content.data,
    }
    found = {
        name: part
        for name, part in parts.items()
        if part is not NOTHING and standing(name, key_from, ignore) is wanted
    }
    attributes = found.get(ATTRIBUTES)
    if isinstance(attributes, Mapping) and ignore:
        found[ATTRIBUTES] = {
            name: form for name, form in attributes.items() if f"{ATTRIBUTES}.{name}" not in ignore
        }
    elif isinstance(attributes, list) and ignore:  # Kafka's headers, in their order
        found[ATTRIBUTES] = [pair for pair in attributes if f"{ATTRIBUTES}.{pair[0]}" not in ignore]
    if wanted is Standing.IN_TOKEN and found.get(ATTRIBUTES) == {}:  # compared apart it is written
        del found[ATTRIBUTES]
    return found


class Part(NamedTuple):
    """A part of an identity, as `explain` prints it."""

    name: str
    value: object
    """`NOTHING` for content, and for who asks."""
    standing: Standing


def parts_of(
    what: Identity, key_from: KeyFrom, tenant: str | None, ignore: tuple[str, ...], *, compares: bool
) -> tuple[Part, ...]:
    """
    Return each part that *what* has, and what becomes of it; *tenant*: that of the process.

    *compares*: whether there is a fingerprint; without one nothing is compared but a credential.
    """
    who = what.who
    said: dict[str, object] = {} if tenant is None else {TENANT: tenant}
    if who is not NOTHING:
        said |= {CALLER: NOTHING} if who.joins else {}
        said |= {CREDENTIAL: NOTHING} if who.presented is not None and who.presented.is_compared else {}
    said |= {OPERATION: list(what.operation)} if what.operation not in (NOTHING, ()) else {}
    found = [Part(name, value, standing(name, key_from)) for name, value in said.items()]
    of_source = {
        name: Part(name, value, each)
        for each in Standing
        for name, value in beside(what, key_from, each, ignore).items()
        if not isinstance(value, Given)
    }
    of_source[CONTENT] = Part(CONTENT, NOTHING, standing(CONTENT, key_from, ignore))
    for name in (ORIGIN, POSITION, ATTRIBUTES, BYTES, CONTENT):
        part = of_source.get(name)
        if part is not None:
            is_left_out = part.standing is Standing.COMPARED and not compares
            found.append(part._replace(standing=Standing.LEFT_OUT) if is_left_out else part)
    return tuple(found)


def located(origin: object, position: object) -> object:
    """
    Return the default key of what stands at *position* of *origin*; None: of no origin.

    One text where an operator can read it, ``account/name/position``, and none of its parts has a slash but
    the last; else both, which makes it a digest.
    """
    parts = origin if isinstance(origin, list) else []
    names = [part for part in parts if isinstance(part, str) and "/" not in part]
    match position:
        case [str(place)] if origin in (None, names):
            return "/".join([*names, place])
        case _:
            return position if origin is None else [origin, position]


def shown(origin: object) -> str:
    """Return *origin* as text for a person: account, queue and topic, or the names they came by."""
    if isinstance(origin, Mapping):
        return ", ".join(f"{name}: {shown(part)}" for name, part in origin.items())
    return "/".join(map(shown, origin)) if isinstance(origin, list) else str(origin)


def is_secret(name: str) -> bool:
    """Whether *name* is of a credential: it counts in a digest, but no checksum of it alone is stored."""
    return name.lower() in _SECRETS


def apart(fingerprint: str, parts: dict[str, str]) -> str:
    """Return *fingerprint* with the digest of each of *parts*, by name."""
    return _APART.join([fingerprint, *(f"{name}:{digest}" for name, digest in parts.items())])


def differing(stored: str, requested: str) -> tuple[str, ...]:
    """Return what differs between two fingerprints: `CONTENT`, and the names of parts that both have."""
    (content, *first), (other, *second) = stored.split(_APART), requested.split(_APART)
    known, asked = (dict(part.split(":", 1) for part in parts) for parts in (first, second))
    different = [name for name in known.keys() & asked.keys() if known[name] != asked[name]]
    return (*((CONTENT,) if content != other else ()), *sorted(different, reverse=True))
