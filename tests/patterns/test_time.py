"""Inside an invocation the retries of a pattern end before it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ReadTimeoutError

from lambda_once import Once, StoreUnavailable
from lambda_once.core.clock import INVOCATION_DEADLINE
from lambda_once.patterns import Unique, transport
from lambda_once.stores.memory import MemoryStore
from lambda_once.testing import FakeClock, lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable


class Silent:
    """A client that gets no answer, each time after three seconds."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.sent = 0

    def put_item(self, **_: Any) -> Any:
        self.sent += 1
        self.clock.advance(3)
        raise ReadTimeoutError(endpoint_url="http://table")


def protected(clock: FakeClock, work: Callable[[], object]) -> None:
    """Do *work* in an invocation that has five seconds left."""
    once = Once(store=MemoryStore(), service="shop")
    once._runtime.clock = clock

    @once.event(key="id")
    def handler(event: dict[str, Any], context: Any) -> None:
        work()

    handler({"id": "5"}, lambda_context(remaining_ms=5_000))


def silent_put(clock: FakeClock, client: Silent) -> None:
    """Put an item that gets no answer."""
    with pytest.raises(StoreUnavailable, match="no answer to put_item after"):
        Unique("t", client, key="id", clock=clock).put({"id": "5"})


def test_retries_end_before_the_invocation() -> None:
    """After 6 of 5 seconds there is no third try."""
    clock = FakeClock()
    client = Silent(clock)
    protected(clock, lambda: silent_put(clock, client))
    assert client.sent == 2
    assert INVOCATION_DEADLINE.get() is None


def test_outside_of_protected_work_there_are_six(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows the time there; and the twin: inside, too, if the invocation's end is not read."""
    clock = FakeClock()
    client = Silent(clock)
    silent_put(clock, client)
    assert client.sent == 6
    unread = type("Unread", (), {"get": lambda _: None})()
    monkeypatch.setattr(transport, "INVOCATION_DEADLINE", unread)
    client.sent = 0
    protected(clock, lambda: silent_put(clock, client))
    assert client.sent == 6
