"""
`Documents`: entities over DynamoDB's 400 KB, as parts of which a reader sees all or none.

A write puts the parts of a new version, which nobody reads, and then names it in the head, by one conditional
write: that decides. Whatever is cut off before it was never written, and of several writers each sees the
head of the one before. A read takes the newest version that stands and is whole.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.documents.content import (
    MOST_PART_BYTES,
    check_id,
    content_of,
    named_sections,
    whole_document,
)
from lambda_once.patterns.documents.errors import Unreadable, VersionAhead, VersionConflict
from lambda_once.patterns.documents.parts import (
    ABSENT,
    ATTRIBUTES,
    Absent,
    Head,
    Version,
    behind,
    checked_version,
    deleting,
    expect,
    new_version,
    newest_whole,
    succeeding,
    superseded,
    time_of,
    versions,
)
from lambda_once.patterns.documents.requests import Place
from lambda_once.patterns.documents.table import DocumentTable
from lambda_once.patterns.transport import PatternTransport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lambda_once.core.clock import Clock
    from lambda_once.patterns.documents.content import Draft

__all__ = ["ABSENT", "Document", "Documents", "Version"]

PART_BYTES: Final = 350_000
AHEAD: Final = timedelta(minutes=5)
"""Clocks under NTP differ by milliseconds; a machine that wakes up may need minutes."""
KEEP_DELETED: Final = timedelta(days=14)
"""No write that began before a deletion may end after it was forgotten."""
ABANDONED: Final = timedelta(days=1)
"""
The age at which a version that never stood has no writer any more.

An invocation takes 15 minutes at most; 90 on Lambda Managed Instances.
"""


class _Nothing(Enum):
    GIVEN = "nothing given"


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it was written: *value* is bytes, what JSON can write, or a dict of such sections."""

    entity_id: str
    value: Any
    version: Version
    fell_back: bool
    """Whether a newer version stands, of which parts are not here yet: see `Documents.read`."""


class Documents:
    """
    The documents of one table. Safe from several threads; connects at first use.

    *key* and *sort* are the table's key attributes, both text. *part_bytes* is how much of a document one
    part holds. *ahead* is how far in the future the newest version may be dated before writing is refused
    (None: any), *keep_deleted* how long a deletion is remembered (attribute ``ttl``). Raises `Misconfigured`.
    """

    def __init__(
        self,
        table: str,
        client: Any = None,
        *,
        key: str = "pk",
        sort: str = "sk",
        part_bytes: int = PART_BYTES,
        ahead: timedelta | None = AHEAD,
        keep_deleted: timedelta = KEEP_DELETED,
        clock: Clock | None = None,
    ) -> None:
        _check_options(key, sort, part_bytes, ahead, keep_deleted)
        transport = PatternTransport(client, clock)
        self._clock = transport.clock
        self.place = Place(table, key, sort)
        self._table = DocumentTable(self.place, transport)
        self._part_bytes = part_bytes
        self._ahead = ahead
        self._keep_deleted = keep_deleted

    def write(
        self,
        entity_id: str,
        document: object = _Nothing.GIVEN,
        *,
        sections: Mapping[str, object] | None = None,
        expected_version: str | Absent | None = None,
    ) -> Version:
        """
        Write *document*, cut by size, or *sections*, each a part of its own, and return the new version.

        Both are bytes or what JSON can write, and come back as bytes or as JSON reads them. With
        *expected_version* only where that version stands (`ABSENT`: no document); without, the newest version
        wins: that of another writer who finishes at the same time may be written over this one at once.

        Raises `VersionConflict`, `VersionAhead` and `Misconfigured`, and nothing can be read of it then;
        `StoreUnavailable` without an answer, when it may stand or not: read.
        """
        check_id(entity_id)
        drafts = self._drafts(document, sections)
        expected = (
            checked_version(expected_version) if isinstance(expected_version, str) else expected_version
        )
        seen = self._table.head(entity_id)
        expect(entity_id, expected, seen)
        version = self._next(entity_id, seen)
        self._table.put(entity_id, version, drafts, None if seen is None else seen.version)
        try:
            stood = self._decide(entity_id, seen, version, expected, deletes=False)
        except VersionConflict:
            self._take_back(entity_id, version, drafts)
            raise
        if not stood:
            self._take_back(entity_id, version, drafts)
        return version

    def delete(self, entity_id: str, *, expected_version: str | None = None) -> None:
        """
        Delete the document and all parts older than this; where there is none, that is no error.

        A write at the same time ends before it or after it: in no document, or in a whole one. Raises as
        `write` does. What stays is the head, which remembers the deletion for ``keep_deleted``.
        """
        check_id(entity_id)
        expected = None if expected_version is None else checked_version(expected_version)
        seen = self._table.head(entity_id)
        expect(entity_id, expected, seen)
        version = self._next(entity_id, seen)
        self._decide(entity_id, seen, version, expected, deletes=True)
        older = self._table.parts(entity_id, below=version, consistent=True)
        self._table.delete(entity_id, [(part.version, part.name) for part in older])

    def clean(self, entity_id: str, *, grace: timedelta = timedelta(0)) -> int:
        """
        Delete the parts that no reader needs any more, and return their number. Doing it twice is once.

        The newest whole version stays, and all that is newer. *grace*: how long after a version was
        superseded its parts stay for those who are reading them; this waits for it.
        """
        check_id(entity_id)
        head = self._table.head(entity_id)
        if head is None:
            return 0
        self._wait(head, grace)
        older = list(self._table.parts(entity_id, below=head.version))
        if not older:
            return 0  # and the parts that stay are not read
        newest = self._table.parts(entity_id, below=behind(head.version), lowest=head.version)
        found = versions([*newest, *older])
        abandoned = new_version(self._clock.now() - ABANDONED, None)
        gone = [(part.version, part.name) for part in superseded(head, found, abandoned)]
        self._table.delete(entity_id, gone)
        return len(gone)

    # -- reading

    def read(self, entity_id: str, *, consistent: bool = False) -> Document | None:
        """
        Return the newest whole version, None where there is no document.

        Asked *consistent*, it is the last that was written in this region. Of a replica that has not got all
        parts of it yet, it is the newest that is whole, and ``fell_back`` says so; where there is none,
        `Unreadable` is raised. Raises `StoreUnavailable` and `Misconfigured` as well.
        """
        check_id(entity_id)
        found = self._look(entity_id, consistent=consistent)
        if isinstance(found, Head) or (found is not None and found.fell_back):
            # A replica that lags, or a version that was superseded and cleaned away under this reader.
            found = self._look(entity_id, consistent=True)
        if isinstance(found, Head):
            raise Unreadable(
                f"document {entity_id!r}: parts of version {found.version} are missing here, and no older "
                f"version is whole: they are on their way, read it again later"
            )
        return found

    def _look(self, entity_id: str, *, consistent: bool) -> Document | Head | None:
        """Return the document, or the head of one that cannot be read now."""
        head, parts = self._table.all(entity_id, consistent=consistent)
        if head is None or head.deleted:
            return None
        standing = newest_whole(head, versions(parts))
        if standing is None:
            return head
        fell_back = standing.version != head.version
        return Document(entity_id, content_of(standing), standing.version, fell_back)

    # -- the steps

    def _drafts(self, document: object, sections: Mapping[str, object] | None) -> list[Draft]:
        if (document is _Nothing.GIVEN) == (sections is None):
            raise Misconfigured("give either a document or sections=, and not both")
        if sections is None:
            return whole_document(document, self._part_bytes)
        return named_sections(sections, self._part_bytes)

    def _next(self, entity_id: str, seen: Head | None) -> Version:
        now = self._clock.now()
        if seen is not None and self._ahead is not None and time_of(seen.version) > now + self._ahead:
            raise VersionAhead(
                f"document {entity_id!r}: version {seen.version} is of {time_of(seen.version)}, and it is "
                f"{now} here: a clock is wrong by more than {self._ahead}. If it is not this one, write with "
                f"ahead=None"
            )
        return new_version(now, None if seen is None else seen.version)

    def _decide(
        self,
        entity_id: str,
        seen: Head | None,
        version: Version,
        expected: Version | Absent | None,
        *,
        deletes: bool,
    ) -> bool:
        """
        Make *version* the one that stands; False where a newer one does and this one never will.

        A refusal means that another write was decided in between. Those of older versions were begun
        before this one, and they are so many and no more: this ends.
        """
        while True:
            now = self._clock.now()
            head = succeeding(seen, version, now)
            if deletes:
                head = deleting(head, now, self._keep_deleted)
            seen = self._table.put_head(entity_id, head, seen)
            stood = False if seen is None else seen.committed(version)
            if stood is True:
                return True  # written, maybe by a try whose answer was lost
            if expected is not None:
                if stood is None:
                    raise StoreUnavailable(
                        f"document {entity_id!r}: version {version} may have been written and superseded "
                        f"since: read it, and decide again"
                    )
                expect(entity_id, expected, seen)
            if seen is not None and seen.version > version:
                return stood is None

    def _take_back(self, entity_id: str, version: Version, drafts: list[Draft]) -> None:
        """Delete the parts of a version that will never stand; left behind, they cost storage only."""
        with suppress(StoreUnavailable):
            self._table.delete(entity_id, [(version, draft.name) for draft in drafts])

    def _wait(self, head: Head, grace: timedelta) -> None:
        since = self._clock.now() - datetime.fromtimestamp(head.at / 1000, UTC)
        left = min(grace - since, grace)  # by a writer's clock that is ahead it would be longer
        if left > timedelta(0):
            self._clock.sleep(left.total_seconds())


def _check_options(
    key: str, sort: str, part_bytes: int, ahead: timedelta | None, keep_deleted: timedelta
) -> None:
    if key == sort or {key, sort} & ATTRIBUTES:
        raise Misconfigured(
            f"key={key!r} and sort={sort!r} must differ, and be none of {', '.join(sorted(ATTRIBUTES))}"
        )
    if isinstance(part_bytes, bool) or not 1 <= part_bytes <= MOST_PART_BYTES:
        raise Misconfigured(f"part_bytes is {part_bytes}: give 1 to {MOST_PART_BYTES:,}")
    if ahead is not None and ahead < timedelta(0):
        raise Misconfigured(f"ahead is {ahead}: give how far clocks may differ, or None")
    if keep_deleted < timedelta(hours=1):
        raise Misconfigured(f"keep_deleted is {keep_deleted}: a deletion must outlive every write it races")
