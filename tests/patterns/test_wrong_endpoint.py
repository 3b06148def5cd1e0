"""A pattern behind a wrong endpoint: what answers is not AWS, and nothing counts as done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain
from types import SimpleNamespace
from typing import Any, ClassVar

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lambda_once.dynamodb import errors
from lambda_once.errors import Misconfigured
from lambda_once.patterns.documents import Documents
from lambda_once.patterns.fifo import Failed, Publisher, Unanswered
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.results import Applied, Conflict, Refused
from lambda_once.patterns.transactions import transaction_results
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
    """Hands requests to *client*, whose refusals come without the item, as if from *endpoint*."""

    endpoint = "http://localhost:8000"

    def __init__(self, client: Any) -> None:
        self._client = client
        meta = client.meta
        self.meta = SimpleNamespace(
            config=meta.config,
            endpoint_url=self.endpoint,
            events=meta.events,
            region_name="eu-central-1",
        )

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._client, name)

        def send(**arguments: Any) -> Any:
            for write in (arguments, *chain(*(item.values() for item in arguments.get("TransactItems", ())))):
                write.pop("ReturnValuesOnConditionCheckFailure", None)
            return operation(**arguments)

        return send if name.endswith(("_item", "_items")) else operation


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


FIVE = {"pk": "5", "n": 5}


def added(client: Any, table: str, amount: int, name: str, **options: Any) -> object:
    """Add to a ledger, which then or before has 5."""
    return Ledger(table, client, window=DAY).add("5", {"n": amount}, id=name, **options)


def put(client: Any, table: str, ts: int, **options: Any) -> object:
    """Put to a ratchet."""
    return ratchet(client, table).put(FIVE, ts, **options)


def transacted(client: Any, item: Any) -> object:
    """Return why a transaction of *item* alone was cancelled."""
    try:
        client.transact_write_items(TransactItems=[item])
    except ClientError as error:
        return transaction_results(error, [item])[0]
    return None


EITHER_REFUSES: dict[str, Callable[[Any, str], object]] = {
    "a duplicate with a floor": lambda client, table: added(client, table, -9, "m1", floor={"n": 0}),
    "a floor": lambda client, table: added(client, table, -9, "m2", floor={"n": 0}),
    "a duplicate that expects": lambda client, table: added(client, table, 5, "m1", expected={"n": 6}),
    "what an addition expects": lambda client, table: added(client, table, 5, "m2", expected={"n": 6}),
    "what an update expects": lambda client, table: Ledger(table, client, window=DAY).update(
        "5", {"n": 1}, expected={"n": 6}
    ),
    "a duplicate in a transaction": lambda client, table: transacted(
        client, Ledger(table, client, window=DAY).transact_item("5", {"n": 1}, id="m1")
    ),
    "a floor in a transaction": lambda client, table: transacted(
        client, Ledger(table, client, window=DAY).transact_item("5", {"n": -9}, id="m2", floor={"n": 0})
    ),
}
"""Writes to a ledger that has 5, by m1, which another item, or none, would refuse, too."""


@pytest.mark.parametrize("write", EITHER_REFUSES.values(), ids=EITHER_REFUSES)
def test_where_no_item_refuses_too_the_item_is_read(
    strict: Ground, write: Callable[[Any, str], object]
) -> None:
    """A refusal without the item is no proof there; the result is that of an engine that returns it."""
    table = strict.table("pk")
    added(strict.client, table, 5, "m1")
    assert _result(write, WithoutItem(strict.client), table) == _result(write, strict.client, table)


RATCHET_READS: dict[str, Callable[[Any, str], object]] = {
    "older than what it expects": lambda client, table: put(
        client, table, SECOND - 1, expected=FIVE | {"ts": SECOND}
    ),
    "other than what it expects": lambda client, table: put(
        client, table, SECOND + 1, expected={"pk": "5", "n": 6, "ts": SECOND}
    ),
    "a delete": lambda client, table: ratchet(client, table).delete(
        KEY, SECOND - 1, expected=FIVE | {"ts": SECOND}
    ),
    "in a transaction": lambda client, table: transacted(
        client,
        ratchet(client, table).transact_item(FIVE, SECOND - 1, expected=FIVE | {"ts": SECOND}),
    ),
}


@pytest.mark.parametrize("write", RATCHET_READS.values(), ids=RATCHET_READS)
def test_a_ratchet_reads_what_did_not_come(strict: Ground, write: Callable[[Any, str], object]) -> None:
    """Stale stays stale: «read it, and decide again» would send a caller into a loop."""
    table = strict.table("pk")
    put(strict.client, table, SECOND)
    assert _result(write, WithoutItem(strict.client), table) == _result(write, strict.client, table)


def _result(write: Callable[[Any, str], object], client: Any, table: str) -> object:
    try:
        result = write(client, table)
    except Conflict as conflict:
        result = conflict
    return (str(result), result.values) if isinstance(result, Conflict) else result


def test_ids_that_lose_a_race_are_added_to_what_is_there(strict: Ground) -> None:
    """Not to nothing: a floor that holds would be Refused, and nothing would try again."""
    table = strict.table("pk")
    added(strict.client, table, 100, "first")

    class Late(WithoutItem):
        """Another addition comes first."""

        def update_item(self, **arguments: Any) -> Any:
            added(self._client, table, 100, "other")
            return WithoutItem.__getattr__(self, "update_item")(**arguments)

    results = Ledger(table, Late(strict.client), window=DAY).add_all(
        "5", {"m1": {"n": -50}, "m2": {"n": -50}}, floor={"n": 0}
    )
    assert [type(result) for result in results] == [Applied, Applied]


def test_the_head_of_another_writer_is_read(strict: Ground) -> None:
    """The conflict names the version that is current, and a write that expects none succeeds it."""
    table = strict.table("pk", "sk")
    seen = Documents(table, strict.client).write("5", {"a": 1})

    class Late(WithoutItem):
        """Another writer's version appears once, after the head was read."""

        others: ClassVar[list[Any]] = []

        def put_item(self, **arguments: Any) -> Any:
            if not self.others:
                self.others.append(Documents(table, self._client).write("5", {"a": 2}))
            return WithoutItem.__getattr__(self, "put_item")(**arguments)

    with pytest.raises(Conflict) as conflict:
        Documents(table, Late(strict.client)).write("5", {"a": 3}, expected_version=seen)
    assert conflict.value.values == {"version": Late.others[0]}


def test_a_role_that_may_not_read_trusts_the_refusal(strict: Ground) -> None:
    """It is AWS' that denies, and AWS returns the item: there was none."""
    table = strict.table("pk")

    class Denied(WithoutItem):
        """Reads are denied."""

        def get_item(self, **_: Any) -> Any:
            answer = {"Error": {"Code": "AccessDeniedException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(answer, "GetItem")  # type: ignore[arg-type,unused-ignore]

    assert added(Denied(strict.client), table, -1, "m1", floor={"n": 0}) == Refused({}, {"n": 0})


def test_an_item_that_came_back_is_no_reason(strict: Ground) -> None:
    """A write is not Stale for an older item, which another writer put between the refusal and the read."""
    table = strict.table("pk")

    class Late(WithoutItem):
        """The item that was expected appears before it is read."""

        def get_item(self, **arguments: Any) -> Any:
            put(self._client, table, SECOND)
            return self._client.get_item(**arguments)

    with pytest.raises(Conflict):
        put(Late(strict.client), table, SECOND + 1, expected=FIVE | {"ts": SECOND})


NOTHING_THERE: dict[str, Callable[[Any, str], object]] = {
    "a floor": lambda client, table: added(client, table, -1, "m1", floor={"n": 0}),
    "what an update expects": lambda client, table: Ledger(table, client, window=DAY).update(
        "5", {"n": 1}, expected={"n": 3}
    ),
    "what a ratchet expects": lambda client, table: put(
        client, table, SECOND + 1, expected=FIVE | {"ts": SECOND}
    ),
}


@pytest.mark.parametrize("write", NOTHING_THERE.values(), ids=NOTHING_THERE)
def test_at_aws_nothing_is_read(strict: Ground, write: Callable[[Any, str], object]) -> None:
    """AWS returns the item, so there is none: no second request, which a role may not be allowed."""
    table = strict.table("pk")
    reads: list[object] = []

    class Aws(WithoutItem):
        """Counts what is read."""

        endpoint = "https://dynamodb.eu-central-1.amazonaws.com"

        def get_item(self, **arguments: Any) -> Any:
            reads.append(arguments)
            return self._client.get_item(**arguments)

    class Given(Aws):
        """The same at an endpoint of somebody else's."""

        endpoint = WithoutItem.endpoint

    result = _result(write, Aws(strict.client), table)
    assert reads == []
    assert _result(write, Given(strict.client), table) == result
    assert len(reads) == 1


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
