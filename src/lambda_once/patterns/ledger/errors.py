"""
What can go wrong with a ledger, beside what can with any table.

    OnceError
    ├── RetryLater
    │   ├── Conflict     the item is not as it was expected: read it, and decide again
    │   └── Full         the item holds as many ids as it can: later there is room, or take shards
    └── GiveUp
        └── BelowFloor   there is not enough to take
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambda_once.errors import GiveUp, RetryLater

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from lambda_once.patterns.items import Values


class Conflict(RetryLater):
    """
    The item is not as it was expected, and nothing was written.

    ``values``: the item as it stands, without its key; empty where there is none.
    """

    def __init__(self, message: str, *, values: Values | None = None) -> None:
        super().__init__(message)
        self.values: Values = {} if values is None else values


class Full(RetryLater):
    """The ids of one window do not fit into one item of 400 KB. Nothing was written."""


class BelowFloor(GiveUp):
    """
    A counter would have fallen below its floor: nothing was added, and the id was not remembered.

    ``floor``: the floors of this write. ``values``: the item as it stands, without its key.
    """

    def __init__(
        self,
        message: str,
        *,
        floor: Mapping[str, int | Decimal] | None = None,
        values: Values | None = None,
    ) -> None:
        super().__init__(message)
        self.floor = {} if floor is None else dict(floor)
        self.values: Values = {} if values is None else values
