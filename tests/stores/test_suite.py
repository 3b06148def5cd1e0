"""Our own stores, under the suite that every store passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.stores.conftest import ON_ENGINE, STREAMING, world_of
from tests.stores.suite import StoreSuite

if TYPE_CHECKING:
    from tests.stores.suite.world import World


class TestStores(StoreSuite):
    @pytest.fixture(params=["memory", "strict", "another_accounts", STREAMING, *ON_ENGINE])
    def world(self, request: pytest.FixtureRequest) -> World:
        """Each store in turn."""
        return world_of(request)
