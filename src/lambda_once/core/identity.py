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

Compared means compared apart: the fingerprint has the content's hash, then a short digest each of origin and
attributes, and two fingerprints are compared by the hash and by the parts that both have. So a part that's
ignored from now on is ignored for rows of before, too. A part that's empty is written, one that a source
doesn't have isn't.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

ORIGIN: Final = "@origin"
"""Where a unit was published. No JMESPath begins so."""
ATTRIBUTES: Final = "@attributes"
"""What names of a message's attributes begin with: ``@attributes.sentAt``."""
POSITION: Final = "@position"
BYTES: Final = "@bytes"
"""What a payload was decoded from by a schema: a lenient reader takes two framed values for one."""
CONTENT: Final = "content"
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
    if part in ignore:
        return _LEFT_OUT
    if part == BYTES and ignore:  # what's ignored is in them
        return _LEFT_OUT
    if part == POSITION:
        return _LEFT_OUT if key_from is _OPTION else _IN_TOKEN
    if part == ORIGIN:
        return _COMPARED if key_from is _OPTION else _IN_TOKEN
    return _IN_TOKEN if key_from is _HASH else _COMPARED


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
