"""Where a bounded run stopped: one row of the token table for each kind of run, and never a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambda_once.stores.rows import text

if TYPE_CHECKING:
    from lambda_once.core.clock import Deadline
    from lambda_once.stores.transport import TokenTransport

WATCHDOG_ROW = "lambda-once#watchdog"
SWEEP_ROW = "lambda-once#sweep"
"""Tokens have their ``#`` percent-encoded, so none is called so. No status: the index does not list it."""


class Cursor:
    """
    One such row. It has no ttl, and is written without a condition.

    A lost or stale one changes the order in which rows are looked at, nothing else.
    """

    def __init__(self, transport: TokenTransport, key: str) -> None:
        self._transport = transport
        self._key = {"lockToken": text(key)}
        self._read: str | None = None

    def read(self, deadline: Deadline) -> str | None:
        """Return what was written last; None where there is nothing. Raises as `TokenTransport.asked`."""
        request = {"TableName": self._transport.table, "Key": self._key, "ConsistentRead": True}
        row = self._transport.asked("get_item", request, deadline, None).get("Item", {})
        self._read = row.get("place", {}).get("S")
        return self._read

    def write(self, place: str | None, deadline: Deadline) -> None:
        """Write *place*, None for the beginning; no request where that is what was read. Raises as `read`."""
        if place == self._read:
            return
        change = "REMOVE place" if place is None else "SET place = :place"
        values = {} if place is None else {"ExpressionAttributeValues": {":place": text(place)}}
        request = {"TableName": self._transport.table, "Key": self._key, "UpdateExpression": change} | values
        self._transport.asked("update_item", request, deadline, None)
        self._read = place
