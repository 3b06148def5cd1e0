"""
What users' tests need: a store and a clock of their own, a table, a context, and events.

    def test_an_order_is_charged_once() -> None:
        with using(app.once) as store:
            event = sqs_event({"orderId": 5})
            app.handler(event, lambda_context())
            app.handler(event, lambda_context())       # the redelivery
        assert charged == [5]
        assert [record.state for record in store.records.values()] == [State.COMPLETE]

Nothing here needs pytest, and boto3 only `create_table`, by the client that it is given.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from lambda_once.core.record import State
from lambda_once.stores.memory import MemoryStore
from lambda_once.testing.clock import FakeClock
from lambda_once.testing.context import lambda_context
from lambda_once.testing.events import api_event, eventbridge_event, sns_event, sqs_event
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
    "FakeClock",
    "MemoryStore",
    "State",
    "api_event",
    "create_table",
    "eventbridge_event",
    "lambda_context",
    "sns_event",
    "sqs_event",
    "using",
]


@overload
def using(
    once: Once, store: None = None, clock: Clock | None = None
) -> AbstractContextManager[MemoryStore]: ...
@overload
def using(once: Once, store: S, clock: Clock | None = None) -> AbstractContextManager[S]: ...
def using(once: Once, store: Any = None, clock: Clock | None = None) -> Any:
    """
    Let everything that *once* decorates work with *store* and *clock* in the block.

    *store* is a new `MemoryStore` where it is left out, and is what the block gets; *clock* stays the
    machine's where it is left out. Outcomes that the environment remembers (``cache=``) do not cross
    the block's edges. It counts for all threads of the process: do not nest it in one test and use it
    from another at the same time.
    """
    return _using(once, MemoryStore() if store is None else store, clock)


@contextmanager
def _using(once: Once, store: Store, clock: Clock | None) -> Iterator[Store]:
    with once._using(store, clock):  # noqa: SLF001  (its public face is this function)
        yield store
