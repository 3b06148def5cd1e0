"""
Many keys, many writes, many pages: several requests.

DynamoDB may leave a part of a batch unprocessed, when it throttles or a response exceeds 16 MB. That part is
sent again after a pause (API reference: "we strongly recommend that you use an exponential backoff").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from lambda_once.dynamodb.retry import back_off
from lambda_once.errors import StoreUnavailable

if TYPE_CHECKING:
    from lambda_once.core.clock import Deadline

Send = Callable[[str, dict[str, Any]], Any]
"""Sends a request, named as in boto3, and returns the response; an exception of it ends the operation."""

MOST_KEYS: Final = 100
"""Keys of one BatchGetItem (API reference)."""
MOST_WRITES: Final = 25
"""Items of one BatchWriteItem (API reference)."""
_ADVICE: Final = "its throughput is used up; retry later"


class Unprocessed(StoreUnavailable):
    """DynamoDB left keys or writes unprocessed until the deadline, or in too many requests in a row."""


def batch_get(
    send: Send, table: str, keys: Iterable[Any], deadline: Deadline, fruitless: int = 0, **options: Any
) -> list[Any]:
    """
    Return the existing items of *keys*, in any order. Raises `Unprocessed`.

    *fruitless* is how many requests in a row may return nothing (0: any number until the deadline); *options*
    are those of each request, such as ``ConsistentRead``.
    """
    found: list[Any] = []

    def get(some: list[Any]) -> Any:
        answer = send("batch_get_item", {"RequestItems": {table: {"Keys": some, **options}}})
        found.extend(answer["Responses"].get(table, []))
        return answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])

    if not _processed(get, list(keys), MOST_KEYS, deadline, fruitless):
        raise Unprocessed(f"table {table!r} read nothing in {fruitless} tries: {_ADVICE}")
    return found


def batch_write(send: Send, table: str, writes: list[Any], deadline: Deadline, fruitless: int = 0) -> None:
    """
    Send *writes*, ``PutRequest`` and ``DeleteRequest``, and empty the list. Raises `Unprocessed`.

    After an exception *writes* has those that may not be written. *fruitless* is as for `batch_get`.
    """

    def write(some: list[Any]) -> Any:
        answer = send("batch_write_item", {"RequestItems": {table: some}})
        return answer.get("UnprocessedItems", {}).get(table, [])

    if not _processed(write, writes, MOST_WRITES, deadline, fruitless):
        raise Unprocessed(f"table {table!r} took nothing in {fruitless} tries: {_ADVICE}")


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
    send: Callable[[list[Any]], Any], waiting: list[Any], most: int, deadline: Deadline, fruitless: int
) -> bool:
    """Send *waiting*, *most* a request, until it is empty; *send* returns what is left. False: gave up."""
    in_vain = 0
    while waiting:
        some, began = waiting[:most], deadline.clock.now()
        left = send(some)
        waiting[: len(some)] = left
        in_vain = in_vain + 1 if len(left) == len(some) else 0
        late = not deadline.has_time_for_another(began)
        if waiting and (late or (left and deadline.is_final()) or 0 < fruitless == in_vain):
            return False
        if left:
            back_off(deadline, in_vain + 1)
    return True
