"""
The results and errors of Ledger, Ratchet, Unique and Documents: one vocabulary.

An ordinary outcome is returned:

    Applied       the write took effect, once
    Duplicate     it took effect before; nothing was written
    Stale         the item is newer; nothing was written
    Refused       a floor does not allow it; nothing was written

A race, an unknown outcome, a limit or a mistake is raised:

    OnceError
    ├── RetryLater
    │   ├── Conflict          the item is not as expected: read it, decide again
    │   ├── StoreUnavailable  no response: written or not (`lambda_once.errors`)
    │   ├── Full              the item has no room for another id
    │   ├── TooFarAhead       a timestamp is too far ahead of this clock
    │   └── Unreadable        no version of the document is complete here yet
    └── GiveUp
        ├── VersionAhead      the version of the document is too far ahead of this clock
        └── Misconfigured     an argument, the table or a permission is wrong (`lambda_once.errors`)

Each result, and `Conflict`, has ``values``: the known attributes of the current item.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from lambda_once.errors import GiveUp, RetryLater

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from decimal import Decimal

    from lambda_once.dynamodb import Values


_E = TypeVar("_E")
_C = TypeVar("_C")


@dataclass(frozen=True, slots=True)
class Applied:
    """The write took effect, by this call or by an earlier request of it."""

    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The write took effect before. Nothing was written."""

    values: Values = field(default_factory=dict)
    same: bool = True
    """False (`Unique` only): the item with this key has other content."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The item is newer. Nothing was written, and a retry changes nothing."""

    values: Values


@dataclass(frozen=True, slots=True)
class Refused:
    """A counter would fall below its floor. Nothing was written, and the id is not remembered."""

    values: Values
    floor: Mapping[str, int | Decimal]
    """The floors of this write."""


class Page(NamedTuple, Generic[_E, _C]):
    """Some items of a partition, in the order of their sort keys."""

    items: list[_E]
    cursor: _C | None
    """Where the next page begins; None if this is the last."""


class Conflict(RetryLater):
    """The item is not as expected. ``values`` has the current item, if there is one. Nothing was written."""

    def __init__(self, message: str, *, values: Values | None = None) -> None:
        super().__init__(message)
        self.values: Values = {} if values is None else values


class Full(RetryLater):
    """The ids of one window do not fit into one item of 400 KB. Nothing was written."""


class TooFarAhead(RetryLater):
    """
    ``stamp``, a timestamp in milliseconds, is too far ahead of this clock's ``now``. Nothing was written.

    It is the timestamp of the write or of the item; one of the two clocks is wrong.
    """

    def __init__(
        self,
        message: str,
        *,
        stamp: int | Decimal | None = None,
        now: datetime | None = None,
        **known: Any,
    ) -> None:
        super().__init__(message, **known)
        self.stamp = stamp
        self.now = now


class Unreadable(RetryLater):
    """The document exists, but none of its versions is complete here yet."""


class VersionAhead(GiveUp):
    """The document's version is further ahead of this clock than ``ahead=`` allows. Nothing was written."""
