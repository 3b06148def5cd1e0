"""The token table for operators: the store, the index, the clock, and cursors of bounded runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lambda_once.core.clock import Clock, Deadline, SystemClock
from lambda_once.core.lifecycle import Record
from lambda_once.core.results import Parts
from lambda_once.core.variables import Listing, configured_listing, given
from lambda_once.dynamodb.errors import CONDITION, Caught, code_of, is_denied
from lambda_once.dynamodb.retry import PATIENCE, Unprocessed, batch_write
from lambda_once.errors import Misconfigured
from lambda_once.operations.times import CorrectedClock
from lambda_once.stores.contract import Refused, Written
from lambda_once.stores.index import StatusIndex
from lambda_once.stores.requests import deletion, part_keys
from lambda_once.stores.row import LISTED, TOKEN, Item, record_of
from lambda_once.stores.store import DynamoDBStore
from lambda_once.stores.transport import TokenTransport, projection, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lambda_once.core.writes import Write
    from lambda_once.stores.contract import WriteAnswer

R = TypeVar("R")

WATCHDOG_ROW = "lambda-once#watchdog"
SWEEP_ROW = "lambda-once#sweep"
"""Keys of cursors; no token has a ``#``, which is percent-encoded. Without status: the index omits them."""


class TokenTable:
    """One token table. Connects on first use."""

    def __init__(
        self,
        table: str | None = None,
        client: Any = None,
        clock: Clock | None = None,
        listing: Listing | None = None,
    ) -> None:
        """
        Defaults: LAMBDA_ONCE_TABLE, LAMBDA_ONCE_LISTING and the machine's clock, corrected.

        Raises `Misconfigured`.
        """
        named = table or given("LAMBDA_ONCE_TABLE")
        if not named:
            raise Misconfigured("no token table: pass table=, or set LAMBDA_ONCE_TABLE")
        self.name = named
        self.listing = configured_listing() if listing is None else listing
        """When functions list what they acquire first, as far as is said; None: nothing is."""
        self.clock: Clock = CorrectedClock(SystemClock()) if clock is None else clock
        self._corrected = self.clock if isinstance(self.clock, CorrectedClock) else None
        observe = None if self._corrected is None else self._corrected.observe
        self.store = DynamoDBStore(self.name, client, heard=observe)
        self.transport = self.store.transport
        self.transport.is_patient = True
        self.index = StatusIndex(self.transport)
        self.may_omit_outcome = False
        """Whether rows may be read without result and error, where those are denied (TokenListing)."""
        self.omits_outcome = False
        """Whether they are."""

    def deadline(self, seconds: float = PATIENCE) -> Deadline:
        local = self.clock if self._corrected is None else self._corrected.local
        return Deadline(local, local.now() + timedelta(seconds=seconds))

    def now(self) -> datetime:
        """
        Return the time by which leases are judged.

        A clock that is corrected by DynamoDB's responses needs one: before the first, one small read is
        sent. Raises `StoreUnavailable` and `Misconfigured`.
        """
        if self._corrected is not None and not self._corrected.synchronised:
            request = {"TableName": self.name, "Key": {TOKEN: {"S": WATCHDOG_ROW}}, **projection((TOKEN,))}
            self.transport.asked("get_item", request, self.deadline(), None)
        return self.clock.now()

    def read(self, token: str) -> Record | None:
        """Return the row of *token*, read consistently. Raises `StoreUnavailable` and `Misconfigured`."""
        item = self._permitted(partial(self._row, token), partial(self._row, token, LISTED))
        return None if item is None else self.record(item)

    def rows(self, tokens: Iterable[str], deadline: Deadline | None = None) -> dict[str, Item]:
        """Return the rows of *tokens* that exist, read consistently. Raises as `read`."""
        keys = [{TOKEN: {"S": token}} for token in dict.fromkeys(tokens)]
        read = partial(self.transport.items, keys, deadline or self.deadline(), None)
        return self._permitted(read, partial(read, only=LISTED)) if keys else {}

    def record(self, item: Item) -> Record:
        """Parse the row that was read last. Raises `Misconfigured` if this package did not write it."""
        return record_of(item)._replace(omits_outcome=self.omits_outcome)

    def _row(self, token: str, only: Sequence[str] = ()) -> Item | None:
        key = {TOKEN: {"S": token}}
        request = {"TableName": self.name, "Key": key, "ConsistentRead": True, **projection(only)}
        row: Item | None = self.transport.asked("get_item", request, self.deadline(), token).get("Item")
        return row

    def _permitted(self, whole: Callable[[], R], listed: Callable[[], R]) -> R:
        """Return what *whole* reads; what *listed* does if that is denied, and may be left out."""
        if not self.omits_outcome:
            try:
                return whole()
            except Misconfigured as error:
                if not (self.may_omit_outcome and was_denied(error)):
                    raise
            self.omits_outcome = True
        return listed()

    def write(self, write: Write, deadline: Deadline | None = None) -> WriteAnswer:
        """Send *write*; `Refused`, with the row, if the row has changed since it was read."""
        (answer,) = self.store.write([write], deadline or self.deadline())
        return answer

    def delete(self, record: Record) -> WriteAnswer:
        """
        Delete the row of *record*, which is complete; `Refused` if it has changed since it was read.

        A row that is gone by then is what was asked for, whoever deleted it (dynamodb:DeleteItem). It is read
        if none came with the refusal, as some engines return none.
        """
        try:
            self.transport.call("delete_item", deletion(self.name, record), self.deadline())
        except Caught as error:
            if code_of(error) != CONDITION:
                return self.transport.failed(error, "DeleteItem", record.token)
            item = error.response.get("Item") or self._row(record.token)
            return Refused(record_of(item)) if item else Written.WRITTEN
        return Written.WRITTEN

    def erase_parts(self, record: Record) -> int:
        """
        Delete the parts of *record*'s result, before its row is written, which alone leads to them.

        Returns how many there were.

        No other row leads to them, whatever has become of this one: a finished row is only ever kept for
        longer, or replaced, under another attempt id. Until it is written, a duplicate gets
        `ResultUnavailable`, for parts are missing. Raises `StoreUnavailable`, some of them deleted, and
        `Misconfigured`.
        """
        if not isinstance(record.stored, Parts):
            return 0
        deadline = self.deadline()
        writes = [{"DeleteRequest": {"Key": key}} for key in part_keys(record, record.stored.count)]
        send = partial(self.transport.asked, deadline=deadline, token=record.token)
        try:
            batch_write(send, self.name, writes, deadline)
        except Unprocessed as throttled:
            raise unavailable(
                record.token, self.transport.outage("UnprocessedItems", "BatchWriteItem")
            ) from throttled
        return record.stored.count


class Cursor:
    """
    Where a bounded run stopped: one row of the token table, without ttl, written without a condition.

    A lost or stale cursor only changes the order in which rows are checked.
    """

    def __init__(self, transport: TokenTransport, key: str) -> None:
        self._transport = transport
        self._key = {TOKEN: {"S": key}}
        self._read: str | None = None

    def read(self, deadline: Deadline) -> str | None:
        """Return what was written last; None if there is nothing. Raises as `TokenTransport.asked`."""
        request = {"TableName": self._transport.table, "Key": self._key, "ConsistentRead": True}
        row = self._transport.asked("get_item", request, deadline, None).get("Item", {})
        self._read = row.get("place", {}).get("S")
        return self._read

    def write(self, place: str | None, deadline: Deadline) -> None:
        """Write *place*, None for the beginning; no request if that was read. Raises as `read`."""
        if place == self._read:
            return
        change = "REMOVE place" if place is None else "SET place = :place"
        values = {} if place is None else {"ExpressionAttributeValues": {":place": {"S": place}}}
        request = {"TableName": self._transport.table, "Key": self._key, "UpdateExpression": change} | values
        self._transport.asked("update_item", request, deadline, None)
        self._read = place


def was_denied(error: Misconfigured) -> bool:
    """Return whether AWS denied the request that *error* is about."""
    return isinstance(error.__cause__, Caught) and is_denied(error.__cause__)
