"""A table of the strict engine, and machines around it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.guarantees.machines import Cluster, cluster
from tests.kit import tables


@pytest.fixture(params=tables.CLIENTS)
def machines(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """New ones for every test, with each client."""
    with cluster(request.param) as found:
        yield found
