"""
A broken response is a lost one: never a result, never a permanent error, never an exception of Python's.

The server is a socket that sends what is written here; the clients are those that are used.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ResponseStreamingError

from lambda_once.dynamodb import errors
from lambda_once.dynamodb.client import guarded
from lambda_once.dynamodb.errors import is_transient
from tests.dynamodb.scripted import Server, answer, refusal
from tests.kit import tables

GRANT = {"Attributes": {"attempt": {"S": "a1"}, "blob": {"B": "eA=="}}}
CONDITION = refusal("ConditionalCheckFailedException", Item={"lockToken": {"S": "k"}})
WHOLE: dict[str, bytes] = {
    "a grant": answer(GRANT),
    "an empty grant": answer({}),
    "without a checksum": answer(GRANT, x_amz_crc32=None),
    "a refusal": CONDITION,
    "a refusal without a checksum": answer({"__type": "a#ThrottlingException"}, 400, x_amz_crc32=None),
    "a failure": refusal("InternalServerError", status=500),
}

Client = Callable[[str], Any]
CLIENTS: dict[str, Client] = {"made here": tables.boto3s, "given": tables.client}


@contextmanager
def scripted(make: Client, *responses: bytes) -> Iterator[tuple[Any, Server]]:
    """Yield a guarded client, and its server, which closes each connection after one of *responses*."""
    server = Server(*[[response] for response in responses])
    with closing(server), closing(guarded(make(f"http://127.0.0.1:{server.port}"))) as client:
        yield client, server


def outcome_of(client: Any) -> Any:
    """Return the result of a request, or the exception."""
    try:
        return client.update_item(TableName="t", Key={"lockToken": {"S": "k"}})
    except Exception as error:  # noqa: BLE001  (which it is, tests ask)
        return error
    finally:
        client.close()  # or the next request would meet the end of this connection


def is_lost(outcome: Any) -> bool:
    """Return whether *outcome* is an error of botocore's after which the same request is sent again."""
    return isinstance(outcome, BotoCoreError | ClientError) and is_transient(outcome)


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("name", WHOLE)
def test_a_response_that_is_cut_anywhere_is_lost(name: str, make: Client) -> None:
    """Whether the connection ends in its head or in its body."""
    whole = WHOLE[name]
    cuts = [whole[:at] for at in range(len(whole))]
    with scripted(make, *cuts) as (client, _):
        outcomes = [outcome_of(client) for _ in cuts]
    assert [at for at, outcome in enumerate(outcomes) if not is_lost(outcome)] == []


def test_twin_without_the_check_a_cut_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty result, which would grant a token, is read out of some of them."""
    monkeypatch.setattr(errors, "check", lambda *_, **__: None)
    whole = WHOLE["a grant"]
    cuts = [whole[:at] for at in range(len(whole))]
    with scripted(tables.boto3s, *cuts) as (client, _):
        results = [outcome for outcome in [outcome_of(client) for _ in cuts] if isinstance(outcome, dict)]
    assert results


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
def test_a_whole_response_is_what_it_says(make: Client) -> None:
    """Results and refusals come through, with a Content-Length, in chunks, or until the connection ends."""
    body = json.dumps(GRANT).encode()
    head = answer(GRANT, Content_Length=None, Transfer_Encoding="chunked").partition(b"\r\n\r\n")[0]
    chunked = head + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    until_the_end = answer(GRANT, Content_Length=None, Connection="close")  # as moto: there is no length
    with scripted(make, answer(GRANT), chunked, until_the_end, answer({}), CONDITION) as (client, _):
        outcomes = [outcome_of(client) for _ in range(5)]
    wanted = {"attempt": {"S": "a1"}, "blob": {"B": b"x"}}
    assert [outcome["Attributes"] for outcome in outcomes[:3]] == [wanted] * 3
    assert "Attributes" not in outcomes[3]
    assert outcomes[4].response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert outcomes[4].response["Item"] == {"lockToken": {"S": "k"}}


BROKEN: Final[dict[str, bytes]] = {
    "a length that is no number": answer(GRANT, Content_Length="x"),
    "no length at all": answer(GRANT, Content_Length=""),
    "a negative length": answer(GRANT, Content_Length="-5"),
    "two lengths": answer(GRANT, Content_Length="9, 9"),
    "a length that is too small": answer(GRANT, Content_Length="9", x_amz_crc32=None),
    "a length that is too large": answer(GRANT, Content_Length="999", x_amz_crc32=None),
    "a wrong checksum": answer(GRANT, x_amz_crc32="1"),
    "a checksum that is no number": answer(GRANT, x_amz_crc32=""),
    "a refusal with a wrong checksum": answer({"__type": "a#b"}, 400, x_amz_crc32="1"),
    "an empty result": answer(b""),
    "an empty result of status 204": answer(b"", 204),
    "a refusal without body and length": answer(b"", 400, Content_Length=None),
    "a redirection without body and length": answer(b"", 302, Content_Length=None),
    "an interim status": answer(b"", 103, Content_Length=None, x_amz_crc32=None),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_lost(name: str) -> None:
    """One request is sent: this is no error that botocore retries."""
    with scripted(_patient, BROKEN[name]) as (client, server):
        outcome = outcome_of(client)
        assert is_lost(outcome)
        if isinstance(outcome, ResponseStreamingError):
            assert len(server.requests) == 1


def _patient(endpoint: str) -> Any:
    """Make a client that retries by itself."""
    return tables.session().client(
        "dynamodb", endpoint_url=endpoint, config=Config(retries={"total_max_attempts": 2})
    )


BODIES: dict[str, bytes] = {
    "gzip": gzip.compress(json.dumps(GRANT).encode(), mtime=0),
    "UTF-16": json.dumps(GRANT).encode("utf-16"),
    "UTF-16 without a mark": json.dumps(GRANT).encode("utf-16-le"),
    "Latin-1": '{"message": "für"}'.encode("latin-1"),
    "null": b"null",
    "a list": b"[1, 2]",
    "a string": b'"ok"',
    "half an object": b'{"Attributes": {"status',
    "a page": b"<html>hello</html>",
    "text": b"upstream connect error",
    "deep": b"[" * 100_000,
    "deep in an object": b'{"a":' * 100_000,
    "a list for a name": b'{"__type": [1]}',
}


@pytest.mark.parametrize("status", [200, 400, 404, 500, 503])
@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_object_is_lost(name: str, status: int) -> None:
    """Nothing but a botocore exception comes of it, and the request is sent again."""
    with scripted(tables.boto3s, answer(BODIES[name], status)) as (client, _):
        assert is_lost(outcome_of(client))


@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_somebody_else_is_not(name: str) -> None:
    """Without a header of DynamoDB's a body of the right length is another server's."""
    headers = {"Content_Type": "text/html", "x_amzn_RequestId": None, "x_amz_crc32": None}
    with scripted(tables.boto3s, *(answer(BODIES[name], status, **headers) for status in (200, 403))) as (
        client,
        _,
    ):
        outcomes = [outcome_of(client) for _ in range(2)]
    assert [type(outcome) for outcome in outcomes] == [errors.NotDynamoDB] * 2


def test_no_error_shows_a_credential() -> None:
    """AWS quotes the canonical request when a signature is wrong, and the session token is in it."""
    quoted = "should have been 'POST\n/\n\nx-amz-security-token:IQoJ/b3+J=\nx-amz-target:it\n'"
    escaped = refusal("InvalidSignatureException", quoted).partition(b"\r\n\r\n")[2].replace(b"/b", b"\\/b")
    responses = [refusal("InvalidSignatureException", quoted), answer(escaped, 400)]
    with scripted(tables.boto3s, *responses) as (client, _):
        for _ in responses:
            error = outcome_of(client)
            assert "IQoJ" not in f"{error} {error.response}"
            assert "b3+J" not in f"{error} {error.response}"
            assert error.response["Error"]["Code"] == "InvalidSignatureException"
            assert "x-amz-security-token:***\nx-amz-target:it\n'" in str(error)


# ---------------------------------------------------------------- the two events


def test_botocore_emits_both_events() -> None:
    """Neither is documented: without one of them a response is checked once only, or not at all."""
    seen: list[str] = []
    with scripted(tables.boto3s, answer(GRANT), CONDITION) as (client, _):
        for name in ("before-parse.dynamodb", "after-call.dynamodb"):
            client.meta.events.register(name, lambda event_name, **_: seen.append(event_name))
        outcome_of(client)
        outcome_of(client)
    assert seen == ["before-parse.dynamodb.UpdateItem", "after-call.dynamodb.UpdateItem"] * 2


@pytest.mark.parametrize("handler", ["_before_parse", "_after_call"])
def test_with_either_event_alone_nothing_that_is_cut_is_a_result(
    handler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may grant a token is checked in both."""
    monkeypatch.setattr(errors, handler, lambda **_: None)
    whole = WHOLE["a grant"]
    cuts = [whole[:at] for at in range(len(whole))]
    with scripted(tables.boto3s, *cuts) as (client, _):
        outcomes = [outcome_of(client) for _ in cuts]
    assert [outcome for outcome in outcomes if isinstance(outcome, dict)] == []
