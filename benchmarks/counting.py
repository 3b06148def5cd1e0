"""What an invocation sends to the table, and what it is charged for."""

from __future__ import annotations

import json
import math
from typing import Any

from benchmarks.figures import Spent

STATEMENT_UNITS = 2.0
"""
Write units of one statement that was taken: the row, below 1 KB, and its entry in the index.

DynamoDB Local names no capacity for a batch of statements; the same writes sent one by one it puts at this.
"""
READS = ("BatchGetItem", "GetItem")
REFUSALS = ("ConditionalCheckFailed", "ConditionalCheckFailedException", "DuplicateItem")


class Meter:
    """Reads the operations and the consumed capacity off every answer that *client* gets."""

    def __init__(self, client: Any) -> None:
        self._calls: list[str] = []
        self._read = self._write = 0.0
        self._refused = 0.0
        client.meta.events.register("provide-client-params.dynamodb", _ask_for_capacity)
        client.meta.events.register("after-call.dynamodb", self._count)

    def spent(self) -> Spent:
        """Return what was spent since the last time."""
        spent = Spent(tuple(self._calls), self._read, self._write, self._refused)
        self._calls, self._read, self._write, self._refused = [], 0.0, 0.0, 0.0
        return spent

    def _count(self, parsed: dict[str, Any], model: Any, **_: object) -> None:
        self._calls.append(model.name)
        if model.name == "BatchExecuteStatement":
            refused = sum(map(_is_refused, parsed["Responses"]))
            self._refused += refused  # the rows are of a few hundred bytes
            self._write += STATEMENT_UNITS * (len(parsed["Responses"]) - refused)
            return
        if _is_refused(parsed):
            self._refused += math.ceil(_size(parsed["Item"]) / 1024)
        consumed = parsed.get("ConsumedCapacity", [])
        for each in [consumed] if isinstance(consumed, dict) else consumed:
            if model.name in READS:
                self._read += each["CapacityUnits"]
            else:
                self._write += each["CapacityUnits"]


def _is_refused(answer: dict[str, Any]) -> bool:
    return answer.get("Error", {}).get("Code") in REFUSALS


def _size(row: dict[str, Any]) -> int:
    """Return about how many bytes *row* has, of which names and values count."""
    return len(json.dumps(row, default=lambda value: "." * len(value)))


def _ask_for_capacity(params: dict[str, Any], **_: object) -> None:
    params["ReturnConsumedCapacity"] = "TOTAL"
