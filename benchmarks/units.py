"""
What DynamoDB charges for, as arithmetic: sizes of items, write and read units, bytes that are stored.

Sources: DynamoDB developer guide, "DynamoDB item sizes and formats", "DynamoDB read and write operations",
"Global secondary indexes: write operations", "Time to Live". Transactions double the units of rows and leave
those of an index as they are: so measured on the service by aws/agent-toolkit-for-aws, calculate_costs.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Item = Mapping[str, Mapping[str, Any]]
"""An item as the low-level client takes and gives it."""

WRITE_BYTES, READ_BYTES = 1024, 4096
STORED_BYTES = 100
"""Of every item that is stored, beside its own (best practices for storing large items and attributes)."""
EXPIRY_UNITS = 0
"""What ttl deletes, and the index entry that goes with it, is deleted for nothing (one region)."""
TRANSACTED = 2

INDEX_KEYS = ("status", "expectedCompletion")
PROJECTED = ("lockToken", *INDEX_KEYS, "lockedBy", "created", "attempt")
"""Of the index ``byStatus``: an item without `INDEX_KEYS` has no entry in it."""


def write_units(size: int) -> int:
    """Return the units of writing an item of *size* bytes: one for each KB begun."""
    return max(1, math.ceil(size / WRITE_BYTES))


def read_units(size: int) -> int:
    """Return the units of reading an item of *size* bytes consistently: one for every 4 KB begun."""
    return max(1, math.ceil(size / READ_BYTES))


def refused_units(stored: Item | None) -> int:
    """Return the units of a conditional write that is refused: those of the item that is there."""
    return write_units(0 if stored is None else size_of(stored))


def update_units(
    before: Item | None, after: Item | None, *, transacted: bool = False, indexed: bool = True
) -> int:
    """Return the units of a write that makes *after* of *before* (None: no item), with those of the index."""
    row = write_units(max(size_of(each) for each in (before or {}, after or {})))
    return row * (TRANSACTED if transacted else 1) + (index_units(before, after) if indexed else 0)


def index_units(before: Item | None, after: Item | None) -> int:
    """Return the units of the entries in ``byStatus`` that are deleted and written along with that write."""
    old, new = _entry(before), _entry(after)
    if old == new:
        return 0
    if old is None or new is None:
        return write_units(size_of(old or new or {}))
    if _index_key(old) == _index_key(new):
        return write_units(max(size_of(old), size_of(new)))
    return write_units(size_of(old)) + write_units(size_of(new))


def stored_bytes(item: Item) -> int:
    """Return the bytes that are charged for keeping *item*."""
    return size_of(item) + STORED_BYTES


def size_of(item: Item) -> int:
    """Return the bytes of *item*, names and values."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _entry(item: Item | None) -> Item | None:
    if item is None or not all(key in item for key in INDEX_KEYS):
        return None
    return {name: item[name] for name in PROJECTED if name in item}


def _index_key(entry: Item) -> tuple[object, ...]:
    return tuple(entry[key] for key in INDEX_KEYS)


def _value_size(value: Mapping[str, Any]) -> int:
    ((kind, held),) = value.items()
    match kind:
        case "S":
            return len(held.encode())
        case "B":
            return len(held)
        case "N":
            return math.ceil(len(held.strip("-").replace(".", "").strip("0")) / 2) + 1
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value_size(each) for name, each in held.items())
        case "L":
            return 3 + sum(1 + _value_size(each) for each in held)
        case "SS" | "BS" | "NS":
            return sum(_value_size({kind[0]: each}) for each in held)
        case _:
            return 1  # BOOL, NULL
