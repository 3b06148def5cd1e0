"""Every store there is, one world each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lambda_once.stores.memory import MemoryStore
from lambda_once.stores.names import TableNames
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import create_table
from lambda_once.testing.store_suite.world import World
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.kit.wire import Wire
from tests.stores.company import InCompany
from tests.stores.line import Line
from tests.stores.world import DynamoDBRows, MemoryRows, NamedRows


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


@pytest.fixture
def engine(dynamodb_local: str, partiql: None) -> Iterator[World]:
    """A table of a real engine."""
    client = tables.client(dynamodb_local)
    with tables.fresh(client) as name:
        yield World(DynamoDBStore(name, client), DynamoDBRows(client, name))
    client.close()


NAMES = TableNames(key="pk", sort="sk", index="unfinished-tokens")


def _named(client: Any, name: str) -> World:
    store = DynamoDBStore(name, client, names=NAMES)
    return World(store, NamedRows(client, name, NAMES))


@pytest.fixture
def named_strict() -> Iterator[World]:
    """A table of the strict engine whose key and index have names of their own."""
    with mounted():
        client = tables.client()
        create_table(client, "tokens", NAMES)
        yield _named(client, "tokens")


@pytest.fixture
def named_engine(dynamodb_local: str, partiql: None) -> Iterator[World]:
    """The same on a real engine."""
    client = tables.client(dynamodb_local)
    with tables.fresh(client, partial(create_table, names=NAMES)) as name:
        yield _named(client, name)
    client.close()


@pytest.fixture
def named_batches(named_engine: World, dynamodb_local: str) -> Iterator[World]:
    """The same, in batches that the lean client sends."""
    client = tables.lean(dynamodb_local)
    name = named_engine.store.table  # type: ignore[attr-defined]
    yield replace(named_engine, store=InCompany(DynamoDBStore(name, client, names=NAMES)))
    client.close()


@pytest.fixture
def batches(engine: World) -> World:
    """A table of a real engine, where no acquisition and no write ever travels alone."""
    return replace(engine, store=InCompany(engine.store))


@pytest.fixture
def lean_batches(engine: World, dynamodb_local: str) -> Iterator[World]:
    """The same, where the lean client sends every request."""
    client = tables.lean(dynamodb_local)
    name = engine.store.table  # type: ignore[attr-defined]
    yield replace(engine, store=InCompany(DynamoDBStore(name, client)))
    client.close()


NAMED = ["named_strict", pytest.param("named_batches", marks=pytest.mark.engine)]
ON_ENGINE = [pytest.param(name, marks=pytest.mark.engine) for name in ("engine", "lean_batches")]
"""Either client and either way of sending. The other two pairs (`batches`, and the decorators' `on_lean`) are
tried elsewhere: what a client sends does not depend on what a request holds."""


@pytest.fixture
def line(endpoint: str | None) -> Iterator[Line]:
    """A wire to a new table."""
    client = tables.client(endpoint)
    with tables.fresh(client) as name:
        wire = Wire(endpoint)
        warnings: list[str] = []
        parts_denied: list[str] = []
        store = DynamoDBStore(name, wire.client, warn=warnings.append, parts_denied=parts_denied.append)
        yield Line(World(store, DynamoDBRows(client, name)), wire, warnings, parts_denied)
        wire.client.close()
    client.close()


@pytest.fixture(params=["memory", "strict", *ON_ENGINE])
def world(request: pytest.FixtureRequest) -> World:
    """Each store in turn."""
    found: World = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["strict", *ON_ENGINE])
def dynamodb(request: pytest.FixtureRequest) -> World:
    """Each store that keeps items in a table."""
    found: World = request.getfixturevalue(request.param)
    return found
