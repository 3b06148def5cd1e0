"""Requests for documents as values, their conditions and items, and `DocumentTable`, which sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.dynamodb import (
    MOST_WRITES,
    TRIES,
    ConditionFailed,
    Item,
    Sender,
    Values,
    batch_write,
    pages,
    plain_item,
    typed_item,
    without_item,
)
from lambda_once.errors import Misconfigured
from lambda_once.patterns.documents.parts import (
    ATTRIBUTES,
    HEAD,
    LOWEST,
    SEPARATOR,
    DocumentId,
    Form,
    Head,
    Part,
    Version,
    is_version,
)
from lambda_once.patterns.table import PatternTable, own_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FIRST: Final = "attribute_not_exists(#key)"
"""There is still no head: of two writers of a new document, the first wins."""
AS_SEEN: Final = "#version = :seen"
"""
The head has not changed since it was read, so no version in between is lost, and versions only grow. No
version is committed twice, so a delayed copy of this write is refused.
"""

SHOWN: Final = ("total", "form", "above")
"""Attributes of a part that are read without its body."""

MOST_BYTES: Final = 4_000_000
"""Bytes of one BatchWriteItem: below DynamoDB's 16 MB even in Base64, and sent within two seconds."""


class DocumentPlace(NamedTuple):
    """
    The table of the documents, and the prefix of their sort keys.

    With a prefix, the sort keys of document (partition, name) are ``prefix name # …``, without the spaces.
    """

    table: PatternTable
    prefix: str = ""

    def at(self, entity_id: DocumentId, sort: str) -> Item:
        if not isinstance(entity_id, str):
            entity_id, sort = entity_id[0], f"{self.prefix}{entity_id[1]}{SEPARATOR}{sort}"
        key, sort_key = self.table.key
        return {key: {"S": entity_id}, sort_key: {"S": sort}}

    def within(self, key: Mapping[str, Any]) -> tuple[DocumentId, str]:
        """Return the document id and the rest of the sort key (`at` reversed); "" if the prefix differs."""
        partition, sort = (key[name]["S"] for name in self.table.key)
        if self.prefix == "":
            return partition, sort
        name, _, rest = sort[len(self.prefix) :].partition(SEPARATOR)
        return (partition, name), rest if sort.startswith(self.prefix) else ""


def document_place(table: str, key: str, sort: str, prefix: str = "", names: object = None) -> DocumentPlace:
    """Return the place; *names* renames the attributes of documents. Raises `Misconfigured`."""
    return DocumentPlace(
        PatternTable.of(table, (key, sort), own_names(names, ATTRIBUTES), ATTRIBUTES), prefix
    )


# -- requests


def query(
    place: DocumentPlace,
    entity_id: DocumentId,
    up_to: str,
    *,
    lowest: str = LOWEST,
    consistent: bool = False,
    bodies: bool = True,
) -> dict[str, Any]:
    """
    Return the Query for a document's items, in descending order down to *lowest*.

    It costs the same without *bodies*.
    """
    key, sort_key = place.table.key
    last = place.at(entity_id, up_to)
    bounds = {":lowest": place.at(entity_id, lowest)[sort_key], ":up_to": last[sort_key]}
    request = _backwards(place, last[key], "#sort BETWEEN :lowest AND :up_to", bounds)
    if not bodies:
        request["ProjectionExpression"] = ", ".join(f"#{name}" for name in ("key", "sort", *SHOWN))
        request["ExpressionAttributeNames"] |= {f"#{own}": place.table.own[own] for own in SHOWN}
    return request | {"ConsistentRead": consistent}


def last(place: DocumentPlace, partition: str, cursor: str | None) -> dict[str, Any]:
    """Return the Query for the last item of *partition* under the prefix, or the last one below *cursor*."""
    key, sort_key = place.table.key
    request = _backwards(
        place, {"S": partition}, "begins_with(#sort, :prefix)", {":prefix": {"S": place.prefix}}
    )
    below = {key: {"S": partition}, sort_key: {"S": cursor}}
    return request | {"Limit": 1} | ({} if cursor is None else {"ExclusiveStartKey": below})


def _backwards(place: DocumentPlace, key: object, condition: str, values: dict[str, Any]) -> dict[str, Any]:
    return {
        "TableName": place.table.name,
        "KeyConditionExpression": f"#key = :id AND {condition}",
        "ExpressionAttributeNames": dict(zip(("#key", "#sort"), place.table.key, strict=True)),
        "ExpressionAttributeValues": {":id": key, **values},
        "ScanIndexForward": False,
    }


def put_head(place: DocumentPlace, entity_id: DocumentId, head: Head, seen: Head | None) -> dict[str, Any]:
    """Return the PutItem that replaces *seen* with *head*; a refusal returns the current head."""
    values = {name: each for name, each in head._asdict().items() if each not in ("", None)}
    request: dict[str, Any] = {
        "TableName": place.table.name,
        "Item": place.at(entity_id, HEAD) | place.table.named(typed_item(values)),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if seen is None:
        return request | {
            "ConditionExpression": FIRST,
            "ExpressionAttributeNames": {"#key": place.table.key[0]},
        }
    return request | {
        "ConditionExpression": AS_SEEN,
        "ExpressionAttributeNames": {"#version": place.table.own["version"]},
        "ExpressionAttributeValues": {":seen": {"S": seen.version}},
    }


def put_parts(
    place: DocumentPlace, entity_id: DocumentId, parts: Iterable[Part]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the write requests of one BatchWriteItem after another."""
    batch: list[dict[str, Any]] = []
    total = 0
    for part in parts:
        size = len(part.body or b"")
        if batch and (len(batch) == MOST_WRITES or total + size > MOST_BYTES):
            yield batch
            batch, total = [], 0
        batch.append({"PutRequest": {"Item": _item(place, entity_id, part)}})
        total += size
    yield batch


# -- items


def _key_of(place: DocumentPlace, entity_id: DocumentId, part: Part) -> Item:
    """Return the key of *part*."""
    return place.at(entity_id, f"{part.version}{SEPARATOR}{part.name}")


def _item(place: DocumentPlace, entity_id: DocumentId, part: Part) -> Item:
    values: Values = {"body": part.body, "form": part.form.value, "total": part.total}
    values |= {"section": True} if part.section else {}
    values |= {"above": part.above} if part.above else {}
    return _key_of(place, entity_id, part) | place.table.named(typed_item(values))


def stored_part(place: DocumentPlace, item: Mapping[str, Any]) -> Part | None:
    """Return *item* as a part; None if it is one of the user's own items."""
    version, separator, name = place.within(item)[1].partition(SEPARATOR)
    own = place.table.own_of(item)
    if not separator or not is_version(version) or "total" not in own:
        return None
    read = {"body": None, "section": False, "above": None, **plain_item(own)}
    version, body = Version(version), read["body"]
    return Part(name, Form(read["form"]), body, read["section"], read["total"], version, read["above"])


def head_of(place: DocumentPlace, item: Mapping[str, Any]) -> Head:
    """Return *item* as a head. Raises `Misconfigured` if it is another item with a head's sort key."""
    values = plain_item(place.table.own_of(item))
    version, before, at = values.get("version"), values.get("before"), values.get("at")
    if not is_version(version) or not isinstance(before, list) or type(at) is not int:
        raise Misconfigured(
            f"the item with sort key {HEAD!r} is not a document's: no other item in a partition of"
            " documents may have that sort key. Move it, or use another table for Documents"
        )
    return Head(
        Version(str(version)), tuple(map(Version, before)), values.get("floor", ""), at, values.get("ttl")
    )


class DocumentTable:
    """
    Sends the requests to one table.

    Every method raises `Misconfigured`, and `StoreUnavailable` without a response.
    """

    def __init__(self, place: DocumentPlace, sender: Sender) -> None:
        self._place = place
        self._sender = sender

    def head(self, entity_id: DocumentId) -> Head | None:
        key = self._place.at(entity_id, HEAD)
        request = {"TableName": self._place.table.name, "Key": key, "ConsistentRead": True}
        item = self._sender.send("get_item", request).get("Item")
        return None if item is None else head_of(self._place, item)

    def put_head(self, entity_id: DocumentId, head: Head, seen: Head | None) -> Head | None:
        """Replace *seen* with *head*, and return the head that is there now; None if there is none."""
        try:
            self._sender.send("put_item", put_head(self._place, entity_id, head, seen))
        except ConditionFailed as refused:
            if refused.item is not None:
                return head_of(self._place, refused.item)
            if seen is None:  # only a head refuses that
                raise without_item(self._place.table.name) from None
            return self.head(entity_id)
        return head

    def put(self, entity_id: DocumentId, parts: Iterable[Part]) -> None:
        for batch in put_parts(self._place, entity_id, parts):
            self._write(batch)

    def delete(self, entity_id: DocumentId, parts: Iterable[Part]) -> None:
        keys = (_key_of(self._place, entity_id, part) for part in parts)
        self._write([{"DeleteRequest": {"Key": key}} for key in keys])

    def parts(
        self, entity_id: DocumentId, *, below: str, lowest: str = LOWEST, consistent: bool = False
    ) -> Iterator[Part]:
        """Yield the parts from the sort key *below* downwards, newest version first, without their bodies."""
        request = query(self._place, entity_id, below, lowest=lowest, consistent=consistent, bodies=False)
        return self._only_parts(self._pages(request))

    def all(self, entity_id: DocumentId, *, consistent: bool) -> tuple[Head | None, Iterator[Part]]:
        """Return the head, and the parts, newest version first; pages are read when needed."""
        items = self._pages(query(self._place, entity_id, HEAD, consistent=consistent))
        first = next(items, None)
        if first is None or self._place.within(first)[1] != HEAD:
            return None, iter(())
        return head_of(self._place, first), self._only_parts(items)

    def last(self, partition: str, cursor: str | None) -> tuple[str, Head | None, str] | None:
        """
        Return the last document below *cursor* as name, head and next cursor; None if there is none.

        The head is None if the item belongs to no document or its document has no head. It reads one item,
        because a page of a Query would be charged for the parts as well.
        """
        found = self._sender.send("query", last(self._place, partition, cursor))["Items"]
        if not found:
            return None
        entity_id, rest = self._place.within(found[0])
        ours = LOWEST < rest <= HEAD  # an item of others beneath the prefix is passed by
        below = self._place.at(entity_id, LOWEST) if ours else found[0]
        head = head_of(self._place, found[0]) if rest == HEAD else None
        return entity_id[1], head, below[self._place.table.key[1]]["S"]

    def _only_parts(self, items: Iterable[Mapping[str, Any]]) -> Iterator[Part]:
        found = (stored_part(self._place, item) for item in items)
        return (part for part in found if part is not None)

    def _pages(self, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for page in pages(self._sender.send, "query", request):
            yield from page["Items"]

    def _write(self, writes: list[dict[str, Any]]) -> None:
        """Send *writes*, and resend unprocessed ones as long as each response processes some."""
        batch_write(self._sender.send, self._place.table.name, writes, self._sender.deadline, TRIES)
