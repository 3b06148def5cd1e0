"""The token table in DynamoDB: requests go out, answers are told apart, nothing is decided here."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from random import SystemRandom
from typing import TYPE_CHECKING, Any, TypeVar

import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

from lambda_once.core.record import Record, State
from lambda_once.core.results import Chunks, Parts
from lambda_once.core.writes import Acquire, Complete, Finish, made_by
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.stores import requests
from lambda_once.stores.contract import (
    Acquired,
    Finished,
    Refused,
    Rejected,
    Unanswered,
    Unfinished,
    Won,
    Written,
)
from lambda_once.stores.failures import (
    CANCELED,
    CONDITION,
    CONFLICT,
    Caught,
    code_of,
    is_transient,
    misconfigured,
    reasons_of,
)
from lambda_once.stores.rows import record_of, text, unfinished_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lambda_once.core.clock import Deadline

W = TypeVar("W")
A = TypeVar("A")

TRIES = 6
"""How often one request is sent at most; the pauses between add up to three seconds or less."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
WORKERS = 10
"""Requests of one batch that are under way at once; botocore's connection pool has as many places."""
BATCH_WRITE = 25
BATCH_GET_BYTES = 15_000_000
"""BatchGetItem answers 16 MB at most (API reference); parts are cut well below."""
MOST_USER_ITEMS = 99
"""TransactWriteItems takes 100 items, and one is the token's own."""


class DynamoDBStore:
    """
    Keeps the store contract on one DynamoDB table, by single conditional writes.

    *client* is a low-level DynamoDB client (not a resource's); without it one is made at first use,
    with time limits that leave an invocation time to act on them (botocore's own are a minute). It
    holds no state that two threads could disturb.
    """

    def __init__(self, table: str, client: Any = None, shards: int = 1) -> None:
        self.table = table
        self.shards = shards
        self._client = client
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    # ---------------------------------------------------------------- the contract

    def acquire(self, wishes: Sequence[Acquire], deadline: Deadline) -> list[Acquired]:
        return self._each(wishes, lambda wish: self._acquire(wish, deadline))

    def finish(self, writes: Sequence[Finish], deadline: Deadline) -> list[Finished]:
        return self._each(writes, lambda write: self._finish(write, deadline))

    def read(self, token: str, deadline: Deadline) -> Record | None:
        arguments = {"TableName": self.table, "Key": {"lockToken": text(token)}, "ConsistentRead": True}
        item = self._asked("get_item", arguments, deadline, token).get("Item")
        return None if item is None else record_of(item)

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        if not isinstance(record.stored, Parts):
            return ()
        wanted = requests.part_keys(record, record.stored.count)
        found: dict[str, bytes] = {}
        while wanted:
            keys = {self.table: {"Keys": wanted, "ConsistentRead": True}}
            answer = self._asked("batch_get_item", {"RequestItems": keys}, deadline, record.token)
            found |= {
                item["lockToken"]["S"]: item["data"]["B"] for item in answer["Responses"].get(self.table, [])
            }
            wanted = answer.get("UnprocessedKeys", {}).get(self.table, {}).get("Keys", [])
            if wanted and deadline.passed():
                raise _unavailable(record.token, "the parts of its result did not arrive in time")
            if wanted:
                _back_off(deadline)
        keys_in_order = [key["lockToken"]["S"] for key in requests.part_keys(record, record.stored.count)]
        return tuple(found[key] for key in keys_in_order) if len(found) == len(keys_in_order) else None

    def transact(
        self, finish: Finish | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> Finished:
        if finish is not None:
            answer = self._put_parts(finish, deadline)
            if answer is not None:
                return answer
        own = [] if finish is None else [{"Update": requests.finish(self.table, finish, self.shards)}]
        # One token for all tries: a transaction whose answer was lost is not done a second time.
        arguments = {"TransactItems": [*items, *own], "ClientRequestToken": os.urandom(16).hex()}
        try:
            self._call("transact_write_items", arguments, deadline)
        except ClientError as error:
            if is_transient(error):
                return Unanswered(code_of(error))
            return self._canceled(error, finish, len(items))
        except Caught as error:
            return self._failed(error, "TransactWriteItems", finish.token if finish else None)
        return Written()

    def unfinished(self, state: State, deadline: Deadline) -> Iterator[Unfinished]:
        values = [state.value, *(f"{state.value}_{n}" for n in range(self.shards) if self.shards > 1)]
        for value in values:
            arguments = {
                "TableName": self.table,
                "IndexName": "byStatus",
                "KeyConditionExpression": "#status = :status",
                "ExpressionAttributeNames": {"#status": "status"},
                "ExpressionAttributeValues": {":status": text(value)},
            }
            while True:
                page = self._asked("query", arguments, deadline, None)
                yield from map(unfinished_of, page["Items"])
                if "LastEvaluatedKey" not in page:
                    break
                arguments["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    # ---------------------------------------------------------------- one token

    def _acquire(self, wish: Acquire, deadline: Deadline) -> Acquired:
        try:
            before = self._call("update_item", requests.acquire(self.table, wish, self.shards), deadline)
        except Caught as error:
            return self._not_acquired(error, wish, deadline)
        row = before.get("Attributes")
        if row is None:
            return Won(requests.first_fence(wish), took_over=False)
        return Won(int(row["fence"]["N"]) + 1, took_over="status" in row)

    def _not_acquired(self, error: Exception, wish: Acquire, deadline: Deadline) -> Acquired:
        if code_of(error) not in (CONDITION, CONFLICT):
            return self._failed(error, "UpdateItem", wish.token)
        record = self._standing(error, wish.token, deadline)
        if isinstance(record, Unanswered | Rejected):
            return record
        if record is not None and record.state is State.IN_PROGRESS and record.attempt == wish.attempt:
            return Won(record.fence, took_over=False)  # guarantee 3: only our response was lost
        return Refused(record)

    def _finish(self, write: Finish, deadline: Deadline) -> Finished:
        failed = self._put_parts(write, deadline)
        if failed is not None:
            return failed
        try:
            self._call("update_item", requests.finish(self.table, write, self.shards), deadline)
        except Caught as error:
            if code_of(error) != CONDITION:
                return self._failed(error, "UpdateItem", write.token)
            record = self._standing(error, write.token, deadline)
            if isinstance(record, Unanswered | Rejected):
                return record
            return Written() if made_by(record, write) else Refused(record)
        return Written()

    def _standing(
        self, error: Exception, token: str, deadline: Deadline
    ) -> Record | Unanswered | Rejected | None:
        """Return the row that refused us: it comes with the refusal, except from a conflict."""
        try:
            item = error.response.get("Item") if isinstance(error, ClientError) else None
            return self.read(token, deadline) if item is None else record_of(item)
        except StoreUnavailable as unavailable:
            return Unanswered(str(unavailable))
        except Misconfigured as wrong:
            return Rejected(wrong)

    def _canceled(self, error: ClientError, finish: Finish | None, own: int) -> Finished:
        reasons = reasons_of(error)
        ours = (
            reasons[own] if code_of(error) == CANCELED and finish is not None and own < len(reasons) else {}
        )
        if finish is None or ours.get("Code") != "ConditionalCheckFailed":
            raise error
        record = record_of(ours["Item"]) if ours.get("Item") else None
        return Written() if made_by(record, finish) else Refused(record)

    def _put_parts(self, write: Finish, deadline: Deadline) -> Unanswered | Rejected | None:
        """Write the parts of a large result: before the row is flipped, so that no reader misses one."""
        if not (isinstance(write.change, Complete) and isinstance(write.change.result, Chunks)):
            return None
        puts = [
            {"PutRequest": {"Item": item}} for item in requests.part_items(write, write.change.result.parts)
        ]
        try:
            while puts:
                batch, puts = puts[:BATCH_WRITE], puts[BATCH_WRITE:]
                answer = self._call("batch_write_item", {"RequestItems": {self.table: batch}}, deadline)
                left = answer.get("UnprocessedItems", {}).get(self.table, [])
                puts = left + puts
                if puts and deadline.passed():
                    return Unanswered("the parts of its result were not all taken in time")
                if left:
                    _back_off(deadline)
        except Caught as error:
            return self._failed(error, "BatchWriteItem", write.token)
        return None

    # ---------------------------------------------------------------- the wire

    def _asked(
        self, operation: str, arguments: Mapping[str, Any], deadline: Deadline, token: str | None
    ) -> Any:
        try:
            return self._call(operation, arguments, deadline)
        except Caught as error:
            failed = self._failed(error, operation, token)
            if isinstance(failed, Rejected):
                raise failed.error from error
            raise _unavailable(token, failed.reason) from error

    def _failed(self, error: Exception, operation: str, token: str | None) -> Unanswered | Rejected:
        if is_transient(error):
            return Unanswered(code_of(error))
        return Rejected(misconfigured(error, self.table, operation, token))

    def _call(self, operation: str, arguments: Mapping[str, Any], deadline: Deadline) -> Any:
        """Send one request, again where that can help: with full jitter, and not past the deadline."""
        send = getattr(self._connected(), operation)
        for tries in range(1, TRIES + 1):
            try:
                answer = send(**arguments)
            except Caught as error:
                if tries == TRIES or not is_transient(error) or deadline.passed():
                    raise
                _back_off(deadline, tries)
            else:
                return answer
        raise AssertionError  # pragma: no cover  (the last try returns or raises)

    def _connected(self) -> Any:
        if self._client is None:
            with self._lock:
                if self._client is None:
                    self._client = new_client()
        return self._client

    def _each(self, values: Sequence[W], work: Callable[[W], A]) -> list[A]:
        if len(values) < 2:  # noqa: PLR2004  (one needs no second thread)
            return [work(value) for value in values]
        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(WORKERS, thread_name_prefix="lambda-once-store")
        return list(self._pool.map(work, values))


def _back_off(deadline: Deadline, tries: int = 2) -> None:
    """Wait before the next try, with full jitter (DynamoDB asks for it after unprocessed items, too)."""
    deadline.pause(SystemRandom().uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2**tries)))


def new_client() -> Any:
    """
    Make a low-level client whose time limits suit an invocation: 1 s to connect, 3 s to answer.

    Raises botocore's NoRegionError where no region is set.
    """
    config = Config(
        connect_timeout=1,
        read_timeout=3,
        retries={"total_max_attempts": 1},  # `_call` retries: it knows the deadline
        parameter_validation=False,
        tcp_keepalive=True,
        max_pool_connections=WORKERS,
    )
    return botocore.session.get_session().create_client("dynamodb", config=config)


def _unavailable(token: str | None, reason: str) -> StoreUnavailable:
    message = f"the token table did not answer in time ({reason}); nothing was run, deliver it again later"
    return StoreUnavailable(message, token=token)
