"""What the rarer steps of a token cost, by arithmetic: no case of the benchmark takes them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.units import EXPIRY_UNITS, update_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.units import Item

_TOKEN: Final[Item] = {
    "lockToken": {"S": "orders/charge/12345"},
    "attempt": {"S": "a" * 32},
    "fence": {"N": "1795193761845"},
    "lockedBy": {"S": "charge/5f1c2ad0-7c1b-4f0e-9a9e-3f1f2d9b7a10"},
    "created": {"S": "2026-11-20T10:12:00.000Z"},
    "expectedCompletion": {"S": "2026-11-20T10:12:32.000Z"},
    "fingerprint": {"S": "1." + "f" * 64},
    "ttl": {"N": "1796403361"},
}
AT_WORK: Final[Item] = {**_TOKEN, "status": {"S": "inProgress"}}
EXTENDED: Final[Item] = {**AT_WORK, "expectedCompletion": {"S": "2026-11-20T10:22:00.000Z"}}
TAKEN_OVER: Final[Item] = {**EXTENDED, "attempt": {"S": "b" * 32}}
HELD: Final[Item] = {**_TOKEN, "status": {"S": "error"}, "error": {"M": {"kind": {"S": "GatewayTimeout"}}}}
COMPLETE: Final[Item] = {**_TOKEN, "actualCompletion": {"S": "2026-11-20T10:12:01.000Z"}}
OWN: Final[Item] = {"orderId": {"S": "12345"}, "state": {"S": "paid"}}
"""A small item of the user's, in a table without an index of its own."""


def steps(*, indexed: bool = True) -> Iterator[tuple[str, int]]:
    """Yield each step with its write units, for rows below 1 KB, on a table with the index or without."""
    units = partial(update_units, indexed=indexed)
    begun, ended = units(None, AT_WORK), units(AT_WORK, COMPLETE)
    yield "new work: acquire, complete", begun + ended
    yield "the same, and an item of yours written beside it", begun + ended + units(None, OWN)
    transacted = units(AT_WORK, COMPLETE, transacted=True) + units(None, OWN, transacted=True)
    yield "the same by `transact`", begun + transacted
    yield "one `extend`", units(AT_WORK, EXTENDED)
    yield "one take-over", units(AT_WORK, TAKEN_OVER)
    yield "one `HOLD`, and its `resolve`", units(AT_WORK, HELD) + units(HELD, COMPLETE)
    yield "expiry by ttl", EXPIRY_UNITS
