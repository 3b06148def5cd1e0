"""How long a large document takes where a partition takes 1,000 write units a second."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from benchmarks.units import size_of
from lambda_once.dynamodb.transport import Transport
from lambda_once.errors import StoreUnavailable
from lambda_once.patterns.documents import Documents
from lambda_once.testing import FakeClock

if TYPE_CHECKING:
    from tests.patterns.conftest import Ground

TEN_MB = random.Random(1).randbytes(10_000_000)
ROUND_TRIP = 0.03
"""Seconds of a request of 4 MB."""


class Bucket:
    """
    A table whose partition takes *rate* write units a second, and saves those of one second.

    Burst capacity, five minutes of unused units, is that of the table: "Burst capacity can't alleviate
    partition-level throttling" (AWS re:Post, "How does DynamoDB handle spiky workloads in short intervals").
    An item is taken while there are units left. Where none of a batch is, the request is throttled (API
    reference, BatchWriteItem).
    """

    def __init__(self, client: Any, clock: FakeClock, rate: float) -> None:
        self._client, self._clock, self._rate = client, clock, rate
        self._units, self._at = rate, clock.now()
        self.requests = self.throttled = 0

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def put_item(self, **request: Any) -> Any:
        self._received()
        if self._takes(request["Item"]):
            return self._client.put_item(**request)
        raise self._throttling()

    def batch_write_item(self, **request: Any) -> Any:
        self._received()
        ((table, writes),) = request["RequestItems"].items()
        taken = [self._takes(each["PutRequest"]["Item"]) for each in writes]
        some = [each for each, was_taken in zip(writes, taken, strict=True) if was_taken]
        left = [each for each, was_taken in zip(writes, taken, strict=True) if not was_taken]
        if not some:
            raise self._throttling()
        self._client.batch_write_item(RequestItems={table: some})
        return {"UnprocessedItems": {table: left} if left else {}}

    def _received(self) -> None:
        self._clock.advance(ROUND_TRIP)
        self.requests += 1
        passed = (self._clock.now() - self._at).total_seconds()
        self._units, self._at = min(self._rate, self._units + passed * self._rate), self._clock.now()

    def _takes(self, item: dict[str, Any]) -> bool:
        if self._units <= 0:
            return False
        self._units -= -(-size_of(item) // 1024)
        return True

    def _throttling(self) -> ClientError:
        self.throttled += 1
        error = {"Code": "ProvisionedThroughputExceededException", "Message": "throttled"}
        return ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}, "BatchWriteItem")


def written(ground: Ground, rate: float) -> tuple[float, Bucket]:
    """Write 10 MB to a partition of *rate*, check that all of it is there, and return the seconds it took."""
    clock, table = FakeClock(), ground.table("pk", "sk")
    bucket = Bucket(ground.client, clock, rate)
    began = clock.now()
    version = Documents(table, bucket, clock=clock).write("C-7", TEN_MB)
    seconds = (clock.now() - began).total_seconds()
    found = Documents(table, ground.client, clock=clock).read("C-7", consistent=True)
    assert found is not None
    assert (found.value == TEN_MB, found.version, found.fell_back) == (True, version, False)
    return seconds, bucket


def test_ten_megabytes_take_nine_seconds(strict: Ground) -> None:
    """9,773 units less those of the first second, at 1,000 a second; throttled requests are sent again."""
    seconds, bucket = written(strict, 1_000)
    assert 8.7 < seconds < 10.5
    assert bucket.throttled > 20
    assert bucket.requests < 150


@pytest.mark.parametrize("rate", [500, 200])
def test_other_writers_of_the_partition_only_make_it_slower(strict: Ground, rate: float) -> None:
    """Half or a fifth of the units are left for this one."""
    seconds, _ = written(strict, rate)
    assert 9_700 / rate - 1.1 < seconds < 9_900 / rate + 3


class Busy(Bucket):
    """A partition without units until *rounds* requests were throttled; the first request gets no answer."""

    def __init__(self, client: Any, clock: FakeClock, rounds: int) -> None:
        super().__init__(client, clock, 1_000)
        self._rounds = rounds

    def get_item(self, **request: Any) -> Any:
        self._received()
        if self.requests == 1:
            raise ReadTimeoutError(endpoint_url="http://table")
        if self.throttled < self._rounds:
            raise self._throttling()
        return self._client.get_item(**request)


def test_throttling_after_a_lost_answer_is_waited_for_as_long(strict: Ground) -> None:
    """Tries without an answer are counted apart: six of them, however many are throttled."""
    clock = FakeClock()
    busy = Busy(strict.client, clock, rounds=12)
    Documents(strict.table("pk", "sk"), busy, clock=clock).write("C-7", "text")
    assert busy.throttled == 12


def test_with_six_tries_a_slow_partition_is_given_up(strict: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: their pauses add up to three seconds at most, mostly to one."""
    monkeypatch.setattr(Transport, "is_patient", property(lambda _: False, lambda *_: None))
    with pytest.raises(StoreUnavailable):
        written(strict, 150)
