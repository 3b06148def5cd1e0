"""The authorizer names the customer, and a stored answer is that customer's alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambda_once.testing import InvocationContext, api_event

from .. import api, authorizer
from ..effects import EFFECTS


def cancelling(session: str) -> Any:
    """A request to cancel an order, with one and the same key for all customers."""
    headers = {"Idempotency-Key": "1", "Authorization": f"Bearer {session}"}
    return api_event("POST", "/orders/order_5/cancel", {}, headers)


def through(event: Any, lambda_context: InvocationContext) -> dict[str, Any]:
    """What the API does: it asks the authorizer, and hands its context on."""
    verdict = authorizer.handler(event, lambda_context())
    if not verdict["isAuthorized"]:
        return {"statusCode": 403}
    event["requestContext"]["authorizer"] = {"lambda": verdict["context"]}
    return api.handler(event, lambda_context())


def test_two_customers_with_one_key_are_two(
    lambda_context: InvocationContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gets an answer of their own; a retry, with a new session too, gets the first one's."""
    monkeypatch.setitem(authorizer.SESSIONS, "renewed-77", "cust_77")
    answers = [
        through(cancelling(each), lambda_context) for each in ("session-77", "session-78", "renewed-77")
    ]
    assert [json.loads(each["body"])["customer"] for each in answers] == ["cust_77", "cust_78", "cust_77"]
    assert ["Idempotent-Replayed" in each["headers"] for each in answers] == [False, False, True]
    assert (EFFECTS.count("cancelled", "order_5"), len(EFFECTS.all())) == (2, 2)


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer stolen", "Basic session-77"])
def test_who_is_not_known_gets_no_stored_answer(
    lambda_context: InvocationContext, authorization: str
) -> None:
    """The verdict comes before the replay."""
    assert through(cancelling("session-77"), lambda_context)["statusCode"] == 200
    event = cancelling("session-77")
    event["headers"]["authorization"] = authorization
    assert through(event, lambda_context) == {"statusCode": 403}
