"""
How often a request is sent, with which pauses, and until when.

Engine, operators and patterns all ask `Tries`. A part of a batch that DynamoDB leaves unprocessed, because it
throttles or a response exceeds 16 MB, is sent again as a throttled request is (API reference: "we strongly
recommend that you use an exponential backoff"). Does not import botocore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final

from lambda_once.errors import StoreUnavailable

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.clock import Deadline

PATIENCE: Final = 30.0
"""Seconds that an operator waits for a response, and for which the write of done work is sent again."""
TRIES: Final = 6
"""How often a request is sent at most; its pauses add up to at most three seconds."""
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds."""
ARN: Final = "arn:"
"""Prefix of a table's ARN, which names a table of another account."""
MOST_KEYS: Final = 100
"""Keys of one BatchGetItem (API reference)."""
MOST_WRITES: Final = 25
"""Items of one BatchWriteItem (API reference)."""
_ADVICE: Final = "its throughput is used up; retry later"

Send = Callable[[str, dict[str, Any]], Any]
"""Sends a request, named as in boto3, and returns the response; an exception of it ends the operation."""


def jitter(tries: int) -> float:
    """Return the seconds to wait after *tries* failures: random, up to a limit that doubles (full jitter)."""
    return SystemRandom().uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(tries, 10)))


class Tries:
    """The tries of one piece of work, until *deadline*: at most *most* in a row fail; None: any number."""

    __slots__ = ("_deadline", "_failed", "_most")

    def __init__(self, deadline: Deadline, most: int | None = TRIES) -> None:
        self._deadline = deadline
        self._most = most
        self._failed = 0

    def succeeded(self) -> None:
        """Reset the count of failures, because a request succeeded."""
        self._failed = 0

    def again(self, began: datetime) -> bool:
        """
        Pause after a failed try that *began* then, and return True; return False if it was the last one.

        It was the last one after *most* failures in a row, if another try of the same length would end after
        the deadline, or if the deadline is final.
        """
        self._failed += 1
        deadline = self._deadline
        if self._failed == self._most or deadline.is_final() or not deadline.has_time_for_another(began):
            return False
        deadline.pause(jitter(self._failed))
        return True


# ---------------------------------------------------------------- many keys, many writes, many pages


class Unprocessed(StoreUnavailable):
    """DynamoDB left keys or writes unprocessed until the deadline, or in too many requests in a row."""


def batch_get(
    send: Send, table: str, keys: Iterable[Any], deadline: Deadline, tries: int | None = None, **options: Any
) -> list[Any]:
    """
    Return the existing items of *keys*, in any order. Raises `Unprocessed`.

    *tries* is how many requests in a row may come to nothing (None: any number until the deadline); *options*
    are those of each request, such as ``ConsistentRead``.
    """
    found: list[Any] = []

    def get(some: list[Any]) -> Any:
        answer = send("batch_get_item", {"RequestItems": {table: {"Keys": some, **options}}})
        found.extend(answer["Responses"].get(table, []))
        return answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])

    if not _processed(get, list(keys), MOST_KEYS, deadline, tries):
        raise Unprocessed(f"table {table!r} read nothing in {tries} tries: {_ADVICE}")
    return found


def batch_write(
    send: Send, table: str, writes: list[Any], deadline: Deadline, tries: int | None = None
) -> None:
    """
    Send *writes*, ``PutRequest`` and ``DeleteRequest``, and empty the list. Raises `Unprocessed`.

    After an exception *writes* has those that may not be written. *tries* is as for `batch_get`.
    """

    def write(some: list[Any]) -> Any:
        answer = send("batch_write_item", {"RequestItems": {table: some}})
        return answer.get("UnprocessedItems", {}).get(table, [])

    if not _processed(write, writes, MOST_WRITES, deadline, tries):
        raise Unprocessed(f"table {table!r} took nothing in {tries} tries: {_ADVICE}")


def as_asked(request: Mapping[str, Any], response: Any) -> Any:
    """
    Return the *response* to a batch with the tables named as *request* names them.

    API reference, BatchGetItem, of the response: "table name or table ARN".
    """
    arns = {each.rpartition("/")[2]: each for each in request["RequestItems"] if each.startswith(ARN)}
    if not arns:
        return response
    batches = ("Responses", "UnprocessedKeys", "UnprocessedItems")
    renamed = {
        field: {arns.get(table, table): rows for table, rows in response[field].items()}
        for field in batches
        if field in response
    }
    return {**response, **renamed}


def pages(send: Send, operation: str, request: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the pages of a ``query`` or ``scan``, each requested when it is needed."""
    start: dict[str, Any] = {}
    while True:
        page = send(operation, {**request, **start})
        yield page
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def _processed(
    send: Callable[[list[Any]], Any], waiting: list[Any], most: int, deadline: Deadline, tries: int | None
) -> bool:
    """Send *waiting*, *most* a request, until it is empty; *send* returns what is left. False: gave up."""
    rounds = Tries(deadline, tries)
    while waiting:
        some, began = waiting[:most], deadline.clock.now()
        left = send(some)
        waiting[: len(some)] = left
        if len(left) < len(some):
            rounds.succeeded()
        if waiting and not (rounds.again(began) if left else deadline.has_time_for_another(began)):
            return False
    return True
