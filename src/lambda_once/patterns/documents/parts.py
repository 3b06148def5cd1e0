"""
How a document is stored: parts, and a head that names the current version. Pure values.

    pk  sk                                attributes
    id  01JD3V…#0001, 01JD3V…#0002, …     body, form, total, above: the parts of one version, by size
    id  01JD3V…#terms, 01JD3V…#annex, …   the same, by named section: section
    id  head                              version, before, floor, at; ttl where the document is deleted

A version is a ULID, so parts sort in the order of their writes, and the head sorts after them all: one query
backwards returns the head, then the newest version, then the one before it. A part never changes. A
conditional write that puts the version into the head **commits** it; a version that was never in the head is
never read. ``total`` on each part is the number of parts of its version, so that missing parts are noticed:
replicas may receive parts and head in any order. ``above`` is the version that was current when the write
began. It links each committed version to an earlier one, even after the head has forgotten that one.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NewType

from lambda_once.core.clock import epoch_milliseconds, epoch_seconds
from lambda_once.errors import Misconfigured
from lambda_once.patterns.exact_json import exact_json
from lambda_once.patterns.results import Conflict
from lambda_once.patterns.table import KEY_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Version = NewType("Version", str)
"""A ULID of 26 characters, which sorts as text by the time of its write."""

DocumentId = str | tuple[str, str]
"""The partition key of a document; with a prefix, partition key and name."""

HEAD: Final = "head"
"""The head's sort key. ULIDs begin with a digit, so the head sorts after every part."""
SEPARATOR: Final = "#"
LOWEST: Final = "0"
"""Sorts before every ULID."""

MOST_BEFORE: Final = 8
"""
Number of earlier versions in the head, by which a writer distinguishes a lost response from a lost race.
"""

ATTRIBUTES: Final = ("body", "form", "section", "total", "above", "version", "before", "floor", "at", "ttl")
MOST_PART_BYTES: Final = 400_000
"""An item has at most 409,600 bytes with its names and keys; the keys take up to 2,048 and 282 bytes."""
MOST_PARTS: Final = 9_999
MOST_START_BYTES: Final = 741
"""Bytes of prefix and name: a sort key has at most 1,024, of which version and section take 283."""
MOST_NAME_BYTES: Final = 255

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
    """One part of a document."""

    name: str
    form: Form
    body: bytes | None
    """None if only keys were read."""
    section: bool
    total: int
    version: Version = Version("")
    """Empty before the write begins."""
    above: Version | None = None
    """The version that was current when the write began, if any."""


class StoredVersion(NamedTuple):
    """The parts of one version that were found."""

    parts: list[Part]

    @property
    def version(self) -> Version:
        return self.parts[0].version

    @property
    def whole(self) -> bool:
        return len(self.parts) == self.parts[0].total


class Head(NamedTuple):
    """The current version of a document."""

    version: Version
    before: tuple[Version, ...] = ()
    """Earlier versions, newest first, at most `MOST_BEFORE`."""
    floor: str = ""
    """The version of the last deletion; older parts are deleted."""
    at: int = 0
    """When it was written, by the writer's clock, in milliseconds since 1970."""
    ttl: int | None = None

    @property
    def deleted(self) -> bool:
        return self.floor == self.version

    def stood(self, version: str) -> bool:
        """Return whether *version* is current, or was at any time since the last deletion."""
        return version > self.floor and (version == self.version or version in self.before)

    def committed(self, version: str) -> bool | None:
        """
        Return whether *version* was ever in the head; None if too many later versions followed to know.

        Versions only grow, so a version that is missing from ``before``, and is newer than the oldest there,
        was never in the head.
        """
        if version == self.version or version in self.before:
            return True
        return False if len(self.before) < MOST_BEFORE or min(self.before) < version else None


def check_id(entity_id: object, prefix: str) -> None:
    """Raise `Misconfigured` for an invalid id; with *prefix* an id is (partition, name)."""
    match entity_id:
        case str() if prefix == "" and 1 <= _size(entity_id) <= KEY_LIMITS[0]:
            return
        case (str(key), str(name)) if prefix and name and SEPARATOR not in name:
            if 1 <= _size(key) <= KEY_LIMITS[0] and _size(prefix + name) <= MOST_START_BYTES:
                return
    wanted = f"text of 1 to {KEY_LIMITS[0]:,} bytes"
    if prefix:
        wanted = f"(partition, name), the name without {SEPARATOR!r}, {MOST_START_BYTES} bytes with prefix="
    raise Misconfigured(f"the id of a document is {wanted}, and this is {entity_id!r:.80}")


def check_cursor(cursor: object, prefix: str) -> None:
    """Raise `Misconfigured` for an invalid cursor, the sort key below which the next page begins."""
    match cursor:
        case None:
            return
        case str() if cursor.startswith(prefix) and _size(cursor) <= KEY_LIMITS[1]:
            return
    raise Misconfigured("cursor: give that of the page before")


# -- content, cut by size or by named section, and back


def whole_document(document: object, part_bytes: int) -> list[Part]:
    """Split *document* by size. Raises `Misconfigured` if it is empty, too large or not JSON-serialisable."""
    form, body = _encoded(document, "the document")
    starts = range(0, len(body), part_bytes)
    _check_number(len(starts))
    return [
        Part(f"{n:04}", form, body[start : start + part_bytes], section=False, total=len(starts))
        for n, start in enumerate(starts, 1)
    ]


def named_sections(sections: Mapping[Any, object], part_bytes: int) -> list[Part]:
    """Return one part for each section. Raises `Misconfigured`, which names the section."""
    _check_number(len(sections))
    made: list[Part] = []
    for name, content in sections.items():
        if not isinstance(name, str) or SEPARATOR in name or not 1 <= _size(name) <= MOST_NAME_BYTES:
            raise Misconfigured(
                f"the section {name!r} cannot be stored: a name is text of 1 to {MOST_NAME_BYTES} bytes "
                f"without {SEPARATOR!r}"
            )
        form, body = _encoded(content, f"the section {name!r}")
        if len(body) > part_bytes:
            raise Misconfigured(
                f"the section {name!r} has {len(body):,} bytes, and a part has {part_bytes:,} at most: "
                f"split it, or write the document whole, which is cut by size"
            )
        made.append(Part(name, form, body, section=True, total=len(sections)))
    return made


def _encoded(content: object, what: str) -> tuple[Form, bytes]:
    if isinstance(content, bytes | bytearray):
        return Form.BYTES, bytes(content)
    try:
        text = exact_json(content, _number)
    except (TypeError, ValueError, RecursionError) as error:
        raise Misconfigured(f"{what} is neither bytes nor JSON-serialisable: {error}") from None
    return Form.JSON, text.encode("utf-8", "surrogatepass")


def _number(value: object) -> str:
    """Return a Decimal with an ``E``, which no float is written with, so that it is read as a Decimal."""
    if not isinstance(value, Decimal):
        raise TypeError(f"{type(value).__name__} is not JSON")
    if not value.is_finite():
        raise ValueError("JSON has no NaN and no infinity")
    return f"{value:E}"


def _read_number(text: str) -> float | Decimal:
    return Decimal(text) if "E" in text else float(text)


def _check_number(parts: int) -> None:
    if not 1 <= parts <= MOST_PARTS:
        raise Misconfigured(
            f"the document has {parts:,} parts or sections, and {MOST_PARTS:,} is the most: make it smaller"
            if parts
            else "the document is empty: delete it instead"
        )


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def content_of(version: StoredVersion) -> Any:
    """Return the document, or its sections. *version* must be whole and have its bodies."""
    if version.parts[0].section:
        return {part.name: _decoded(part.form, part.body or b"") for part in version.parts}
    bodies = [part.body or b"" for part in sorted(version.parts, key=lambda part: part.name)]
    return _decoded(version.parts[0].form, b"".join(bodies))


def _decoded(form: Form, body: bytes) -> Any:
    if form is Form.BYTES:
        return body
    return json.loads(body.decode("utf-8", "surrogatepass"), parse_float=_read_number)


# -- versions


def new_version(at: datetime, above: Version | None) -> Version:
    """
    Return a version for the time *at*, or for the millisecond after *above* if that is later.

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


def is_version(text: object) -> bool:
    return isinstance(text, str) and _VERSION.fullmatch(text) is not None


# -- complete and superseded versions


def versions(parts: Iterable[Part]) -> Iterator[StoredVersion]:
    """Group *parts* by version, newest first; yield a whole version before reading the next part."""
    found: list[Part] = []
    for part in parts:
        if found and part.version != found[0].version:
            yield StoredVersion(found)
            found = []
        found.append(part)
        if len(found) == part.total:
            yield StoredVersion(found)
            found = []
    if found:
        yield StoredVersion(found)


def newest_whole(head: Head, found: Iterable[StoredVersion]) -> StoredVersion | None:
    """Return the newest committed version that is whole."""
    return next((each for each in found if head.stood(each.version) and each.whole), None)


def superseded(head: Head, found: Iterable[StoredVersion], abandoned: Version) -> list[Part]:
    """
    Return the parts that no reader needs any more.

    These are all parts up to a deletion and, below the newest whole version, those of committed versions: the
    versions in the head, and the ``above`` of each committed one. A version that was never committed may
    belong to a writer that is still running, perhaps in another region, so its parts count only once it is
    older than *abandoned*.
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


def succeeding(seen: Head | None, version: Version, at: datetime, keep: timedelta | None = None) -> Head:
    """Return the head that replaces *seen* with *version*; with *keep* a deletion, remembered that long."""
    before = () if seen is None else (seen.version, *seen.before)[:MOST_BEFORE]
    if keep is not None:
        return Head(version, before, version, epoch_milliseconds(at), epoch_seconds(at + keep))
    return Head(version, before, "" if seen is None else seen.floor, epoch_milliseconds(at))


def expect(entity_id: DocumentId, expected: str | Absent | None, head: Head | None) -> None:
    """Raise `Conflict` if the current version is not the expected one; None disables the check."""
    if expected is None:
        return
    version = ABSENT if head is None or head.deleted else head.version
    if version != expected:
        needs, has = ("no version" if each is ABSENT else f"version {each}" for each in (expected, version))
        raise Conflict(
            f"document {entity_id!r}: expected {needs}, but it has {has}: read it, and decide again",
            values={} if version is ABSENT else {"version": version},
        )
