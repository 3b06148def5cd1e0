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
from lambda_once.patterns.results import Applied, Conflict, Refused
from lambda_once.patterns.unique import Unique
from lambda_once.testing import FakeClock
from tests.faults.test_bad_endpoint import PAGES
from tests.kit import strangers
from tests.patterns.conftest import Ground

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
    monkeypatch.setattr(errors, "only_dynamodb", lambda client, **_: client)
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


# -- an engine that refuses a write and does not return the item, as dynalite 4.0.0 does


class WithoutItem:
    """Hands requests to *client*, whose refusals come without the item."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.meta = client.meta

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._client, name)

        def send(**arguments: Any) -> Any:
            arguments.pop("ReturnValuesOnConditionCheckFailure", None)
            return operation(**arguments)

        return send if name.endswith("_item") else operation


SECOND = 1_795_169_520_000


def ratchet(client: Any, table: str) -> Ratchet:
    """Return a ratchet of any timestamps."""
    return Ratchet(table, client, ahead=None)


ITEM_REFUSES: dict[str, tuple[Callable[[Any, str], object], Callable[[Any, str], object]]] = {
    "Unique.put": (lambda client, table: Unique(table, client, key="pk").put({"pk": "5"}),) * 2,
    "Ledger.add": (lambda client, table: Ledger(table, client, window=DAY).add("5", {"n": 1}, id="m1"),) * 2,
    "Ledger.add, with a floor that holds": (
        lambda client, table: Ledger(table, client, window=DAY).add("5", {"n": 1}, id="m1", floor={"n": 0}),
    )
    * 2,
    "Ratchet.put": (
        lambda client, table: ratchet(client, table).put(KEY, SECOND + 1),
        lambda client, table: ratchet(client, table).put(KEY, SECOND),
    ),
    "Ratchet.put, expecting nothing": (
        lambda client, table: ratchet(client, table).put(KEY, SECOND),
        lambda client, table: ratchet(client, table).put(KEY, SECOND + 1, expected=None),
    ),
    "Ratchet.delete": (
        lambda client, table: ratchet(client, table).put(KEY, SECOND + 1),
        lambda client, table: ratchet(client, table).delete(KEY, SECOND),
    ),
}
"""A write, and one that only the item of the first can refuse."""


@pytest.mark.parametrize(("first", "refused"), ITEM_REFUSES.values(), ids=ITEM_REFUSES)
def test_a_refusal_without_the_item_names_the_parameter(
    strict: Ground, first: Callable[[Any, str], object], refused: Callable[[Any, str], object]
) -> None:
    """«retry» or «read it, and decide again» would send a caller into a loop: nothing is contended."""
    table = strict.table("pk")
    first(WithoutItem(strict.client), table)
    with pytest.raises(Misconfigured, match="ReturnValuesOnConditionCheckFailure"):
        refused(WithoutItem(strict.client), table)


def test_a_first_head_refused_without_the_item_names_the_parameter(strict: Ground) -> None:
    """The head that another writer made between the read and the write of a document's first version."""
    table = strict.table("pk", "sk")

    class Late(WithoutItem):
        """Another writer's document appears after the head was read."""

        def get_item(self, **arguments: Any) -> Any:
            answer = self._client.get_item(**arguments)
            Documents(table, self._client).write("5", {"a": 1})
            return answer

    with pytest.raises(Misconfigured, match="ReturnValuesOnConditionCheckFailure"):
        Documents(table, Late(strict.client)).write("5", {"a": 2})


def test_what_no_item_refuses_needs_none(ground: Ground) -> None:
    """A control: a floor, and an expected item, refuse where there is none; nothing is written."""
    table = ground.table("pk")
    ledger = Ledger(table, ground.client, window=DAY)
    assert isinstance(ledger.add("5", {"n": -1}, id="m1", floor={"n": 0}), Refused)
    with pytest.raises(Conflict):
        ledger.update("5", {"n": 1}, expected={"n": 3})
    with pytest.raises(Conflict):
        ratchet(ground.client, table).put(KEY, SECOND, expected={"pk": "5", "ts": SECOND - 1})
    assert ground.client.scan(TableName=table)["Items"] == []


# -- what is quoted of an error


@pytest.mark.parametrize("own", [False, True], ids=["a given client", "the package's own"])
def test_a_refusal_is_quoted_without_botocores_words(strict: Ground, own: bool) -> None:
    """
    Code and message alone: no retry mends a value that is too large.

    botocore 1.44.8 adds «(reached max retries: 0)» to every error of a client that tries once, as ours does.
    """
    table = strict.table("pk")
    unique = Unique(table, None if own else strict.client, key="pk")
    with pytest.raises(Misconfigured, match=r"ValidationException: .*size") as refused:
        unique.put({"pk": "a", "text": "x" * 500_000})
    assert "max retries" not in str(refused.value)
    assert "An error occurred" not in str(refused.value)
