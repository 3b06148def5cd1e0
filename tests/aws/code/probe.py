"""The functions that `make aws` deploys beside the sample, and invokes to see what AWS does."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Any

import boto3
import botocore
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.exceptions import ClientError

from lambda_once import InProgress, Once
from lambda_once.core.clock import SystemClock, monotonic
from lambda_once.dynamodb.client import own_client

TABLE = os.environ["LAMBDA_ONCE_TABLE"]
FOREIGN = "orders/first-run/taken"
"""A token of another service, which the sample's role may use and this one may not."""
clock = SystemClock()
once = Once()


@once.function(name="work", key="order.id")
def work(order: dict[str, Any]) -> dict[str, Any]:
    """Do what *order* asks for, and return what no other run returns."""
    match order:
        case {"ends": "crash"}:
            os._exit(1)
        case {"ends": "timeout"}:
            for _ in beats(order["id"]):
                pass
        case {"ends": "exception"}:
            raise RuntimeError("the work failed, as asked")
        case _:
            pass
    Event().wait(order.get("seconds", 0))
    return {"run": os.urandom(16).hex(), "text": os.urandom(order.get("bytes", 0) // 2).hex()}


def beats(order_id: str) -> Iterator[None]:
    """Write the time into a row of this service, again and again, until Lambda stops this process."""
    client = boto3.client("dynamodb")
    while True:
        client.update_item(
            TableName=TABLE,
            Key={"lockToken": {"S": f"probes/beats#{order_id}"}},
            UpdateExpression="SET beat = :at, expires = :ends",
            ExpressionAttributeValues={
                ":at": {"S": clock.now().isoformat()},
                ":ends": {"S": os.environ["ENDS_AT"]},
            },
        )
        yield


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Work an order, or answer a question about this environment."""
    if "ask" in event:
        answer: dict[str, Any] = QUESTIONS[event["ask"]](event)
        return answer
    os.environ["ENDS_AT"] = str(clock.now().timestamp() + context.get_remaining_time_in_millis() / 1000)
    with once.invocation(context):
        try:
            done = work(event)
        except InProgress as wait:
            return {"refused": "InProgress", "retryAfter": wait.retry_after}
    text = done["text"]
    return {"run": done["run"], "bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}


@once.sqs(name="charge", key="id")
def charge(record: SQSRecord) -> None:
    """Fail for the orders that say so."""
    if record.json_body.get("poison"):
        raise RuntimeError("a poison message, as asked")


# ------------------------------------------------------------------ questions


def versions(_: dict[str, Any]) -> dict[str, Any]:
    """Return what AWS runs this with."""
    return {
        "boto3": boto3.__version__,
        "botocore": botocore.__version__,
        "runtime": os.environ.get("AWS_EXECUTION_ENV", ""),
    }


def apart(_: dict[str, Any]) -> dict[str, float]:
    """Return the seconds from DynamoDB's clock, whose answers have whole ones, to this environment's."""
    answer = boto3.client("dynamodb").get_item(TableName=TABLE, Key={"lockToken": {"S": "probes/clock/1"}})
    theirs = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]).timestamp() + 0.5
    return {"seconds": clock.now().timestamp() - theirs}


def permissions(_: dict[str, Any]) -> dict[str, str]:
    """Return what each request of this role is answered, by its name."""
    client = boto3.client("dynamodb")
    own, part = "probes/first-run/own", "probes/first-run/own#1#0"

    def key(token: str) -> dict[str, Any]:
        return {"lockToken": {"S": token}}

    def batch(token: str) -> dict[str, Any]:
        return {"RequestItems": {TABLE: [{"PutRequest": {"Item": key(token)}}]}}

    def statement(token: str, text: str) -> str:
        request = {"Statement": text, "Parameters": [{"S": token}]}
        (response,) = client.batch_execute_statement(Statements=[request])["Responses"]
        return str(response.get("Error", {}).get("Code", "allowed"))

    insert = f"INSERT INTO \"{TABLE}\" VALUE {{'lockToken': ?}}"
    update = f'UPDATE "{TABLE}" SET fence = 1 WHERE lockToken = ?'
    changed = {"UpdateExpression": "SET fence = fence", "ConditionExpression": "attribute_exists(fence)"}
    requests: dict[str, Callable[[], object]] = {
        "GetItem own": lambda: client.get_item(TableName=TABLE, Key=key(own)),
        "GetItem foreign": lambda: client.get_item(TableName=TABLE, Key=key(FOREIGN)),
        "UpdateItem foreign": lambda: client.update_item(TableName=TABLE, Key=key(FOREIGN), **changed),
        "BatchGetItem foreign": lambda: client.batch_get_item(RequestItems={TABLE: {"Keys": [key(FOREIGN)]}}),
        "PartiQLInsert foreign": lambda: statement(FOREIGN, insert),
        "PartiQLUpdate foreign": lambda: statement(FOREIGN, update),
        "BatchWriteItem own part": lambda: client.batch_write_item(**batch(part)),
        "BatchWriteItem own token": lambda: client.batch_write_item(**batch(own)),
        "BatchWriteItem foreign part": lambda: client.batch_write_item(**batch(f"{FOREIGN}#1#0")),
        "DeleteItem own": lambda: client.delete_item(TableName=TABLE, Key=key(own)),
        "Scan": lambda: client.scan(TableName=TABLE, Limit=1),
    }
    answers: dict[str, str] = {}
    for name, request in requests.items():
        try:
            answered = request()
            answers[name] = answered if isinstance(answered, str) else "allowed"
        except ClientError as error:
            answers[name] = error.response["Error"]["Code"]
    return answers


def writes(event: dict[str, Any]) -> dict[str, list[float]]:
    """Return the milliseconds of each of some writes, by boto3's client as it comes and by ours, in turns."""
    clients = {"boto3": boto3.client("dynamodb"), "ours": own_client()}
    taken: dict[str, list[float]] = {name: [] for name in clients}
    for each in range(event["times"]):
        for name, client in clients.items():
            begun = monotonic()
            client.update_item(
                TableName=TABLE,
                Key={"lockToken": {"S": f"probes/writes#{name}"}},
                UpdateExpression="SET fence = :each",
                ExpressionAttributeValues={":each": {"N": str(each)}},
            )
            taken[name].append(round((monotonic() - begun) * 1000, 2))
    return taken


QUESTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "versions": versions,
    "apart": apart,
    "permissions": permissions,
    "writes": writes,
}
