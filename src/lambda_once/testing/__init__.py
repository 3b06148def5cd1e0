"""
What users' tests need: a store and a clock of their own, a table, a context, and events.

    def test_an_order_is_charged_once() -> None:
        with using(app.once) as store:
            event = sqs_event({"orderId": 5})
            app.handler(event, lambda_context())
            app.handler(event, lambda_context())       # the redelivery
        assert charged == [5]
        assert_completed(store, result=None)

Nothing here needs pytest but its fixtures, `lambda_once.testing.plugin`; and boto3 only `create_table`, by
the client that it is given, and assertions about a table.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from lambda_once.core.record import State
from lambda_once.stores.memory import MemoryStore
from lambda_once.testing.assertions import (
    assert_completed,
    assert_held,
    assert_in_progress,
    assert_lapsed,
    assert_no_token,
    assert_ran_once,
    assert_released,
    assert_stored_error,
)
from lambda_once.testing.clock import FakeClock
from lambda_once.testing.context import InvocationContext, lambda_context
from lambda_once.testing.crash import Crash, Killed, Step, crash_at
from lambda_once.testing.events import eventbridge_event, s3_event, sns_event, sqs_event
from lambda_once.testing.http_events import alb_event, api_event, function_url_event, lattice_event
from lambda_once.testing.recording import RecordingStore
from lambda_once.testing.table import create_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import TypeVar

    from lambda_once._once import Once
    from lambda_once.core.clock import Clock
    from lambda_once.stores.contract import Store

    S = TypeVar("S", bound=Store)

__all__ = [
    "Crash",
    "FakeClock",
    "InvocationContext",
    "Killed",
    "MemoryStore",
    "RecordingStore",
    "State",
    "Step",
    "alb_event",
    "api_event",
    "assert_completed",
    "assert_held",
    "assert_in_progress",
    "assert_lapsed",
    "assert_no_token",
    "assert_ran_once",
    "assert_released",
    "assert_stored_error",
    "crash_at",
    "create_table",
    "eventbridge_event",
    "function_url_event",
    "lambda_context",
    "lattice_event",
    "s3_event",
    "sns_event",
    "sqs_event",
    "using",
]


@overload
def using(
    once: Once, store: None = None, clock: Clock | None = None
) -> AbstractContextManager[RecordingStore]: ...
@overload
def using(once: Once, store: S, clock: Clock | None = None) -> AbstractContextManager[S]: ...
def using(once: Once, store: Any = None, clock: Clock | None = None) -> Any:
    """
    Let everything that *once* decorates work with *store* and *clock* in the block.

    *store* is a new `RecordingStore` where it is left out, and is what the block gets; *clock* stays the
    machine's where it is left out. Outcomes that the environment remembers (``cache=``) do not cross
    the block's edges. It counts for all threads of the process: do not nest it in one test and use it
    from another at the same time.
    """
    return _using(once, RecordingStore() if store is None else store, clock)


@contextmanager
def _using(once: Once, store: Store, clock: Clock | None) -> Iterator[Store]:
    with once._using(store, clock):  # noqa: SLF001  (its public face is this function)
        yield store
