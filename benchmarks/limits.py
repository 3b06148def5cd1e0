"""
A client whose table takes so many write units a second and partition: dynoxide throttles nothing.

Sources: DynamoDB developer guide, "Burst and adaptive capacity" (a partition takes 1,000 write units a
second) and "Global secondary indexes: write operations" (a table whose index is throttled refuses the write).
There is no burst and no adaptive capacity here: a second has its units, and no other second's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from botocore.exceptions import ClientError

from lambda_once.core.lifecycle import State
from lambda_once.stores.requests import status

if TYPE_CHECKING:
    from lambda_once.testing import FakeClock

TABLE_PARTITIONS: Final = 4
"""Of a new table on demand, which takes 4,000 write units a second (developer guide, on-demand mode)."""
ROW_UNITS, ENTRY_UNITS = 1, 1
"""Of one write to a row below 1 KB, and of the entry in the index that it puts or removes."""
THROTTLED, THROTTLED_STATEMENT = "ThrottlingException", "ThrottlingError"
REFUSED: Final = frozenset({"ConditionalCheckFailed", "DuplicateItem"})


class Partition(NamedTuple):
    """A partition of the table or of its index."""

    of: str
    value: str


class Limiter:
    """Counts write units by partition and second; *limit* is what one partition takes in one second."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.taken: Counter[str] = Counter()
        """Units of the table and of the index."""
        self.throttled: Counter[str] = Counter()
        """Refused writes, by what refused them first: the index or the table."""
        self._used: Counter[tuple[Partition, int]] = Counter()

    def admits(self, second: int, wanted: Mapping[Partition, int]) -> bool:
        """Take the units *wanted* in *second*, all of them or, if one partition has too few, none."""
        for partition, units in wanted.items():
            if self._used[partition, second] + units > self.limit:
                self.throttled[partition.of] += 1
                return False
        for partition, units in wanted.items():
            self._used[partition, second] += units
            self.taken[partition.of] += units
        return True

    def give_back(self, second: int, partition: Partition, units: int) -> None:
        """Take back *units* of a write that was refused by its condition: the index saw nothing of it."""
        self._used[partition, second] -= units
        self.taken[partition.of] -= units


class LimitedClient:
    """
    Hands to *client* what *limiter* admits, by the time of *clock*, which each request advances by *latency*.

    Every write is of a token whose text begins with *service*, in a table of *shards*.
    """

    def __init__(
        self, client: Any, limiter: Limiter, clock: FakeClock, *, shards: int, service: str, latency: float
    ) -> None:
        self._client = client
        self._limiter = limiter
        self._clock = clock
        self._shards = shards
        self._prefix = f"{service}/"
        self._latency = latency

    def __getattr__(self, name: str) -> Any:
        """Return any other operation, a read, or attribute of the client."""
        found = getattr(self._client, name)
        if name not in ("get_item", "batch_get_item"):
            return found

        def read(**arguments: Any) -> Any:
            self._clock.advance(self._latency)
            return found(**arguments)

        return read

    def update_item(self, **arguments: Any) -> Any:
        """Write one row. Raises ClientError where it is throttled."""
        second = self._arrived()
        partitions = self._partitions(arguments["Key"]["lockToken"]["S"])
        if not self._limiter.admits(second, partitions):
            raise ClientError(
                {
                    "Error": {"Code": THROTTLED, "Message": "Throughput exceeds the current capacity"},
                    "ResponseMetadata": {"HTTPStatusCode": 400},
                },
                "UpdateItem",
            )
        try:
            return self._client.update_item(**arguments)
        except ClientError:
            self._refused(second, partitions)
            raise

    def batch_execute_statement(self, Statements: Sequence[Any]) -> Any:  # noqa: N803  (boto3's name)
        """Execute the statements that are admitted; the others have an error of their own each."""
        second = self._arrived()
        wanted = [self._partitions(self._token(each["Parameters"])) for each in Statements]
        admitted = [self._limiter.admits(second, each) for each in wanted]
        sent = [each for each, is_sent in zip(Statements, admitted, strict=True) if is_sent]
        answer = self._client.batch_execute_statement(Statements=sent) if sent else {"Responses": []}
        answers = iter(answer["Responses"])
        responses = [
            next(answers) if is_sent else {"Error": {"Code": THROTTLED_STATEMENT}} for is_sent in admitted
        ]
        for response, partitions in zip(responses, wanted, strict=True):
            if response.get("Error", {}).get("Code") in REFUSED:
                self._refused(second, partitions)
        return {**answer, "Responses": responses}

    def _arrived(self) -> int:
        self._clock.advance(self._latency)
        return int(self._clock.now().timestamp())

    def _token(self, parameters: Sequence[Mapping[str, Any]]) -> str:
        texts = (str(each["S"]) for each in parameters if "S" in each)
        return next(text for text in texts if text.startswith(self._prefix))

    def _partitions(self, token: str) -> dict[Partition, int]:
        """Return what a write of *token* takes: the row, and its entry, which it puts or removes."""
        row = Partition("table", str(crc32(token.encode()[::-1]) % TABLE_PARTITIONS))
        entry = Partition("index", status(State.IN_PROGRESS, token, self._shards))
        return {entry: ENTRY_UNITS, row: ROW_UNITS}

    def _refused(self, second: int, partitions: Mapping[Partition, int]) -> None:
        for partition, units in partitions.items():
            if partition.of == "index":
                self._limiter.give_back(second, partition, units)
