"""
How a document lies in its table: parts, and the head that names the version that counts. Pure values.

    pk  sk                                attributes
    id  01JD3V…#0001, 01JD3V…#0002, …     body, form, total, above: the parts of one version, by size
    id  01JD3V…#terms, 01JD3V…#annex, …   the same, by named section: section
    id  head                              version, before, floor, at; ttl where the document is deleted

A version is a ULID, so that parts sort as they were written, and the head sorts behind them all: one query
backwards meets the head, then the newest version, then the one before it. A part never changes. A version
**stands** from the one conditional write that puts its name into the head; what was never named there is
never read, however whole it is. ``total`` on each part tells from the parts alone whether all are there, for
replicas may get them, and the head, in any order. ``above`` is the version that stood when the write began:
so each version that stood names one before it, however many the head has forgotten.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, NewType

from lambda_once.core.clock import epoch_milliseconds, epoch_seconds
from lambda_once.errors import Misconfigured
from lambda_once.patterns.documents.errors import VersionConflict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Version = NewType("Version", str)
"""A ULID, 26 characters: as text it sorts by the time of its write."""

HEAD: Final = "head"
"""The head's sort key; ULIDs are of 0-9 and A-Z, so it is behind every part."""
SEPARATOR: Final = "#"
LOWEST: Final = "0"
"""Sorts before every ULID."""

MOST_BEFORE: Final = 8
"""Versions that the head remembers before its own: what it takes to tell a lost answer from a lost race."""

ATTRIBUTES: Final = frozenset(
    {"body", "form", "section", "total", "above", "version", "before", "floor", "at", "ttl"}
)
_VERSION: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Form(StrEnum):
    """What the bytes of a body are."""

    JSON = "json"
    BYTES = "bytes"


class Absent(Enum):
    """See `ABSENT`."""

    ABSENT = "no document"


ABSENT: Final = Absent.ABSENT
"""``expected_version=ABSENT``: write only where there is no document."""


class Part(NamedTuple):
    """One part as it is stored; *body* is None where only keys were asked for."""

    version: Version
    name: str
    total: int
    form: Form
    body: bytes | None
    section: bool
    above: Version | None = None
    """The version that stood when this one was begun; None: none, or nobody knows."""


class Standing(NamedTuple):
    """The parts of one version that were found."""

    version: Version
    parts: tuple[Part, ...]

    @property
    def whole(self) -> bool:
        return len(self.parts) == self.parts[0].total


class Head(NamedTuple):
    """Which version stands."""

    version: Version
    before: tuple[Version, ...] = ()
    """Those that stood before, the newest first, `MOST_BEFORE` at most."""
    floor: str = ""
    """The version of the last deletion: what is not above it is gone."""
    at: int = 0
    """When it was written, by its writer's clock: milliseconds since 1970."""
    ttl: int | None = None

    @property
    def deleted(self) -> bool:
        return self.floor == self.version

    def stood(self, version: str) -> bool:
        """Tell whether *version* stands, or stood since the document was last deleted."""
        return version > self.floor and (version == self.version or version in self.before)

    def committed(self, version: str) -> bool | None:
        """
        Tell whether *version* was ever named by the head; None where too many came after it to know.

        Versions only grow, so what is missing from the remembered ones, and not older than they are, was
        never there.
        """
        if version == self.version or version in self.before:
            return True
        return False if len(self.before) < MOST_BEFORE or min(self.before) < version else None


# -- versions


def new_version(at: datetime, above: Version | None) -> Version:
    """
    Return a version of the time *at*, but always greater than *above*.

    Where the clock is not ahead of *above*, it is one millisecond later than that. Its 80 random bits are
    always fresh (two writers that know the same *above* must not make the same version).
    """
    from ulid import ULID

    milliseconds = epoch_milliseconds(at)
    if above is not None:
        milliseconds = max(milliseconds, ULID.from_str(above).milliseconds + 1)
    return Version(str(ULID.from_bytes(milliseconds.to_bytes(6, "big") + os.urandom(10))))


def time_of(version: Version) -> datetime:
    """Return the time that is written in *version*."""
    from ulid import ULID

    return datetime.fromtimestamp(ULID.from_str(version).milliseconds / 1000, UTC)


def behind(version: Version) -> str:
    """Return a sort key behind every part of *version*, and before every later one."""
    return f"{version}~"


def is_version(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None


def checked_version(text: object) -> Version:
    if not isinstance(text, str) or not is_version(text):
        raise Misconfigured(f"expected_version is {text!r}: give the version of a document that was read")
    return Version(text)


# -- what of a document counts


def versions(parts: Iterable[Part]) -> Iterator[Standing]:
    """
    Gather *parts*, which come newest version first, by version.

    A whole version is given as soon as it is: nothing after it is asked for.
    """
    found: list[Part] = []
    for part in parts:
        if found and part.version != found[0].version:
            yield Standing(found[0].version, tuple(found))
            found = []
        found.append(part)
        if len(found) == part.total:
            yield Standing(part.version, tuple(found))
            found = []
    if found:
        yield Standing(found[0].version, tuple(found))


def newest_whole(head: Head, found: Iterable[Standing]) -> Standing | None:
    """Return the newest version that stands or stood, and of which every part is there."""
    return next((each for each in found if head.stood(each.version) and each.whole), None)


def superseded(head: Head, found: Iterable[Standing], abandoned: Version) -> list[Part]:
    """
    Return the parts that nobody will read any more.

    Of a deleted document all below its deletion. Else nothing that is as new as the newest whole version or
    newer; and below it what stood before: what the head names, and what a version that stood was written
    above. What never stood may belong to a writer that is still at work, in
    another region too: it is taken only where it is older than *abandoned*.
    """
    kept: Standing | None = None
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
    """Return *head* as one that says that the document is deleted, for as long as *keep* from *at* on."""
    return head._replace(floor=head.version, ttl=epoch_seconds(at + keep))


def expect(entity_id: str, expected: Version | Absent | None, standing: Head | None) -> None:
    """Raise `VersionConflict` where what stands is not what was expected; None expects nothing."""
    if expected is None:
        return
    version = None if standing is None or standing.deleted else standing.version
    if version != (None if isinstance(expected, Absent) else expected):
        raise VersionConflict(
            f"document {entity_id!r}: {_named(version)} stands and {_named(expected)} was expected: read it, "
            f"and decide again",
            standing=version,
        )


def _named(version: Version | Absent | None) -> str:
    return "no document" if version is None or isinstance(version, Absent) else f"version {version}"
