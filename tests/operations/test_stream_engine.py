"""The reader over the stream of a real engine, by the client that it makes itself."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.core.results import Inline
from lambda_once.core.variables import Listing
from lambda_once.core.writes import Acquire, Complete, Holder, Unclaimed, Write, new_write_id
from lambda_once.operations import stream
from lambda_once.operations.list_state import CHECKPOINT_ROW
from lambda_once.operations.stream import StreamReader, leave_stream
from lambda_once.operations.table import TokenTable
from lambda_once.stores.row import TOKEN
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock

from .watch import Post

pytestmark = pytest.mark.engine


def test_lost_work_is_listed(engine: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """By each request that the reader sends: of the table, of its stream, of the checkpoint."""
    engine.client.update_table(
        TableName=engine.name,
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    )
    clock = FakeClock(SystemClock().now())
    # The engine's records have the machine's time, which doesn't advance as the test's does.
    monkeypatch.setattr(stream, "_utc", lambda _at: clock.now() - timedelta(minutes=2))
    store = DynamoDBStore(engine.name, engine.client, listing=Listing.STREAM)

    def deadline() -> Deadline:
        return Deadline(clock, clock.now() + timedelta(seconds=30))

    def read() -> int:
        table = TokenTable(engine.name, engine.client, clock, Listing.STREAM)
        reading = StreamReader(table).read(table.deadline(30))
        assert reading.failed is None
        assert not reading.in_gap
        return reading.listed

    def listed() -> set[str]:
        rows = engine.client.scan(TableName=engine.name, ConsistentRead=True)["Items"]
        return {row[TOKEN]["S"] for row in rows if "listed" in row}

    assert read() == 0
    lease = clock.now() + timedelta(minutes=3)
    for name in ("lost", "done"):
        wanted = Acquire(f"s/n/{name}", name, "f/r", clock.now(), lease, Unclaimed(take_over=True), 2**33)
        store.acquire([wanted], deadline())
    done = Complete(Inline('"done"'))
    store.write([Write("s/n/done", Holder("done"), done, clock.now(), 2**33, new_write_id(done))], deadline())
    clock.advance(120)
    assert read() == 0
    assert listed() == set()
    clock.advance(120)
    assert read() == 1
    assert listed() == {"s/n/lost"}
    table = TokenTable(engine.name, engine.client, clock)
    clock.advance(3_700)
    assert leave_stream(table, table.deadline()) is not None
    key = {TOKEN: {"S": CHECKPOINT_ROW}}
    left = engine.client.get_item(TableName=engine.name, Key=key, ConsistentRead=True)["Item"]
    assert set(left) == {TOKEN, "version"}
