"""
`Documents`: entities beyond DynamoDB's 400 KB, in parts of which a reader sees all or none.

A write puts the parts of a new version, which is not read, and then commits it by one conditional write of
the head. A write that is cut off before that has no effect, and of several writers each builds on the head of
the one before. A read returns the newest committed version of which every part is there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.patterns.documents import parts
from lambda_once.patterns.documents.parts import (
    ABSENT,
    Absent,
    DocumentId,
    Draft,
    Head,
    Version,
    check_id,
    checked_version,
    expect,
)
from lambda_once.patterns.documents.requests import DocumentTable, document_place
from lambda_once.patterns.observing import Observer, observed
from lambda_once.patterns.results import Conflict, Unreadable, VersionAhead
from lambda_once.patterns.transport import PatternTransport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lambda_once.core.clock import Clock
    from lambda_once.observability.reporter import AnyLogger, Namespaced

    Drafts = list[Draft]

__all__ = ["ABSENT", "Document", "Documents", "Version"]

PART_BYTES: Final = 350_000
AHEAD: Final = timedelta(minutes=5)
"""Clocks under NTP differ by milliseconds; a machine that wakes up may be minutes late."""
KEEP_DELETED: Final = timedelta(days=14)
"""No write that began before a deletion may end after the deletion was forgotten."""
ABANDONED: Final = timedelta(days=1)
"""The age from which an uncommitted version has no writer: an invocation takes 90 minutes at most."""


class _Nothing(Enum):
    GIVEN = "nothing given"


@dataclass(frozen=True, slots=True)
class Document:
    """A document: *value* is bytes, JSON values, or a dict of such sections."""

    entity_id: DocumentId
    value: Any
    version: Version
    fell_back: bool
    """Whether a newer version is committed whose parts are not here yet: see `Documents.read`."""


class Documents:
    """
    The documents of one table. Thread-safe; connects at first use.

    *key* and *sort* name the table's key attributes, both text. Without *prefix* an id is the partition key;
    with it, sort keys begin with it, and an id is (partition, name). *part_bytes* is the largest part, up to
    400,000 bytes. *ahead* is how far the current version may be ahead of this clock for a write (None: any),
    *keep_deleted* how long a deletion is remembered. *names*: other names for the attributes of documents,
    such as ``ttl`` (the table's TTL attribute). *metrics*, *logger*: your Powertools objects.
    """

    def __init__(  # noqa: PLR0913  (options of one object, all but two by name)
        self,
        table: str,
        client: Any = None,
        *,
        key: str = "pk",
        sort: str = "sk",
        prefix: str = "",
        names: Mapping[str, str] | None = None,
        part_bytes: int = PART_BYTES,
        ahead: timedelta | None = AHEAD,
        keep_deleted: timedelta = KEEP_DELETED,
        metrics: Namespaced | None = None,
        logger: AnyLogger | None = None,
        clock: Clock | None = None,
    ) -> None:
        if isinstance(part_bytes, bool) or not 1 <= part_bytes <= parts.MOST_PART_BYTES:
            raise Misconfigured(f"part_bytes is {part_bytes}: give 1 to {parts.MOST_PART_BYTES:,}")
        if ahead is not None and ahead < timedelta(0):
            raise Misconfigured(f"ahead is {ahead}: give how far clocks may differ, or None")
        if keep_deleted < timedelta(hours=1):
            raise Misconfigured(
                f"keep_deleted is {keep_deleted}: a deletion must outlive every write it races"
            )
        transport = PatternTransport(client, clock)
        self._clock = transport.clock
        self.place = document_place(table, key, sort, prefix, names)
        self._table = DocumentTable(self.place, transport)
        self._part_bytes = part_bytes
        self._ahead = ahead
        self._keep_deleted = keep_deleted
        self._observer = Observer(self, table, metrics, logger)

    @observed
    def write(
        self,
        entity_id: DocumentId,
        document: object = _Nothing.GIVEN,
        *,
        sections: Mapping[str, object] | None = None,
        expected_version: str | Absent | None = None,
    ) -> Version:
        """
        Write *document*, split by size, or *sections*, each one part, and return the new version.

        Both are bytes or JSON values, and are read as such. With *expected_version* it is written only if
        that version is current (`ABSENT`: no document); without, the newest version wins.

        Raises `Conflict`, with the current version in ``values["version"]``, `VersionAhead` and
        `Misconfigured`, with nothing written; `StoreUnavailable` if there is no response: read whether it
        was written.
        """
        check_id(entity_id, self.place.prefix)
        drafts = self._drafts(document, sections)
        expected = checked_version(expected_version)
        seen = self._table.head(entity_id)
        expect(entity_id, expected, seen)
        version = self._next(entity_id, seen)
        self._table.put(entity_id, version, drafts, None if seen is None else seen.version)
        try:
            committed = self._commit(entity_id, seen, version, expected, deletes=False)
        except Conflict:
            self._take_back(entity_id, version, drafts)
            raise
        if not committed:
            self._take_back(entity_id, version, drafts)
        self._observer.report(Event.APPLIED, entity_id)
        return version

    @observed
    def delete(self, entity_id: DocumentId, *, expected_version: str | None = None) -> None:
        """
        Delete the document and all older parts; a document that does not exist is no error.

        After a concurrent write there is no document, or that one, whole. Raises as `write` does. The head
        stays for ``keep_deleted``.
        """
        check_id(entity_id, self.place.prefix)
        expected = checked_version(expected_version)
        seen = self._table.head(entity_id)
        expect(entity_id, expected, seen)
        version = self._next(entity_id, seen)
        self._commit(entity_id, seen, version, expected, deletes=True)
        self._observer.report(Event.APPLIED, entity_id)
        older = self._table.parts(entity_id, below=version, consistent=True)
        self._table.delete(entity_id, [(part.version, part.name) for part in older])

    def clean(self, entity_id: DocumentId, *, grace: timedelta = timedelta(0)) -> int:
        """
        Delete the parts of superseded versions, and return their number. Idempotent.

        The newest whole version and everything newer stays. *grace*: how long superseded parts stay for
        readers; this waits for it.
        """
        check_id(entity_id, self.place.prefix)
        head = self._table.head(entity_id)
        if head is None:
            return 0
        self._wait(head, grace)
        older = list(self._table.parts(entity_id, below=head.version))
        if not older:
            return 0  # and the parts that stay are not read
        newest = self._table.parts(entity_id, below=parts.behind(head.version), lowest=head.version)
        found = parts.versions([*newest, *older])
        abandoned = parts.new_version(self._clock.now() - ABANDONED, None)
        gone = [(part.version, part.name) for part in parts.superseded(head, found, abandoned)]
        self._table.delete(entity_id, gone)
        return len(gone)

    # -- reading

    def read(self, entity_id: DocumentId, *, consistent: bool = False) -> Document | None:
        """
        Return the newest whole version, None if there is no document.

        With *consistent* it is the last one written in this region. If parts of it are missing here, it is an
        earlier version, with ``fell_back`` set; if no version is whole, `Unreadable` is raised.
        """
        check_id(entity_id, self.place.prefix)
        found = self._look(entity_id, consistent=consistent)
        if isinstance(found, Head) or (found is not None and found.fell_back):
            # A replica that lags, or a version that was superseded and deleted during this read.
            found = self._look(entity_id, consistent=True)
        if isinstance(found, Head):
            raise Unreadable(
                f"document {entity_id!r}: parts of version {found.version} are missing here, and no older "
                f"version is whole; read it again later"
            )
        if found is not None and found.fell_back:
            self._observer.report(Event.FELL_BACK, entity_id)
        return found

    def _look(self, entity_id: DocumentId, *, consistent: bool) -> Document | Head | None:
        """Return the document, or the head of one that cannot be read now."""
        head, stored = self._table.all(entity_id, consistent=consistent)
        if head is None or head.deleted:
            return None
        found = parts.newest_whole(head, parts.versions(stored))
        if found is None:
            return head
        return Document(entity_id, parts.content_of(found), found.version, found.version != head.version)

    # -- the steps

    def _drafts(self, document: object, sections: Mapping[str, object] | None) -> Drafts:
        if (document is _Nothing.GIVEN) == (sections is None):
            raise Misconfigured("give either a document or sections=")
        if sections is None:
            return parts.whole_document(document, self._part_bytes)
        return parts.named_sections(sections, self._part_bytes)

    def _next(self, entity_id: DocumentId, seen: Head | None) -> Version:
        now = self._clock.now()
        if seen is not None and self._ahead is not None:
            written = parts.written_at(seen.version)
            if written > now + self._ahead:
                raise VersionAhead(
                    f"document {entity_id!r}: version {seen.version} is of {written}, and it is {now} here: "
                    f"a clock is wrong by more than {self._ahead}. If it is not this one, use ahead=None"
                )
        return parts.new_version(now, None if seen is None else seen.version)

    def _commit(
        self,
        entity_id: DocumentId,
        seen: Head | None,
        version: Version,
        expected: Version | Absent | None,
        *,
        deletes: bool,
    ) -> bool:
        """
        Commit *version*; return False where a newer one is current and this one never will be.

        A refusal means that another version was committed meanwhile. Older ones were begun before this one,
        so there is a limited number of them, and this ends.
        """
        while True:
            now = self._clock.now()
            head = parts.succeeding(seen, version, now)
            if deletes:
                head = parts.deleting(head, now, self._keep_deleted)
            seen = self._table.put_head(entity_id, head, seen)
            committed = False if seen is None else seen.committed(version)
            if committed is True:
                return True  # maybe by a try whose answer was lost
            if expected is not None:
                if committed is None:
                    raise StoreUnavailable(
                        f"document {entity_id!r}: version {version} may have been written and superseded "
                        f"since: read it, and decide again"
                    )
                expect(entity_id, expected, seen)
            if seen is not None and seen.version > version:
                return committed is None

    def _take_back(self, entity_id: DocumentId, version: Version, drafts: Drafts) -> None:
        """Delete the parts of a version that will never be committed; left behind, they only cost storage."""
        with suppress(StoreUnavailable):
            self._table.delete(entity_id, [(version, draft.name) for draft in drafts])

    def _wait(self, head: Head, grace: timedelta) -> None:
        since = self._clock.now() - datetime.fromtimestamp(head.at / 1000, UTC)
        left = min(grace - since, grace)  # longer only by a writer's clock that is ahead
        if left > timedelta(0):
            self._clock.sleep(left.total_seconds())

    def list(self, partition: str) -> Iterator[tuple[str, Version]]:
        """
        Yield name and version of each document of *partition*, backwards by name; needs ``prefix=``.

        One request for each document, of its head alone; eventually consistent.
        """
        check_id((partition, "-"), self.place.prefix)
        return ((name, head.version) for name, head in self._table.heads(partition) if not head.deleted)
