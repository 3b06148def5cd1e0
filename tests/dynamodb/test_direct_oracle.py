"""boto3's client as it is made here beside botocore alone: what goes out, what comes back, and what fails."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lambda_once.dynamodb.client import botocore_client, guarded, new_client
from lambda_once.dynamodb.errors import NotDynamoDB, code_of, is_foreign, is_refusal, is_transient
from tests.dynamodb.scripted import JSON
from tests.kit.host import Host, serving

by_newer_rules = pytest.mark.skipif(
    not hasattr(Config(), "account_id_endpoint_mode"),
    reason="an older parser of botocore's fails on some errors, and reads the code of others in another way",
)
FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

# ---------------------------------------------------------------- the two clients, and what answers them


class Pair(NamedTuple):
    """Both clients, of one endpoint."""

    host: Host
    direct: Any
    alone: Any

    def both(self, operation: str, arguments: dict[str, Any], reply: bytes) -> tuple[Outcome, Outcome]:
        """Return what either client makes of *reply*; ours first."""
        self.host.answer = lambda _: reply
        return tuple(outcome(client, operation, arguments) for client in (self.direct, self.alone))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Both clients, as the package makes them."""
    with serving() as host, pytest.MonkeyPatch.context() as patch:
        host.keeps = False
        for name in ("AWS_PROFILE", "AWS_CA_BUNDLE", "HTTP_PROXY", "http_proxy"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "geheim")
        patch.setenv("AWS_SESSION_TOKEN", "wimpel")
        patch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", host.url)
        yield Pair(host, guarded(new_client()), guarded(botocore_client()))


class Outcome(NamedTuple):
    """What a caller gets: a result, or an exception and what `Transport` makes of it."""

    result: Any
    error: Exception | None

    @property
    def meaning(self) -> tuple[bool, bool, bool]:
        """Whether it is sent again, wrote nothing for certain, or is not DynamoDB's."""
        error = self.error or AssertionError("no error")
        return is_transient(error), is_refusal(error), is_foreign(error)


def outcome(client: Any, operation: str, arguments: dict[str, Any]) -> Outcome:
    """Send one request; of the result without what botocore notes of its own retries."""
    try:
        result = getattr(client, operation)(**arguments)
    except (BotoCoreError, ClientError) as error:
        if isinstance(error, ClientError):
            error.response["ResponseMetadata"].pop("MaxAttemptsReached", None)
        return Outcome(None, error)
    result["ResponseMetadata"].pop("MaxAttemptsReached", None)
    return Outcome(result, None)


def http(body: bytes, status: int = 200, **headers: str | None) -> bytes:
    """Return a response as DynamoDB sends it; None among *headers* is left out."""
    shown = {
        "content-type": JSON,
        "content-length": str(len(body)),
        "x-amzn-requestid": "R1",
        "x-amz-crc32": str(crc32(body)),
        "connection": "close",
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in shown.items() if value is not None)
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode() + body


# ---------------------------------------------------------------- what DynamoDB sends

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.sampled_from(["a", "B", "BS", "S", "M", "lockToken", "message", "é"])
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str)
BINARY = st.binary(max_size=9).map(lambda value: b64encode(value).decode())
PLAIN = st.one_of(
    st.builds(lambda value: {"S": value}, TEXT),
    st.builds(lambda value: {"N": value}, NUMBERS),
    st.builds(lambda value: {"B": value}, BINARY),
    st.builds(lambda value: {"BS": value}, st.lists(BINARY, min_size=1, max_size=3)),
    st.builds(lambda value: {"SS": value}, st.lists(TEXT, min_size=1, max_size=3)),
    st.builds(lambda value: {"NS": value}, st.lists(NUMBERS, min_size=1, max_size=3)),
    st.builds(lambda value: {"BOOL": value}, st.booleans()),
    st.just({"NULL": True}),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.builds(lambda value: {"L": value}, st.lists(inner, max_size=3)),
        st.builds(lambda value: {"M": value}, st.dictionaries(NAMES, inner, max_size=3)),
    ),
    max_leaves=6,
)
ITEMS = st.dictionaries(NAMES, VALUES, max_size=4)
CAPACITY = st.fixed_dictionaries(
    {"TableName": st.just("t"), "CapacityUnits": st.sampled_from([0.5, 1.0, 12])},
    optional={"Table": st.just({"CapacityUnits": 1.0})},
)
FAILED = st.fixed_dictionaries(
    {"Code": st.sampled_from(["ConditionalCheckFailed", "DuplicateItem", "ThrottlingError"])},
    optional={"Message": TEXT, "Item": ITEMS},
)
STATEMENT = st.fixed_dictionaries({}, optional={"TableName": st.just("t"), "Item": ITEMS, "Error": FAILED})
KEY = {"lockToken": {"S": "t"}}
RESULTS: dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]] = {
    "update_item": (
        {
            "TableName": "t",
            "Key": KEY,
            "UpdateExpression": "SET a = :a",
            "ExpressionAttributeValues": {":a": {"B": b"\x00\xff"}},
        },
        st.fixed_dictionaries({}, optional={"Attributes": ITEMS, "ConsumedCapacity": CAPACITY}),
    ),
    "get_item": ({"TableName": "t", "Key": KEY}, st.fixed_dictionaries({}, optional={"Item": ITEMS})),
    "query": (
        {"TableName": "t", "KeyConditionExpression": "a = :a", "Limit": 3},
        st.fixed_dictionaries(
            {"Items": st.lists(ITEMS, max_size=3), "Count": st.integers(0, 3)},
            optional={"LastEvaluatedKey": ITEMS, "ScannedCount": st.integers(0, 3)},
        ),
    ),
    "batch_get_item": (
        {"RequestItems": {"t": {"Keys": [KEY], "ConsistentRead": True}}},
        st.fixed_dictionaries(
            {"Responses": st.dictionaries(st.just("t"), st.lists(ITEMS, max_size=2))},
            optional={"UnprocessedKeys": st.just({"t": {"Keys": [KEY]}})},
        ),
    ),
    "batch_execute_statement": (
        {"Statements": [{"Statement": "UPDATE t SET a = ?", "Parameters": [{"N": "1"}]}]},
        st.fixed_dictionaries(
            {"Responses": st.lists(STATEMENT, max_size=3)}, optional={"ConsumedCapacity": st.lists(CAPACITY)}
        ),
    ),
    "transact_write_items": (
        {"TransactItems": [{"Delete": {"TableName": "t", "Key": KEY}}], "ClientRequestToken": "r1"},
        st.fixed_dictionaries({}, optional={"ItemCollectionMetrics": st.just({})}),
    ),
}
ARGUMENTS = {operation: arguments for operation, (arguments, _) in RESULTS.items()}
CODES = st.sampled_from(
    [
        "ConditionalCheckFailedException",
        "ExpiredTokenException",
        "InternalServerError",
        "ProvisionedThroughputExceededException",
        "ResourceNotFoundException",
        "ThrottlingException",
        "TransactionCanceledException",
        "TransactionConflictException",
        "UnknownOperationException",
        "ValidationException",
    ]
)
FORMS = st.sampled_from(["{}", "com.amazonaws.dynamodb.v20120810#{}", "{}:http://internal.amazon.com/"])
REASONS = st.lists(FAILED, max_size=2)
ERRORS = st.builds(
    lambda code, form, rest: {"__type": form.format(code)} | rest,
    CODES,
    FORMS,
    st.fixed_dictionaries(
        {},
        optional={"message": TEXT, "Message": TEXT, "Item": ITEMS, "CancellationReasons": REASONS, "x": TEXT},
    ),
)


# ---------------------------------------------------------------- what goes out

VARYING = frozenset({"amz-sdk-invocation-id", "amz-sdk-request", "authorization", "x-amz-date"})
"""Headers that botocore's retries, the time, and the signature over both make."""


def _lasting(headers: Mapping[str, str]) -> dict[str, str]:
    """Return *headers* without those; Powertools adds itself to the user agent where botocore signs."""
    lasting = {name: value for name, value in headers.items() if name not in VARYING}
    return lasting | {"user-agent": headers["user-agent"].partition(" PT/")[0]}


@pytest.mark.parametrize("operation", RESULTS)
def test_the_request_is_botocores(pair: Pair, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line, body and headers, but those of botocore's retries, the time, and the signature over them."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1")
    pair.host.requests.clear()
    pair.both(operation, ARGUMENTS[operation], http(b"{}"))
    ours, theirs = pair.host.requests
    assert (ours.line, json.loads(ours.body)) == (theirs.line, json.loads(theirs.body))
    assert _lasting(ours.headers) == _lasting(theirs.headers)
    assert ours.headers["x-amzn-trace-id"].startswith("Root=1-")
    assert ours.headers["x-amz-security-token"] == "wimpel"
    scopes = [seen.headers["authorization"].partition(",")[0] for seen in (ours, theirs)]
    assert scopes[0] == scopes[1]


# ---------------------------------------------------------------- what comes back


@pytest.mark.parametrize("operation", RESULTS)
def test_a_result_is_read_as_botocore_reads_it(pair: Pair, operation: str) -> None:
    """Values, metadata and all."""
    arguments, results = RESULTS[operation]

    @FEW
    @given(results)
    def compared(result: dict[str, Any]) -> None:
        ours, theirs = pair.both(operation, arguments, http(json.dumps(result).encode()))
        assert theirs.error is None
        assert ours == theirs

    compared()


@by_newer_rules
@pytest.mark.parametrize("operation", ["update_item", "transact_write_items"])
def test_an_error_is_read_as_botocore_reads_it(pair: Pair, operation: str) -> None:
    """Its class, its response with the fields of its model, and what is done about it."""

    @FEW
    @given(ERRORS, st.sampled_from([400, 413, 500, 503]))
    def compared(error: dict[str, Any], status: int) -> None:
        ours, theirs = pair.both(operation, ARGUMENTS[operation], http(json.dumps(error).encode(), status))
        assert isinstance(theirs.error, ClientError)
        assert isinstance(ours.error, ClientError)
        assert type(ours.error).__name__ == type(theirs.error).__name__
        assert ours.error.response == theirs.error.response
        assert str(ours.error) == str(theirs.error).replace(" (reached max retries: 0)", "")
        assert ours.meaning == theirs.meaning

    compared()


def test_modelled_errors_are_the_clients_own(pair: Pair) -> None:
    """`except client.exceptions.ConditionalCheckFailedException` works."""
    body = json.dumps({"__type": "ConditionalCheckFailedException", "message": "no", "Item": KEY}).encode()
    ours, _ = pair.both("update_item", ARGUMENTS["update_item"], http(body, 400))
    assert isinstance(ours.error, pair.direct.exceptions.ConditionalCheckFailedException)
    assert ours.error.response["Item"] == KEY


PAGE = b"<html>Sign in</html>"
SAME: dict[str, bytes] = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "a page": http(PAGE, content_type="text/html", x_amzn_requestid=None, x_amz_crc32=None),
    "a page that refuses": http(PAGE, 403, content_type="text/html", x_amzn_requestid=None, x_amz_crc32=None),
    "a redirect": http(PAGE, 301, location="http://127.0.0.1:1/", x_amzn_requestid=None, x_amz_crc32=None),
    "a redirect with an object": http(b"{}", 302, location="http://127.0.0.1:1/"),
    "a refusal that is a list": http(b"[]", 400, content_type="text/html", x_amzn_requestid=None),
    "a proxy's fault": http(PAGE, 502, content_type="text/html", x_amz_crc32=None),
    "a fault without a body": http(b"", 503),
}
"""Responses of which both make the same: sent again, or not, and never a result."""
STRICTER: dict[str, bytes] = {
    "half a head": http(b"{}")[:30],
    "half a body": http(b'{"Attributes": {}}')[:-4],
    "a wrong checksum": http(b'{"Attributes": {}}', x_amz_crc32="1"),
    "an empty body": http(b""),
    "bytes behind the body": http(b"{}") + b"HTTP/1.1 200 OK\r\n\r\n",
    "two lengths": http(b"{}", transfer_encoding="chunked"),
    "an interim response": b"HTTP/1.1 103 Early Hints\r\n\r\n" + http(b"{}"),
}
"""Responses that are sent again here; of some of them botocore makes a result."""


@by_newer_rules
@pytest.mark.parametrize("name", SAME)
def test_a_broken_response_means_the_same(pair: Pair, name: str) -> None:
    """Whatever its class is: `Transport` sends it again, or does not, by the same rule."""
    ours, theirs = pair.both("update_item", ARGUMENTS["update_item"], SAME[name])
    assert ours.error is not None
    assert ours.meaning == theirs.meaning
    assert isinstance(ours.error, NotDynamoDB) == isinstance(theirs.error, NotDynamoDB)
    if isinstance(theirs.error, ClientError):
        assert code_of(ours.error) == code_of(theirs.error)


@pytest.mark.parametrize("name", STRICTER)
def test_an_ambiguous_response_is_none(pair: Pair, name: str) -> None:
    """It counts as no answer, which is sent again."""
    ours, _ = pair.both("update_item", ARGUMENTS["update_item"], STRICTER[name])
    assert ours.meaning == (True, False, False)


@by_newer_rules
def test_nothing_is_sent_twice_by_the_client(pair: Pair) -> None:
    """`Transport` alone repeats requests, whatever the response was."""
    for reply in (*SAME.values(), *STRICTER.values(), http(b"{}")):
        pair.host.requests.clear()
        pair.both("update_item", ARGUMENTS["update_item"], reply)
        assert len(pair.host.requests) == 2
