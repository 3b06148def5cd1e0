"""
Put once by a key: whoever comes second is told what stands there, and changes nothing.

    receipts = Unique("receipts", key={"pk": "customer", "sk": ["orderId", "kind"]}, identity=["receiptId"])
    match receipts.put(receipt):
        case Stored():                    # this call wrote it
        case Duplicate(same=True):        # it was there already: done, acknowledge it
        case Duplicate(stored=stored):    # the key was used for something else
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.canonical import NotCanonical, fingerprint, without
from lambda_once.errors import Misconfigured, OnceError
from lambda_once.patterns.items import Item, Values, plain_item, typed_item
from lambda_once.patterns.transport import ConditionRefused, PatternTransport
from lambda_once.patterns.unique.composite import KeySpec, key_of, key_parts

if TYPE_CHECKING:
    from lambda_once.core.clock import Clock

ABSENT: Final = "attribute_not_exists(#key)"
"""
No item of this key is there: the first put stays, whoever else writes at the same time.

DynamoDB looks at the item of the whole primary key, so the partition key stands for both attributes
(developer guide, "Condition expressions", preventing overwrites).
"""

MARK: Final = "put"
"""The attribute that says which put wrote an item, and what it put."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The item was written, by the call that returns this."""

    stored: Values
    """Its identity: the key attributes and those named by ``identity=``."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """An item of this key was there; nothing was written."""

    stored: Values
    """The identity of what stands there: its key attributes and those named by ``identity=``."""
    same: bool
    """Whether it was put with the content that this call had. False: the key was used for something else."""


@dataclass(frozen=True, slots=True)
class Failed:
    """One item of several could not be put: again after a `StoreUnavailable`, never after a `GiveUp`."""

    error: OnceError


class Unique:
    """
    Items of one table that are put once. Safe from several threads; connects at first use.

    *key* names the key attributes, partition key first, which every item brings; or says for each what fields
    it is made of (`.composite`). *identity* are further attributes by which the stored
    item is known, such as an id that is made anew for every put. *ignore* are dotted paths that make no other
    content of it, such as the time of sending; the key and *identity* never count. *mark* is the attribute in
    which each item keeps the put that wrote it. With None nothing is added to the item; then a put whose
    answer was lost counts as a duplicate of itself, and ``same`` compares with the item as it stands.
    """

    def __init__(
        self,
        table: str,
        client: Any = None,
        *,
        key: KeySpec = ("pk", "sk"),
        identity: str | Sequence[str] = (),
        ignore: Sequence[str] = (),
        mark: str | None = MARK,
        clock: Clock | None = None,
    ) -> None:
        self._table = table
        self._key = key_parts(key)
        self._identity = (identity,) if isinstance(identity, str) else tuple(identity)
        self._ignore = (ignore,) if isinstance(ignore, str) else tuple(ignore)
        self._mark = mark
        self._transport = PatternTransport(client, clock)
        names = {part.name for part in self._key}
        if mark is not None and (mark == "" or mark in names.union(self._identity)):
            raise Misconfigured(f"mark={mark!r}: name an attribute that items do not have, or None")

    def put(self, item: Mapping[str, object]) -> Stored | Duplicate:
        """
        Put *item* if nothing of its key is there.

        A put whose answer was lost and that is sent again is recognised, and is `Stored`. Raises `KeyMissing`
        and `Misconfigured` for an item that cannot be put, before anything is sent; `StoreUnavailable` when
        nobody knows: put it again, it is then `Stored`, or a `Duplicate` with the same content.
        """
        key = self._key_of(item)
        content = self._content(item)
        put_id = os.urandom(16).hex()
        mark = {} if self._mark is None else {self._mark: {"id": put_id, "content": content}}
        row = typed_item({**item, **key, **mark})
        try:
            self._transport.send("put_item", put_request(self._table, row, self._key[0].name))
        except ConditionRefused as refused:
            return self._judged(refused.item, put_id, content)
        return Stored(self._known(plain_item(row)))

    def put_all(self, items: Iterable[Mapping[str, object]]) -> tuple[Stored | Duplicate | Failed, ...]:
        """Put each of *items* by itself and in their order: none ends the others, and each has its result."""
        return tuple(self._result(item) for item in items)

    def _result(self, item: Mapping[str, object]) -> Stored | Duplicate | Failed:
        try:
            return self.put(item)
        except OnceError as error:
            return Failed(error)

    def _judged(
        self, there: Mapping[str, Mapping[str, Any]] | None, put_id: str, content: str
    ) -> Stored | Duplicate:
        if there is None:
            raise Misconfigured(
                f"table {self._table!r} refused an item and did not say what stands there: "
                f"reach it by an endpoint that knows ReturnValuesOnConditionCheckFailure"
            )
        standing = plain_item(there)
        stored = self._known(standing)
        left = None if self._mark is None else standing.get(self._mark)
        if not isinstance(left, Mapping):
            return Duplicate(stored, same=self._content(standing) == content)
        if left.get("id") == put_id:
            return Stored(stored)
        return Duplicate(stored, same=left.get("content") == content)

    def _key_of(self, item: object) -> Values:
        if not isinstance(item, Mapping):
            raise Misconfigured(f"an item is a mapping of attributes, not a {type(item).__name__}")
        if self._mark in item:
            raise Misconfigured(
                f"the item has an attribute {self._mark!r} of its own: give mark= another name"
            )
        return key_of(self._key, item)

    def _content(self, item: Mapping[str, object]) -> str:
        apart = {*self._identity, *(part.name for part in self._key), self._mark}
        try:
            return fingerprint(
                without({name: each for name, each in item.items() if name not in apart}, self._ignore)
            )
        except NotCanonical as error:
            raise Misconfigured(f"the item cannot be stored: {error}") from None

    def _known(self, item: Values) -> Values:
        names = (*(part.name for part in self._key), *self._identity)
        return {name: item[name] for name in names if name in item}


def put_request(table: str, item: Item, partition: str) -> dict[str, Any]:
    """Return the arguments of the PutItem that writes *item* once; *partition* names its partition key."""
    return {
        "TableName": table,
        "Item": item,
        "ConditionExpression": ABSENT,
        "ExpressionAttributeNames": {"#key": partition},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
