"""Lapsed work, and the user's probe that finds out whether it was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambda_once.core.lifecycle import Decision, Record
from lambda_once.core.writes import Complete, resolving
from lambda_once.engine.finish import Finisher, stored_result
from lambda_once.engine.ownership import ttl_after
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.policies import NOT_DONE, Done, Lapsed, ask
from lambda_once.stores.contract import Unanswered, Written

if TYPE_CHECKING:
    from lambda_once.engine.invocation import Call
    from lambda_once.engine.replay import Replayer


def completed_by_probe(call: Call, record: Record, finisher: Finisher, replayer: Replayer) -> bool:
    """
    Ask the probe whether the lapsed attempt of *record* did its work.

    True: it did, and the row is complete now, or has changed meanwhile. False: it did not, and may run.
    Raises `Held`, the row unchanged, where the probe does not know, or raised itself.
    """
    answer = answer_of_probe(call, Lapsed.of(record), record)
    if isinstance(answer, Done):
        # Before the token: what it has there can be copied.
        call.succeed_in_history(answer.result, call.report)
        _complete(call, record, answer.result, finisher)
        return True
    if answer is NOT_DONE:
        return False
    finisher.pin(call, record)
    raise replayer.error(call, record, Decision.HELD)


def _complete(call: Call, record: Record, result: object, finisher: Finisher) -> None:
    """Complete exactly the attempt and lease that the probe was asked about."""
    now = finisher.clock.now()
    change = Complete(stored_result(call.codec, result, call.seal).stored)
    write = resolving(record, change, ttl_after(change, call, now), now)
    (written,) = finisher.store.write([write], call.invocation.deadline)
    if isinstance(written, Misconfigured):
        raise written
    if isinstance(written, Unanswered):
        message = (
            f"the probe found token {call.token} done, but the completion was not written "
            f"({written.reason}); retry later"
        )
        raise StoreUnavailable(message, token=call.token)
    if isinstance(written, Written):
        call.report(Event.COMPLETED, record, reason="the probe found it done")


def answer_of_probe(call: Call, lapsed: Lapsed, record: Record) -> object:
    """Return what the probe answers about *lapsed*; None where it raised, which is reported with *record*."""
    try:
        return None if call.settings.probe is None else ask(call.settings.probe, lapsed, *call.arguments)
    except Exception as broken:  # noqa: BLE001  (the user's probe failed: its answer is unknown)
        call.report(Event.PROBE_FAILED, record, error=type(broken).__name__)
        return None
