"""
What an operator does with a message of FailedEvents, as the example has it, played in bash, with two books.

The queue's book: a message is deleted only after its function took the event. The function's book: each piece
of work is done once. Bodies are by AWS' documentation (Lambda developer guide, "Capturing records of
asynchronous invocations" and "Retain discarded records"; EventBridge Scheduler user guide, "Configuring a
schedule's dead-letter queue").
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from moto import mock_aws

from examples import failed_event
from lambda_once import Once
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context, using
from tests.docs.pages import ROOT
from tests.docs.shell import calls, indented_blocks, play
from tests.kit import tables

pytestmark = pytest.mark.engine

SEND, SEND_RECORDS = indented_blocks(failed_event.__doc__ or "")
FUNCTION = "arn:aws:lambda:eu-central-1:123456789012:function:shop-prices"
PRICES = {"shop": "north", "scheduledTime": "2026-11-20T02:00:00Z", "run": 1234567890123456789}
CLI = """
case "$1 $2" in
  "sqs receive-message") cat queue.json;;
  "lambda invoke") [ -e answer.json ] || exit 254; cp answer.json "${@: -1}";;
  "sqs delete-message") echo '{}' > queue.json;;
esac
"""
"""The queue is a file; a function takes an event if there is an answer."""


@dataclass
class Night:
    """The operator's folder, and the queue."""

    folder: Path
    client: Any
    table: str
    done: Counter[str] = field(default_factory=Counter)

    def receives(self, body: object, **attributes: str) -> None:
        """Let the queue have one message."""
        message = {
            "MessageId": str(uuid4()),
            "ReceiptHandle": "r-1",
            "Body": json.dumps(body),
            "MessageAttributes": {name: {"StringValue": text} for name, text in attributes.items()},
        }
        self.write("queue", {"Messages": [message]})

    def write(self, name: str, content: object) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))

    @property
    def is_deleted(self) -> bool:
        return bool(self.read("queue") == {})

    def plays(self, block: str, **variables: str) -> int:
        """Play *block*; return the exit code of its last command."""
        queue = {"FailedEventsUrl": "https://sqs/failed-events"}
        return play(block, self.folder, CLI, **queue, **variables).returncode

    def publish(self, event: Any) -> None:
        """Work *event*, as the function does that got it."""
        once = Once(service="shop")

        @once.event(name="prices", key="[shop, scheduledTime, run]")
        def publish(event: dict[str, Any]) -> None:
            self.done[event["shop"]] += 1

        with using(once, DynamoDBStore(self.table, self.client)):
            publish(event, lambda_context())


@pytest.fixture
def night(tmp_path: Path, engine_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    """A queue without messages, and a table without tokens."""
    client = tables.client(engine_endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", engine_endpoint)
    shutil.copy(ROOT / "examples" / "failed_event.py", tmp_path)
    with tables.fresh(client) as table:
        found = Night(tmp_path, client, table)
        found.write("queue", {})
        yield found


def asynchronous(payload: object) -> dict[str, Any]:
    """Return the body of an asynchronous invocation that failed."""
    return {
        "version": "1.0",
        "timestamp": "2026-11-20T02:03:04.567Z",
        "requestContext": {"functionArn": FUNCTION, "condition": "RetriesExhausted"},
        "requestPayload": payload,
        "responseContext": {"statusCode": 200, "functionError": "Unhandled"},
        "responsePayload": {"errorMessage": "RetryLater"},
    }


@pytest.mark.parametrize("kind", ["asynchronous", "schedule"])
@pytest.mark.parametrize("was_done", [False, True])
def test_an_event_runs_once_and_is_deleted(night: Night, kind: str, was_done: bool) -> None:
    """Both have the event, with every digit; what was done is replayed."""
    if was_done:
        night.publish(PRICES)
    if kind == "schedule":
        night.receives(PRICES, TARGET_ARN=FUNCTION, IS_PAYLOAD_TRUNCATED="false")
    else:
        night.receives(asynchronous(PRICES))
    night.write("answer", None)
    assert night.plays(SEND) == 0
    assert night.is_deleted
    received, invoked, deleted = calls(night.folder)
    assert "--message-attribute-names All" in received
    assert f"--function-name {FUNCTION} --invocation-type Event" in invoked
    assert deleted.endswith("--receipt-handle r-1")
    night.publish(night.read("event"))
    assert night.done == {"north": 1}


@pytest.mark.parametrize("kind", ["asynchronous", "schedule"])
def test_a_failing_invocation_deletes_nothing(night: Night, kind: str) -> None:
    """The night's prices stay in the queue."""
    night.receives(PRICES, TARGET_ARN=FUNCTION) if kind == "schedule" else night.receives(
        asynchronous(PRICES)
    )
    assert night.plays(SEND) == 254
    assert not night.is_deleted
    assert len(calls(night.folder)) == 2


@pytest.mark.parametrize(
    ("body", "attributes"),
    [
        (PRICES, {}),
        (PRICES, {"TARGET_ARN": FUNCTION, "IS_PAYLOAD_TRUNCATED": "true"}),
        ({"requestPayload": PRICES}, {}),
        (None, {}),
    ],
    ids=["no function", "cut off", "no context", "null"],
)
def test_what_is_none_of_the_kinds_is_left(night: Night, body: object, attributes: dict[str, str]) -> None:
    """Nothing is invoked, nothing deleted."""
    night.receives(body, **attributes)
    night.write("answer", None)
    assert night.plays(SEND) == 1
    assert not night.is_deleted
    assert len(calls(night.folder)) == 1


# ---------------------------------------------------------------- streams


class Announcements:
    """The function on the stream: it announces heads, and fails with one of them at first."""

    def __init__(self, night: Night) -> None:
        self.night = night
        self.fails = True

    def __call__(self, event: dict[str, Any]) -> Any:
        once = Once(service="shop")

        @once.dynamodb_stream(name="announce", report_failures=True)
        def announce(record: Any) -> None:
            contract = record.dynamodb.keys["pk"]
            if contract == "c-2" and self.fails:
                raise TimeoutError
            self.night.done[contract] += 1

        with using(once, DynamoDBStore(self.night.table, self.night.client)):
            return announce(event, lambda_context())


def is_head(record: dict[str, Any]) -> bool:
    """Do what the filter of the mapping does."""
    found: bool = record["dynamodb"]["Keys"]["sk"]["S"] == "head"
    return found


def stream_of(night: Night) -> dict[str, Any]:
    """Write contracts; return the position of their changes."""
    name = f"contracts-{uuid4().hex}"
    described = night.client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )["TableDescription"]
    for pk, sk in (("c-0", "head"), ("c-1", "head"), ("c-1", "part"), ("c-2", "head"), ("c-3", "head")):
        item = {"pk": {"S": pk}, "sk": {"S": sk}, "data": {"B": b"\x00\xff"}}
        night.client.put_item(TableName=name, Item=item)
    endpoint = os.environ["AWS_ENDPOINT_URL_DYNAMODB_STREAMS"]
    streams = tables.session().client("dynamodbstreams", endpoint_url=endpoint)
    arn = described["LatestStreamArn"]
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterator = streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    records = streams.get_records(ShardIterator=iterator)["Records"]
    numbers = [each["dynamodb"]["SequenceNumber"] for each in records]
    return {
        "shardId": shard["ShardId"],
        "startSequenceNumber": numbers[1],
        "endSequenceNumber": numbers[3],
        "batchSize": 2,
        "streamArn": arn,
    }


def test_records_of_a_stream_are_read_again(night: Night) -> None:
    """The message stays until a person has filtered the records, and the function has named no failure."""
    announce = Announcements(night)
    position = stream_of(night)
    night.receives({"requestContext": {"functionArn": FUNCTION}, "DDBStreamBatchInfo": position})
    night.write("answer", None)
    assert night.plays(SEND) == 3
    assert not night.is_deleted
    assert len(calls(night.folder)) == 1
    event = night.read("event")
    keys = [record["dynamodb"]["Keys"] for record in event["Records"]]
    assert [(key["pk"]["S"], key["sk"]["S"]) for key in keys] == [
        ("c-1", "head"),
        ("c-1", "part"),
        ("c-2", "head"),
    ]
    assert event["Records"][0]["dynamodb"]["NewImage"]["data"] == {"B": "AP8="}
    assert {record["eventSourceARN"] for record in event["Records"]} == {position["streamArn"]}
    heads = {"Records": [record for record in event["Records"] if is_head(record)]}
    night.write("event", heads)
    with suppress(TimeoutError):
        night.write("answer", announce(heads))
    assert night.plays(SEND_RECORDS, FUNCTION=FUNCTION) != 0
    assert not night.is_deleted
    announce.fails = False
    night.write("answer", announce(heads))
    assert night.plays(SEND_RECORDS, FUNCTION=FUNCTION) == 0
    assert night.is_deleted
    assert night.done == {"c-1": 1, "c-2": 1}


def test_records_that_have_left_the_stream(night: Night) -> None:
    """They are named as gone, and the message stays."""
    position = stream_of(night) | {"endSequenceNumber": "9" * 21}
    night.receives({"requestContext": {"functionArn": FUNCTION}, "DDBStreamBatchInfo": position})
    assert night.plays(SEND) == 1
    assert not night.is_deleted


@mock_aws
def test_records_of_kinesis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Lambda passes them: what was counted has the same tokens."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    kinesis = boto3.client("kinesis")
    kinesis.create_stream(StreamName="orders", ShardCount=1)
    arn = kinesis.describe_stream(StreamName="orders")["StreamDescription"]["StreamARN"]
    put = [
        kinesis.put_record(
            StreamName="orders", PartitionKey="p", Data=json.dumps({"orderId": number}).encode()
        )
        for number in range(4)
    ]
    position = {
        "shardId": put[0]["ShardId"],
        "startSequenceNumber": put[1]["SequenceNumber"],
        "endSequenceNumber": put[2]["SequenceNumber"],
        "streamArn": arn,
    }
    records = failed_event.failed_records("kinesis", position)
    text = json.dumps({"Records": records}, default=failed_event._json)
    ids = [f"{put[0]['ShardId']}:{each['SequenceNumber']}" for each in put[1:3]]
    assert [record["eventID"] for record in records] == ids
    counted: list[int] = []
    once = Once(service="shop")

    @once.kinesis(key="orderId")
    def count(record: Any) -> None:
        counted.append(record.kinesis.data_as_json()["orderId"])

    with using(once):
        count(json.loads(text), lambda_context())
        count(json.loads(text), lambda_context())
    assert counted == [1, 2]
