"""A shop that moves from Powertools to this package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit import powertools, tables


@pytest.fixture
def shop(endpoint: str | None) -> Iterator[powertools.Shop]:
    """Two new tables of the strict engine, and of a real one."""
    client = tables.client(endpoint)
    with powertools.shop(client) as found:
        yield found
    client.close()
