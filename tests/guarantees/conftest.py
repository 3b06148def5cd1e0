"""A table of the strict engine, and machines around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guarantees.machines import Cluster, cluster
from tests.kit import tables


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a real engine machines race in real time: those tests share it with no others."""
    for item in items:
        if item.path.parent == Path(__file__).parent and "engine" in item.keywords:
            item.add_marker(pytest.mark.timed)


@pytest.fixture(params=tables.CLIENTS)
def machines(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """New ones for every test, with each client."""
    with cluster(request.param) as found:
        yield found
