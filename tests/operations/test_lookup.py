"""What operators read: the parts of a large result are counted, and a throttled table is waited for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lambda_once.core.lifecycle import State
from lambda_once.core.results import Parts
from lambda_once.dynamodb.retry import PATIENCE, TRIES
from lambda_once.errors import StoreUnavailable
from lambda_once.operations.table import TokenTable
from lambda_once.stores.requests import part_keys
from lambda_once.testing import FakeClock, create_table
from lambda_once_tools.search import parts_present
from tests.kit import tables
from tests.kit.rows import row
from tests.kit.strict.mounted import mounted

COMPLETE = row(State.COMPLETE, stored=Parts(3))
"""A row whose result is in three parts."""


@mounted()
def test_the_parts_that_are_there_are_counted() -> None:
    """Two of three."""
    client, clock = tables.client(), FakeClock()
    create_table(client, "tokens")
    record = COMPLETE
    for key in part_keys(record, 2):
        client.put_item(TableName="tokens", Item={**key, "data": {"B": b"x"}})
    assert parts_present(TokenTable("tokens", client, clock), record) == 2


@mounted()
def test_a_table_that_processes_no_key_is_given_up() -> None:
    """Throttled to the end of its patience, the question ends as an outage."""
    client, clock = tables.client(), FakeClock()
    create_table(client, "tokens")

    def busy(**request: Any) -> dict[str, Any]:
        return {"Responses": {}, "UnprocessedKeys": request["RequestItems"]}

    client.batch_get_item = busy
    began = clock.now()
    with pytest.raises(StoreUnavailable, match=r"was throttled \(UnprocessedKeys\)"):
        parts_present(TokenTable("tokens", client, clock), COMPLETE)
    assert clock.now() - began >= timedelta(seconds=PATIENCE)


def _throttled(client: Any, times: int, code: str) -> None:
    """Fail the next *times* reads of *client* with *code*."""
    get, left = client.get_item, [times]

    def refused(**request: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            return get(**request)
        raise ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "GetItem")

    client.get_item = refused


@mounted()
@pytest.mark.parametrize(
    "code", ["ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded"]
)
def test_a_throttled_table_is_waited_for(code: str) -> None:
    """An operator's question survives more refusals than an invocation has time for."""
    client, clock = tables.client(), FakeClock()
    create_table(client, "tokens")
    _throttled(client, 12, code)
    assert TokenTable("tokens", client, clock).read("shop/charge/k") is None


@mounted()
def test_a_table_that_stays_throttled_is_given_up() -> None:
    """After the operator's patience."""
    client, clock = tables.client(), FakeClock()
    create_table(client, "tokens")
    _throttled(client, 1_000, "ThrottlingException")
    began = clock.now()
    with pytest.raises(StoreUnavailable):
        TokenTable("tokens", client, clock).read("shop/charge/k")
    assert timedelta(seconds=PATIENCE - 2) <= clock.now() - began <= timedelta(seconds=PATIENCE)


@mounted()
def test_a_table_with_another_fault_is_not_waited_for() -> None:
    """A wrong endpoint shows after a few tries."""
    client, clock = tables.client(), FakeClock()
    create_table(client, "tokens")
    _throttled(client, TRIES, "InternalServerError")
    began = clock.now()
    with pytest.raises(StoreUnavailable):
        TokenTable("tokens", client, clock).read("shop/charge/k")
    assert clock.now() - began < timedelta(seconds=4)
