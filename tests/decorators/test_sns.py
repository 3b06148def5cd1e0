"""`once.sns`: a record is a unit, and a failure raises so that Lambda delivers the event again."""

from __future__ import annotations

import pytest
from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord
from pydantic import BaseModel

from lambda_once import InProgress
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig
from tests.sources.samples import sns_event


class Notice(BaseModel):
    order: int


def test_a_notification_is_worked_once(rig: Rig) -> None:
    """A retry and a republished message of other envelope do nothing."""
    seen: list[str] = []

    @rig.once.sns
    def handler(record: SNSEventRecord, context: object) -> None:
        seen.append(record.sns.message)

    handler(sns_event("x"), rig.context())
    handler(sns_event("x"), rig.context())
    handler(sns_event("x", timestamp="2026-11-20T11:00:00.000Z"), rig.context("request-2"))
    assert seen == ["x"]


def test_a_failure_raises_and_releases(rig: Rig) -> None:
    """The exception reaches Lambda, and its retry works the record."""
    seen: list[str] = []

    @rig.once.sns()
    def handler(record: SNSEventRecord) -> None:
        seen.append(record.sns.message)
        if len(seen) == 1:
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        handler(sns_event("x"), rig.context())
    assert rig.row().state is State.RELEASED
    handler(sns_event("x"), rig.context())
    assert seen == ["x", "x"]


def test_another_request_in_progress_raises(rig: Rig) -> None:
    """A duplicate of another request is not acknowledged while the first is in progress."""
    refused: list[InProgress] = []

    @rig.once.sns
    def handler(record: SNSEventRecord) -> None:
        with pytest.raises(InProgress) as raised:
            handler(sns_event("x"), rig.context("request-2"))
        refused.append(raised.value)

    handler(sns_event("x"), rig.context())
    assert [error.retry_after for error in refused] == [5.0]
    assert rig.slept == 0


def test_lambdas_own_retry_waits_for_the_lease(rig: Rig) -> None:
    """After a crash the retry of the same request id waits until the lease is over, and works."""
    seen: list[float] = []

    @rig.once.sns
    def handler(record: SNSEventRecord) -> None:
        seen.append(rig.slept)

    with rig.crash():
        handler(sns_event("x"), rig.context(seconds=10))
    rig.clock.advance(1)
    handler(sns_event("x"), rig.context(seconds=60))
    assert seen[0] == 0
    assert 11 < seen[1] < 13
    assert "once.taken_over" in rig.events()
