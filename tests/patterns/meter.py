"""What requests to an engine are charged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.units import refused_units

READS = ("get_item", "batch_get_item", "query")


class Meter:
    """A client that adds up what its requests are charged."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.requests, self.written, self.read = 0, 0.0, 0.0

    def __getattr__(self, operation: str) -> Any:
        def request(**arguments: Any) -> Any:
            self.requests += 1
            try:
                answer = getattr(self._client, operation)(**arguments, ReturnConsumedCapacity="TOTAL")
            except ClientError as refused:
                self.written += refused_units(refused.response["Item"])
                raise
            consumed = answer["ConsumedCapacity"]
            units = sum(
                each["CapacityUnits"] for each in (consumed if isinstance(consumed, list) else [consumed])
            )
            if operation in READS:
                self.read += units
            else:
                self.written += units
            return answer

        return request

    def of(self, work: Callable[[], object]) -> tuple[int, float, float]:
        """Do *work*, and return its requests, write units and read units."""
        self.requests, self.written, self.read = 0, 0.0, 0.0
        work()
        return self.requests, self.written, self.read
