"""What Kinesis and DynamoDB Streams share."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once.core.identity import Refused
from lambda_once.core.unit import Unit
from lambda_once.errors import Misconfigured
from lambda_once.sources.dynamodb_stream import DYNAMODB_STREAM
from lambda_once.sources.kinesis import KINESIS
from lambda_once.sources.records import RecordSource
from lambda_once.testing import dynamodb_stream_event, kinesis_event

WINDOW = {
    "window": {"start": "2026-11-20T10:10:00Z", "end": "2026-11-20T10:12:00Z"},
    "state": {"1": 282},
    "shardId": "shardId-000000000006",
    "isFinalInvokeForWindow": False,
    "isWindowTerminatedEarly": False,
}
"""What a mapping with TumblingWindowInSeconds adds (developer guide, Kinesis windows)."""


def only(source: RecordSource, event: dict[str, Any]) -> Unit:
    """Return the only record of *event*, which can be processed."""
    (record,) = source.read(event)
    assert not isinstance(record.what.content.flaw, Refused)
    return record


def bad_of(source: RecordSource, record: object) -> str:
    """Return why *record* can't be processed: a text without its content."""
    (found,) = source.read({"Records": [record]})
    assert isinstance(found.what.content.flaw, Refused)
    assert found.record.id == found.record.delivery
    assert "secret" not in str(found.what.content.flaw.error)
    return str(found.what.content.flaw.error)


SOURCES = [
    pytest.param(KINESIS, kinesis_event("x"), id="kinesis"),
    pytest.param(DYNAMODB_STREAM, dynamodb_stream_event((None, {"id": "5"})), id="dynamodb"),
]


@pytest.mark.parametrize(("source", "event"), SOURCES)
@pytest.mark.parametrize("records", [0, 1])
def test_a_tumbling_window_is_refused(source: RecordSource, event: dict[str, Any], records: int) -> None:
    """Its answer is the state of the window; so is that of the last call, which may have no records."""
    window = event | WINDOW | {"Records": event["Records"][:records]}
    with pytest.raises(Misconfigured, match=r"a tumbling window\. Nothing ran\. Its response is the state"):
        source.sequences(window)
