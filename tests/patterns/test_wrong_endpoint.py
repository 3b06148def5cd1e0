"""A pattern behind a wrong endpoint: what answers is not AWS, and nothing counts as done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.config import Config

from lambda_once.dynamodb import errors
from lambda_once.errors import Misconfigured
from lambda_once.patterns.documents import Documents
from lambda_once.patterns.fifo import Failed, Publisher, Unanswered
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.results import Applied
from lambda_once.patterns.unique import Unique
from lambda_once.testing import FakeClock
from tests.faults.test_bad_endpoint import PAGES
from tests.kit import strangers

KEY = {"pk": "5"}
DAY = timedelta(days=1)

CALLS: dict[str, Callable[[Any], object]] = {
    "Ledger.add": lambda client: Ledger("t", client, window=DAY).add("5", {"n": 1}, id="m1"),
    "Ledger.update": lambda client: Ledger("t", client, window=DAY).update(
        "5", {"n": 1}, expected={"n": None}
    ),
    "Ledger.change": lambda client: Ledger("t", client, window=DAY).change("5", lambda _: {"n": 1}),
    "Ledger.get": lambda client: Ledger("t", client, window=DAY).get("5"),
    "Ledger.get of shards": lambda client: Ledger("t", client, window=DAY, shards=4).get("5"),
    "Unique.put": lambda client: Unique("t", client, key="id").put({"id": "5"}),
    "Ratchet.put": lambda client: Ratchet("t", client).put(KEY, 1_795_169_520_000),
    "Ratchet.delete": lambda client: Ratchet("t", client).delete(KEY, 1_795_169_520_000),
    "Ratchet.get": lambda client: Ratchet("t", client).get(KEY),
    "Ratchet.batch_get": lambda client: Ratchet("t", client).batch_get([KEY]),
    "Ratchet.query": lambda client: Ratchet("t", client, key=("pk", "sk")).query("5"),
    "Documents.write": lambda client: Documents("t", client).write("5", {"a": 1}),
    "Documents.delete": lambda client: Documents("t", client).delete("5"),
    "Documents.read": lambda client: Documents("t", client).read("5"),
    "Documents.clean": lambda client: Documents("t", client).clean("5"),
}
"""Every verb of the patterns that keep something in a table."""


@pytest.fixture(scope="module", params=list(PAGES), ids=list(PAGES))
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where something answers that is not AWS."""
    with strangers.page(*PAGES[request.param]) as found:
        yield found


def client_of(address: str, service: str = "dynamodb") -> Any:
    """Return a client whose endpoint is *address*."""
    settings = Config(retries={"total_max_attempts": 1})
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    return boto3.client(service, "eu-central-1", endpoint_url=address, config=settings, **keys)  # type: ignore[call-overload,unused-ignore]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_what_is_not_dynamodb_acknowledges_nothing(address: str, call: Callable[[Any], object]) -> None:
    """A page, an empty answer, JSON of something else: each verb says that the endpoint is wrong."""
    with pytest.raises(Misconfigured, match="answered by something that is not DynamoDB"):
        call(client_of(address))


@pytest.mark.parametrize(
    ("call", "acknowledged"),
    [
        ("Ledger.add", Applied()),
        ("Unique.put", Applied({"id": "5"})),
        ("Ratchet.put", Applied({"ts": 1_795_169_520_000})),
    ],
)
def test_without_the_guard_a_page_acknowledges_a_write(
    call: str, acknowledged: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: botocore reads an empty answer, which is success, out of any page of status 200."""
    monkeypatch.setattr(errors, "only_dynamodb", lambda client: client)
    with strangers.page(*PAGES["a page"]) as address:
        assert CALLS[call](client_of(address)) == acknowledged


@pytest.mark.parametrize(
    ("target", "service"),
    [
        ("arn:aws:sns:eu-central-1:123456789012:orders.fifo", "sns"),
        ("https://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo", "sqs"),
    ],
)
def test_what_is_neither_sns_nor_sqs_takes_no_message(address: str, target: str, service: str) -> None:
    """An answer that does not speak of a message is none: it is published again, and never reported sent."""
    publisher = Publisher(target, client_of(address, service), group="customer", clock=FakeClock())
    (result,) = publisher.publish_all([{"customer": "c", "n": 1}])
    assert isinstance(result, Unanswered | Failed)
