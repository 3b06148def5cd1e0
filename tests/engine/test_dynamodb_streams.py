"""`once.dynamodb_stream` on a stream that DynamoDB itself writes: nothing lost, nothing doubled, in order."""

from __future__ import annotations

import base64
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from boto3.dynamodb.types import TypeSerializer

from lambda_once.core.canonical import canonical
from lambda_once.sources.dynamodb_stream import DYNAMODB_STREAM
from lambda_once.sources.envelopes import at
from lambda_once.testing import dynamodb_stream_event
from tests.decorators.rig import Rig
from tests.kit import tables

pytestmark = pytest.mark.engine

ITEMS = "abcdef"


def _create(client: Any, name: str) -> None:
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )


class Stream:
    """A table, and its stream as a mapping reads it."""

    def __init__(self, client: Any, streams: Any, table: str) -> None:
        self.client = client
        self.table = table
        self._streams = streams
        self._arn = client.describe_table(TableName=table)["Table"]["LatestStreamArn"]

    def put(self, item: dict[str, Any]) -> None:
        self.client.put_item(TableName=self.table, Item=item)

    def delete(self, id_: str) -> None:
        self.client.delete_item(TableName=self.table, Key={"id": {"S": id_}})

    def items(self) -> dict[str, Any]:
        """All items by their id."""
        return {item["id"]["S"]: item for item in self.client.scan(TableName=self.table)["Items"]}

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """The records of each shard, from the first on, as Lambda hands them over."""
        shards = self._streams.describe_stream(StreamArn=self._arn)["StreamDescription"]["Shards"]
        for shard in shards:
            iterator = self._streams.get_shard_iterator(
                StreamArn=self._arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            records = self._streams.get_records(ShardIterator=iterator)["Records"]
            if records:
                yield [as_json(record) | {"eventSourceARN": self._arn} for record in records]


def as_json(value: Any) -> Any:
    """*value* of a client as an event has it: binary in base64, times in seconds."""
    match value:
        case dict():
            return {name: as_json(each) for name, each in value.items()}
        case list():
            return [as_json(each) for each in value]
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.timestamp()
        case _:
            return value


@pytest.fixture
def stream(engine_endpoint: str) -> Iterator[Stream]:
    """A table with a stream, on the engine."""
    client = tables.client(engine_endpoint)
    streams: Any = tables.session().client("dynamodbstreams", endpoint_url=engine_endpoint)
    with tables.fresh(client, _create) as name:
        yield Stream(client, streams, name)
    streams.close()
    client.close()


def _deliver(
    handler: Callable[[Any, Any], Any], records: list[dict[str, Any]], rig: Rig, most: int = 200
) -> int:
    """Deliver *records* as a mapping does, ten at a time, from each checkpoint on; return how often."""
    numbers = [record["dynamodb"]["SequenceNumber"] for record in records]
    done = tries = 0
    while done < len(records):
        tries += 1
        assert tries < most
        batch = {"Records": records[done : done + 10]}
        try:
            answer = handler(batch, rig.context(f"request-{tries}", seconds=60))
        except SystemExit:
            continue
        if answer is None or not answer["batchItemFailures"]:
            done += len(batch["Records"])
        else:
            done = numbers.index(answer["batchItemFailures"][0]["itemIdentifier"])
    return tries


@pytest.mark.parametrize("is_async", [False, True])
def test_a_copy_is_made_of_a_stream(stream: Stream, on_engine: Rig, is_async: bool) -> None:
    """
    A projection of the table, made change by change, is the table in the end.

    Every third change fails at first and every fifth is killed; each is applied once, in its item's order.
    """
    random_ = random.Random(15)
    for n in range(40):
        id_ = random_.choice(ITEMS)
        if random_.random() < 0.2:
            stream.delete(id_)
        else:
            stream.put({"id": {"S": id_}, "n": {"N": str(n)}, "raw": {"B": bytes([n])}})
    rig = on_engine
    copy: dict[str, Any] = {}
    applied: dict[str, list[str]] = defaultdict(list)
    left: dict[str, type[BaseException]] = {}

    def apply(record: DynamoDBRecord) -> None:
        change = record.raw_event["dynamodb"]
        if (kind := left.pop(change["SequenceNumber"], None)) is not None:
            raise kind
        id_ = change["Keys"]["id"]["S"]
        applied[id_].append(change["SequenceNumber"])
        if record.raw_event["eventName"] == "REMOVE":
            del copy[id_]
        else:
            copy[id_] = change["NewImage"]

    async def awaited(record: DynamoDBRecord) -> None:
        apply(record)

    handler = rig.once.dynamodb_stream(report_failures=True)(awaited if is_async else apply)
    batches = [*stream.batches()]
    for records in batches:
        numbers = [record["dynamodb"]["SequenceNumber"] for record in records]
        left |= dict.fromkeys(numbers[::3], ValueError) | dict.fromkeys(numbers[::5], SystemExit)
        assert _deliver(handler, records, rig) > len(records) // 10
        assert _deliver(handler, records, rig) == -(-len(records) // 10)  # once more, from the beginning
    assert copy == as_json(stream.items())
    assert sum(map(len, applied.values())) == sum(map(len, batches))
    for in_order in applied.values():
        assert in_order == sorted(set(in_order), key=int)


def test_a_key_over_the_item(stream: Stream, on_engine: Rig) -> None:
    """The first change of an item is worked; with its key alone, a later one is another payload."""
    rig, seen = on_engine, list[str]()
    stream.put({"id": {"S": "a"}, "n": {"N": "1"}})
    stream.put({"id": {"S": "b"}, "n": {"N": "1"}})
    stream.put({"id": {"S": "a"}, "n": {"N": "2"}})

    @rig.once.dynamodb_stream(key="Keys.id", fingerprint=False, name="welcome")
    def handler(record: DynamoDBRecord) -> None:
        assert record.dynamodb is not None
        seen.append(record.dynamodb.keys["id"])

    for records in stream.batches():
        handler({"Records": records}, rig.context())
    assert sorted(seen) == ["a", "b"]
    assert sorted(row.token for row in rig.rows()) == ["shop/welcome/a", "shop/welcome/b"]


VALUES: list[Any] = [
    "",
    "é\U0001f642",
    0,
    -1,
    10**37,
    Decimal("0.0001"),
    Decimal("-1234567890.12345678901234567890"),
    Decimal("1e-100"),
    Decimal("9e100"),
    True,
    None,
    b"",
    b"\x00\xff",
    {"a", "b"},
    {1, Decimal("2.5"), -3},
    {b"\x00", b"\xff"},
    [],
    [1, [None, {"deep": b"x"}]],
    {},
    {"map": {"set": {"a"}}},
]


def test_values_are_read_as_they_were_written(stream: Stream) -> None:
    """Of every type; and the builder of `lambda_once.testing` makes the same of them as the engine."""
    written = [{"id": str(n), "value": value} for n, value in enumerate(VALUES)]
    for item in written:
        stream.put({name: TypeSerializer().serialize(value) for name, value in item.items()})
    sent = [record for records in stream.batches() for record in records]
    built = dynamodb_stream_event(*((None, item) for item in written))["Records"]
    for event in ({"Records": sent}, {"Records": built}):
        read = {str(at(unit, "Keys", "id")): unit for unit in _payloads(event)}
        for item in written:
            expected = {"eventName": "INSERT", "Keys": {"id": item["id"]}, "NewImage": item}
            assert canonical(read[item["id"]]) == canonical(expected)


def _payloads(event: dict[str, Any]) -> Iterator[object]:
    for record in DYNAMODB_STREAM.read(event):
        assert record.what.content.flaw is None
        yield record.what.content.payload
