"""A fresh rig for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
def engines_table(senders: Mapping[str, Any]) -> Iterator[Table]:
    """A table of a real engine, one for all tests: each leaves it empty."""
    client = senders[tables.BOTO3]
    with tables.fresh(client) as name:
        yield Table(client, name)


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
def sent_by(
    senders: Mapping[str, Any], engines_table: Table, partiql: None
) -> Iterator[Callable[[str], Rig]]:
    """Return a rig on an empty table of a real engine, which takes batches, by the client of that name."""
    yield lambda client: Rig(engines_table.anew(senders[client]))
    engines_table.clear()


@pytest.fixture
def on_engine(sent_by: Callable[[str], Rig]) -> Rig:
    """An empty table of a real engine, by the client that the package has by default."""
    return sent_by(tables.BOTO3)


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
