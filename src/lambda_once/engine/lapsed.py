"""
Ask the user's probe whether lapsed work was done, before it runs again.

The row is completed by the probe's answer only if it still has the attempt and the lease that the probe was
asked about; else the answer is about something else, and is dropped. Loaded only if a probe is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambda_once.core.lifecycle import Course, Decider, Decision, Record, Resolve
from lambda_once.core.writes import Complete, resolving
from lambda_once.engine.finish import Finisher, report_change, report_result, stored_result
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

    True: it did, and the row is now complete or has changed since. False: it did not; the work may run.
    Raises `Held`, with the row still lapsed, if the probe does not know or raises.
    """
    answer = answer_of_probe(call, Lapsed.of(record), record)
    if isinstance(answer, Done):
        if call.guard is not None:  # before the token: what another layer has can be copied to it later
            call.guard.succeeded(call, answer.result)
        _complete(call, record, answer.result, finisher)
        return True
    if answer is NOT_DONE:
        return False
    finisher.pin(call, record)
    raise replayer.error(call, record, Course.HELD)


def _complete(call: Call, record: Record, result: object, finisher: Finisher) -> None:
    """Complete the token if it still has the attempt and lease that the probe was asked about."""
    now = finisher.clock.now()
    work = stored_result(call, result)
    report_result(call, work)
    change = Complete(work.stored)
    who, _, _ = call.invocation.locked_by.partition("/")
    decision = Decision(now, Decider.PROBE, who, "the probe returned Done", record.state, Resolve.DONE, "")
    write = resolving(record, change, ttl_after(change, call, now), now, decision)
    (written,) = finisher.store.write([write], call.invocation.deadline)
    if isinstance(written, Misconfigured):
        raise written
    if isinstance(written, Unanswered):
        message = (
            f"the probe found token {call.token} done, but the completion was not written; "
            f"retry later: {written.reason}"
        )
        raise StoreUnavailable(message, token=call.token, reason=written.reason)
    if isinstance(written, Written):
        call.report(Event.COMPLETED, record, reason="the probe found it done")
        report_change(call, work)


def answer_of_probe(call: Call, lapsed: Lapsed, record: Record) -> object:
    """Return the probe's answer about *lapsed*; None if it raised, which is reported with *record*."""
    try:
        probe = call.settings.probe
        return None if probe is None else ask(probe, lapsed, *call.source.arguments)
    except Exception as broken:  # noqa: BLE001  (the user's probe failed: its answer is unknown)
        call.report(Event.PROBE_FAILED, record, error=type(broken).__name__)
        return None
