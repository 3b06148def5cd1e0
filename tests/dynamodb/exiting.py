"""A process whose finaliser calls protected work as it exits: ``python -m tests.dynamodb.exiting CLIENT``."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable

from lambda_once import Once, OnceError
from lambda_once.core.clock import monotonic


class Last:
    """Calls protected work when it is collected."""

    def __init__(self, once: Once) -> None:
        @once.function(key="name", name="work")
        def work(name: str) -> None:
            sys.stderr.write(f"{name} ran\n")

        self._work = work

    def call(self, name: str, now: Callable[[], float] = monotonic) -> None:
        """Write what comes of a call, and whether at once."""
        began = now()
        try:
            self._work(name)
        except OnceError as error:
            sys.stderr.write(f"{name} raised {type(error).__name__}: {error}\n")
        sys.stderr.write(f"{name} ended {'at once' if now() - began < 2 else 'late'}\n")

    def __del__(self, call: Callable[[Last, str], None] = call) -> None:
        call(self, "last")


if __name__ == "__main__":
    last = Last(Once(service="shop", table="tokens", client=sys.argv[1] or None))
    last.call("first")
    builtins.__dict__["kept"] = last  # until the interpreter clears its modules
