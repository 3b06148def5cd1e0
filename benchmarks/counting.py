"""What an invocation sends to the table, and what it is charged for."""

from __future__ import annotations

from typing import Any

from benchmarks.figures import Spent
from benchmarks.units import refused_units

STATEMENT_INDEX_UNITS = 1.0
STATEMENT_UNITS = 1.0 + STATEMENT_INDEX_UNITS
"""
Write units of one statement that was taken: the row, below 1 KB, and its entry in the index.

dynoxide names no capacity for a batch of statements; the same writes sent one by one it puts at this.
"""
READS = ("BatchGetItem", "GetItem", "Query", "Scan")
REFUSALS = ("ConditionalCheckFailed", "ConditionalCheckFailedException", "DuplicateItem")


class Meter:
    """Reads the operations and the consumed capacity off every answer that *client* gets."""

    def __init__(self, client: Any) -> None:
        self._calls: list[str] = []
        self._read = self._write = 0.0
        self._refused = self._index = 0.0
        client.meta.events.register("provide-client-params.dynamodb", _ask_for_capacity)
        client.meta.events.register("after-call.dynamodb", self._count)

    def spent(self) -> Spent:
        """Return what was spent since the last time."""
        spent = Spent(tuple(self._calls), self._read, self._write, self._refused, self._index)
        self._calls, self._read, self._write, self._refused, self._index = [], 0.0, 0.0, 0.0, 0.0
        return spent

    def _count(self, parsed: dict[str, Any], model: Any, **_: object) -> None:
        self._calls.append(model.name)
        if model.name == "BatchExecuteStatement":
            refused = sum(map(_is_refused, parsed["Responses"]))
            self._refused += refused  # the rows are of a few hundred bytes
            taken = len(parsed["Responses"]) - refused
            self._write += STATEMENT_UNITS * taken
            self._index += STATEMENT_INDEX_UNITS * taken
            return
        if _is_refused(parsed):
            self._refused += refused_units(parsed["Item"])
        consumed = parsed.get("ConsumedCapacity", [])
        for each in [consumed] if isinstance(consumed, dict) else consumed:
            if model.name in READS:
                self._read += each["CapacityUnits"]
            else:
                self._write += each["CapacityUnits"]
                self._index += sum(
                    index["CapacityUnits"] for index in each.get("GlobalSecondaryIndexes", {}).values()
                )


def _is_refused(answer: dict[str, Any]) -> bool:
    return answer.get("Error", {}).get("Code") in REFUSALS


def _ask_for_capacity(params: dict[str, Any], **_: object) -> None:
    params["ReturnConsumedCapacity"] = "INDEXES"
