"""
A table with 20,000 tokens on a real engine, loaded once a session for all tests that only read it.

tests/conftest.py has the fixture `big_table`, so that every module gets the same table. A test that writes
beside its tokens (the watchdog's cursor) removes that again.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest

from lambda_once.core.clock import epoch_seconds, stamp
from lambda_once.core.lifecycle import Failure, State
from lambda_once.stores.row import Item, error_map, listed
from lambda_once.testing.clock import START
from tests.kit import tables

OVERDUE, HELD, IN_PROGRESS, COMPLETE = 5_000, 500, 500, 14_000
TOKENS = OVERDUE + HELD + IN_PROGRESS + COMPLETE
NOW = START
"""The time at which `OVERDUE` tokens are overdue: that of a new FakeClock."""
OLDEST = NOW - timedelta(seconds=OVERDUE + 60)
"""The end of the earliest lease that is over; the others ended a second later each, the last a minute ago."""
BROKEN = Failure("PaymentTimeout", "the bank did not answer")
BATCH = 25
WRITERS = 8


class BigTable(NamedTuple):
    """The loaded table."""

    client: Any
    name: str
    endpoint: str


@pytest.fixture(scope="session")
def big_table(engine_endpoint: str) -> Iterator[BigTable]:
    """Give the table with its 20,000 tokens; it takes 3 s to load on two cores."""
    client = tables.client(engine_endpoint, max_pool_connections=WRITERS, parameter_validation=False)
    with tables.fresh(client) as name:
        _load(client, name)
        yield BigTable(client, name, engine_endpoint)
    client.close()


def overdue_token(n: int) -> str:
    """Return the token whose lease ended as the *n*th, from 0."""
    return f"orders/charge/order_{n:06}"


def _load(client: Any, name: str) -> None:
    def write(start: int) -> None:
        puts = [{"PutRequest": {"Item": _row(n)}} for n in range(start, min(start + BATCH, TOKENS))]
        while puts:
            answer = client.batch_write_item(RequestItems={name: puts})
            puts = answer["UnprocessedItems"].get(name, [])

    with ThreadPoolExecutor(WRITERS) as pool:
        for _ in pool.map(write, range(0, TOKENS, BATCH)):
            pass


def _row(n: int) -> Item:
    if n < OVERDUE:
        return _of(overdue_token(n), State.IN_PROGRESS, OLDEST + timedelta(seconds=n))
    if n < OVERDUE + HELD:
        token = f"orders/refund/order_{n:06}"
        failed = {"actualCompletion": {"S": stamp(NOW - timedelta(hours=2))}}
        return _of(token, State.HELD, NOW - timedelta(hours=1)) | failed | {"error": error_map(BROKEN)}
    if n < OVERDUE + HELD + IN_PROGRESS:
        return _of(f"orders/ship/order_{n:06}", State.IN_PROGRESS, NOW + timedelta(seconds=20))
    done = _of(f"orders/charge/order_{n:06}", State.COMPLETE, NOW - timedelta(hours=3))
    del done["status"], done["listed"]
    return done | {
        "actualCompletion": {"S": stamp(NOW - timedelta(hours=3))},
        "result": {"S": '{"paid": true}'},
        "ttl": {"N": str(epoch_seconds(NOW + timedelta(days=14)))},
    }


def _of(token: str, state: State, lease: datetime) -> Item:
    return {
        "lockToken": {"S": token},
        "lockedBy": {"S": "orders/4f9c1f4e-4f60-4d1a-9c7e-7f7e7b0c2a11"},
        "attempt": {"S": token.encode()[-16:].hex()},
        "fence": {"N": str(1_700_000_000_000)},
        "created": {"S": stamp(lease - timedelta(seconds=32))},
        "expectedCompletion": {"S": stamp(lease)},
        "status": {"S": state.value},
        "listed": {"S": listed(state, token)},
    }
