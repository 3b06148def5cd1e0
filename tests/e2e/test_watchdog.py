from __future__ import annotations

import pytest

from .conftest import TABLE, Tokens
from .sam import Stack

pytestmark = pytest.mark.e2e

TOKEN = "orders/charge/stuck_12345"


def test_the_watchdog_reports_what_is_overdue(sample: Stack, tokens: Tokens) -> None:
    """A tick of its schedule counts and names the token whose function never came back, and leaves it."""
    tokens.client.put_item(
        TableName=TABLE,
        Item={
            "lockToken": {"S": TOKEN},
            "lockedBy": {"S": "orders/4f9c1f4e-4f60-4d1a-9c7e-7f7e7b0c2a11"},
            "attempt": {"S": "5a1e7c0f5a1e7c0f5a1e7c0f5a1e7c0f"},
            "fence": {"N": "1"},
            "created": {"S": "2026-01-20T10:12:00.000Z"},
            "expectedCompletion": {"S": "2026-01-20T10:12:32.000Z"},
            "status": {"S": "inProgress"},
        },
    )
    before = tokens.row(TOKEN)
    ran = sample.invoke("WatchdogFunction", "watchdog")
    tokens.client.delete_item(TableName=TABLE, Key={"lockToken": {"S": TOKEN}})
    assert ran.answer["overdue"] >= 1, "other tests may have left some"
    assert ran.answer["checked"] == ran.answer["overdue"]
    assert ran.answer["released"] == ran.answer["swept"] == 0
    (line,) = [entry for entry in ran.said.entries("once.overdue") if entry["token"] == TOKEN]
    assert line["attempt"] == before["attempt"]["S"]
    assert ran.said.counted()["missingTasks"] == ran.answer["overdue"]
    assert ran.said.counted()["heldTokens"] == ran.answer["held"]
