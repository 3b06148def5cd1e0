r"""
Make the event of a message from a queue of failed events, to invoke its function again.

    aws sqs receive-message --queue-url "$FailedEventsUrl" --visibility-timeout 600 \
        --message-attribute-names All --output json > failed.json &&
    FUNCTION=$(python failed_event.py failed.json) &&
    aws lambda invoke --function-name "$FUNCTION" --invocation-type Event \
        --payload fileb://event.json invoked.json &&
    aws sqs delete-message --queue-url "$FailedEventsUrl" \
        --receipt-handle "$(jq -r '.Messages[0].ReceiptHandle' failed.json)"

Writes event.json, and prints the function's ARN. (jq 1.6 rounds numbers of more than 17 digits, which would
make another key.) The body of the message is

* a failed asynchronous invocation, which has the event;
* or the input of an EventBridge schedule, or the event of a rule, that did not reach the function;
* or the position of failed records in a stream. They are read again, with all that is between them, and the
  exit code is 3. Remove from event.json what the mapping's filter leaves out (what succeeded is replayed):

    aws lambda invoke --function-name "$FUNCTION" --payload fileb://event.json invoked.json &&
    jq -e '(.errorMessage // .batchItemFailures // []) == []' invoked.json &&
    aws sqs delete-message --queue-url "$FailedEventsUrl" \
        --receipt-handle "$(jq -r '.Messages[0].ReceiptHandle' failed.json)"

Exit code 1: it is none of these, or the stream no longer has the records.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

SERVICES = {"DDBStreamBatchInfo": "dynamodbstreams", "KinesisBatchInfo": "kinesis"}
EMPTY_PAGES = 100
"""After how many empty pages in a row the records count as gone: an open shard has no end."""
OF_A_STREAM = "event.json has {} of {}: remove what the mapping's filter leaves out, and go on as for streams"


def main(file: str) -> int:
    """Write event.json for the message in *file* and print its function; return the exit code."""
    messages = json.loads(Path(file).read_text(encoding="utf-8") or "{}").get("Messages", [])
    if len(messages) != 1:
        sys.exit(f"{file} has {len(messages)} messages: receive one")
    text, attributes = messages[0]["Body"], messages[0].get("MessageAttributes", {})
    if attributes.get("IS_PAYLOAD_TRUNCATED", {}).get("StringValue") == "true":
        sys.exit("the input was cut off: write event.json as the schedule has it")
    body = json.loads(text)
    fields = body if isinstance(body, dict) else {}
    stream = next((name for name in SERVICES if name in fields), None)
    if stream is not None:
        records = failed_records(SERVICES[stream], fields[stream])
        _write(json.dumps({"Records": records}, default=_json), fields["requestContext"]["functionArn"])
        print(OF_A_STREAM.format(f"{len(records)} records", fields[stream]["streamArn"]), file=sys.stderr)
        return 3
    if "requestPayload" in fields:
        _write(json.dumps(fields["requestPayload"]), fields["requestContext"]["functionArn"])
    elif "TARGET_ARN" in attributes:
        _write(text, attributes["TARGET_ARN"]["StringValue"])
    else:
        sys.exit(f"neither a payload nor a position in a stream, and no attribute TARGET_ARN: read {file}")
    return 0


def _write(event: str, function: str) -> None:
    Path("event.json").write_text(event, encoding="utf-8")
    print(function)


def failed_records(service: str, position: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records from the first to the last of *position*, as Lambda passes them. May exit."""
    first, last = int(position["startSequenceNumber"]), int(position["endSequenceNumber"])
    found = {}
    try:
        for record in _read(boto3.client(service), service, position):
            number = int((record.get("dynamodb") or record["kinesis"])[_SEQUENCE[service]])
            if number <= last:
                found[number] = record
            if number >= last:
                break
    except ClientError as error:
        sys.exit(f"the records cannot be read: {error}")
    if first not in found or last not in found:
        sys.exit("the stream no longer has the records")
    return [record for number, record in sorted(found.items())]


_SEQUENCE = {"dynamodbstreams": "SequenceNumber", "kinesis": "sequenceNumber"}


def _read(client: Any, service: str, position: dict[str, Any]) -> Iterator[dict[str, Any]]:
    arn, first = position["streamArn"], position["startSequenceNumber"]
    if service == "kinesis":
        where = {"StreamName": arn.partition("/")[2], "StartingSequenceNumber": first}
    else:
        where = {"StreamArn": arn, "SequenceNumber": first}
    shard = {"ShardId": position["shardId"], "ShardIteratorType": "AT_SEQUENCE_NUMBER"}
    answer = client.get_shard_iterator(**where, **shard)
    iterator, empty = answer["ShardIterator"], 0
    while iterator is not None and empty < EMPTY_PAGES:
        page = client.get_records(ShardIterator=iterator)
        iterator = page.get("NextShardIterator")
        empty = 0 if page["Records"] else empty + 1
        for record in page["Records"]:
            yield _of_kinesis(record, position) if service == "kinesis" else _of_table(record, position)


def _of_table(record: dict[str, Any], position: dict[str, Any]) -> dict[str, Any]:
    record = record | {"eventSourceARN": position["streamArn"]}
    if "userIdentity" in record:
        who = record["userIdentity"]
        record["userIdentity"] = {"principalId": who["PrincipalId"], "type": who["Type"]}
    return record


def _of_kinesis(record: dict[str, Any], position: dict[str, Any]) -> dict[str, Any]:
    return {
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": f"{position['shardId']}:{record['SequenceNumber']}",
        "eventName": "aws:kinesis:record",
        "awsRegion": position["streamArn"].split(":")[3],
        "eventSourceARN": position["streamArn"],
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": record["PartitionKey"],
            "sequenceNumber": record["SequenceNumber"],
            "data": record["Data"],
            "approximateArrivalTimestamp": record["ApproximateArrivalTimestamp"],
        },
    }


def _json(value: object) -> object:
    """Return bytes and times as Lambda writes them."""
    if isinstance(value, datetime):
        return value.timestamp()
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
