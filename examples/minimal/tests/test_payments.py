import json
from pathlib import Path

import payments
import pytest

from lambda_once.testing import InvocationContext, RecordingStore, assert_ran_once

EVENTS = Path(__file__).parents[1] / "events"


def test_a_redelivered_order_is_charged_once(
    once_store: RecordingStore, lambda_context: InvocationContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The redelivery succeeds and takes no money."""
    taken: list[str] = []
    monkeypatch.setattr(payments, "take_money", lambda order_id, *_: taken.append(order_id))

    for name in ("order.json", "order-redelivery.json"):
        event = json.loads((EVENTS / name).read_text())
        assert payments.charge(event, lambda_context()) == {"batchItemFailures": []}

    assert taken == ["o-1"]
    assert_ran_once(once_store, "o-1")
