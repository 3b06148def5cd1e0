"""Every store there is, one world each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import pytest

from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.variables import Listing
from lambda_once.errors import Misconfigured
from lambda_once.operations.table import TokenTable
from lambda_once.stores.memory import MemoryStore
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import create_table
from lambda_once_tools.search import ScannedIndex
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.stores.accounts import TheirRows, in_another_account
from tests.stores.company import InCompany
from tests.stores.line import Line, on_wire
from tests.stores.suite.world import World
from tests.stores.world import DynamoDBRows, MemoryRows


@pytest.fixture
def memory() -> World:
    """A store in memory."""
    store = MemoryStore()
    return World(store, MemoryRows(store))


@pytest.fixture
def strict() -> Iterator[World]:
    """A table of the strict engine."""
    with mounted():
        client = tables.shared()
        create_table(client, "tokens")
        yield World(DynamoDBStore("tokens", client), DynamoDBRows(client, "tokens"))


ARN = "arn:aws:dynamodb:eu-central-1:999988887777:table/tokens"


@pytest.fixture
def another_accounts() -> Iterator[World]:
    """A table of another account, which DynamoDB calls by the ARN in what a batch returns."""
    with mounted():
        client = tables.client()
        create_table(client, "tokens")
        elsewhere = in_another_account(tables.client(), ARN, answers_by_name=False)
        yield World(DynamoDBStore(ARN, elsewhere), TheirRows(client, "tokens", ARN))


class Streaming(DynamoDBStore):
    """A store in stream mode, without a watchdog: operators list by a scan."""

    def __init__(self, name: str, client: Any) -> None:
        super().__init__(name, client, Listing.STREAM)
        self._operators = TokenTable(name, client)

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        malformed: list[Misconfigured] = []
        scanned = ScannedIndex(self._operators, segments=2)
        yield from (entry.record for entry in scanned.unfinished(state, deadline, before, malformed))
        assert malformed == []


@pytest.fixture(scope="session")
def streaming_table(senders: Mapping[str, Any]) -> Iterator[str]:
    """One table for all tests, each of which leaves it empty."""
    with tables.fresh(senders[tables.BOTO3]) as name:
        yield name


@pytest.fixture
def streaming(senders: Mapping[str, Any], streaming_table: str, partiql: None) -> Iterator[World]:
    """A table of a real engine in stream mode, whose unfinished tokens are found by scans."""
    client = senders[tables.BOTO3]
    yield World(Streaming(streaming_table, client), DynamoDBRows(client, streaming_table))
    tables.clear(client, streaming_table)


class Way(NamedTuple):
    """How requests reach a table of a real engine: by which client, and whether all of them in batches."""

    client: str
    in_company: bool
    """No acquisition and no write ever travels alone."""

    def world(self, senders: Mapping[str, Any], table: str) -> World:
        """Return a world on *table*."""
        store = DynamoDBStore(table, senders[self.client])
        rows = DynamoDBRows(senders[tables.BOTO3], table)
        return World(InCompany(store) if self.in_company else store, rows)


@pytest.fixture(scope="session")
def engines_table(senders: Mapping[str, Any]) -> Iterator[str]:
    """One table of a real engine for all tests, each of which leaves it empty."""
    with tables.fresh(senders[tables.BOTO3]) as name:
        yield name


@pytest.fixture
def way(request: pytest.FixtureRequest, partiql: None) -> Iterator[Callable[[Way], World]]:
    """Return the world of a `Way`, on an empty table."""
    senders: Mapping[str, Any] = request.getfixturevalue("senders")
    table: str = request.getfixturevalue("engines_table")
    yield lambda way: way.world(senders, table)
    tables.clear(senders[tables.BOTO3], table)


def world_of(request: pytest.FixtureRequest) -> World:
    """Return the world that the parameter names: a fixture's, or that of a `Way`."""
    param = request.param
    found: World = (
        request.getfixturevalue("way")(param) if isinstance(param, Way) else request.getfixturevalue(param)
    )
    return found


@pytest.fixture
def engine(way: Callable[[Way], World]) -> World:
    """A table of a real engine, by the client that the package has by default."""
    return way(Way(tables.BOTO3, in_company=False))


@pytest.fixture
def batches(way: Callable[[Way], World]) -> World:
    """The same, where no acquisition and no write ever travels alone."""
    return way(Way(tables.BOTO3, in_company=True))


def _ways(*ways: Way) -> list[Any]:
    return [
        pytest.param(
            way, marks=pytest.mark.engine, id=f"{way.client} {'batches' if way.in_company else 'singly'}"
        )
        for way in ways
    ]


ON_ENGINE = _ways(*(Way(name, in_company=way) for name in tables.CLIENTS for way in (False, True)))
"""Each client in both ways of sending."""


STREAMING = pytest.param("streaming", marks=pytest.mark.engine)


@pytest.fixture
def line(endpoint: str | None) -> Iterator[Line]:
    """A wire to a new table."""
    with on_wire(endpoint) as line:
        yield line


@pytest.fixture(params=["memory", "strict", *ON_ENGINE])
def world(request: pytest.FixtureRequest) -> World:
    """Each store in turn."""
    return world_of(request)


@pytest.fixture(params=["strict", *ON_ENGINE])
def dynamodb(request: pytest.FixtureRequest) -> World:
    """Each store that keeps items in a table."""
    return world_of(request)
