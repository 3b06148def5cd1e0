"""An endpoint that is not DynamoDB: a clear error that names the settings, and nothing runs unprotected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from botocore.awsrequest import AWSResponse
from botocore.stub import Stubber

from lambda_once import Misconfigured, StoreUnavailable
from lambda_once.dynamodb import errors
from lambda_once.dynamodb.retry import TRIES
from lambda_once.stores.batches import Batches
from tests.faults.tables import Layers
from tests.faults.test_bad_table import runs_nothing
from tests.kit import strangers, tables
from tests.sources.samples import batch, sqs_record

JSON = "application/json"
PAGES = {
    "a page": (200, "text/html", b"<html><body>It works!</body></html>"),
    "no text": (200, "application/octet-stream", b"\xff\xfe\x00"),
    "another's JSON": (200, JSON, b'{"Attributes": {"status": "ok"}}'),
    "empty JSON": (200, JSON, b"{}"),
    "half a JSON": (200, JSON, b'{"Attributes": {"sta'),
    "a list": (200, JSON, b"[1, 2]"),
    "null": (200, JSON, b"null"),
    "moved": (301, "text/html", b""),
    "bad request": (400, JSON, b"[1, 2]"),
    "forbidden": (403, "text/html", b"<html>by the proxy</html>"),
    "not found": (404, "text/html", b"<html>no such page</html>"),
    "not found in JSON": (404, JSON, b'{"message": "no such page"}'),
}


@pytest.fixture(params=list(PAGES.values()), ids=list(PAGES))
def stranger(request: pytest.FixtureRequest, sender: str) -> Iterator[Layers]:
    """Layers whose client talks to something else."""
    with strangers.page(*request.param) as address:
        client = tables.CLIENTS[sender](address)
        yield Layers(client)
        client.close()


@pytest.mark.parametrize("sender", tables.CLIENTS)
def test_what_is_not_dynamodb_is_misconfigured(stranger: Layers) -> None:
    """Whatever it answers is no acquisition and no outage; its page is not quoted."""
    runs_nothing(stranger, Misconfigured, "not DynamoDB: check AWS_ENDPOINT_URL[^<]*$")


@pytest.mark.parametrize("usable", [True, False], ids=["batches", "single writes"])
@pytest.mark.parametrize("sender", tables.CLIENTS)
def test_a_batch_at_what_is_not_dynamodb(
    stranger: Layers, usable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record of a batch runs, either way in which it is acquired."""
    monkeypatch.setattr(Batches, "usable", usable)

    @stranger.once().sqs
    def handler(record: Any) -> None:
        pytest.fail("it ran unprotected")

    with pytest.raises(BatchProcessingError) as raised:
        handler(batch(sqs_record("x"), sqs_record("y", id_="b")), stranger.context())
    assert {kind for kind, _, _ in raised.value.child_exceptions} == {Misconfigured}


def test_twin_that_believes_any_answer_calls_a_page_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check the mistake has no name: a page has no attempt id, so it grants nothing either."""
    monkeypatch.setattr(errors, "check", lambda *_, **__: None)
    with strangers.page(*PAGES["a page"]) as address:
        client = tables.client(address)
        runs_nothing(Layers(client), StoreUnavailable, "CrossedResponse")
        client.close()


def test_a_botocore_without_before_parse_is_guarded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is not documented: what may grant is checked after parsing, too."""
    monkeypatch.setattr(errors, "_before_parse", lambda **_: None)
    with strangers.page(*PAGES["a page"]) as address:
        client = tables.client(address)
        runs_nothing(Layers(client), Misconfigured, "not DynamoDB")
        client.close()


@pytest.mark.parametrize("sender", tables.CLIENTS)
def test_what_speaks_no_http_is_an_outage(sender: str) -> None:
    """It looks like a connection that broke: nothing runs."""
    with strangers.echo() as address:
        client = tables.CLIENTS[sender](address)
        runs_nothing(Layers(client), StoreUnavailable, "retry later")
        client.close()


@pytest.mark.parametrize("sender", tables.CLIENTS)
def test_nothing_at_all_is_an_outage(sender: str) -> None:
    """A response of status 200 without a body may be all that came of one."""
    with strangers.page(200, "text/plain", b"") as address:
        client = tables.CLIENTS[sender](address)
        runs_nothing(Layers(client), StoreUnavailable, "retry later")
        client.close()


@pytest.mark.parametrize("sender", tables.CLIENTS)
def test_a_proxy_without_an_upstream_is_an_outage(sender: str) -> None:
    """A page of status 502 may be gone in a second."""
    with strangers.page(502, "text/html", b"<html>bad gateway</html>") as address:
        client = tables.CLIENTS[sender](address)
        runs_nothing(Layers(client), StoreUnavailable, "retry later")
        client.close()


def _doubled(params: dict[str, Any], **_: object) -> tuple[AWSResponse, dict[str, Any]]:
    """Answer as a test's double does: it came by no wire, and has no headers."""
    request = json.loads(params["body"])
    http = AWSResponse(params["url"], 200, {}, None)
    if "ReturnValues" not in request:
        return http, {}
    attempt = request["ExpressionAttributeValues"][":attempt"]
    row = {
        **request["Key"],
        "attempt": attempt,
        "fence": {"N": "1"},
        "before": {"S": "none"},
        "generation": attempt,
    }
    return http, {"Attributes": row}


def test_a_doubled_client_is_believed() -> None:
    """What a test's double answers came by no wire, and has no headers."""
    client = tables.client()
    client.meta.events.register_first("before-call.dynamodb", _doubled)
    assert Layers(client).once().run("len", "k", len, [1]) == 1


def test_an_empty_answer_of_a_double_grants_nothing() -> None:
    """It could be any request's."""
    client = tables.client()
    with Stubber(client) as stubber:
        for _ in range(TRIES):
            stubber.add_response("update_item", {})
        stubber.add_response("update_item", {})
        runs_nothing(Layers(client), StoreUnavailable, "CrossedResponse")
