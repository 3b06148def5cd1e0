"""The items of a ledger for operators: values, and the traces of an id."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.clock import epoch_milliseconds
from lambda_once.dynamodb.errors import Caught, code_of
from lambda_once.dynamodb.items import Values, plain_item
from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger import layout as layouts
from lambda_once.stores.transport import TokenTransport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lambda_once.core.clock import Deadline
    from lambda_once.dynamodb.items import Item
    from lambda_once.patterns.ledger.layout import Layout
    from lambda_once.patterns.table import PatternTable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)


# -- the items


class Period(NamedTuple):
    """The period of a bucket, without its end."""

    began: datetime
    ended: datetime


class Trace(NamedTuple):
    """An id that an item has: when it was added, and until when it is remembered."""

    added: Period
    until: datetime


@dataclass(frozen=True, slots=True)
class LedgerItem:
    """One item that a ledger wrote."""

    where: Item
    """Its key, as DynamoDB has it."""
    key: Values
    values: Values
    """Without key and ids."""
    own: Item
    layout: Layout
    expires: datetime | None
    """When the table's TTL removes the item."""

    @classmethod
    def of(cls, table: PatternTable, item: Mapping[str, Any]) -> LedgerItem:
        """Return *item* as it was read. Raises `Misconfigured` if no ledger wrote it."""
        where = {name: item[name] for name in table.key}
        seen, key = layouts.seen_in(table, item), plain_item(where)
        layout = layouts.layout_of(seen.own)
        if layout is None or not _is_a_time(layout, layouts.time_of(seen.own)):
            raise Misconfigured(
                f"item {key} of table {table.name!r} was not written by a ledger: check the table and the key"
            )
        return cls(where, key, seen.values, seen.own, layout, _expiry(item.get(layouts.TTL, {})))

    @property
    def shards(self) -> int:
        """How many items its key has at most."""
        return max(int(self.own[layouts.SHARDS]["N"]), 1) if layouts.SHARDS in self.own else 1

    @property
    def window(self) -> timedelta:
        """How long an id is remembered at least."""
        return timedelta(milliseconds=self.layout.span)

    @property
    def newest(self) -> Period:
        """The bucket that was added to last."""
        return self._period(layouts.time_of(self.own))

    def ids(self, now: datetime) -> int:
        """Return the number of ids that are remembered."""
        number = layouts.newest(self.own, self.layout, now)
        return sum(map(len, layouts.remembered(self.own, self.layout, number).values()))

    def trace(self, digest: bytes) -> Trace | None:
        """Return where the item has an id, also one that is forgotten and not yet removed."""
        every = replace(self.layout, buckets=layouts.NAMES)
        for number, digests in layouts.remembered(self.own, every, layouts.time_of(self.own)).items():
            if digest in digests:
                return Trace(self._period(number), self._period(number + self.layout.buckets).began)
        return None

    def _period(self, number: int) -> Period:
        width = timedelta(milliseconds=self.layout.width)
        return Period(_EPOCH + number * width, _EPOCH + (number + 1) * width)


def _expiry(attribute: Mapping[str, Any]) -> datetime | None:
    """Return the time of a TTL attribute; None if it is none, or too far for Python."""
    text = attribute.get("N", "")
    seconds = int(text) if text.isdigit() else 0
    return _EPOCH + timedelta(seconds=seconds) if 0 < seconds < _LATEST.timestamp() else None


def _is_a_time(layout: Layout, newest: int) -> bool:
    """Whether the buckets of an item are times that Python has; others have no ledger."""
    latest = (newest + layouts.NAMES) * layout.width
    return layout.width > 0 and latest < epoch_milliseconds(_LATEST)


# -- reading them


class LedgerTransport(TokenTransport):
    """Sends requests to a table whose key may be a number, which DynamoDB returns in its own form."""

    def is_answer(self, request: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
        key, item = request.get("Key", {}), response.get("Item")
        return item is None or plain_item(key) == plain_item({name: item[name] for name in key})


def key_types(transport: TokenTransport, deadline: Deadline) -> dict[str, str]:
    """Return the key attributes of the table, partition key first, with their types: S, N or B."""
    described = _asked(transport, "describe_table", {}, deadline)["Table"]
    types = {each["AttributeName"]: each["AttributeType"] for each in described["AttributeDefinitions"]}
    schema = sorted(described["KeySchema"], key=lambda each: each["KeyType"])  # HASH, RANGE
    return {each["AttributeName"]: types[each["AttributeName"]] for each in schema}


def key_part(text: str, kind: str) -> str | Decimal | bytes:
    """Return a part of a key as typed: text, a number, or binary in base64. Raises `Misconfigured`."""
    try:
        match kind:
            case "N":
                return Decimal(text)
            case "B":
                return base64.b64decode(text, validate=True)
            case _:
                return text
    except (InvalidOperation, ValueError):
        wanted = "a number" if kind == "N" else "binary, given in base64"
        raise Misconfigured(f"{text!r} is not a key of this table: it is {wanted}") from None


def read_items(
    transport: TokenTransport, table: PatternTable, keys: Sequence[Item], deadline: Deadline
) -> list[LedgerItem]:
    """Return the items at *keys* that exist. Raises `StoreUnavailable` and `Misconfigured`."""

    def read(key: Item) -> Item | None:
        request = {"Key": key, "ConsistentRead": True}
        item: Item | None = _asked(transport, "get_item", request, deadline).get("Item")
        return item

    return [LedgerItem.of(table, item) for item in transport.each(keys, read) if item is not None]


def _asked(transport: TokenTransport, operation: str, request: Mapping[str, Any], deadline: Deadline) -> Any:
    try:
        return transport.asked(operation, {"TableName": transport.table, **request}, deadline, None)
    except Misconfigured as error:
        cause = error.__cause__
        code = code_of(cause) if isinstance(cause, Caught) else ""
        wrong = {
            "ResourceNotFoundException": f"does not exist in {transport.place}: check --ledger and --region",
            "ValidationException": "has another key: check KEY, SORT and --ledger-key",
        }.get(code)
        if wrong is None:
            raise
        raise Misconfigured(f"table {transport.table!r} {wrong}") from cause
