"""`once.sns`: a record is a unit, and a failure raises so that Lambda delivers the event again."""

from __future__ import annotations

import pytest
from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord

from lambda_once import InProgress
from tests.decorators.rig import Rig
from tests.sources.samples import sns_event


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
