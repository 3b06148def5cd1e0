"""What an invocation sends to the table, and what it is charged for."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from benchmarks.units import refused_units

STATEMENT_INDEX_UNITS: Final = 1.0
STATEMENT_UNITS: Final = 1.0 + STATEMENT_INDEX_UNITS
"""
Write units of one statement that was taken: the row, below 1 KB, and its entry in the index.

dynoxide names no capacity for a batch of statements; the same writes sent one by one it puts at this.
"""
READS: Final = ("BatchGetItem", "GetItem", "Query", "Scan")
REFUSALS: Final = ("ConditionalCheckFailed", "ConditionalCheckFailedException", "DuplicateItem")


class Spent(NamedTuple):
    """What was sent to the table and charged for."""

    calls: tuple[str, ...]
    """The operations in the order in which they were sent."""
    write_units: float
    """
    Those of refused writes included, which no answer names.

    They are charged by the size of the row that is there (DynamoDB developer guide, capacity consumption).
    """
    index_units: float
    """Those of `write_units` that went to a secondary index."""
    read_units: float


class Meter:
    """Reads the operations and the consumed capacity off every answer that *client* gets."""

    def __init__(self, client: Any) -> None:
        self._clear()
        client.meta.events.register("provide-client-params.dynamodb", _ask_for_capacity)
        client.meta.events.register("after-call.dynamodb", self._count)

    def spent(self) -> Spent:
        """Return what was spent since the last time."""
        spent = Spent(tuple(self._calls), self._write, self._index, self._read)
        self._clear()
        return spent

    def _clear(self) -> None:
        self._calls: list[str] = []
        self._read = self._write = self._index = 0.0

    def _count(self, parsed: dict[str, Any], model: Any, **_: object) -> None:
        self._calls.append(model.name)
        if model.name == "BatchExecuteStatement":
            refused = sum(map(_is_refused, parsed["Responses"]))
            taken = len(parsed["Responses"]) - refused
            self._write += refused + STATEMENT_UNITS * taken  # the rows are of a few hundred bytes
            self._index += STATEMENT_INDEX_UNITS * taken
            return
        if _is_refused(parsed):
            self._write += refused_units(parsed["Item"])
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


def _ask_for_capacity(params: dict[str, Any], model: Any, **_: object) -> None:
    if "ReturnConsumedCapacity" in model.input_shape.members:
        params["ReturnConsumedCapacity"] = "INDEXES"
