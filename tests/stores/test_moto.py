"""Where moto is loaded, batches are single writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from moto import mock_aws

from lambda_once.core.variables import Listing
from lambda_once.stores.batches import Batches
from lambda_once.stores.store import DynamoDBStore
from lambda_once.stores.transport import TokenTransport
from lambda_once.testing import create_table
from tests.kit import tables
from tests.stores.line import SINGLE
from tests.stores.suite.world import PAID, World
from tests.stores.world import DynamoDBRows


@pytest.fixture
def moto() -> Iterator[World]:
    """A table of moto's."""
    with mock_aws():
        client = tables.client()
        create_table(client, "tokens")
        yield World(DynamoDBStore("tokens", client), DynamoDBRows(client, "tokens"))


def test_moto_is_never_sent_partiql(moto: World) -> None:
    """It would overwrite rows: users' tests on it work by single writes."""
    sent: list[str] = []
    assert isinstance(moto.rows, DynamoDBRows)
    events = moto.rows.client.meta.events
    events.register_first("before-send.dynamodb", lambda event_name, **_: sent.append(event_name))
    acquisitions = [moto.acquisition(token=f"{moto.token}-{n}") for n in range(3)]
    moto.store.acquire(acquisitions, moto.deadline)
    moto.store.write(
        [moto.write(PAID, token=acquisition.token) for acquisition in acquisitions], moto.deadline
    )
    assert {name.rpartition(".")[2] for name in sent} == {SINGLE}


def test_without_moto_batches_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same question where it is not loaded, and where it is."""
    path = Batches(TokenTransport("tokens"), Listing.AT_ONCE, str)
    assert not path.usable
    monkeypatch.delitem(sys.modules, "moto")
    assert path.usable
