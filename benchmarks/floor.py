"""
The least that one API event takes with the same effect: written by hand, for one event, and for nothing else.

It reads the body, hashes it, acquires its token by one request, and replays or completes; it signs, and reads
each answer whole. It writes the same log line by Powertools' formatter and the same metrics. It has no
options, retries, time limits, checks of answers, takeovers or errors: not a way to go, but a distance.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from aws_lambda_powertools import Logger

from benchmarks import deliveries
from lambda_once.core.writes import Acquire, Complete, Holder, Unclaimed, Write
from lambda_once.stores import requests

if TYPE_CHECKING:
    from benchmarks.sides import Handler

NAME: Final = "floor"
_TABLE: Final = "tokens"
_OWNER: Final = "orders/orders.benchmarks.sides.LambdaOnce.api.%3Clocals%3E.create"
"""What tokens of the side's own handler begin with, whose rows the table has."""
_NOW: Final = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
_SORTED: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_SIGNED: Final = "content-type;host;x-amz-date;x-amz-target"


class Connection:
    """A connection to the table, over HTTP."""

    def __init__(self) -> None:
        self.host = urlsplit(os.environ["AWS_ENDPOINT_URL_DYNAMODB"]).netloc
        name, port = self.host.split(":")
        self._socket = socket.create_connection((name, int(port)))
        self._stream = self._socket.makefile("rb")
        self._day = f"{datetime.now(UTC):%Y%m%d}"
        self._key = _signing_key(self._day)

    def sent(self, template: str, *values: str) -> tuple[bool, Any]:
        """Send *template* with *values*; return whether it was granted, and the answer."""
        body = (template % values).encode()
        self._socket.sendall(_head(body, self.host, self._key, self._day) + body)
        status, length = self._stream.readline(), 0
        while (line := self._stream.readline()) != b"\r\n":
            if line.startswith(b"content-length: "):
                length = int(line[len(b"content-length: ") :])
        return b" 200 " in status, json.loads(self._stream.read(length))

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class Floor:
    """The side of the floor; it has a handler of requests alone."""

    name = NAME

    def client(self) -> Connection:
        return Connection()

    def api(self, client: Connection) -> Handler:
        logger = Logger(service="orders-floor", level="INFO")
        acquire, complete = _templates()

        def counted(*names: str) -> None:
            counts = "".join(f',"{name}":[1.0]' for name in names)
            metrics = ",".join(f'{{"Name":"{name}","Unit":"Count"}}' for name in names)
            sys.stdout.write(f'{{"_aws":{{"CloudWatchMetrics":[{{"Metrics":[{metrics}]}}]}}{counts}}}\n')
            sys.stdout.flush()

        def create(event: dict[str, Any], context: Any) -> Any:
            token = f"{_OWNER}/POST:%2Forders/{event['headers']['idempotency-key']}"
            text = _SORTED.encode({"query": {}, "body": json.loads(event["body"])})
            fingerprint, attempt = f"1.{sha256(text.encode()).hexdigest()}", os.urandom(16).hex()
            now = datetime.now(UTC)
            created = now.isoformat(timespec="milliseconds")
            lease = (now + timedelta(milliseconds=context.get_remaining_time_in_millis())).isoformat()
            at = str(now.timestamp())
            granted, answer = client.sent(acquire, token, created, lease, attempt, fingerprint, at, at)
            line = {"token": token, "attempt": attempt, "acquired": created, "expected_completion": lease}
            if not granted:
                logger.info("once.replayed", extra=line)
                counted("replayed")
                response = json.loads(answer["Item"]["result"]["S"])
                return {**response, "headers": {**response["headers"], "Idempotent-Replayed": "true"}}
            counted("started")
            response = deliveries.answer()
            logger.info("once.returned", extra=line)
            client.sent(complete, token, created, json.dumps(response).replace('"', '\\"'), attempt, at)
            logger.info("once.completed", extra=line)
            counted("completed")
            return response

        return create


def _templates() -> tuple[str, str]:
    """Return the bodies of an acquisition and of a completion, with ``%s`` for what differs."""
    held = Acquire("%s", "%s", "orders/r", _NOW, _NOW, Unclaimed(take_over=True), 1, "%s")
    first = requests.acquire_new(_TABLE, held, 1)
    last = requests.finish(_TABLE, Write("%s", Holder("%s"), Complete(None), _NOW, 1, "w"), 1)
    for request, marked in ((first, ("created", "expectedCompletion")), (last, ("actualCompletion",))):
        values = request["ExpressionAttributeValues"]
        for name in marked:
            values[f":{name}_"] = {"S": "%s"}
        if request is last:
            values[":result_"] = {"S": "%s"}
            request["UpdateExpression"] = request["UpdateExpression"].replace(
                "SET ", "SET #result = :result_, "
            )
            request["ExpressionAttributeNames"]["#result"] = "result"
        values[":ttl_"] = {"N": "%s"}
    first["ExpressionAttributeValues"][":fence_"] = {"N": "%s"}
    return tuple(_in_order(request) for request in (first, last))  # type: ignore[return-value]  # two


def _in_order(request: dict[str, Any]) -> str:
    """Return *request* as JSON, with what differs in the order in which the handler gives it."""
    values = request["ExpressionAttributeValues"]
    order = (":created_", ":expectedCompletion_", ":actualCompletion_", ":result_", ":attempt_", ":a")
    wanted = [*(name for name in order if name in values), ":fingerprint_", ":fence_", ":ttl_"]
    sorted_values = {name: values[name] for name in wanted if name in values} | values
    return json.dumps({"Key": request["Key"], **request, "ExpressionAttributeValues": sorted_values})


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _signing_key(day: str) -> bytes:
    """Return the key of *day* (AWS IAM user guide, "Create a signed AWS API request")."""
    key = f"AWS4{os.environ['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in (day, os.environ["AWS_DEFAULT_REGION"], "dynamodb", "aws4_request"):
        key = _hmac(key, part)
    return key


def _head(body: bytes, host: str, key: bytes, day: str) -> bytes:
    date = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    headers = {
        "content-type": "application/x-amz-json-1.0",
        "host": host,
        "x-amz-date": date,
        "x-amz-target": "DynamoDB_20120810.UpdateItem",
    }
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"POST\n/\n\n{lines}\n{_SIGNED}\n{sha256(body).hexdigest()}"
    scope = f"{day}/{os.environ['AWS_DEFAULT_REGION']}/dynamodb/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{sha256(request.encode()).hexdigest()}"
    credential = f"{os.environ['AWS_ACCESS_KEY_ID']}/{scope}"
    signature = _hmac(key, text).hex()
    sent = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    proof = f"Credential={credential}, SignedHeaders={_SIGNED}, Signature={signature}"
    length = f"content-length: {len(body)}"
    return f"POST / HTTP/1.1\r\n{sent}authorization: AWS4-HMAC-SHA256 {proof}\r\n{length}\r\n\r\n".encode()
