"""One token at a time: conditional single writes, and the parts of large results beside them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from lambda_once.core.record import Record
from lambda_once.core.results import Chunks, Parts
from lambda_once.core.writes import Acquire, Complete, Finish, acquired_by, made_by
from lambda_once.dynamodb.errors import CONDITION, CONFLICT, Caught, code_of, is_transient
from lambda_once.dynamodb.paging import Unprocessed, batch_write
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.stores import requests
from lambda_once.stores.contract import Acquired, Finished, Refused, Rejected, Unanswered, Won, Written
from lambda_once.stores.rows import part_of, record_of, text

if TYPE_CHECKING:
    from lambda_once.core.clock import Deadline
    from lambda_once.stores.transport import TokenTransport


class Singles:
    """Acquires, finishes and reads single tokens."""

    def __init__(self, transport: TokenTransport, shards: int) -> None:
        self._transport = transport
        self._shards = shards

    def acquire(self, wish: Acquire, deadline: Deadline) -> Acquired:
        request = requests.acquire(self._transport.table, wish, self._shards)
        conflicts: list[Exception] = []

        def failed(error: Exception) -> None:
            if code_of(error) == CONFLICT:
                conflicts.append(error)

        try:
            row = self._transport.call("update_item", request, deadline, failed).get("Attributes")
        except Caught as error:
            # Another write was at this row: silence after that makes it no outage (guarantee 7).
            refusal = conflicts[-1] if conflicts and is_transient(error) else error
            return self._not_acquired(refusal, wish, deadline)
        if row is None:
            return Won(requests.first_fence(wish), took_over=False)
        return Won(int(row["fence"]["N"]) + 1, took_over="status" in row)

    def finish(self, write: Finish, deadline: Deadline) -> Finished:
        """Write *write*; the parts of a large result are there by now (`put_parts`)."""
        request = requests.finish(self._transport.table, write, self._shards)
        try:
            self._transport.call("update_item", request, deadline)
        except Caught as error:
            if code_of(error) != CONDITION:
                return self._transport.failed(error, "UpdateItem", write.token)
            record = self._standing(error, write.token, deadline)
            if isinstance(record, Unanswered | Rejected):
                return record
            return Written() if made_by(record, write) else Refused(record)
        return Written()

    def read(self, token: str, deadline: Deadline) -> Record | None:
        key = {"lockToken": text(token)}
        request = {"TableName": self._transport.table, "Key": key, "ConsistentRead": True}
        item = self._transport.asked("get_item", request, deadline, token).get("Item")
        return None if item is None else record_of(item)

    def put_parts(self, write: Finish, deadline: Deadline) -> Unanswered | Rejected | None:
        """Write the parts of a large result: before the row is flipped, so that no reader misses one."""
        if not (isinstance(write.change, Complete) and isinstance(write.change.result, Chunks)):
            return None
        parts = requests.part_items(write, write.change.result.parts)
        wanted: list[Any] = [{"PutRequest": {"Item": item}} for item in parts]
        left = wanted[write.parts_written :]
        try:
            batch_write(
                partial(self._transport.call, deadline=deadline), self._transport.table, left, deadline
            )
        except Unprocessed:
            return Unanswered(
                "the parts of its result could not all be written in time", _written_of(wanted, left)
            )
        except Caught as error:
            failed = self._transport.failed(error, "BatchWriteItem", write.token)
            if isinstance(failed, Rejected):
                return failed
            return failed._replace(parts=_written_of(wanted, left))
        return None

    def parts(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        """Return the parts of *record*'s result in their order, or None where one is missing."""
        if not isinstance(record.stored, Parts):
            return ()
        keys = requests.part_keys(record, record.stored.count)
        rows = self._transport.items(keys, deadline, record.token)
        if len(rows) < len(keys):
            return None
        return tuple(part_of(rows[key["lockToken"]["S"]]) for key in keys)

    def _not_acquired(self, error: Exception, wish: Acquire, deadline: Deadline) -> Acquired:
        if code_of(error) not in (CONDITION, CONFLICT):
            return self._transport.failed(error, "UpdateItem", wish.token)
        record = self._standing(error, wish.token, deadline)
        if isinstance(record, Unanswered | Rejected):
            return record
        if record is not None and acquired_by(record, wish):
            return Won.before(record)
        return Refused(record)

    def _standing(
        self, error: Exception, token: str, deadline: Deadline
    ) -> Record | Unanswered | Rejected | None:
        """Return the row that refused us: it comes with the refusal, except from a conflict."""
        try:
            item = error.response.get("Item") if isinstance(error, ClientError) else None
            return self.read(token, deadline) if item is None else record_of(item)
        except StoreUnavailable as unavailable:
            return Unanswered(str(unavailable), refused=True)
        except Misconfigured as wrong:
            return Rejected(wrong)


def _written_of(wanted: list[Any], left: list[Any]) -> int:
    """Return how many of *wanted*, from the first on, are not among those that are *left*."""
    return min((wanted.index(put) for put in left), default=len(wanted))
