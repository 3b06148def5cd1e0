"""Real HTTP clients on `sam local start-api`."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from typing import Any

import pytest

from .conftest import Tokens
from .sam import INVOKE_SECONDS, Api

pytestmark = pytest.mark.e2e


@dataclass(frozen=True, slots=True)
class Answer:
    """What came over the wire."""

    status: int
    headers: Message
    body: Any

    @property
    def replayed(self) -> bool:
        """Whether it was marked as a replay."""
        return self.headers.get("Idempotent-Replayed") == "true"


def send(api: Api, method: str, path: str, body: object = None, *, key: str | None = None) -> Answer:
    """Send one request over a connection of its own."""
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
    connection = HTTPConnection(api.host, api.port, timeout=INVOKE_SECONDS)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers, json.loads(response.read()))
    finally:
        connection.close()


def order(name: str, *items: str) -> dict[str, object]:
    """Return the body that creates an order."""
    return {"orderId": name, "customer": "cust_77", "items": list(items)}


def done(api: Api, event: str, order_id: str) -> int:
    """Tell how often functions wrote that *event* happened to the order."""
    return len([entry for entry in api.said().entries(event) if entry["order_id"] == order_id])


def test_a_retried_request_gets_the_first_answer(api: Api) -> None:
    """The same key and body get the same status and body, marked as a replay, and one order is created."""
    first = send(api, "POST", "/orders", order("order_1", "desk-oak"), key="retried")
    again = send(api, "POST", "/orders", order("order_1", "desk-oak"), key="retried")
    assert (first.status, first.replayed) == (201, False)
    assert (again.status, again.replayed) == (201, True)
    assert again.body == first.body == {"orderId": "order_1", "status": "new"}
    assert done(api, "created", "order_1") == 1


def test_a_key_used_for_another_body_is_refused(api: Api) -> None:
    """The same key with another order is a 422 that says so, and creates nothing."""
    send(api, "POST", "/orders", order("order_2", "desk-oak"), key="reused")
    other = send(api, "POST", "/orders", order("order_3", "lamp-brass"), key="reused")
    assert other.status == 422
    assert other.headers.get_content_type() == "application/problem+json"
    assert other.body["type"] == "urn:lambda-once:key-reused"
    assert done(api, "created", "order_3") == 0


def test_a_payment_needs_a_key(api: Api, tokens: Tokens) -> None:
    """Without a key a payment is a 400: no card is charged, and no token taken."""
    before = tokens.all()
    refused = send(api, "POST", "/orders/order_4/pay", {"card": "tok_visa", "amount": 4990})
    assert (refused.status, refused.headers.get_content_type()) == (400, "application/problem+json")
    assert done(api, "paid", "order_4") == 0
    assert tokens.all() == before


def test_two_requests_at_once_are_one_payment(api: Api) -> None:
    """Two clicks in one moment: one is worked, the other is asked to retry, and then gets the same answer."""
    path, payment = "/orders/order_5/pay", {"card": "tok_slow", "amount": 4990}
    with ThreadPoolExecutor(2) as clients:
        clicks = [clients.submit(send, api, "POST", path, payment, key="twice") for _ in range(2)]
        worked, refused = sorted((click.result() for click in clicks), key=lambda answer: answer.status)
    assert (worked.status, worked.replayed) == (200, False)
    assert refused.status == 409
    assert refused.body["type"] == "urn:lambda-once:in-progress"
    assert int(refused.headers["Retry-After"]) > 0

    later = send(api, "POST", path, payment, key="twice")
    assert (later.status, later.replayed, later.body) == (200, True, worked.body)
    assert done(api, "paid", "order_5") == 1


def test_reading_is_not_guarded(api: Api, tokens: Tokens) -> None:
    """A GET takes no token, whatever key it carries, and is never a replay."""
    before = tokens.all()
    answers = [send(api, "GET", "/orders/order_6", key="read") for _ in range(2)]
    assert [(answer.status, answer.replayed) for answer in answers] == [(404, False)] * 2
    assert tokens.all() == before
