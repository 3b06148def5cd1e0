"""A store that grants everything and keeps nothing: what is left when the layer is switched off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.stores.contract import Acquired, Finished, Won, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline
    from lambda_once.core.record import Record, State
    from lambda_once.core.writes import Acquire, Finish
    from lambda_once.stores.contract import Store, Unfinished


class ForgetfulStore:
    """
    Grants every token (LAMBDA_ONCE_DISABLED): nothing is asked, nothing is stored.

    The user's own items of a transaction are written all the same, by the store that *real* makes.
    """

    def __init__(self, real: Callable[[], Store]) -> None:
        self._real = real

    def acquire(self, wishes: Sequence[Acquire], deadline: Deadline) -> list[Acquired]:
        del deadline
        return [Won(0, took_over=False) for _ in wishes]

    def finish(self, writes: Sequence[Finish], deadline: Deadline) -> list[Finished]:
        del deadline
        return [Written() for _ in writes]

    def read(self, token: str, deadline: Deadline) -> Record | None:
        del token, deadline
        return None

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        del record, deadline
        return None

    def transact(
        self, finish: Finish | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> Finished:
        del finish
        return self._real().transact(None, items, deadline)

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Unfinished]:
        del state, deadline, before
        return iter(())
