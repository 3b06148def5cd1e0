"""A table of the strict engine, and machines around it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.guarantees.machines import Cluster, cluster


@pytest.fixture
def machines() -> Iterator[Cluster]:
    """New ones for every test."""
    with cluster() as found:
        yield found
