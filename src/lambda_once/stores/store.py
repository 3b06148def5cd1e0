"""
The token table in DynamoDB: batches if permitted, otherwise single writes; parts of large results.

No response is trusted: it must have what its request asked for (`proof`), and a write whose response was lost
is looked up by its id. An outcome that stays unknown is `Unanswered`, never a refusal.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Chunks, Parts
from lambda_once.core.variables import Listing
from lambda_once.core.writes import Acquire, Complete, Keep, Unclaimed, Write, after_acquire, made_by
from lambda_once.dynamodb.errors import (
    CANCELED,
    CONDITION,
    CONFLICT,
    Caught,
    code_of,
    is_transient,
    reasons_of,
)
from lambda_once.dynamodb.retry import Unprocessed, batch_write
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.stores import requests
from lambda_once.stores.batches import Batches
from lambda_once.stores.contract import (
    AcquireAnswer,
    Refused,
    Unanswered,
    Won,
    WriteAnswer,
    Written,
)
from lambda_once.stores.row import part_of, record_of
from lambda_once.stores.transport import TokenTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline
    from lambda_once.stores.row import Item

PARTS_DENIED = (
    "until then large results are stored in the row up to 380 KB, and duplicates of larger ones "
    "get ResultUnavailable"
)
V = TypeVar("V", Acquire, Write)
A = TypeVar("A")


class DynamoDBStore:
    """
    Implements the store contract on one DynamoDB table. Safe from several threads.

    *client* is a low-level DynamoDB client (not a resource's); by default one is created at first use, with
    timeouts that fit an invocation. *listing*: when a first acquisition is listed. *warn* is called once,
    with the reason, if batches can't be used; *parts_denied* once, with the reason, if the parts of a large
    result can never be written. *heard* and *declined* are as for `Transport`.
    """

    def __init__(
        self,
        table: str,
        client: Any = None,
        listing: Listing = Listing.AT_ONCE,
        warn: Callable[[str], object] = str,
        heard: Callable[[Any, datetime], object] | None = None,
        declined: Callable[[str], object] | None = None,
        parts_denied: Callable[[str], object] = str,
    ) -> None:
        self.table = table
        self.listing = listing
        self.transport = TokenTransport(table, client, heard, declined)
        self._batches = Batches(self.transport, listing, warn)
        self._parts_denied = _once(parts_denied)

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        if len(acquisitions) == 1:
            return [self._acquire(acquisitions[0], deadline)]
        return self._each(acquisitions, self._batches.acquire, self._acquire, deadline)

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if len(writes) == 1 and not (isinstance(writes[0].change, Keep) or _chunks_of(writes[0]) is not None):
            return [self._finish(writes[0], deadline)]
        prepared = [self._put_parts(write, deadline) for write in writes]
        ready = [write for write in prepared if isinstance(write, Write)]
        answers = self._each(ready, self._batches.write, self._finish, deadline)
        of_ready = iter([_with_parts(answer, write) for answer, write in zip(answers, ready, strict=True)])
        return [next(of_ready) if isinstance(write, Write) else write for write in prepared]

    def read(self, token: str, deadline: Deadline) -> Record | None:
        request = {"TableName": self.table, "Key": {"lockToken": {"S": token}}, "ConsistentRead": True}
        item = self.transport.asked("get_item", request, deadline, token).get("Item")
        return None if item is None else record_of(item)

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        if not isinstance(record.stored, Parts):
            return ()
        keys = requests.part_keys(record, record.stored.count)
        rows = self.transport.items(keys, deadline, record.token)
        if len(rows) < len(keys):
            return None
        return tuple(part_of(rows[key["lockToken"]["S"]]) for key in keys)

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        token = None if finish is None else finish.token
        if finish is not None:
            prepared = self._put_parts(finish, deadline)
            if not isinstance(prepared, Write):
                return prepared
            finish = prepared
        update = [] if finish is None else [{"Update": requests.finish(self.table, finish)}]
        # One token for all tries: a transaction whose response was lost is not written twice.
        request = {"TransactItems": [*items, *update], "ClientRequestToken": os.urandom(16).hex()}
        try:
            self.transport.call("transact_write_items", request, deadline)
        except ClientError as error:
            if is_transient(error):
                return self.transport.failed(error, "TransactWriteItems", token)
            return self._canceled(error, finish, len(items), deadline)
        except Caught as error:
            return self.transport.failed(error, "TransactWriteItems", token)
        return Written.WRITTEN

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        from lambda_once.stores.index import StatusIndex  # for operators alone: no cold start needs it

        malformed: list[Misconfigured] = []
        for entry in StatusIndex(self.transport).unfinished(state, deadline, before, malformed):
            yield entry.record
        if malformed:
            raise malformed[0]

    def _each(
        self,
        values: Sequence[V],
        together: Callable[[Sequence[V], Deadline], list[A | None]],
        single: Callable[[V, Deadline], A],
        deadline: Deadline,
    ) -> list[A]:
        """Answer *values* together if batches may be used, and singly what is left unanswered."""
        is_batch = len(values) > 1 and self._batches.usable
        answers = together(values, deadline) if is_batch else [None] * len(values)
        left = [value for value, answer in zip(values, answers, strict=True) if answer is None]
        single_answers = self.transport.each(left, lambda value: single(value, deadline))
        if is_batch:
            self._batches.sent_singly(single_answers)
        of_left = iter(single_answers)
        return [next(of_left) if answer is None else answer for answer in answers]

    # ---------------------------------------------------------------- single writes

    def _acquire(self, acquisition: Acquire, deadline: Deadline) -> AcquireAnswer:
        is_first = isinstance(acquisition.take, Unclaimed) and not acquisition.known
        request = (
            requests.acquire_new(self.table, acquisition, self.listing)
            if is_first
            else requests.acquire(self.table, acquisition)
        )
        conflicts: list[Exception] = []

        def keep_conflict(error: Exception) -> None:
            if code_of(error) == CONFLICT:
                conflicts.append(error)

        try:
            row = self.transport.call("update_item", request, deadline, keep_conflict)["Attributes"]
        except Caught as error:
            # Another write conflicted, so a lost response is a refusal, not an outage (guarantee 7).
            refusal = conflicts[-1] if conflicts and is_transient(error) else error
            if code_of(refusal) in (CONDITION, CONFLICT):
                answer = self._not_acquired(refusal, acquisition, deadline)
                record = answer.record if is_first and isinstance(answer, Refused) else None
                if record is None or after_acquire(record, acquisition) is None:
                    return answer
                return self._acquire(acquisition._replace(known=True), deadline)  # the row may be taken
            return self.transport.failed(refusal, "UpdateItem", acquisition.token)
        return requests.won(row)

    def _not_acquired(self, error: Any, acquisition: Acquire, deadline: Deadline) -> AcquireAnswer:
        record = self._refusing(error.response.get("Item"), acquisition.token, deadline)
        if isinstance(record, Unanswered | Misconfigured):
            return record
        if record is not None and record.in_progress_by(acquisition.attempt_id):
            return Won.before(record)
        return Refused(record)

    def _finish(self, write: Write, deadline: Deadline) -> WriteAnswer:
        request = requests.finish(self.table, write)
        try:
            self.transport.call("update_item", request, deadline)
        except Caught as error:
            if code_of(error) != CONDITION:
                return self.transport.failed(error, "UpdateItem", write.token)
            return self._refused(error.response.get("Item"), write, deadline)
        return Written.WRITTEN

    def _canceled(
        self, error: ClientError, finish: Write | None, index: int, deadline: Deadline
    ) -> WriteAnswer:
        """Return the answer to *finish*, item *index* of a transaction. Raises *error* if another failed."""
        reasons = reasons_of(error) if code_of(error) == CANCELED and finish is not None else []
        reason = reasons[index] if index < len(reasons) else {}
        if finish is None or reason.get("Code") != "ConditionalCheckFailed":
            raise error
        return self._refused(reason.get("Item"), finish, deadline)

    def _refused(self, item: Item | None, write: Write, deadline: Deadline) -> WriteAnswer:
        """Return the answer to *write*, which was refused, with the *item* if it came."""
        record = self._refusing(item, write.token, deadline)
        if isinstance(record, Unanswered | Misconfigured):
            return record
        return Written.WRITTEN if made_by(record, write) else Refused(record)

    def _refusing(
        self, item: Item | None, token: str, deadline: Deadline
    ) -> Record | Unanswered | Misconfigured | None:
        """
        Return the row that refused a write: *item*, or what is read.

        It comes with the refusal, but not with a conflict, nor from an engine that doesn't return it.
        """
        try:
            return self.read(token, deadline) if item is None else record_of(item)
        except StoreUnavailable as unavailable:
            return Unanswered(unavailable.reason or str(unavailable))
        except Misconfigured as error_of_row:
            return error_of_row

    def _put_parts(self, write: Write, deadline: Deadline) -> Write | Unanswered | Misconfigured:
        """
        Write the parts of a large result, and return *write* as the row is to be written.

        Parts are written before the row, so that no reader misses one. If they can never be written, the
        completion must not fail, or the work would run again for lack of a permission (guarantee 5): the
        result is stored in the row, or marked unavailable.
        """
        change = write.change
        if isinstance(change, Keep):
            return self._keep_parts(write, change, deadline)
        if not isinstance(change, Complete) or (chunks := _chunks_of(write)) is None:
            return write
        puts: list[Any] = [
            {"PutRequest": {"Item": item}} for item in requests.part_items(write, chunks.parts)
        ]
        left = puts[write.parts_written :]
        try:
            batch_write(partial(self.transport.call, deadline=deadline), self.table, left, deadline)
        except Unprocessed:
            failed: Unanswered | Misconfigured = Unanswered(
                self.transport.outage("UnprocessedItems", "BatchWriteItem")
            )
        except Caught as error:
            failed = self.transport.failed(error, "BatchWriteItem", write.token)
        else:
            return write
        if isinstance(failed, Misconfigured):
            self._parts_denied(f"{failed}; {PARTS_DENIED}")
            return replace(write, change=change._replace(result=chunks.in_row()))
        return failed._replace(parts=min((puts.index(put) for put in left), default=len(puts)))

    def _keep_parts(self, write: Write, keep: Keep, deadline: Deadline) -> Write | Unanswered | Misconfigured:
        """Extend the ttl of the parts before that of the row, or the row would outlive its result."""

        def extend(request: Any) -> Unanswered | Misconfigured | None:
            try:
                self.transport.call("update_item", request, deadline)
            except Caught as error:
                if code_of(error) != CONDITION:
                    return self.transport.failed(error, "UpdateItem", write.token)
            return None

        answers = self.transport.each(requests.kept_parts(self.table, write, keep), extend)
        return next((answer for answer in answers if answer is not None), write)


def _once(callback: Callable[[str], object]) -> Callable[[str], None]:
    """Return *callback* for its first call only; later calls do nothing."""
    left = iter([callback])

    def call_once(text: str) -> None:
        for call in left:
            call(text)

    return call_once


def _with_parts(answer: WriteAnswer, write: Write) -> WriteAnswer:
    """Return *answer* to *write*, with the number of its parts, all of which are written."""
    chunks = _chunks_of(write)
    if isinstance(answer, Unanswered) and chunks is not None:
        return answer._replace(parts=len(chunks.parts))
    return answer


def _chunks_of(write: Write) -> Chunks | None:
    """Return the large result that *write* stores in rows of its own; None: it stores none."""
    result = write.change.result if isinstance(write.change, Complete) else None
    return result if isinstance(result, Chunks) else None
