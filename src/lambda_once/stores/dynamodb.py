"""The token table in DynamoDB: batches where they can be had, single writes elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from lambda_once.core.record import Record, State
from lambda_once.core.results import Chunks
from lambda_once.core.writes import Acquire, Complete, Finish, made_by
from lambda_once.dynamodb.errors import CANCELED, Caught, code_of, is_transient, reasons_of
from lambda_once.stores import requests
from lambda_once.stores.batches import Batches
from lambda_once.stores.contract import Acquired, Finished, Refused, Unanswered, Unfinished, Written
from lambda_once.stores.rows import record_of, sound_shards
from lambda_once.stores.singles import Singles
from lambda_once.stores.transport import TokenTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline


class DynamoDBStore:
    """
    Keeps the store contract on one DynamoDB table.

    *client* is a low-level DynamoDB client (not a resource's); without it one is made at first use,
    with time limits that leave an invocation time to act on them. *shards* is 1 to 100, or it raises
    `Misconfigured`. *told* hears in a fixed text, once, that batches are not permitted. Safe from several
    threads.
    """

    def __init__(
        self, table: str, client: Any = None, shards: int = 1, told: Callable[[str], object] = str
    ) -> None:
        self.table = table
        self.shards = sound_shards(shards)
        self._transport = TokenTransport(table, client)
        self._singles = Singles(self._transport, shards)
        self._batches = Batches(self._transport, shards, told)

    def acquire(self, wishes: Sequence[Acquire], deadline: Deadline) -> list[Acquired]:
        answers = self._batches.acquire(wishes, deadline) if self._batched(wishes) else [None] * len(wishes)
        left = [wish for wish, answer in zip(wishes, answers, strict=True) if answer is None]
        single = iter(self._transport.each(left, lambda wish: self._singles.acquire(wish, deadline)))
        return [next(single) if answer is None else answer for answer in answers]

    def finish(self, writes: Sequence[Finish], deadline: Deadline) -> list[Finished]:
        failed = [self._singles.put_parts(write, deadline) for write in writes]
        sound = [write for write, failure in zip(writes, failed, strict=True) if failure is None]
        answers = self._batches.finish(sound, deadline) if self._batched(sound) else [None] * len(sound)
        left = [write for write, answer in zip(sound, answers, strict=True) if answer is None]
        single = iter(self._transport.each(left, lambda write: self._singles.finish(write, deadline)))
        each = [next(single) if answer is None else answer for answer in answers]
        written = iter([_with_parts(answer, write) for answer, write in zip(each, sound, strict=True)])
        return [next(written) if failure is None else failure for failure in failed]

    def read(self, token: str, deadline: Deadline) -> Record | None:
        return self._singles.read(token, deadline)

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        return self._singles.parts(record, deadline)

    def transact(
        self, finish: Finish | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> Finished:
        if finish is not None:
            failed = self._singles.put_parts(finish, deadline)
            if failed is not None:
                return failed
        own = [] if finish is None else [{"Update": requests.finish(self.table, finish, self.shards)}]
        # One token for all tries: a transaction whose answer was lost is not done a second time.
        request = {"TransactItems": [*items, *own], "ClientRequestToken": os.urandom(16).hex()}
        try:
            self._transport.call("transact_write_items", request, deadline)
        except ClientError as error:
            if is_transient(error):
                return Unanswered(code_of(error))
            return _canceled(error, finish, len(items))
        except Caught as error:
            return self._transport.failed(error, "TransactWriteItems", finish.token if finish else None)
        return Written()

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Unfinished]:
        from lambda_once.stores.index import StatusIndex  # for operators alone: no cold start needs it

        return StatusIndex(self._transport).unfinished(state, deadline, before)

    def _batched(self, values: Sequence[object]) -> bool:
        return len(values) > 1 and self._batches.usable


def _with_parts(answer: Finished, write: Finish) -> Finished:
    """Return *answer* to *write*, whose parts are all written."""
    change = write.change
    if isinstance(answer, Unanswered) and isinstance(change, Complete) and isinstance(change.result, Chunks):
        return answer._replace(parts=len(change.result.parts))
    return answer


def _canceled(error: ClientError, finish: Finish | None, own: int) -> Finished:
    """Tell whether our own item's condition was refused; all else is the user's, and is raised as it came."""
    reasons = reasons_of(error)
    ours = reasons[own] if code_of(error) == CANCELED and finish is not None and own < len(reasons) else {}
    if finish is None or ours.get("Code") != "ConditionalCheckFailed":
        raise error
    record = record_of(ours["Item"]) if ours.get("Item") else None
    return Written() if made_by(record, finish) else Refused(record)
