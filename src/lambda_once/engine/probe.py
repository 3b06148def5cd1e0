"""Lapsed work, and the user's probe that tells whether it was done."""

from __future__ import annotations

import inspect
from contextvars import copy_context
from typing import TYPE_CHECKING

from lambda_once.core.lifecycle import Decision
from lambda_once.core.writes import Complete, Finish, Resolver, new_attempt_id, new_write_id
from lambda_once.engine.keeping import kept, ttl_after
from lambda_once.engine.waiting import has_running_loop
from lambda_once.errors import StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.policies import NOT_DONE, Done, Lapsed
from lambda_once.stores.contract import Rejected, Unanswered, Written

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from lambda_once.core.record import Record
    from lambda_once.engine.call import Call
    from lambda_once.engine.finish import Settlement
    from lambda_once.engine.replay import Outcomes
    from lambda_once.engine.story import Story


class Probing:
    """Asks probes, and writes what they say: only to the attempt and lease that were asked about."""

    def __init__(self, settlement: Settlement, outcomes: Outcomes, story: Story) -> None:
        self._settlement = settlement
        self._outcomes = outcomes
        self._story = story

    def settles(self, call: Call, record: Record) -> bool:
        """
        Ask whether the lapsed attempt of *record* did its work.

        True: it did, and the row says so now, or somebody changed it meanwhile. False: it did not, and may
        be run. Raises `Held`, the row unchanged, where the probe does not know, or raised itself.
        """
        answer = self._answer(call, record)
        if isinstance(answer, Done):
            self._complete(call, record, answer.result)
            return True
        if answer is NOT_DONE:
            return False
        self._settlement.pin(call, record)
        raise self._outcomes.error(call, record, Decision.HELD)

    def _complete(self, call: Call, record: Record, result: object) -> None:
        now = self._settlement.clock.now()
        by = Resolver(record.attempt, record.expected_completion, new_attempt_id())
        change = Complete(kept(call.plan.codec, result).stored)
        write = Finish(call.token, by, change, now, ttl_after(change, call, now), new_write_id(change))
        (written,) = self._settlement.store.finish([write], call.invocation.deadline)
        if isinstance(written, Rejected):
            raise written.error
        if isinstance(written, Unanswered):
            message = (
                f"the probe found token {call.token} done, but the completion was not written "
                f"({written.reason}); retry later"
            )
            raise StoreUnavailable(message, token=call.token)
        if isinstance(written, Written):
            self._story.of_record(Event.COMPLETED, call, record, reason="the probe found it done")

    def _answer(self, call: Call, record: Record) -> object:
        if call.plan.probe is None:
            return None
        lapsed = Lapsed.of(record)
        try:
            answer = call.plan.probe(lapsed, *call.arguments)
            return _run(answer) if inspect.isawaitable(answer) else answer
        except Exception as broken:  # noqa: BLE001  (the user's probe failed: what it meant to say is unknown)
            self._story.of_record(Event.PROBE_FAILED, call, record, error=type(broken).__name__)
            return None


def _run(answer: Awaitable[object]) -> object:
    """Await *answer* on an event loop of its own: in a thread where this one has a running loop."""
    import asyncio

    if not has_running_loop():
        return asyncio.run(_awaited(answer))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, _awaited(answer)).result()


async def _awaited(answer: Awaitable[object]) -> object:
    return await answer
