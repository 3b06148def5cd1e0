from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.stores.row import parse_stamp

from .conftest import Row, Tokens
from .sam import Invocation, Stack

pytestmark = pytest.mark.e2e

LIMIT_SECONDS = 5
"""Half of what the sample's slow card and heavy item take."""


def acquired(invocation: Invocation) -> dict[str, Any]:
    """Return the log entry of the one acquisition."""
    (entry,) = invocation.said.entries("once.acquired")
    return entry


def in_progress(tokens: Tokens, invocation: Invocation) -> Row:
    """Return the row that *invocation* left behind, in progress under its attempt."""
    entry = acquired(invocation)
    row = tokens.row(entry["token"])
    assert row["status"]["S"].startswith("inProgress")
    assert row["attempt"] == {"S": entry["attempt"]}
    assert invocation.said.entries("once.returned") == []
    assert invocation.said.counted() == {"started": 1}
    return row


def timed_out(stack: Stack, function: str, event: str) -> Invocation:
    """Have *function* killed at its time limit, in the middle of its work."""
    killed = stack.with_a_limit_of(LIMIT_SECONDS).invoke(function, event)
    assert re.search(rf"timed out after {LIMIT_SECONDS}(\.00)? seconds", killed.said.text)
    assert killed.answer is None
    return killed


def wait_until_it_lapses(row: Row) -> None:
    """Wait out the lease: two seconds, once the function was killed."""
    lease = parse_stamp(row["expectedCompletion"]["S"])
    over = Deadline(SystemClock(), lease + timedelta(milliseconds=100))
    assert over.remaining() < LIMIT_SECONDS + 2
    over.pause(over.remaining())


def test_a_crash_leaves_its_token_in_progress(sample: Stack, tokens: Tokens) -> None:
    """While the lease of a dead function runs, a redelivery goes back to its queue, and nothing changes."""
    died = sample.invoke("PaymentsFunction", "sqs-payment-crash")
    assert died.answer["errorType"].startswith("Runtime.")
    row = in_progress(tokens, died)

    again = sample.invoke("PaymentsFunction", "sqs-payment-crash-redelivery")
    assert again.answer == {"batchItemFailures": [{"itemIdentifier": "c80e8021-a70a-42c7-a470-796e1186f753"}]}
    assert again.said.counted() == {"inProgress": 1}
    assert tokens.row(row["lockToken"]["S"]) == row


def test_a_payment_that_timed_out_waits_for_a_person(sample: Stack, tokens: Tokens) -> None:
    """Once the lease is over the redelivery is held: whether the card was charged is unknown."""
    row = in_progress(tokens, timed_out(sample, "PaymentsFunction", "sqs-payment-slow"))
    assert "ttl" not in row

    wait_until_it_lapses(row)
    again = sample.invoke("PaymentsFunction", "sqs-payment-slow-redelivery")
    assert again.answer["errorType"] == "BatchProcessingError"
    assert again.said.entries("charged") == []
    assert [entry["error"] for entry in again.said.entries("once.refused")] == ["Held"]
    assert tokens.row(row["lockToken"]["S"]) == row


def test_an_order_that_timed_out_is_shipped_by_its_retry(shop: Stack, tokens: Tokens) -> None:
    """Once the lease is over the redelivery takes the token over, under a larger fence, and does the work."""
    row = in_progress(tokens, timed_out(shop, "FulfilmentFunction", "sqs-order-slow"))

    wait_until_it_lapses(row)
    again = shop.invoke("FulfilmentFunction", "sqs-order-slow-redelivery")
    assert again.answer == {"batchItemFailures": []}
    assert len(again.said.entries("shipped")) == 1
    assert again.said.counted() == {"started": 1, "takenOver": 1, "completed": 1}
    done = tokens.row(row["lockToken"]["S"])
    assert "actualCompletion" in done
    assert "status" not in done
    assert int(done["fence"]["N"]) > int(row["fence"]["N"])
    assert done["attempt"] != row["attempt"]
