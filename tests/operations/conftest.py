"""The engines that the watchdog is judged by."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lambda_once.testing import create_table
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.operations.watch import Post


@pytest.fixture
def strict() -> Iterator[Post]:
    """A table of the strict engine; create_table has given it TTL."""
    with mounted():
        client = tables.client()
        create_table(client, "tokens")
        yield Post(client, "tokens")


@pytest.fixture
def engine(engine_endpoint: str) -> Iterator[Post]:
    """A table of a real engine, without TTL."""
    client = tables.boto3s(engine_endpoint, patience=60)
    with tables.fresh(client) as name:
        yield Post(client, name)
    client.close()
