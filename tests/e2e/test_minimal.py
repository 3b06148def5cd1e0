from __future__ import annotations

import pytest

from .conftest import Tokens
from .sam import Stack

pytestmark = pytest.mark.e2e

WORK = "order o-1: took 1999 cents"


def test_the_smallest_stack_charges_a_redelivered_order_once(minimal: Stack, tokens: Tokens) -> None:
    """As built from its own template: the first of its events runs the function, the second is replayed."""
    ran = minimal.invoke("PaymentsFunction", "order")
    assert ran.answer == {"batchItemFailures": []}
    assert ran.said.text.count(WORK) == 1
    assert ran.said.counted() == {"started": 1, "completed": 1}
    (returned,) = ran.said.entries("once.returned")
    row = tokens.row(returned["token"])
    assert row["attempt"] == {"S": returned["attempt"]}
    assert "actualCompletion" in row

    again = minimal.invoke("PaymentsFunction", "order-redelivery")
    assert again.answer == ran.answer
    assert WORK not in again.said.text
    assert again.said.counted() == {"replayed": 1}
    assert tokens.row(returned["token"]) == row
