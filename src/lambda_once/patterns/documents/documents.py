"""
`Documents`: entities beyond DynamoDB's 400 KB, stored in parts and read whole or not at all.

A write first puts the parts of a new version, which readers do not see, and then commits the version by one
conditional write of the head. A write that is interrupted before the commit has no effect. Each commit builds
on the head of the one before. A read returns the newest committed version that is whole.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.checks import checked_flag
from lambda_once.dynamodb import Sender
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.patterns.documents import parts
from lambda_once.patterns.documents.parts import (
    ABSENT,
    Absent,
    DocumentId,
    Head,
    Version,
    check_cursor,
    check_id,
    expect,
    is_version,
)
from lambda_once.patterns.documents.requests import DocumentTable, document_place
from lambda_once.patterns.observing import Observer, observed
from lambda_once.patterns.results import Conflict, Page, Unreadable, VersionAhead

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lambda_once.core.clock import Clock
    from lambda_once.observability.reporter import AnyLogger, Namespaced

PART_BYTES: Final = 350_000
AHEAD: Final = timedelta(minutes=5)
"""Clocks under NTP differ by milliseconds; after a suspend a clock may be minutes late."""
KEEP_DELETED: Final = timedelta(days=14)
"""Longer than any write takes: none that began before a deletion may end after the deletion is forgotten."""
ABANDONED: Final = timedelta(days=1)
"""Uncommitted versions older than this are abandoned: no invocation takes that long."""
PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Document:
    """A document. *value* is bytes, a JSON value, or a dict of sections, each bytes or a JSON value."""

    entity_id: DocumentId
    value: Any
    version: Version
    fell_back: bool
    """
    Whether this is an earlier version, because parts of the newest are missing here (see `Documents.read`).
    """


class Documents:
    """
    The documents of one table. Thread-safe; connects at first use.

    *key* and *sort* name the table's key attributes, both strings. Without *prefix* a document's id is its
    partition key. With *prefix*, which all its sort keys begin with, an id is (partition, name). *part_bytes*
    is the largest part, up to 400,000 bytes. *ahead*: how far the current version may be ahead of this clock
    before a write raises `VersionAhead`; None disables the check. *keep_deleted*: how long a deletion is
    remembered. *names*: other names for the attributes of documents, such as ``ttl`` (the table's TTL
    attribute). *metrics*, *logger*: your Powertools objects.
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
        sender = Sender(client, clock, patient=True)  # 10 MB are ten seconds of what a partition takes
        self._clock = sender.clock
        self.place = document_place(table, key, sort, prefix, names)
        self._table = DocumentTable(self.place, sender)
        self._part_bytes = part_bytes
        self._ahead = ahead
        self._keep_deleted = keep_deleted
        self._observer = Observer(self, table, metrics, logger)

    @observed
    def write(
        self,
        entity_id: DocumentId,
        document: object = ABSENT,
        *,
        sections: Mapping[str, object] | None = None,
        expected_version: str | Absent | None = None,
    ) -> Version:
        """
        Write *document*, split by size, or *sections*, one part each, and return the new version.

        Documents and sections are bytes or JSON values, and are read back as such. With *expected_version*
        the write requires that version to be current (`ABSENT`: that there is no document); without it, the
        newest version wins.

        Raises, with nothing written, `Conflict`, with the current version in ``values["version"]``,
        `VersionAhead` and `Misconfigured`. Raises `StoreUnavailable` if there is no response: read the
        document to see whether it was written.
        """
        if (document is ABSENT) == (sections is None):
            raise Misconfigured("give either a document or sections=")
        if sections is None:
            drafts = parts.whole_document(document, self._part_bytes)
        else:
            drafts = parts.named_sections(sections, self._part_bytes)
        expected, seen, version = self._begun(entity_id, expected_version)
        above = None if seen is None else seen.version
        made = [each._replace(version=version, above=above) for each in drafts]
        self._table.put(entity_id, made)
        is_needed = True
        try:
            is_needed = self._commit(entity_id, seen, version, expected)
        except Conflict:
            is_needed = False
            raise
        finally:
            if not is_needed:  # it will never be current; left behind, its parts only cost storage
                with suppress(StoreUnavailable):
                    self._table.delete(entity_id, made)
        self._observer.report(Event.APPLIED, entity_id)
        return version

    @observed
    def delete(self, entity_id: DocumentId, *, expected_version: str | None = None) -> None:
        """
        Delete the document and all older parts. It is no error if there is no document.

        If a write is concurrent, either its document remains, whole, or none. Raises as `write` does. The
        head stays for ``keep_deleted``.
        """
        expected, seen, version = self._begun(entity_id, expected_version)
        self._commit(entity_id, seen, version, expected, keep=self._keep_deleted)
        self._observer.report(Event.APPLIED, entity_id)
        self._table.delete(entity_id, self._table.parts(entity_id, below=version, consistent=True))

    def clean(self, entity_id: DocumentId, *, grace: timedelta = timedelta(0)) -> int:
        """
        Delete the parts of superseded versions, and return how many were deleted. Idempotent.

        Keeps the newest whole version and everything newer. *grace*: how long superseded parts stay for reads
        in progress; this method sleeps until then.
        """
        check_id(entity_id, self.place.prefix)
        head = self._table.head(entity_id)
        if head is None:
            return 0
        superseded_for = self._clock.now() - datetime.fromtimestamp(head.at / 1000, UTC)
        left = min(grace - superseded_for, grace)  # longer only by a writer's clock that is ahead
        if left > timedelta(0):
            self._clock.sleep(left.total_seconds())
        older = list(self._table.parts(entity_id, below=head.version))
        if not older:
            return 0  # and the parts that stay are not read
        newest = self._table.parts(entity_id, below=f"{head.version}~", lowest=head.version)
        found = parts.versions([*newest, *older])
        abandoned = parts.new_version(self._clock.now() - ABANDONED, None)
        gone = parts.superseded(head, found, abandoned)
        self._table.delete(entity_id, gone)
        return len(gone)

    # -- reading

    def read(self, entity_id: DocumentId, *, consistent: bool = False) -> Document | None:
        """
        Return the newest whole version; None if there is no document.

        With *consistent* that is the last version written in this region. If some of its parts are missing
        here, an earlier version is returned, with ``fell_back`` set. Raises `Unreadable` if no version is
        whole.
        """
        check_id(entity_id, self.place.prefix)
        checked_flag("consistent", consistent)
        found = None
        # Read again if a replica lags, or if the version was superseded and deleted during the read.
        for is_consistent in (consistent, True):
            head, stored = self._table.all(entity_id, consistent=is_consistent)
            if head is None or head.deleted:
                return None
            found = parts.newest_whole(head, parts.versions(stored))
            if found is not None and found.version == head.version:
                return Document(entity_id, parts.content_of(found), found.version, fell_back=False)
        if found is None:
            raise Unreadable(
                f"document {entity_id!r}: the parts of its versions are not all here yet; read it again later"
            )
        self._observer.report(Event.FELL_BACK, entity_id)
        return Document(entity_id, parts.content_of(found), found.version, fell_back=True)

    def list(
        self, partition: str, *, limit: int = PAGE, cursor: str | None = None
    ) -> Page[tuple[str, Version], str]:
        """
        Return the names and versions of documents of *partition*, in descending order of ``name#``.

        Requires ``prefix=``. *cursor*: the cursor of the previous page. Each of up to *limit* heads costs one
        request of half a read unit, eventually consistent. Heads of deleted documents are read and left out,
        so a page may have fewer items. A document that exists throughout is listed exactly once. Raises
        `Misconfigured`.
        """
        if self.place.prefix == "":
            raise Misconfigured("list needs prefix=: without it each document is a partition of its own")
        check_id((partition, "-"), self.place.prefix)
        if limit < 1:
            raise Misconfigured(f"limit is {limit}: give 1 or more")
        check_cursor(cursor, self.place.prefix)
        items: list[tuple[str, Version]] = []
        for _ in range(limit):
            found = self._table.last(partition, cursor)
            if found is None:
                return Page(items, None)
            name, head, cursor = found
            if head is not None and not head.deleted:
                items.append((name, head.version))
        return Page(items, cursor)

    # -- the steps of a write

    def _begun(
        self, entity_id: DocumentId, expected: str | Absent | None
    ) -> tuple[str | Absent | None, Head | None, Version]:
        """Return the expected version, the current head, and a new version above it."""
        check_id(entity_id, self.place.prefix)
        if isinstance(expected, str) and not is_version(expected):
            raise Misconfigured(f"expected_version is {expected!r}: give the version of a document as read")
        seen, now = self._table.head(entity_id), self._clock.now()
        expect(entity_id, expected, seen)
        if seen is None:
            return expected, None, parts.new_version(now, None)
        written = parts.written_at(seen.version)
        if self._ahead is not None and written > now + self._ahead:
            raise VersionAhead(
                f"document {entity_id!r}: version {seen.version} is of {written}, and it is {now} here: "
                f"a clock is wrong by more than {self._ahead}. If it is not this one, use ahead=None"
            )
        return expected, seen, parts.new_version(now, seen.version)

    def _commit(
        self,
        entity_id: DocumentId,
        seen: Head | None,
        version: Version,
        expected: str | Absent | None,
        *,
        keep: timedelta | None = None,
    ) -> bool:
        """
        Commit *version*. Return False if a newer version is current and this one was never committed.

        A refusal means that another version was committed meanwhile. The loop ends, because only a limited
        number of writes with an older version can have begun before this one.
        """
        while True:
            head = parts.succeeding(seen, version, self._clock.now(), keep)
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
