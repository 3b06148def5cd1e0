"""Put an item once by its key: a second put returns the first one's values, and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from lambda_once.core.canonical import fingerprint
from lambda_once.core.fields import without
from lambda_once.core.keys import MOST_DIGITS, whole_digits
from lambda_once.dynamodb import (
    ConditionFailed,
    Item,
    Sender,
    Values,
    plain_item,
    typed,
    typed_item,
    without_item,
)
from lambda_once.errors import KeyMissing, Misconfigured, OnceError
from lambda_once.patterns.observing import Observer, observed
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.patterns.table import checked_key, key_names
from lambda_once.patterns.transactions import TransactItem

if TYPE_CHECKING:
    from lambda_once.core.clock import Clock
    from lambda_once.observability.reporter import AnyLogger, Namespaced

ABSENT: Final = "attribute_not_exists(#key)"
"""
No item has this key, so the first put wins. The partition key suffices: DynamoDB evaluates the condition on
the item with the whole primary key (developer guide, "Condition expressions", preventing overwrites).
"""

MARK: Final = "put"
"""The attribute that holds the id and the content's fingerprint of the put that wrote an item."""

KeySpec = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""The key attributes, partition key first; or a mapping of each to its source fields."""


class Unique:
    """
    Items of one table that are put once. Thread-safe; connects at first use.

    *key* names the key attributes, partition key first, which every item must have; or maps each of them to
    its source fields (`key_of`). *identity* names further attributes to return in results, such as an id that
    is new for every put. *ignore*: dotted paths that do not count as content, such as a send time; the key
    and *identity* never count. *mark* names the attribute by which a put recognises its own item. With None
    the item has no such attribute: a put whose response was lost is then a duplicate of itself, and ``same``
    compares with the current item. *metrics*, *logger*: your Powertools objects.
    """

    def __init__(  # noqa: PLR0913  (options of one object, all but two by name)
        self,
        table: str,
        client: Any = None,
        *,
        key: KeySpec = ("pk", "sk"),
        identity: str | Sequence[str] = (),
        ignore: Sequence[str] = (),
        mark: str | None = MARK,
        metrics: Namespaced | None = None,
        logger: AnyLogger | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._table = table
        self._key = key_fields(key)
        self._identity = _names(identity)
        self._ignore = _names(ignore)
        self._mark = mark
        self._sender = Sender(client, clock)
        self._observer = Observer(self, table, metrics, logger, key=lambda item: key_of(self._key, item))
        if mark is not None and (mark == "" or mark in {*self._key, *self._identity}):
            raise Misconfigured(f"mark={mark!r}: name an attribute that items do not have, or None")

    @observed
    def put(self, item: Mapping[str, object]) -> Applied | Duplicate:
        """
        Put *item* unless an item has its key. ``values`` are the key attributes and *identity*.

        A retry after a lost response is `Applied`. Raises `KeyMissing` and `Misconfigured` before anything is
        sent. Raises `StoreUnavailable` if there is no response: put it again, and it is `Applied` or a
        `Duplicate` with the same content.
        """
        request = self.transact_item(item)["Put"]
        try:
            self._sender.send("put_item", request)
        except ConditionFailed as failed:
            return self._duplicate(failed.item, request["Item"])
        return Applied(self._known(plain_item(request["Item"])))

    def put_all(self, items: Iterable[Mapping[str, object]]) -> tuple[Applied | Duplicate | OnceError, ...]:
        """Put each of *items* in order, and return their results; an error is returned in its place."""

        def result(item: Mapping[str, object]) -> Applied | Duplicate | OnceError:
            try:
                return self.put(item)
            except OnceError as error:
                return error

        return tuple(map(result, items))

    def transact_item(self, item: Mapping[str, object]) -> TransactItem:
        """
        Return what `put` writes, as an entry of a TransactWriteItems (`transaction_results`).

        `Applied` in the results means that an earlier transaction with this same entry took effect.
        """
        if not isinstance(item, Mapping):
            raise Misconfigured(f"an item is a mapping of attributes, not a {type(item).__name__}")
        if self._mark in item:
            raise Misconfigured(f"the item already has an attribute {self._mark!r}: give mark= another name")
        row = typed_item({**item, **key_of(self._key, item)})
        if self._mark is not None:
            row[self._mark] = typed({"id": os.urandom(16).hex(), "content": self._content(plain_item(row))})
        request = put_request(self._table, row, next(iter(self._key)))
        return TransactItem("Put", request, lambda found: self._duplicate(found, row))

    def _duplicate(self, found: Mapping[str, Mapping[str, Any]] | None, row: Item) -> Applied | Duplicate:
        """Return the result of a refused put of *row*, given the existing item *found*."""
        if not found:
            raise without_item(self._table)
        existing, ours = plain_item(found), plain_item(row)
        values = self._known(existing)
        mark = None if self._mark is None else existing.get(self._mark)
        if not isinstance(mark, Mapping):
            return Duplicate(values, same=self._content(existing) == self._content(ours))
        if mark.get("id") == ours[str(self._mark)]["id"]:
            return Applied(values)
        return Duplicate(values, same=mark.get("content") == ours[str(self._mark)]["content"])

    def _content(self, item: Values) -> str:
        """Return the fingerprint of *item* as stored, where each number and binary has one type."""
        apart = {*self._identity, *self._key, self._mark}
        content = {name: each for name, each in item.items() if name not in apart}
        return fingerprint(without(content, self._ignore))

    def _known(self, item: Values) -> Values:
        return {name: item[name] for name in (*self._key, *self._identity) if name in item}


def put_request(table: str, item: Item, partition: str) -> dict[str, Any]:
    """Return the arguments of a PutItem that writes *item* once; *partition* names its partition key."""
    return {
        "TableName": table,
        "Item": item,
        "ConditionExpression": ABSENT,
        "ExpressionAttributeNames": {"#key": partition},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


# -- keys made of fields


def key_fields(key: KeySpec) -> dict[str, tuple[str, ...]]:
    """
    Return the key attributes, partition key first, with the source fields of each.

    The fields are empty if items have the attribute itself. Raises `Misconfigured`.
    """
    if not isinstance(key, Mapping):
        return dict.fromkeys(key_names(_names(key)), ())
    made = {name: _names(key[name]) for name in key_names(tuple(key))}
    for name, fields in made.items():
        if not fields or "" in fields or name in fields:
            raise Misconfigured(f"key={key!r}: name the other attributes that {name!r} is made of")
    return made


def key_of(key: Mapping[str, Sequence[str]], item: Mapping[str, object]) -> Values:
    """
    Return the attributes of *key* (a result of `key_fields`) for *item*.

    Fields are percent-encoded and joined by ``#``, so different fields never have the same key: ("a#b", "c")
    becomes ``a%23b#c``. A number that equals an integer, as in tokens, becomes ``=5`` (5, 5.0,
    Decimal("5.00")); the text "5" becomes ``5``. Raises `KeyMissing` for a field that is missing, None or
    empty, and `Misconfigured`.
    """
    return checked_key(
        {name: _made(name, fields, item) if fields else _present(name, item) for name, fields in key.items()}
    )


def _made(name: str, fields: Sequence[str], item: Mapping[str, object]) -> str:
    if name in item:
        raise Misconfigured(
            f"{name!r} is made of {', '.join(fields)}: leave it out of the item, or name it in key="
        )
    return "#".join(_encoded(field, _present(field, item)) for field in fields)


def _present(name: str, item: Mapping[str, object]) -> object:
    found = item.get(name)
    if found is None or found in ("", b""):
        raise KeyMissing(f"the key is missing: the item has no {name!r}; send it with every item")
    return found


def _encoded(name: str, value: object) -> str:
    """Return *value* as a part of a key. No encoded text contains the ``=`` of a number."""
    if isinstance(value, str):
        return quote(value, safe="", errors="surrogatepass")
    digits = whole_digits(value)
    if digits is None:
        raise Misconfigured(
            f"{name!r} is a {type(value).__name__}, but neither text nor a whole number of at most "
            f"{MOST_DIGITS} digits: make the key of other fields"
        )
    return f"={digits}"


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
