"""Mails: one for each notice, however often SNS and Lambda try."""

from __future__ import annotations

from lambda_once.testing import (
    FakeClock,
    InvocationContext,
    RecordingStore,
    assert_completed,
    crash_at,
    sns_event,
)

from ..effects import EFFECTS
from ..notifications import notify


def mailed() -> int:
    """How many mails there are."""
    return len(EFFECTS.all())


def test_a_notice_is_mailed_once(once_store: RecordingStore, lambda_context: InvocationContext) -> None:
    """The message is the key: published again it has another id and signature, and is the same notice."""
    notify(sns_event("your order is on its way"), lambda_context())
    notify(sns_event("your order is on its way"), lambda_context())
    notify(sns_event("your order has arrived"), lambda_context())
    assert mailed() == 2
    assert len(once_store.records) == 2


def test_a_retry_after_a_crash_waits_for_the_lease(
    once_store: RecordingStore, fake_clock: FakeClock, lambda_context: InvocationContext
) -> None:
    """Lambda tries an event twice more and then forgets it, so its retry waits rather than give up."""
    event = sns_event("your order is on its way")
    with crash_at("acquire"):
        notify(event, lambda_context(request_id="r-1", remaining_ms=10_000))
    assert mailed() == 0
    fake_clock.advance(1)
    notify(event, lambda_context(request_id="r-1", remaining_ms=30_000))
    assert mailed() == 1
    assert sum(fake_clock.slept) > 10
    assert_completed(once_store, result=None)
