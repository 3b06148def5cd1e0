"""What a ledger's items stand at: one read, or the shards of a key summed."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Final

from lambda_once.dynamodb.paging import Unprocessed, batch_get
from lambda_once.errors import StoreUnavailable
from lambda_once.patterns.ledger.requests import DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lambda_once.patterns.items import Item, Values
    from lambda_once.patterns.transport import PatternTransport

ROUNDS: Final = 10
"""How many requests in a row may read nothing, before the read is given up."""


def read(transport: PatternTransport, table: str, key: Item) -> Item | None:
    """Return the item of *key* by a consistent read, None where there is none."""
    request = {"TableName": table, "Key": key, "ConsistentRead": True}
    item: Item | None = transport.send("get_item", request).get("Item")
    return item


def read_all(transport: PatternTransport, table: str, keys: list[Item]) -> list[Item]:
    """Return the items there are of *keys*, by consistent reads. Raises `StoreUnavailable`."""
    try:
        return batch_get(transport.send, table, keys, transport.deadline, ROUNDS, ConsistentRead=True)
    except Unprocessed:
        raise StoreUnavailable(f"ledger {table!r} did not give all its shards: read it again") from None


def summed(items: Iterable[Values]) -> Values:
    """Return the sum of each counter; what is no number was put there by others, and has no sum."""
    sums: Values = {}
    with localcontext(prec=DIGITS):
        for item in items:
            for name, each in item.items():
                if isinstance(each, int | Decimal) and not isinstance(each, bool):
                    sums[name] = sums.get(name, 0) + each
    return sums
