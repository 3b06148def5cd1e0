"""
The contract tests for a store of your own: copy this folder. It requires pytest and lambda-once[aws].

    from suite import StoreSuite

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self):
            return MyStore()

        def forget(self, store, token):
            store.delete(token)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

for _module in ("acquiring", "contents", "finishing", "resolving", "world"):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")

from .acquiring import Acquiring  # noqa: E402  (pytest: register before the import)
from .contents import (  # noqa: E402
    Concurrency,
    LargeResults,
    Listing,
    Transactions,
)
from .finishing import Finishing  # noqa: E402
from .resolving import Keeping, Releasing, Resolving  # noqa: E402
from .world import World  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lambda_once.stores.contract import Store

__all__ = ["StoreSuite", "World"]


class StoreSuite(
    Acquiring, Finishing, Resolving, Keeping, Releasing, LargeResults, Transactions, Listing, Concurrency
):
    """
    The tests of the store contract: subclass it under a name that pytest collects.

    A subclass needs `forget` and a fixture ``store`` that returns an empty store for each test. A store that
    writes items of other tables in a transaction also needs `order` and `ordered`.
    """

    @pytest.fixture
    def store(self) -> Store:
        """Return an empty store."""
        raise NotImplementedError("a StoreSuite needs a fixture `store` that returns an empty store")

    def forget(self, store: Any, token: str) -> None:
        """Delete the row of *token*, as an operator or TTL does."""
        raise NotImplementedError("a StoreSuite needs forget(store, token), which deletes the row")

    def item(self, store: Any, token: str) -> Any:
        """Return the stored row of *token*, or None. It is compared before and after a refused write."""

    def order(self, store: Any, key: str) -> Mapping[str, Any] | None:
        """Return a write for `Store.transact` that creates item *key*; None if the store writes no items."""

    def ordered(self, store: Any, key: str) -> bool:  # noqa: ARG002  (a subclass overrides it)
        """Return whether item *key* exists."""
        return False

    @pytest.fixture
    def world(self, store: Store) -> World:
        """Return *store* with access to its rows, and a clock."""
        return World(store, SuiteRows(self, store))


class SuiteRows:
    """The rows of a store, through the methods of its suite."""

    def __init__(self, suite: StoreSuite, store: Store) -> None:
        self._suite = suite
        self._store = store

    def item(self, token: str) -> Any:
        return self._suite.item(self._store, token)

    def forget(self, token: str) -> None:
        self._suite.forget(self._store, token)

    def order(self, key: str) -> Mapping[str, Any] | None:
        return self._suite.order(self._store, key)

    def ordered(self, key: str) -> bool:
        return self._suite.ordered(self._store, key)
