"""
How a document is stored: parts, and a head that names the current version. Pure values.

    pk  sk                                attributes
    id  01JD3V…#0001, 01JD3V…#0002, …     body, form, total, above: the parts of one version, by size
    id  01JD3V…#terms, 01JD3V…#annex, …   the same, by named section: section
    id  head                              version, before, floor, at; ttl where the document is deleted

A version is a ULID, so parts sort in the order of their writes, and the head sorts after them all: one query
backwards returns the head, then the newest version, then the one before it. A part never changes. A version
is **committed** by the one conditional write that puts its name into the head; a version that was never named
there is never read. ``total`` on each part shows from the parts alone whether all are there, because replicas
may get parts and head in any order. ``above`` is the version that was current when the write began: so each
committed version names one before it, however many the head has forgotten.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, NewType

from lambda_once.core.clock import epoch_milliseconds, epoch_seconds
from lambda_once.errors import Misconfigured
from lambda_once.patterns.results import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Version = NewType("Version", str)
"""A ULID, 26 characters: as text it sorts by the time of its write."""

DocumentId = str | tuple[str, str]
"""The partition key of a document; with a prefix, partition key and name."""

HEAD: Final = "head"
"""The head's sort key; ULIDs are of 0-9 and A-Z, so it sorts after every part."""
SEPARATOR: Final = "#"
LOWEST: Final = "0"
"""Sorts before every ULID."""

MOST_BEFORE: Final = 8
"""Earlier versions in the head: they distinguish a lost answer from a lost race."""

ATTRIBUTES: Final = ("body", "form", "section", "total", "above", "version", "before", "floor", "at", "ttl")
_VERSION: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Form(StrEnum):
    """The encoding of a body."""

    JSON = "json"
    BYTES = "bytes"


class Absent(Enum):
    """``expected_version=ABSENT``: write only if there is no document."""

    ABSENT = "no document"


ABSENT: Final = Absent.ABSENT


class Part(NamedTuple):
    """One part as it is stored; *body* is None where only keys were asked for."""

    version: Version
    name: str
    total: int
    form: Form
    body: bytes | None
    section: bool
    above: Version | None = None
    """The version that was current when this one was begun; None for none or unknown."""


class StoredVersion(NamedTuple):
    """The parts of one version that were found."""

    version: Version
    parts: tuple[Part, ...]

    @property
    def whole(self) -> bool:
        return len(self.parts) == self.parts[0].total


class Head(NamedTuple):
    """The current version of a document."""

    version: Version
    before: tuple[Version, ...] = ()
    """Earlier versions, the newest first, `MOST_BEFORE` at most."""
    floor: str = ""
    """The version of the last deletion: parts up to it are gone."""
    at: int = 0
    """Its time by its writer's clock: milliseconds since 1970."""
    ttl: int | None = None

    @property
    def deleted(self) -> bool:
        return self.floor == self.version

    def stood(self, version: str) -> bool:
        """Return whether *version* is current, or was since the document was last deleted."""
        return version > self.floor and (version == self.version or version in self.before)

    def committed(self, version: str) -> bool | None:
        """
        Return whether the head ever named *version*; None where too many came after it to know.

        Versions only grow, so a version that is not remembered, and not older than those that are, was never
        in the head.
        """
        if version == self.version or version in self.before:
            return True
        return False if len(self.before) < MOST_BEFORE or min(self.before) < version else None


# -- versions


def new_version(at: datetime, above: Version | None) -> Version:
    """
    Return a version of the time *at*, or one millisecond later than *above* where that is greater.

    Its 80 random bits are new each time: two writers with the same *above* must not make the same version.
    """
    from ulid import ULID

    milliseconds = epoch_milliseconds(at)
    if above is not None:
        milliseconds = max(milliseconds, ULID.from_str(above).milliseconds + 1)
    return Version(str(ULID.from_bytes(milliseconds.to_bytes(6, "big") + os.urandom(10))))


def written_at(version: Version) -> datetime:
    from ulid import ULID

    return datetime.fromtimestamp(ULID.from_str(version).milliseconds / 1000, UTC)


def behind(version: Version) -> str:
    """Return a sort key after every part of *version*, and before every later one."""
    return f"{version}~"


def is_version(text: object) -> bool:
    return isinstance(text, str) and _VERSION.fullmatch(text) is not None


def checked_version(expected: str | Absent | None) -> Version | Absent | None:
    if not isinstance(expected, str):
        return expected
    if not is_version(expected):
        raise Misconfigured(f"expected_version is {expected!r}: give the version of a document as read")
    return Version(expected)


# -- complete and superseded versions


def versions(parts: Iterable[Part]) -> Iterator[StoredVersion]:
    """Group *parts*, newest version first; a whole one is yielded before the next part is read."""
    found: list[Part] = []
    for part in parts:
        if found and part.version != found[0].version:
            yield StoredVersion(found[0].version, tuple(found))
            found = []
        found.append(part)
        if len(found) == part.total:
            yield StoredVersion(part.version, tuple(found))
            found = []
    if found:
        yield StoredVersion(found[0].version, tuple(found))


def newest_whole(head: Head, found: Iterable[StoredVersion]) -> StoredVersion | None:
    """Return the newest committed version of which every part is there."""
    return next((each for each in found if head.stood(each.version) and each.whole), None)


def superseded(head: Head, found: Iterable[StoredVersion], abandoned: Version) -> list[Part]:
    """
    Return the parts that no reader needs any more.

    All parts up to a deletion. Otherwise, below the newest whole version, the committed ones: those that the
    head names, and those that a committed version was written above. A version that was never committed may
    belong to a writer that is still at work, in another region too: it is superseded once it is older than
    *abandoned*.
    """
    kept: StoredVersion | None = None
    gone: list[Part] = []
    stood = {head.version, *head.before}
    for each in found:
        if each.version in stood:
            stood |= {part.above for part in each.parts if part.above is not None}
        if each.version <= head.floor:
            gone += each.parts
        elif kept is not None:
            if each.version in stood or each.version < abandoned:
                gone += each.parts
        elif head.stood(each.version) and each.whole:
            kept = each
    return gone


def succeeding(seen: Head | None, version: Version, at: datetime) -> Head:
    """Return the head that names *version* after *seen*."""
    if seen is None:
        return Head(version, at=epoch_milliseconds(at))
    return Head(version, (seen.version, *seen.before)[:MOST_BEFORE], seen.floor, epoch_milliseconds(at))


def deleting(head: Head, at: datetime, keep: timedelta) -> Head:
    """Return *head* as that of a deleted document, kept for *keep* from *at* on."""
    return head._replace(floor=head.version, ttl=epoch_seconds(at + keep))


def expect(entity_id: DocumentId, expected: Version | Absent | None, head: Head | None) -> None:
    """Raise `Conflict` where the current version is not the expected one; None expects nothing."""
    if expected is None:
        return
    wanted = None if isinstance(expected, Absent) else expected
    version = None if head is None or head.deleted else head.version
    if version != wanted:
        needs, has = ("no version" if each is None else f"version {each}" for each in (wanted, version))
        raise Conflict(
            f"document {entity_id!r}: expected {needs}, but it has {has}: read it, and decide again",
            values={} if version is None else {"version": version},
        )
