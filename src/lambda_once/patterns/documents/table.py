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
    from lambda_once.patterns.documents.parts import Head, Part, Version
    from lambda_once.patterns.documents.requests import TableKeys
    from lambda_once.patterns.transport import PatternTransport


class DocumentTable:
    """One table. Every method raises `StoreUnavailable` without an answer, and `Misconfigured`."""

    def __init__(self, place: TableKeys, transport: PatternTransport) -> None:
        self._place = place
        self._transport = transport

    def head(self, entity_id: str) -> Head | None:
        """Return the head, read consistently."""
        item = self._transport.send("get_item", requests.get_head(self._place, entity_id)).get("Item")
        return None if item is None else requests.head_of(item)

    def put_head(self, entity_id: str, head: Head, seen: Head | None) -> Head | None:
        """Replace *seen* by *head*, and return the head afterwards: *head*, or another one that was there."""
        try:
            self._transport.send("put_item", requests.put_head(self._place, entity_id, head, seen))
        except ConditionFailed as refused:
            return None if refused.item is None else requests.head_of(refused.item)
        return head

    def put(
        self, entity_id: str, version: Version, drafts: Sequence[Draft], above: Version | None = None
    ) -> None:
        """Put all parts of *version*, begun while *above* was current."""
        for batch in requests.put_parts(self._place, entity_id, version, drafts, above):
            self._write(batch)

    def delete(self, entity_id: str, parts: Iterable[tuple[Version, str]]) -> None:
        for batch in requests.delete_parts(self._place, entity_id, parts):
            self._write(batch)

    def parts(
        self, entity_id: str, *, below: str, lowest: str = LOWEST, consistent: bool = False
    ) -> Iterator[Part]:
        """Yield the parts from the sort key *below* down, the newest version first, without their bodies."""
        request = requests.query(
            self._place, entity_id, below, lowest=lowest, consistent=consistent, bodies=False
        )
        return self._only_parts(self._pages(request))

    def all(self, entity_id: str, *, consistent: bool) -> tuple[Head | None, Iterator[Part]]:
        """Return the head, and the parts, the newest version first; pages are read when they are needed."""
        items = self._pages(requests.query(self._place, entity_id, HEAD, consistent=consistent))
        first = next(items, None)
        if first is None or first[self._place.sort]["S"] != HEAD:
            return None, iter(())
        return requests.head_of(first), self._only_parts(items)

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
