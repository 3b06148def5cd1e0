"""Reads and writes the heads and parts of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.dynamodb.paging import batch_write, pages
from lambda_once.dynamodb.retry import TRIES
from lambda_once.patterns.documents import requests
from lambda_once.patterns.documents.parts import HEAD, LOWEST
from lambda_once.patterns.transport import ConditionFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lambda_once.patterns.documents.content import Draft
    from lambda_once.patterns.documents.parts import DocumentId, Head, Part, Version
    from lambda_once.patterns.documents.requests import TableKeys
    from lambda_once.patterns.transport import PatternTransport


class DocumentTable:
    """One table. Every method raises `StoreUnavailable` without an answer, and `Misconfigured`."""

    def __init__(self, place: TableKeys, transport: PatternTransport) -> None:
        self._place = place
        self._transport = transport

    def head(self, entity_id: DocumentId) -> Head | None:
        """Return the head, read consistently."""
        item = self._transport.send("get_item", requests.get_head(self._place, entity_id)).get("Item")
        return None if item is None else requests.head_of(self._place, item)

    def put_head(self, entity_id: DocumentId, head: Head, seen: Head | None) -> Head | None:
        """Replace *seen* by *head*, and return the head afterwards: *head*, or another one that was there."""
        try:
            self._transport.send("put_item", requests.put_head(self._place, entity_id, head, seen))
        except ConditionFailed as refused:
            return None if refused.item is None else requests.head_of(self._place, refused.item)
        return head

    def put(
        self, entity_id: DocumentId, version: Version, drafts: Sequence[Draft], above: Version | None = None
    ) -> None:
        """Put all parts of *version*, begun while *above* was current."""
        for batch in requests.put_parts(self._place, entity_id, version, drafts, above):
            self._write(batch)

    def delete(self, entity_id: DocumentId, parts: Iterable[tuple[Version, str]]) -> None:
        for batch in requests.delete_parts(self._place, entity_id, parts):
            self._write(batch)

    def parts(
        self, entity_id: DocumentId, *, below: str, lowest: str = LOWEST, consistent: bool = False
    ) -> Iterator[Part]:
        """Yield the parts from the sort key *below* down, the newest version first, without their bodies."""
        request = requests.query(
            self._place, entity_id, below, lowest=lowest, consistent=consistent, bodies=False
        )
        return self._only_parts(self._pages(request))

    def all(self, entity_id: DocumentId, *, consistent: bool) -> tuple[Head | None, Iterator[Part]]:
        """Return the head, and the parts, the newest version first; pages are read when they are needed."""
        items = self._pages(requests.query(self._place, entity_id, HEAD, consistent=consistent))
        first = next(items, None)
        if first is None or self._place.within(first)[1] != HEAD:
            return None, iter(())
        return requests.head_of(self._place, first), self._only_parts(items)

    def heads(self, partition: str) -> Iterator[tuple[str, Head]]:
        """
        Yield name and head of each document of *partition*, backwards by name.

        Each is a request of its own that reads one item: a page would read the parts, too.
        """
        place, before = self._place, None
        while found := self._transport.send("query", requests.last(place, partition, before))["Items"]:
            entity_id, rest = place.within(found[0])
            # The parts are not read; an item of others beneath the prefix is passed by.
            ours = LOWEST < rest <= HEAD
            before = place.at(entity_id, LOWEST) if ours else {name: found[0][name] for name in place[1:3]}
            if rest == HEAD:
                yield entity_id[1], requests.head_of(self._place, found[0])

    def _only_parts(self, items: Iterable[Mapping[str, Any]]) -> Iterator[Part]:
        found = (requests.stored_part(self._place, item) for item in items)
        return (part for part in found if part is not None)

    def _pages(self, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for page in pages(self._transport.send, "query", request):
            yield from page["Items"]

    def _write(self, batch: dict[str, Any]) -> None:
        """Send *batch*, and again what was left unprocessed, as long as each answer processes a part."""
        transport, table = self._transport, self._place.table
        batch_write(transport.send, table, batch["RequestItems"][table], transport.deadline, TRIES)
