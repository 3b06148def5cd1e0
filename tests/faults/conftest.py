"""Tables on moto, new for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.faults.tables import Layers, made


@pytest.fixture
def layers() -> Iterator[Layers]:
    """Both tables, empty."""
    with mock_aws():
        yield made()
