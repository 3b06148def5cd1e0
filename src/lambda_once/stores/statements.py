"""
PartiQL statements as values: what `requests` says of single writes, for many in one call.

An INSERT is refused where there is a row, whatever the row says, so it acquires new tokens only. The UPDATE
of a finish carries the same conditions as the single write (guarantee 2).
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lambda_once.core.record import State
from lambda_once.core.writes import Extend, Holder
from lambda_once.stores import requests
from lambda_once.stores.rows import number, text

if TYPE_CHECKING:
    from lambda_once.core.writes import Acquire, Finish

Statement = dict[str, Any]

MOST = 25
"""Statements of one BatchExecuteStatement (API reference)."""

# Guarantee 2, as `requests.OURS`: still ours, and still in progress.
OURS = '"attempt" = ? AND begins_with("status", ?)'


def are_reliable() -> bool:
    """Tell whether PartiQL may be used: its conditions must hold."""
    # moto 5.2.5 overwrites existing rows by INSERT, and lets failing UPDATEs succeed: tests on it use single
    # writes, and so does all of a process that has loaded it.
    return "moto" not in sys.modules


def insert(table: str, wish: Acquire, shards: int) -> Statement:
    """Acquire a token that has no row; any row refuses it (``DuplicateItem``)."""
    row = {
        "lockToken": text(wish.token),
        "fence": number(requests.first_fence(wish)),
        **requests.acquired_attributes(wish, shards),
    }
    return {"Statement": _inserting(table, tuple(row)), "Parameters": list(row.values())}


def can_update(write: Finish) -> bool:
    """Tell whether *write* can be a statement: the holder's own, and nothing but its end."""
    return isinstance(write.by, Holder) and not isinstance(write.change, Extend)


def update(table: str, write: Finish, shards: int) -> Statement:
    """Write the end of an attempt. Refused (``ConditionalCheckFailed``) once another one has the token."""
    sets, removed = requests.changed_attributes(write, shards)
    return {
        "Statement": f'{_updating(table, tuple(sets), tuple(removed))} WHERE "lockToken" = ? AND {OURS}',
        "Parameters": [
            *sets.values(),
            text(write.token),
            text(write.attempt),
            text(State.IN_PROGRESS.value),
        ],
    }


# The statements of a batch differ in their parameters: their texts are few, and each is made once.


@lru_cache(maxsize=64)
def _inserting(table: str, names: tuple[str, ...]) -> str:
    values = ", ".join(f"'{name}': ?" for name in names)
    return f'INSERT INTO "{table}" VALUE {{{values}}}'


@lru_cache(maxsize=64)
def _updating(table: str, sets: tuple[str, ...], removed: tuple[str, ...]) -> str:
    changes = [f'SET "{name}" = ?' for name in sets] + [f'REMOVE "{name}"' for name in removed]
    return f'UPDATE "{table}" {" ".join(changes)}'
