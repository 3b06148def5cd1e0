"""
The tenant that this process serves.

Lambda names it in the context of a function with tenant isolation, ``context.tenant_id``, and gives an
execution environment to no other tenant (Lambda developer guide, "Tenant isolation"). So it's kept for the
process: threads, and functions that get no context, have it, too. Before the first such context there is
none, and of a function without tenant isolation there never is.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


class Tenancy:
    """Which tenant a process serves."""

    def __init__(self) -> None:
        self.tenant: str | None = None
        self._lock = RLock()

    def serves(self, tenant: str) -> bool:
        """Keep *tenant* if it is the first one; return whether it is the one that is served."""
        with self._lock:
            if self.tenant is None:
                self.tenant = tenant
            return self.tenant == tenant

    def forget(self) -> None:
        """Begin as an execution environment that has served no tenant yet."""
        self.tenant = None

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """Do what `forget` does; at the end of the block it's the environment of before."""
        before = self.tenant
        self.forget()
        try:
            yield
        finally:
            self.tenant = before


TENANCY: Final = Tenancy()
"""That of this process."""
