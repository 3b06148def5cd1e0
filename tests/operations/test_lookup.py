"""The parts of a large result are counted, and a table that never gives them is given up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.core.results import Parts
from lambda_once.dynamodb.retry import PATIENCE
from lambda_once.errors import StoreUnavailable
from lambda_once.operations.search import parts_present
from lambda_once.operations.table import TokenTable
from lambda_once.stores.requests import part_keys
from lambda_once.testing import FakeClock, create_table
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
    with pytest.raises(StoreUnavailable, match="in time"):
        parts_present(TokenTable("tokens", client, clock), COMPLETE)
    assert clock.now() - began >= timedelta(seconds=PATIENCE)
