"""DynamoDB's JSON, written and read at once: all that crosses is what botocore itself writes and reads."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from botocore import handlers
from botocore.exceptions import ClientError, ResponseStreamingError

from lambda_once.dynamodb import bodies, errors
from lambda_once.integrations import private
from tests.dynamodb.scripted import Server, answer, refusal
from tests.kit import tables
from tests.kit.equal import compared

KEY = {"lockToken": {"S": "tökën/\u2028"}}
ITEM = {
    **KEY,
    "n": {"N": "1E+2"},
    "b": {"B": b"\x00\xff"},
    "B": {"BS": [b"a", b""]},
    "ss": {"SS": ["a", "B"]},
    "m": {"M": {"B": {"L": [{"B": b"x"}, {"NULL": True}, {"BOOL": False}, {"M": {}}, {"L": []}]}}},
}
BATCH = {"t": [{"PutRequest": {"Item": ITEM}}, {"DeleteRequest": {"Key": KEY}}]}
STATEMENTS = [{"Statement": "INSERT", "Parameters": [{"S": "a"}, {"B": b"b"}]}]
REQUESTS: dict[str, dict[str, Any]] = {
    "batch_execute_statement": {"Statements": STATEMENTS, "ReturnConsumedCapacity": "TOTAL"},
    "batch_get_item": {"RequestItems": {"t": {"Keys": [KEY], "ConsistentRead": True}}},
    "batch_write_item": {"RequestItems": BATCH},
    "delete_item": {"TableName": "t", "Key": KEY},
    "describe_table": {"TableName": "t"},
    "get_item": {"TableName": "t", "Key": KEY, "ConsistentRead": True},
    "put_item": {"TableName": "t", "Item": ITEM},
    "query": {"TableName": "t", "Limit": 1, "ExpressionAttributeValues": {":b": {"B": b"b"}}},
    "scan": {"TableName": "t"},
    "transact_write_items": {"TransactItems": [{"Put": {"TableName": "t", "Item": ITEM}}]},
    "update_item": {"TableName": "t", "Key": KEY, "ExpressionAttributeValues": {":i": {"M": ITEM}}},
}
"""A request of each operation that our clients send."""


def in_json(value: object) -> Any:
    """Return *value* as it crosses, binary in base64."""
    return json.loads(json.dumps(value, default=lambda each: b64encode(each).decode()))


WIRE = in_json(ITEM)
CAPACITY = {"TableName": "t", "CapacityUnits": 1.0, "Table": {"CapacityUnits": 1.0}}
RESPONSES = [{"TableName": "t", "Item": WIRE}, {"TableName": "t"}]
FAILED = [{"Error": {"Code": "DuplicateItem", "Message": "no", "Item": WIRE}, "TableName": "t"}]
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "batch_execute_statement": [{"Responses": RESPONSES}, {"Responses": FAILED}],
    "batch_get_item": [
        {"Responses": {"t": [WIRE, {}]}, "UnprocessedKeys": {"t": {"Keys": [in_json(KEY)]}}},
        {"Responses": {}, "UnprocessedKeys": None},
    ],
    "batch_write_item": [{"UnprocessedItems": in_json(BATCH)}, {"UnprocessedItems": {}}],
    "delete_item": [{"Attributes": WIRE}],
    "get_item": [{"Item": WIRE, "ConsumedCapacity": CAPACITY}, {"Item": None}],
    "put_item": [{"Attributes": WIRE}],
    "query": [{"Items": [WIRE], "Count": 1, "ScannedCount": 2, "LastEvaluatedKey": in_json(KEY)}],
    "scan": [{"Items": [], "Count": 0}],
    "transact_write_items": [{"ConsumedCapacity": [CAPACITY]}],
    "update_item": [{"Attributes": WIRE}, {"Attributes": None, "ConsumedCapacity": None}],
}
"""What comes back of each operation, beside nothing."""
VALIDATION = "com.amazon.coral.validate#ValidationException"
REFUSALS: dict[str, bytes] = {
    "a refusal": refusal("ConditionalCheckFailedException", Item=WIRE),
    "no item": refusal("ConditionalCheckFailedException"),
    "throttled": refusal("ProvisionedThroughputExceededException"),
    "throttled, with reasons": refusal("ThrottlingException", throttlingReasons=[{"reason": "r"}]),
    "conflict": refusal("TransactionConflictException"),
    "cancelled": refusal(
        "TransactionCanceledException", CancellationReasons=[{"Code": "None"}, {"Item": WIRE}]
    ),
    "another spelling": answer({"__type": VALIDATION, "Message": "no"}, 400),
    "no name": answer({"message": "no"}, 400),
    "no message": answer({"__type": VALIDATION, "message": None}, 400),
    "an old signature": refusal("InvalidSignatureException", "x-amz-security-token:geheim now"),
    "a failure": refusal("InternalServerError", status=500),
    "a page": answer(b"<html>502</html>", 502, Content_Type="text/html"),
}


@contextmanager
def asked(sent: bytes, make: Callable[[str], Any] = tables.boto3s) -> Iterator[tuple[Any, Server]]:
    """Yield a client as it is made here, of a server that answers *sent*, and the server."""
    with closing(Server([sent])) as server, closing(make(f"http://127.0.0.1:{server.port}")) as client:
        yield client, server


def outcome(client: Any, operation: str) -> Any:
    """Return what comes of the request of *operation*: the answer, or the error's."""
    try:
        return getattr(client, operation)(**REQUESTS[operation])
    except ClientError as error:
        return error.response


@pytest.mark.parametrize(
    ("operation", "content"),
    [(name, content) for name in REQUESTS for content in [{}, *ANSWERS.get(name, [])]],
)
def test_requests_and_answers_are_botocores(operation: str, content: dict[str, Any]) -> None:
    """Of each operation: what it writes, and what it reads."""
    with asked(answer(content)) as (client, server):
        assert "ResponseMetadata" in outcome(compared(client), operation)
        assert server.requests[0][0]["x-amz-target"].endswith(errors.named_operation(operation))


@pytest.mark.parametrize("operation", REQUESTS)
@pytest.mark.parametrize("sent", REFUSALS.values(), ids=REFUSALS)
def test_refusals_are_botocores(operation: str, sent: bytes) -> None:
    """Code, message and fields of each error, of each operation."""
    with asked(sent) as (client, _):
        found = outcome(compared(client), operation)
        assert found["Error"].keys() >= {"Code", "Message"}


FOREIGN = {"Error": {"Code": "ConditionalCheckFailedException", "Message": "page"}, "ResponseMetadata": {}}


@pytest.mark.parametrize("status", [200, 400, 403, 404, 500, 503])
@pytest.mark.parametrize("client", ["made here", "crt"])
def test_what_botocore_adds_is_never_read_of_a_body(status: int, client: str) -> None:
    """A page in JSON can't name an error, nor hide its status; DynamoDB writes neither at the top."""
    sent = answer({**FOREIGN, "message": "no", "Attributes": {}}, status)
    with asked(sent, tables.boto3s if client == "made here" else tables.crt) as (made, _):
        found = outcome(made, "update_item")
        assert found["ResponseMetadata"]["HTTPStatusCode"] == status
        assert found.get("Error", {}).get("Code") in (None, str(status))


def test_an_answer_that_is_nested_too_deeply_is_broken() -> None:
    """Nobody is DynamoDB who sends it: it counts as lost."""
    deep = b'{"Item": ' + b'{"L": [' * 600 + b"null" + b"]}" * 600 + b"}"
    with asked(answer(deep)) as (client, _), pytest.raises(ResponseStreamingError):
        client.get_item(**REQUESTS["get_item"])


@pytest.mark.parametrize(
    ("part", "broken", "sent"),
    [
        ("_with_bytes", lambda found: found, answer({"Item": WIRE})),
        ("_without_nulls", lambda value: value, answer({"Item": None})),
        ("encoded", lambda _: b"{}", answer({})),
    ],
)
def test_twin_what_differs_is_seen(
    monkeypatch: pytest.MonkeyPatch, part: str, broken: Callable[..., Any], sent: bytes
) -> None:
    """Binary values, nulls, and what is sent."""
    monkeypatch.setattr(bodies, part, broken)
    if part == "_with_bytes":
        monkeypatch.setattr(bodies, "_BINARY_DECODER", json.JSONDecoder(object_hook=broken))
    with asked(sent) as (client, _), pytest.raises(AssertionError):
        outcome(compared(client), "get_item")


def test_what_no_request_can_have_is_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake is named, and nothing is sent."""
    with asked(answer({})) as (client, server):
        with pytest.raises(TypeError, match="a request to DynamoDB has a set"):
            client.get_item(TableName="t", Key={"lockToken": {"S": {"a"}}})
        assert server.requests == []


def test_the_session_token_of_a_wrong_signature_is_not_shown() -> None:
    """AWS quotes the request."""
    with asked(REFUSALS["an old signature"]) as (client, _):
        assert "geheim" not in str(outcome(client, "get_item"))


HEADERS = {"amz-sdk-invocation-id", "amz-sdk-request"}


def test_headers_that_nobody_there_reads_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of botocore's own tries, and of Lambda's trace; the others are as ever."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "f")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1")
    with asked(answer({})) as (client, server):
        outcome(client, "get_item")
        ours = server.requests[0][0]
    with asked(answer({}), tables.client) as (client, server):
        outcome(client, "get_item")
        theirs = server.requests[0][0]
    assert theirs.keys() - ours.keys() == HEADERS | {"x-amzn-trace-id"}
    assert ours.keys() - theirs.keys() <= {"x-amz-security-token"}  # of other credentials


@pytest.mark.parametrize("name", [name for _, name in private._NEEDLESS])
def test_botocore_has_each_handler_that_is_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has not, the row may go; until then requests are sent as botocore has them."""
    assert hasattr(handlers, name)
    monkeypatch.delattr(handlers, name)
    with asked(answer({})) as (client, _):
        assert "ResponseMetadata" in outcome(client, "get_item")
