"""A fresh rig for every test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lambda_once.engine import pipeline
from lambda_once.testing import create_table
from tests.decorators.counted import Counted
from tests.decorators.grounds import Memory, Table
from tests.decorators.rig import STRICT, Rig
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.kit.wire import Wire

if TYPE_CHECKING:
    from tests.decorators.durable_shop import Shop


@pytest.fixture(scope="session")
def strict_client() -> Any:
    """A client that the strict engine answers wherever it is mounted."""
    return tables.client()


@pytest.fixture(scope="session")
def engines_table(dynamodb_local: str) -> Iterator[Table]:
    """A table of a real engine, one for all tests: each leaves it empty."""
    client = tables.client(dynamodb_local)
    with tables.fresh(client) as name:
        yield Table(client, name)
    client.close()


@pytest.fixture
def on_memory() -> Rig:
    """An empty store in memory."""
    return Rig(Memory())


@pytest.fixture
def on_strict(strict_client: Any) -> Iterator[Rig]:
    """An empty table of the strict engine."""
    with mounted():
        create_table(strict_client, "tokens")
        yield Rig(Table(strict_client, "tokens"))


@pytest.fixture
def on_engine(engines_table: Table, partiql: None) -> Iterator[Rig]:
    """An empty table of a real engine, which takes batches."""
    yield Rig(engines_table.anew())
    engines_table.clear()


@pytest.fixture
def on_lean(engines_table: Table, dynamodb_local: str, partiql: None) -> Iterator[Rig]:
    """The same, where the lean client sends every request."""
    client = tables.lean(dynamodb_local)
    yield Rig(engines_table.anew(client))
    engines_table.clear()
    client.close()


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Rig:
    """An empty table of the strict engine, or of the store that a mark names, and a clock set by hand."""
    found: Rig = request.getfixturevalue(getattr(request, "param", STRICT))
    return found


@pytest.fixture
def counted(endpoint: str | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """A new table at the end of a wire. Quick records are written together, though this machine be slow."""
    monkeypatch.setattr(pipeline, "LINGER", 0.5)
    client = tables.client(endpoint)
    with tables.fresh(client) as name:
        wire = Wire(endpoint)
        yield Counted(Rig(Table(wire.client, name)), wire, name)
        wire.client.close()
    client.close()


@pytest.fixture
def shop(rig: Rig) -> Iterator[Shop]:
    """An empty shop. It needs the durable SDK, which is not everywhere."""
    from tests.decorators.durable_shop import Shop
    from tests.kit.executions import executions

    shop = Shop(rig)
    with executions(shop.handle) as shop.of:
        yield shop
