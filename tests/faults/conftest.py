"""Tables on the strict engine, new for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.tables import Layers, made
from tests.kit import tables
from tests.kit.strict.mounted import mounted, over_http


@pytest.fixture
def layers() -> Iterator[Layers]:
    """Both tables, empty."""
    with mounted():
        yield made(over_http(tables.client()))
