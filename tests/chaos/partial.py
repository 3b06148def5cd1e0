"""Batches of which DynamoDB takes a part: the request that arrives, and the answer put together again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]

_THROTTLED = {"Error": {"Code": "ThrottlingError", "Message": "Request rate is too high."}}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a batch, and how its answer becomes the batch's."""

    request: Body
    whole: Callable[[Body], Body]


def is_batch(operation: str, body: Body) -> bool:
    """Tell whether a part of the request could be refused, and a part not."""
    return operation in _PARTS and _size(body) > 1


def part_of(operation: str, body: Body, share: float) -> Part:
    """Let *share* of the batch arrive, one of its parts at least and one at most not."""
    many = _size(body)
    return _PARTS[operation](body, min(max(round(many * share), 1), many - 1))


def _size(body: Body) -> int:
    if "Statements" in body:
        return len(body["Statements"])
    return sum(len(_several(asked)) for asked in body["RequestItems"].values())


def _several(asked: Any) -> list[Any]:
    found: list[Any] = asked["Keys"] if isinstance(asked, dict) else asked
    return found


def _statements(body: Body, many: int) -> Part:
    """API reference, BatchStatementError: each statement fails on its own."""
    refused = [_THROTTLED for _ in body["Statements"][many:]]
    return Part(
        body | {"Statements": body["Statements"][:many]},
        lambda answer: answer | {"Responses": [*answer["Responses"], *refused]},
    )


def _items(body: Body, many: int, unprocessed: str) -> Part:
    """BatchGetItem and BatchWriteItem (API reference): what was not taken comes back."""
    ((table, asked),) = body["RequestItems"].items()

    def cut(items: list[Any]) -> Any:
        return asked | {"Keys": items} if isinstance(asked, dict) else items

    def whole(answer: Body) -> Body:
        back = _several(answer.get(unprocessed, {}).get(table, []))
        return answer | {unprocessed: {table: cut([*back, *_several(asked)[many:]])}}

    return Part(body | {"RequestItems": {table: cut(_several(asked)[:many])}}, whole)


_PARTS: dict[str, Callable[[Body, int], Part]] = {
    "BatchExecuteStatement": _statements,
    "BatchGetItem": lambda body, many: _items(body, many, "UnprocessedKeys"),
    "BatchWriteItem": lambda body, many: _items(body, many, "UnprocessedItems"),
}
