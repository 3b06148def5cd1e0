"""The strict engine's tables of two keys: pages, filters, projections, sets and sums are DynamoDB's."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import tables
from tests.kit.strict.engine import StrictEngine
from tests.kit.strict.items import MOST_BYTES, SETS, size_of
from tests.kit.test_strict_engine import bounded, without_new_key

pytestmark = pytest.mark.engine

Arguments = dict[str, Any]
KEYS = {"pk": "HASH", "sk": "RANGE"}


def plain(value: Any) -> Any:
    """Return *value* with attributes and the members of sets in one order, and each number in one form."""
    match value:
        case {"N": str(text)}:  # Local returns what an ADD has made as it was sent, 9.9E+125, or in full
            return {"N": f"{Decimal(text):f}"}
        case dict():
            return {
                name: sorted(part) if name in SETS and isinstance(part, list) else plain(part)
                for name, part in sorted(value.items())
            }
        case list():
            return [plain(part) for part in value]
        case _:
            return value


class Both:
    """A table of each engine, and every request goes to both."""

    def __init__(self, real: Any, name: str) -> None:
        self.name = name
        self.strict = StrictEngine()
        self.real = real
        create(self.strict, name)

    def ask(self, operation: str, **arguments: Any) -> Any:
        """Return what both answer."""
        arguments = {"TableName": self.name} | arguments
        answers = [asked(client, operation, arguments) for client in (self.strict, self.real)]
        assert answers[0] == answers[1], (operation, arguments)
        return answers[0]

    def all_of(self, operation: str, *parts: Arguments, **arguments: Any) -> Any:
        """Return all that both answer to all pages of *parts*, in one order: a Scan has its own."""
        wanted = [{"TableName": self.name} | arguments | part for part in parts or ({},)]
        strict, real = (
            sorted((one for part in wanted for one in pages(client, operation, part)), key=repr)
            for client in (self.strict, self.real)
        )
        assert strict == real, (operation, arguments)
        return strict

    def clear(self) -> None:
        """Empty both."""
        for item in self.real.scan(TableName=self.name)["Items"]:
            self.real.delete_item(TableName=self.name, Key={name: item[name] for name in KEYS})
        self.strict.tables[self.name].items.clear()


def pages(client: Any, operation: str, arguments: Arguments) -> Iterator[Any]:
    """Yield the items of all pages, or their number, or the error."""
    start: Arguments = {}
    while True:
        answer = asked(client, operation, arguments | start)
        if not isinstance(answer, dict):
            yield answer
            return
        yield from answer.get("Items", ["counted"] * answer["Count"])
        if "LastEvaluatedKey" not in answer:
            return
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


def asked(client: Any, operation: str, arguments: Arguments) -> Any:
    """Return what a caller can tell apart of an answer, and of an error its code."""
    try:
        answer = getattr(client, operation)(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"], plain(error.response.get("Item"))
    answer.pop("ResponseMetadata", None)
    return plain(without_new_key(arguments, answer))


def create(client: Any, name: str) -> None:
    """Create a table of two keys."""
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in KEYS],
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in KEYS.items()],
    )


@pytest.fixture(scope="module")
def both(engine_endpoint: str) -> Iterator[Both]:
    """Two tables for all examples: each begins by emptying them."""
    client = tables.client(engine_endpoint, parameter_validation=False)
    with tables.fresh(client, create) as name:
        yield Both(client, name)
    client.close()


partitions = st.sampled_from(["a", "b"])
sorts = st.sampled_from(["1", "10", "2", "ü", "\U0001f600"])
# Not 2.50 nor 1E-130: the strict engine gives back numbers as they came, DynamoDB does not.
numbers = st.sampled_from(
    ["0", "1", "-2.5", "1E5", "9" * 38, "0.1", "0.00012", "9.9E+125", "1E+126", "9" * 39]
)
attributes = st.one_of(
    numbers.map(lambda number: {"N": number}),
    st.sampled_from(["", "x", "xyz", "zebra"]).map(lambda text: {"S": text}),
    st.sampled_from([[b"1"], [b"2", b"1"], [b"1", b"1"], []]).map(lambda members: {"BS": members}),
    st.sampled_from([["1"], ["2", "1.5"]]).map(lambda members: {"NS": members}),
    st.sampled_from(
        [{"L": [{"S": "x"}, {"N": "1"}]}, {"M": {"x": {"BOOL": True}}}, {"NULL": True}, {"B": b"xyz"}]
    ),
)
conditions = st.sampled_from(
    [
        "contains(one, :v)",
        "NOT contains(two, :v)",
        "size(one) = :n",
        "size(two) > :n",
        "one BETWEEN :n AND :m",
        "one BETWEEN :m AND :n",
        "one = :v",
        "one <> :v OR attribute_not_exists(two)",
        "begins_with(one, :v)",
    ]
)
updates = st.sampled_from(
    [
        "ADD one :v",
        "ADD one :n, two :v",
        "SET two = :v ADD one :n",
        "ADD one :n REMOVE two",
        "ADD one :n ADD two :v",
    ]
)


def given_values(text: str, value: Any) -> Arguments:
    """Return the values that *text* uses."""
    values = {":v": value, ":n": {"N": "3"}, ":m": {"N": "1"}}
    used = {name: each for name, each in values.items() if name in text}
    return {"ExpressionAttributeValues": used} if used else {}


def key(partition: str, sort: str) -> Arguments:
    """Return the key of one item."""
    return {"pk": {"S": partition}, "sk": {"S": sort}}


writes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), partitions, sorts, attributes, attributes, st.none() | conditions),
        st.tuples(st.just("update"), partitions, sorts, attributes, updates, st.none() | conditions),
        st.tuples(st.just("delete"), partitions, sorts, attributes, st.none(), st.none() | conditions),
    ),
    min_size=4,
    max_size=14,
)


def write(both: Both, step: tuple[Any, ...]) -> None:
    """Put, update or delete an item, where a condition holds if there is one."""
    kind, partition, sort, value, more, condition = step
    arguments: Arguments = {"ReturnValues": "ALL_OLD"}
    if condition is not None:
        arguments |= {"ConditionExpression": condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    match kind:
        case "put":
            item = key(partition, sort) | {"one": value, "two": more}
            both.ask("put_item", Item=item, **arguments, **given_values(condition or "", value))
        case "update":
            text = f"{more} {condition or ''}"
            arguments |= {"UpdateExpression": more, **given_values(text, value)}
            both.ask("update_item", Key=key(partition, sort), **arguments)
        case _:
            arguments |= given_values(condition or "", value)
            both.ask("delete_item", Key=key(partition, sort), **arguments)


@bounded
@given(steps=writes)
def test_writes_are_answered_alike(both: Both, steps: list[tuple[Any, ...]]) -> None:
    """Sums, sets, sizes and members, right and wrong: the same answers, and the same items."""
    both.clear()
    for step in steps:
        write(both, step)
    both.all_of("scan")


ranges = st.sampled_from(
    [
        "",
        " AND sk > :s",
        " AND sk <= :s",
        " AND sk BETWEEN :s AND :t",
        " AND begins_with(sk, :s)",
        " AND sk <> :s",
        " AND one = :s",
    ]
)
filters = st.none() | st.sampled_from(["one > :n", "contains(one, :x)", "sk = :x", "attribute_exists(two)"])
options = st.fixed_dictionaries(
    {},
    optional={
        "Limit": st.integers(0, 3),
        "ScanIndexForward": st.booleans(),
        "ProjectionExpression": st.sampled_from(["sk, two", "one", "#two, pk"]),
        "Select": st.just("COUNT"),
        "ConsistentRead": st.booleans(),
    },
).filter(lambda chosen: not {"Select", "ProjectionExpression"} <= chosen.keys())


def expressions(*texts: str | None) -> Arguments:
    """Return the names and values that *texts* use."""
    used = " ".join(filter(None, texts))
    values = {":p": {"S": "a"}, ":s": {"S": "1"}, ":t": {"S": "2"}, ":n": {"N": "0"}, ":x": {"S": "x"}}
    found = {name: value for name, value in values.items() if name in used}
    names = {"ExpressionAttributeNames": {"#two": "two"}} if "#two" in used else {}
    return names | ({"ExpressionAttributeValues": found} if found else {})


@bounded
@given(steps=writes, wanted=ranges, filtered=filters, chosen=options)
def test_pages_are_alike(
    both: Both, steps: list[tuple[Any, ...]], wanted: str, filtered: str | None, chosen: Arguments
) -> None:
    """A Query answers page by page alike, in order; of a Scan all pages together are the same."""
    both.clear()
    for step in steps:
        write(both, step)
    more = {} if filtered is None else {"FilterExpression": filtered}
    condition = f"pk = :p{wanted}"
    used = expressions(condition, filtered, chosen.get("ProjectionExpression"))
    start: Arguments = {}
    while True:
        page = both.ask("query", KeyConditionExpression=condition, **chosen, **more, **used, **start)
        if "LastEvaluatedKey" not in page:
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    scan = {name: value for name, value in chosen.items() if name != "ScanIndexForward"} | more
    used = expressions(filtered, chosen.get("ProjectionExpression"))
    both.all_of("scan", **scan, **used)
    both.all_of("scan", *({"Segment": n, "TotalSegments": 2} for n in (0, 1)), **scan, **used)


@bounded
@given(steps=writes, projection=st.sampled_from(["sk", "one, #two", "pk, nothing"]))
def test_projections_are_alike(both: Both, steps: list[tuple[Any, ...]], projection: str) -> None:
    """Of one item, and of several at once."""
    both.clear()
    for step in steps:
        write(both, step)
    wanted = {"ProjectionExpression": projection, **expressions(projection), "ConsistentRead": True}
    both.ask("get_item", Key=key("a", "1"), **wanted)
    keys = [key("a", sort) for sort in ("1", "2")]
    strict, real = (
        asked(client, "batch_get_item", {"RequestItems": {both.name: {"Keys": keys, **wanted}}})["Responses"]
        for client in (both.strict, both.real)
    )
    assert sorted(strict[both.name], key=repr) == sorted(real[both.name], key=repr)


@pytest.mark.parametrize("bytes_more", [0, 1])
def test_the_largest_item_is_alike(both: Both, bytes_more: int) -> None:
    """409,600 bytes are taken, and no byte more: names, numbers, sets and nested values count alike."""
    both.clear()
    item = key("a", "1") | {
        "n": {"N": "-12345.678"},
        "z": {"N": "0"},
        "s": {"BS": [b"12345678", b"1"]},
        "m": {"M": {"x": {"L": [{"N": "1"}, {"S": "abc"}]}, "y": {"BOOL": True}}},
    }
    filler = MOST_BYTES - size_of(item) - len("f") + bytes_more
    both.ask("put_item", Item=item | {"f": {"S": "x" * filler}})
