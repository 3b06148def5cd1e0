"""What a ledger's items stand at: one read, or the shards of a key summed."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Final

from lambda_once.errors import StoreUnavailable
from lambda_once.patterns.ledger.requests import DIGITS
from lambda_once.patterns.wire import back_off

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lambda_once.patterns.items import Item, Values
    from lambda_once.patterns.wire import Wire

MOST_KEYS: Final = 100
"""Of one BatchGetItem."""
ROUNDS: Final = 10
"""How often one BatchGetItem is asked for what it left out, before the read is given up."""


def read(wire: Wire, table: str, key: Item) -> Item | None:
    """Return the item of *key* by a consistent read, None where there is none."""
    item: Item | None = wire.send("get_item", {"TableName": table, "Key": key, "ConsistentRead": True}).get(
        "Item"
    )
    return item


def read_all(wire: Wire, table: str, keys: list[Item]) -> list[Item]:
    """Return the items there are of *keys*, by consistent reads. Raises `StoreUnavailable`."""
    found: list[Item] = []
    for start in range(0, len(keys), MOST_KEYS):
        left = keys[start : start + MOST_KEYS]
        for rounds in range(1, ROUNDS + 1):
            asked = {table: {"Keys": left, "ConsistentRead": True}}
            answer = wire.send("batch_get_item", {"RequestItems": asked})
            found += answer["Responses"].get(table, [])
            left = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            if not left:
                break
            back_off(wire.clock, rounds)
        else:
            raise StoreUnavailable(f"ledger {table!r} did not give all its shards: read it again")
    return found


def summed(items: Iterable[Values]) -> Values:
    """Return the sum of each counter; what is no number was put there by others, and has no sum."""
    sums: Values = {}
    with localcontext(prec=DIGITS):
        for item in items:
            for name, each in item.items():
                if isinstance(each, int | Decimal) and not isinstance(each, bool):
                    sums[name] = sums.get(name, 0) + each
    return sums
