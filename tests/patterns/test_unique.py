"""Put once: the first put stays, a second one returns the stored item, and none is lost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from boto3.dynamodb.types import TypeDeserializer

from lambda_once.core.canonical import fingerprint
from lambda_once.dynamodb.items import plain_item, typed_item
from lambda_once.errors import KeyMissing, Misconfigured, OnceError, StoreUnavailable
from lambda_once.patterns import unique as module
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.patterns.unique import Unique, put_request
from lambda_once.testing import FakeClock
from tests.kit.faulty import Fate, FaultyClient, by_seed, every_second_answer_lost
from tests.patterns.conftest import Ground

KNOWN = {"pk": "cust_7", "sk": "=5#paid"}
"""The identity of `RECEIPT`."""
RECEIPT: dict[str, object] = {
    "customer": "cust_7",
    "order": 5,
    "kind": "paid",
    "amount": Decimal("49.90"),
    "lines": ["desk"],
}
KEY = {"pk": "customer", "sk": ["order", "kind"]}
ANYTHING = "attribute_not_exists(#key) OR attribute_exists(#key)"
"""A condition that always holds: the guard removed."""


def receipts(ground: Ground, client: Any = None, **options: Any) -> Unique:
    """Return receipts on a table of *ground*, through *client*."""
    options = {"key": KEY, "clock": FakeClock(), **options}
    return Unique(
        options.pop("table", None) or ground.table("pk", "sk"),
        ground.client if client is None else client,
        **options,
    )


def rows(ground: Ground, table: str) -> list[dict[str, Any]]:
    """Return all items of *table*, in Python values, by their keys."""
    found = [plain_item(item) for item in ground.client.scan(TableName=table)["Items"]]
    return sorted(found, key=lambda row: (row["pk"], row.get("sk", "")))


def test_the_request_is_a_value() -> None:
    """One PutItem, refused where an item of the key is, which then comes back."""
    assert put_request("receipts", {"id": {"S": "5"}}, "id") == {
        "TableName": "receipts",
        "Item": {"id": {"S": "5"}},
        "ConditionExpression": "attribute_not_exists(#key)",
        "ExpressionAttributeNames": {"#key": "id"},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def test_the_first_is_stored_and_the_second_a_duplicate(ground: Ground) -> None:
    """The duplicate returns the stored item, and changes nothing."""
    table = ground.table("pk", "sk")
    unique = receipts(ground, table=table)
    assert unique.put(RECEIPT) == Applied(KNOWN)
    (row,) = rows(ground, table)
    assert unique.put(RECEIPT) == Duplicate(KNOWN, same=True)
    assert rows(ground, table) == [row]
    assert {name: row[name] for name in RECEIPT} == RECEIPT


def test_an_amended_item_does_not_vanish(ground: Ground) -> None:
    """The same key with other content is distinguished, and the first content stays."""
    table = ground.table("pk", "sk")
    unique = receipts(ground, table=table)
    unique.put(RECEIPT)
    amended = unique.put({**RECEIPT, "amount": Decimal("59.90")})
    assert amended == Duplicate(KNOWN, same=False)
    assert rows(ground, table)[0]["amount"] == Decimal("49.90")


def test_the_whole_key_counts(ground: Ground) -> None:
    """One partition holds many items; only both attributes together are taken."""
    unique = receipts(ground)
    kinds = ["paid", "refunded", "paid"]
    found = unique.put_all({**RECEIPT, "kind": kind} for kind in kinds)
    assert [type(each) for each in found] == [Applied, Applied, Duplicate]


def test_fields_with_separators_are_two_items(ground: Ground) -> None:
    """("a#b", "c") and ("a", "b#c") are not one receipt."""
    unique = receipts(ground, key={"pk": "customer", "sk": ["first", "second"]})
    item = {"customer": "cust_7"}
    first = unique.put({**item, "first": "a#b", "second": "c"})
    second = unique.put({**item, "first": "a", "second": "b#c"})
    assert (type(first), type(second)) == (Applied, Applied)


def test_a_duplicate_returns_the_stored_id(ground: Ground) -> None:
    """An id that is new for every put is no content: the duplicate returns the stored one."""
    unique = receipts(ground, identity="receiptId")
    first = unique.put({**RECEIPT, "receiptId": "r-1"})
    second = unique.put({**RECEIPT, "receiptId": "r-2"})
    known = {**KNOWN, "receiptId": "r-1"}
    assert (first, second) == (Applied(known), Duplicate(known, same=True))


def test_what_is_ignored_makes_no_other_content(ground: Ground) -> None:
    """A sender that sends again writes the time of sending anew."""
    unique = receipts(ground, ignore=["sentAt", "meta.retry"])
    unique.put({**RECEIPT, "sentAt": "10:12", "meta": {"retry": 0, "shop": 1}})
    again = unique.put({**RECEIPT, "sentAt": "10:13", "meta": {"retry": 1, "shop": 1}})
    other = unique.put({**RECEIPT, "sentAt": "10:13", "meta": {"retry": 1, "shop": 2}})
    assert isinstance(again, Duplicate)
    assert isinstance(other, Duplicate)
    assert (again.same, other.same) == (True, False)


def test_content_is_what_was_put_not_what_became_of_it(ground: Ground) -> None:
    """Attributes that others add or change later make no other content of a late duplicate."""
    table = ground.table("pk", "sk")
    unique = receipts(ground, table=table)
    unique.put(RECEIPT)
    ground.client.update_item(
        TableName=table,
        Key={"pk": {"S": "cust_7"}, "sk": {"S": "=5#paid"}},
        UpdateExpression="SET mailed = :yes, amount = :more",
        ExpressionAttributeValues={":yes": {"BOOL": True}, ":more": {"N": "50"}},
    )
    assert unique.put(RECEIPT) == Duplicate(KNOWN, same=True)


def test_without_a_mark_nothing_is_added(ground: Ground) -> None:
    """The item is what was given and its key; a duplicate is compared with the current item."""
    table = ground.table("pk", "sk")
    unique = receipts(ground, table=table, mark=None)
    unique.put(RECEIPT)
    assert rows(ground, table) == [{**RECEIPT, **KNOWN}]
    again, other = unique.put_all([RECEIPT, {**RECEIPT, "amount": 1}])
    assert isinstance(again, Duplicate)
    assert isinstance(other, Duplicate)
    assert (again.same, other.same) == (True, False)


def test_an_item_of_before_is_compared_as_stored(ground: Ground) -> None:
    """Items that another program put have no mark, and are duplicates all the same."""
    table = ground.table("pk", "sk")
    receipts(ground, table=table, mark=None).put(RECEIPT)
    assert receipts(ground, table=table).put(RECEIPT) == Duplicate(
        {"pk": "cust_7", "sk": "=5#paid"}, same=True
    )


@pytest.mark.parametrize(
    "value", [0, "", False, None, [], {}, b"\x00", {1, 2}, Decimal("1e30"), {"a": [1, {"b": b"x"}]}]
)
def test_every_value_is_its_own_duplicate(ground: Ground, value: object) -> None:
    """Falsy ones too: what comes back from the table has the content of what was put."""
    for mark in ("put", None):
        unique = receipts(ground, mark=mark)
        unique.put({**RECEIPT, "value": value})
        again = unique.put({**RECEIPT, "value": value})
        assert isinstance(again, Duplicate)
        assert again.same


@pytest.mark.parametrize("order", [Decimal(5), Decimal("5.00"), Decimal("5E0"), 5.0])
def test_whole_numbers_of_all_types_are_one_key(ground: Ground, order: object) -> None:
    """Of key fields, and of content: what a stream or boto3's tables return is what JSON has."""
    table = ground.table("pk", "sk")
    unique = receipts(ground, table=table)
    receipt = {**RECEIPT, "count": 7}
    assert unique.put(receipt) == Applied(KNOWN)
    assert unique.put({**receipt, "order": order, "count": Decimal("7.0")}) == Duplicate(KNOWN, same=True)
    assert unique.put({**receipt, "order": order, "count": Decimal(8)}) == Duplicate(KNOWN, same=False)
    assert len(rows(ground, table)) == 1


@pytest.mark.parametrize("number", [5, Decimal(5), Decimal("5.00"), Decimal("-1.5"), Decimal("1E+30")])
@pytest.mark.engine
def test_a_number_may_be_the_key(engine: Ground, number: Any) -> None:
    """A key attribute of type N is a number, fractions included; the strict engine has text alone."""
    unique = receipts(engine, table=engine.table("pk", "n", sort_type="N"), key=("pk", "n"))
    known = {"pk": "c", "n": number}
    assert unique.put(known) == Applied(known)
    assert unique.put({"pk": "c", "n": Decimal(number)}) == Duplicate(known, same=True)


READ_BACK: dict[str, object] = {
    **RECEIPT,
    "raw": b"\x00\xff",
    "parts": {b"\x01", b"\x02"},
    "nested": [{"n": 7, "raw": b"", "none": None}],
    "sizes": {1, Decimal("2.5")},
}
"""An item with all types whose Python values differ between clients."""


@pytest.mark.parametrize("mark", ["put", None])
def test_an_item_read_back_is_the_same(ground: Ground, mark: str | None) -> None:
    """With the classes of boto3's tables: Decimal for every number, Binary for bytes."""
    table = ground.table("pk", "sk")
    unique = receipts(ground, table=table, mark=mark)
    unique.put(READ_BACK)
    (item,) = ground.client.scan(TableName=table)["Items"]
    read = {name: TypeDeserializer().deserialize(item[name]) for name in READ_BACK}
    assert unique.put(read) == Duplicate(KNOWN, same=True)
    assert unique.put({**read, "raw": b"\x00"}) == Duplicate(KNOWN, same=False)


def test_an_image_of_a_stream_is_the_same(ground: Ground) -> None:
    """As Powertools reads it: every number is a Decimal."""
    unique = receipts(ground)
    unique.put(RECEIPT)
    change = DynamoDBRecord({"dynamodb": {"NewImage": typed_item(RECEIPT)}}).dynamodb
    assert change is not None
    image = change.new_image
    assert type(image["order"]) is Decimal
    assert unique.put(image) == Duplicate(KNOWN, same=True)


# -- lines


def test_a_put_whose_answer_was_lost_is_stored(ground: Ground) -> None:
    """The retry finds the item that its own first try wrote."""
    client = FaultyClient(ground.client, every_second_answer_lost())
    unique = receipts(ground, client)
    found = unique.put_all({**RECEIPT, "order": order} for order in range(6))
    assert [type(each) for each in found] == [Applied] * 6


def test_without_a_mark_a_lost_answer_makes_a_duplicate_of_itself(ground: Ground) -> None:
    """The mark identifies a put's own write: without it the writer takes it for another's."""
    client = FaultyClient(ground.client, iter([Fate.ANSWER_LOST, Fate.SOUND]).__next__)
    assert receipts(ground, client, mark=None).put(RECEIPT) == Duplicate(KNOWN, same=True)


def test_a_put_without_an_answer_may_be_repeated(ground: Ground) -> None:
    """It is `StoreUnavailable`, never a guess; putting it again settles it."""
    fates = iter([Fate.ANSWER_LOST, *[Fate.REQUEST_LOST] * 5])
    table = ground.table("pk", "sk")
    with pytest.raises(StoreUnavailable):
        receipts(ground, FaultyClient(ground.client, fates.__next__), table=table).put(RECEIPT)
    assert receipts(ground, table=table).put(RECEIPT) == Duplicate(
        {"pk": "cust_7", "sk": "=5#paid"}, same=True
    )


def _contended(ground: Ground, client: Any, table: str) -> Counter[type]:
    """Let twenty threads put ten receipts each, with contents of their own, and count the answers."""

    def writer(number: int) -> list[type]:
        unique = receipts(ground, client, table=table)
        items = [{**RECEIPT, "order": order, "writer": number} for order in range(10)]
        random.Random(number).shuffle(items)
        return [type(each) for each in unique.put_all(items)]

    with ThreadPoolExecutor(20) as pool:
        return Counter(kind for kinds in pool.map(writer, range(20)) for kind in kinds)


def test_of_many_writers_one_stores(ground: Ground) -> None:
    """Twenty writers, every second answer lost: of each receipt one put is stored, and is `Applied`."""
    client = FaultyClient(ground.client, every_second_answer_lost())
    table = ground.table("pk", "sk")
    assert _contended(ground, client, table) == {Applied: 10, Duplicate: 190}
    assert len(rows(ground, table)) == 10


def test_twin_without_the_condition_a_later_put_overwrites(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the condition the first receipt is lost, and every put is `Applied`."""
    monkeypatch.setattr(module, "ABSENT", ANYTHING)
    table = ground.table("pk", "sk")
    unique = receipts(ground, table=table)
    assert [type(each) for each in unique.put_all([RECEIPT, {**RECEIPT, "amount": 1}])] == [Applied, Applied]
    assert rows(ground, table)[0]["amount"] == 1


def _check(answers: list[tuple[int, int, object]], stored_content: dict[int, int]) -> None:
    """Check the answers to puts, each (order, content, answer), against what is stored: content by order."""
    stored = [(order, content) for order, content, answer in answers if isinstance(answer, Applied)]
    assert len({order for order, _ in stored}) == len(stored), "one put of an order is Applied"
    assert all(stored_content[order] == content for order, content in stored)
    for order, content, answer in answers:
        if isinstance(answer, Duplicate):
            assert answer.same is (stored_content[order] == content)


def _play(ground: Ground, seed: int, steps: int) -> tuple[list[tuple[int, int, object]], dict[int, int]]:
    """Put at random over a bad line, late copies in between; return the answers and what is stored."""
    dice = random.Random(seed)
    client = FaultyClient(ground.client, by_seed(seed))
    table = ground.table("pk", "sk")
    unique = receipts(ground, client, table=table)
    answers: list[tuple[int, int, object]] = []
    for _ in range(steps):
        order, content = dice.randrange(steps // 4), dice.randrange(3)
        (answer,) = unique.put_all([{**RECEIPT, "order": order, "content": content}])
        answers.append((order, content, answer))
        if dice.random() < 0.2:
            client.deliver(dice.randrange(3))
    client.deliver()
    found = rows(ground, table)
    return answers, {row["order"]: row["content"] for row in found}


@pytest.mark.parametrize("seed", range(5))
def test_over_a_bad_line_the_first_content_stays(ground: Ground, seed: int) -> None:
    """Lost requests, lost answers and late copies: one put stores, and every duplicate is right."""
    answers, stored_content = _play(ground, seed, steps=200)
    assert {type(answer) for _, _, answer in answers} >= {Applied, Duplicate}
    _check(answers, stored_content)


def test_twin_without_the_condition_the_bad_line_shows(
    strict: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the condition the check above fails at the first seed."""
    monkeypatch.setattr(module, "ABSENT", ANYTHING)
    answers, stored_content = _play(strict, 0, steps=200)
    with pytest.raises(AssertionError):
        _check(answers, stored_content)


# -- several


def test_one_failure_ends_no_other(strict: Ground) -> None:
    """A duplicate, an item without key, one that cannot be stored and one without answer each fail alone."""
    fates = iter([Fate.SOUND, Fate.SOUND, *[Fate.REQUEST_LOST] * 6, Fate.SOUND])
    unique = receipts(strict, FaultyClient(strict.client, fates.__next__))
    first, second, bare, odd, silent, last = unique.put_all(
        [
            RECEIPT,
            RECEIPT,
            {"customer": "cust_7"},
            {**RECEIPT, "order": 6, "weight": {1, "a"}},
            {**RECEIPT, "order": 7},
            {**RECEIPT, "order": 8},
        ]
    )
    assert (type(first), type(second), type(last)) == (Applied, Duplicate, Applied)
    errors = [each if isinstance(each, OnceError) else None for each in (bare, odd, silent)]
    assert [type(error) for error in errors] == [KeyMissing, Misconfigured, StoreUnavailable]


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "ThrottlingException"])
def test_throttled_items_are_tried_again(strict: Ground, code: str) -> None:
    """Twice refused for the moment, a put waits, and succeeds at its third try."""
    clock = FakeClock()
    refusals = iter([code, code])
    unique = receipts(strict, Refusing(strict.client, lambda: next(refusals, None)), clock=clock)
    assert isinstance(unique.put(RECEIPT), Applied)
    assert len(clock.slept) == 2


class Refusing:
    """Hands requests to *client* but those for which *refusal* has an error code."""

    def __init__(self, client: Any, refusal: Callable[[], str | None], **more: Any) -> None:
        self._client = client
        self._refusal = refusal
        self._more = more

    def put_item(self, **arguments: Any) -> Any:
        code = self._refusal()
        if code is not None:
            raise self._client.exceptions.ClientError({"Error": {"Code": code}, **self._more}, "PutItem")
        return self._client.put_item(**arguments)


# -- bad input


def test_an_item_over_the_limit_is_refused_with_the_reason(ground: Ground) -> None:
    """DynamoDB's own words, under the name of the table; nothing is stored."""
    table = ground.table("pk", "sk")
    with pytest.raises(Misconfigured, match=rf"{table}.*[Ss]ize"):
        receipts(ground, table=table).put({**RECEIPT, "note": "x" * 410_000})
    assert rows(ground, table) == []


def test_a_missing_table_is_no_duplicate(ground: Ground) -> None:
    """It is said to be missing, by its name."""
    with pytest.raises(Misconfigured, match="no-such-table"):
        receipts(ground, table="no-such-table").put(RECEIPT)


def test_an_endpoint_that_drops_the_stored_item_is_refused(strict: Ground) -> None:
    """A cache or a proxy that drops the item would make every retry a duplicate."""
    with pytest.raises(Misconfigured, match="ReturnValuesOnConditionCheckFailure"):
        receipts(strict, Refusing(strict.client, lambda: "ConditionalCheckFailedException")).put(RECEIPT)


def test_the_mark_says_who_put_what(strict: Ground) -> None:
    """A random id a put, and the fingerprint of what was put, without what only identifies it."""
    table = strict.table("pk", "sk")
    unique = receipts(strict, table=table, identity="receiptId", mark="written")
    unique.put_all([{**RECEIPT, "receiptId": "r-1"}, {**RECEIPT, "order": 6, "receiptId": "r-2"}])
    first, second = (row["written"] for row in rows(strict, table))
    assert first["content"] == fingerprint(RECEIPT)
    assert first["id"] != second["id"]
    assert len(first["id"]) == 32


@pytest.mark.parametrize("wei", [Decimal("1E39"), 10**40, 5 * 10**124])
def test_a_redelivered_large_number_is_a_duplicate(ground: Ground, wei: Any) -> None:
    """Of an item whose number has more than 38 digits; other content is still recognised."""
    unique = receipts(ground, identity=("amount",))
    receipt = {**RECEIPT, "amount": wei}
    known = {**KNOWN, "amount": wei}
    assert unique.put(receipt) == Applied(known)
    assert unique.put(receipt) == Duplicate(known, same=True)
    assert unique.put({**receipt, "wei": wei}) == Duplicate(known, same=False)
