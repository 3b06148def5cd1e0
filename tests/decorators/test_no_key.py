"""Units that get no token: whose fault it is, what is logged and counted, and that nothing ran."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from pydantic import BaseModel

from lambda_once import KeyMissing, KeyReused, Misconfigured
from lambda_once.observability.reporter import Details
from tests.decorators.rig import Rig, in_memory
from tests.decorators.test_api import KEY, Shop
from tests.sources.samples import batch, http, rest, sqs_record

pytestmark = in_memory

MISTAKES: list[Callable[..., object]] = [
    lambda event: event.request_context.authorizer.principal_id,  # takes it for a data class
    lambda event: event["no such field"],
    lambda _event: 1 // 0,
]
_LINES = ("once.misconfigured", "once.key_missing", "once.bad_record")
REST = rest(headers={KEY: ["k"]})


class Order(BaseModel):
    orderId: int  # noqa: N815  (as in JSON)


@pytest.fixture(autouse=True)
def _logged(rig: Rig) -> None:
    """A logger of these tests' own, which pytest sees."""
    rig.once = rig.new(logger=logging.getLogger("tests of no key"))


def _reported(rig: Rig, name: str) -> list[Details]:
    return [details for details in rig.reported if details.event.value == name]


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """The lines of units without a token, each with its level."""
    lines = [(line.message, line.levelname) for line in caplog.records]
    return [line for line in lines if line[0] in _LINES]


def _counts(printed: str) -> dict[str, float]:
    """Sum the metrics of all documents that were written to standard output."""
    counts: dict[str, float] = {}
    for line in printed.splitlines():
        document = json.loads(line) if line.startswith('{"_aws"') else {"_aws": {"CloudWatchMetrics": []}}
        for directive in document["_aws"]["CloudWatchMetrics"]:
            for metric in directive["Metrics"]:
                name = metric["Name"]
                counts[name] = counts.get(name, 0) + sum(document[name])
    return counts


@pytest.mark.parametrize("option", ["key", "scope", "caller"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_callable_is_not_the_clients(
    rig: Rig,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    option: str,
    mistake: Callable[..., object],
) -> None:
    """What key=, scope= or caller= raises is raised over HTTP, logged at ERROR and counted."""
    shop = Shop(rig, **{option: mistake})
    with pytest.raises(Misconfigured, match=f"of {option}= raised") as raised:
        shop.ask(REST)
    cause = raised.value.__cause__
    assert cause is not None
    (details,) = _reported(rig, "once.misconfigured")
    assert (details.error, details.reason) == (type(cause).__name__, str(raised.value))
    assert _lines(caplog) == [("once.misconfigured", "ERROR")]
    assert _counts(capsys.readouterr().out) == {"misconfigured": 1}
    assert (shop.runs, rig.rows()) == (0, [])


def test_a_mistake_fails_its_record_alone(
    rig: Rig, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """In a batch the record over which key= stumbles goes back; the others are worked."""
    worked = []

    @rig.once.sqs(key=lambda record: record.json_body["id"])
    def work(record: Any) -> None:
        worked.append(record.message_id)

    event = batch(sqs_record({"id": 1}, id_="a"), sqs_record({}, id_="b"), sqs_record({"id": 2}, id_="c"))
    assert work(event, rig.context()) == {"batchItemFailures": [{"itemIdentifier": "b"}]}
    assert worked == ["a", "c"]
    assert _lines(caplog) == [("once.misconfigured", "ERROR")]
    (details,) = _reported(rig, "once.misconfigured")
    assert details.error == "KeyError"
    assert _reported(rig, "once.bad_record") == []
    counts = _counts(capsys.readouterr().out)
    assert (counts["misconfigured"], counts["badRecord"]) == (1, 1)


def test_a_record_without_a_key_has_one_line(
    rig: Rig, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It counts as both, a record that does not fit its model as one. A twin over HTTP has the other line."""

    @rig.once.sqs(key="orderId")
    def work(record: Any) -> None: ...

    event = batch(sqs_record({"orderId": 1}, id_="a"), sqs_record({"order_id": 2}, id_="b"))
    assert work(event, rig.context()) == {"batchItemFailures": [{"itemIdentifier": "b"}]}
    assert _lines(caplog) == [("once.bad_record", "ERROR")]
    counts = _counts(capsys.readouterr().out)
    assert (counts["keyMissing"], counts["badRecord"]) == (1, 1)
    (details,) = _reported(rig, "once.bad_record")
    assert details.reason is not None
    assert "did you mean order_id?" in details.reason


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"model": Order}, "not a valid Order: the body is not a JSON object; fix"),
        ({"key": "orderId"}, "(it sees text: the payload is not a JSON object)"),
    ],
)
def test_a_body_that_is_not_json_is_named_so(rig: Rig, options: dict[str, Any], wrong: str) -> None:
    """It is text then, and is not quoted."""

    @rig.once.sqs(**options)
    def work(record: Any) -> None: ...

    event = batch(sqs_record({"orderId": 1}, id_="a"), sqs_record("secret", id_="b"))
    assert work(event, rig.context()) == {"batchItemFailures": [{"itemIdentifier": "b"}]}
    (details,) = _reported(rig, "once.bad_record")
    assert details.reason is not None
    assert wrong in details.reason
    assert "secret" not in details.reason


def test_a_whole_batch_of_mistakes_raises(rig: Rig) -> None:
    """Where no record can be worked the Errors metric rings, as ever."""

    @rig.once.sqs(key=lambda _record: 1 // 0)
    def work(record: Any) -> None: ...

    with pytest.raises(BatchProcessingError) as raised:
        work(batch(sqs_record({"id": 1}), sqs_record({"id": 2})), rig.context())
    assert {kind for kind, _, _ in raised.value.child_exceptions} == {Misconfigured}


def test_a_function_says_it_too(rig: Rig) -> None:
    """once.function raises and reports the same."""

    @rig.once.function(key=lambda order: order.id)
    def work(order: int) -> None: ...

    with pytest.raises(Misconfigured, match="AttributeError"):
        work(5)
    assert [details.error for details in _reported(rig, "once.misconfigured")] == ["AttributeError"]


def test_what_an_expression_does_not_find_is_the_clients(
    rig: Rig, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """An expression that selects nothing is 400, logged at WARNING with the fields, and counted."""
    shop = Shop(rig, key="ordr")
    assert shop.ask(rest('{"order": "secret"}'))["statusCode"] == 400
    (details,) = _reported(rig, "once.key_missing")
    assert details.reason is not None
    assert "it sees the fields: order; did you mean order?" in details.reason
    assert "secret" not in details.reason
    assert _lines(caplog) == [("once.key_missing", "WARNING")]
    assert _counts(capsys.readouterr().out) == {"keyMissing": 1}
    assert shop.runs == 0


@pytest.mark.parametrize("event", [http(), http(headers={KEY.lower(): "line\nbreak"})])
def test_a_header_that_is_missing_or_malformed_is_counted(rig: Rig, event: dict[str, Any]) -> None:
    """A request without the header that is asked for, or with a malformed one, is reported as well."""
    shop = Shop(rig, without_key="reject")
    assert shop.ask(event)["statusCode"] == 400
    assert len(_reported(rig, "once.key_missing")) == 1


def test_missing_keys_do_not_flood_the_log(
    rig: Rig, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody can send such requests: a few lines an environment, all of them counted and shown to hooks."""
    shop = Shop(rig, key="ordr")
    for _ in range(9):
        shop.ask(REST)
    assert _lines(caplog) == [("once.key_missing", "WARNING")] * 4  # of 1, 2, 4, 8
    assert _counts(capsys.readouterr().out) == {"keyMissing": 9}
    assert len(_reported(rig, "once.key_missing")) == 9


def test_nulls_are_not_a_key(rig: Rig) -> None:
    """Two payloads whose key is made of nulls do not share a token: both are refused."""
    shop = Shop(rig, key="[tenant, order]")
    for body in ('{"tenant": null, "order": 5}', '{"tenant": "a", "order": {"id": null}}'):
        assert shop.ask(rest(body))["statusCode"] == 400
    assert (shop.runs, rig.rows()) == (0, [])


def test_nulls_inside_what_is_named_are_content(rig: Rig) -> None:
    """An order whose coupon is null is an order like any other, by an expression and by a callable."""
    for key in ("order", lambda event: json.loads(event["body"])["order"]):
        shop = Shop(rig, key=key, name=f"shop {key}")
        for order in (1, 1, 2):
            body = json.dumps({"order": {"id": order, "coupon": None}})
            assert shop.ask(rest(body))["statusCode"] == 201
        assert shop.runs == 2


@pytest.mark.parametrize("fingerprint", ["total", "[total, currency]"])
def test_a_fingerprint_may_be_null(rig: Rig, fingerprint: str) -> None:
    """Null is compared like any value: the same again is a duplicate, a value in its place is `KeyReused`."""

    @rig.once.event(key="id", fingerprint=fingerprint)
    def pay(event: Any) -> str:
        return "paid"

    for _ in range(2):
        assert pay({"id": 1, "total": None}, rig.context()) == "paid"
    with pytest.raises(KeyReused, match=r"total|\[total, currency\]"):
        pay({"id": 1, "total": 5}, rig.context())


@pytest.mark.parametrize("part", [None, "", ()])
def test_a_block_needs_every_part_of_its_key_and_scope(rig: Rig, part: object) -> None:
    """An element of a key or scope that is nothing is missing, as in what a callable returns."""
    for key, scope in ((("a", part), "s"), ("k", ("a", part)), ("k", ["a", part])):
        with pytest.raises(KeyMissing, match="is missing"), rig.once.begin(key, name="work", scope=scope):
            pass
    assert rig.rows() == []


def test_a_function_may_be_asked_to_run_all_the_same(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """LAMBDA_ONCE_DISABLED runs what has no key, and reports no mistake."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "1")
    shop = Shop(rig, key=lambda _event: 1 // 0)
    assert shop.ask(REST)["statusCode"] == 201
    assert _reported(rig, "once.misconfigured") == []


def test_a_callable_may_refuse_a_payload(rig: Rig) -> None:
    """KeyMissing that key= raises itself is the client's: 400."""

    def order_id(event: Any) -> object:
        if "order" not in json.loads(event["body"]):
            raise KeyMissing("an order has an id")
        return 1

    assert Shop(rig, key=order_id).ask(rest("{}"))["statusCode"] == 400
