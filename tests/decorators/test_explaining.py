"""What `explain` shows of an event: the token that it would take, and why."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.kafka import SchemaConfig
from pydantic import BaseModel
from rich.console import Console

from lambda_once import Misconfigured
from lambda_once.core.lifecycle import Record
from lambda_once.testing import (
    activemq_event,
    dynamodb_stream_event,
    kafka_event,
    kinesis_event,
    lambda_context,
    pipes_event,
    rabbitmq_event,
)
from lambda_once_tools.cli.explain import drawn, unit_json
from lambda_once_tools.explain.comparison import Verdict, compared
from lambda_once_tools.explain.explanation import Explanation, explain
from tests.decorators.rig import Rig, in_memory
from tests.decorators.test_api import KEY
from tests.sources.samples import (
    alb,
    batch,
    eventbridge,
    fifo_record,
    http,
    notification,
    rest,
    s3_record,
    sns_event,
    sqs_record,
    tick,
)
from tests.sources.test_caller import ALICE, BOB, basic, jwt, oidc, rest_by, sent

pytestmark = in_memory

BODY = {"orderId": 5, "amount": 1, "meta": {"try": 1}}


class Order(BaseModel):
    orderId: int  # noqa: N815  (the field's name in the message)
    amount: int


def _explain(handler: Any, event: object) -> list[Explanation]:
    return explain(handler.__once__, event)


def _answer(*_: object) -> dict[str, object]:
    return {"statusCode": 200, "body": "{}"}


CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("sqs", {}, batch(sqs_record(BODY))),
    ("sqs", {"key": "orderId", "scope": "eventSource", "ignore": ("meta.try",)}, batch(sqs_record(BODY))),
    ("sqs", {"key": lambda record: record.message_id}, batch(sqs_record("text"))),
    ("sqs", {"model": Order, "key": lambda order: order.orderId}, batch(sqs_record(BODY))),
    ("sqs", {}, batch(fifo_record(BODY), fifo_record("other", id_="b", deduplication="d-2"))),
    ("sqs", {}, batch(sqs_record(notification('{"a": 1}')))),
    ("sqs", {}, batch(sqs_record(eventbridge({"order": 5})))),
    ("sqs", {"key": "order", "fingerprint": False}, batch(sqs_record({"order": 5}))),
    ("sns", {}, sns_event("x")),
    ("sns", {"key": "a"}, sns_event('{"a": 1}')),
    ("kinesis", {}, kinesis_event({"a": 1}, "text", b"\xff")),
    ("kinesis", {"key": "orderId", "scope": "kinesis.partitionKey"}, kinesis_event(BODY)),
    ("dynamodb_stream", {}, dynamodb_stream_event((None, {"id": 5, "tags": {"a"}}), ({"id": 5}, None))),
    ("dynamodb_stream", {"key": "[Keys.id, eventName]"}, dynamodb_stream_event((None, {"id": 5}))),
    ("kinesis", {}, pipes_event(kinesis_event({"a": 1}))),
    ("kafka", {}, kafka_event({"a": 1}, None, b"\xff")),
    ("kafka", {"key": "orderId", "scope": "topic"}, kafka_event(BODY)),
    ("kafka", {"schema": SchemaConfig(value_schema_type="JSON"), "key": "orderId"}, kafka_event(BODY)),
    ("mq", {}, activemq_event({"a": 1}, "text")),
    ("mq", {}, rabbitmq_event({"a": 1}, {"a": 2}, message_ids=["5", None])),
    ("mq", {"key": "orderId", "scope": "eventSourceKey"}, pipes_event(rabbitmq_event(BODY))),
    ("event", {}, eventbridge({"order": 5})),
    ("event", {}, tick("1")),
    ("event", {}, {"Records": [s3_record(), s3_record("other.pdf")]}),
    ("event", {"key": "id", "fingerprint": "[id, n]"}, {"id": 1, "n": 2}),
    ("api_gateway", {}, rest(headers={KEY: ["k"]})),
    ("api_gateway", {}, http()),
    ("api_gateway", {"key": "orderId", "scope": "headers.host"}, rest(headers={"Host": ["shop"]})),
    ("api_gateway", {}, alb(multi=True, idempotency_key="k")),
    ("api_gateway", {"caller": "cookies.session"}, http(cookies=["session=a"])),
    ("api_gateway", {}, sent(f"Bearer {jwt(ALICE)}")),
    ("api_gateway", {}, sent("Bearer opaque")),
]


@pytest.mark.parametrize(("face", "options", "event"), CASES)
def test_the_token_is_the_one_that_is_taken(
    rig: Rig, face: str, options: dict[str, Any], event: dict[str, Any]
) -> None:
    """Token and fingerprint are those of the rows that the handler then makes, whatever makes them."""

    def work(subject: Any) -> dict[str, object]:
        return _answer(subject)

    handler = getattr(rig.once, face)(**options)(work)
    explained = _explain(handler, event)
    assert rig.rows() == []
    handler(event, rig.context())
    assert [(each.token, each.identity.fingerprint) for each in explained] == [
        _identity(row) for row in rig.rows()
    ]
    assert {each.problem for each in explained} == {None}
    assert {each.decorator for each in explained} == {f"once.{face}"}


@pytest.mark.parametrize(
    ("face", "event", "source", "payload"),
    [
        ("kinesis", kinesis_event({"a": 1}), "Kinesis Data Streams", "the data, a JSON object"),
        ("kinesis", kinesis_event(b"\xff"), "Kinesis Data Streams", "the data, bytes"),
        (
            "dynamodb_stream",
            dynamodb_stream_event((None, {"id": 5})),
            "DynamoDB Streams",
            "eventName, Keys, NewImage and OldImage in plain values, a JSON object",
        ),
    ],
)
def test_explain_a_stream(rig: Rig, face: str, event: dict[str, Any], source: str, payload: str) -> None:
    """The source, what key= sees, and that the key is the eventID; of a bad record what is wrong."""
    handler = getattr(rig.once, face)(_answer)
    (explained,) = _explain(handler, event)
    assert (explained.source, explained.payload) == (source, payload)
    keys = {"kinesis": "the eventID and subSequenceNumber, within the stream"}
    assert explained.key_from == keys.get(face, "the eventID, within the table")
    assert explained.delivery == event["Records"][0]["eventID"]
    bad = {"Records": [event["Records"][0] | {"eventID": None}]}
    assert "has no eventID" in str(_explain(handler, bad)[0].problem)


def test_explain_a_rabbitmq_message_without_id(rig: Rig) -> None:
    """The hash of its data is its key within its queue, which makes the same data there another message."""
    handler: Any = rig.once.mq(_answer)
    here, there = (_explain(handler, rabbitmq_event(BODY, queue=queue)) for queue in ("orders", "returns"))
    assert (here[0].source, here[0].hashed_for) == (
        "Amazon MQ",
        "the key, within 123456789012/rabbitmq/orders::/",
    )
    (comparison,) = compared(here, there)
    assert comparison.verdict is Verdict.OTHER
    assert [(part.name, part.counts) for part in comparison.parts] == [("within", True)]


def _identity(row: Record) -> tuple[str, str | None]:
    return row.token, row.fingerprint


def test_explain_a_record(rig: Rig) -> None:
    """Source, delivery, payload, key, scope, what is hashed and what is left out."""

    @rig.once.sqs(key="orderId", scope="eventSource", ignore=("meta.try", "sentAt"), name="ship")
    def ship(record: Any) -> None: ...

    (explained,) = _explain(ship, batch(sqs_record(BODY, id_="m-1")))
    assert (explained.source, explained.delivery) == ("Amazon SQS, standard queue", "m-1")
    assert explained.payload == "the body, a JSON object"
    assert (explained.key, explained.key_from) == (5, 'key="orderId"')
    assert (explained.scope, explained.scope_from) == ("aws:sqs", 'scope="eventSource"')
    assert explained.hashed is not None
    assert (explained.hashed.text, explained.hashed_for) == (
        '{"amount":1,"meta":{},"orderId":5}',
        "the fingerprint",
    )
    assert dict(explained.hashed.beside) == {
        "@origin": '["123456789012","orders"]',
        "@attributes": '{"tenant":["String","acme"]}',
    }
    assert [(each.path, each.places) for each in explained.ignored] == [("meta.try", 1), ("sentAt", 0)]
    assert (explained.service, explained.name) == ("shop", "ship")


def test_explain_what_is_ignored_beside_the_payload(rig: Rig) -> None:
    """What is left out isn't shown as if it counted, and is found where it is: in headers of Kafka, too."""
    ignore = ("@origin", "@attributes.tenant", "@attributes.other", "tenant")
    events = {"sqs": batch(sqs_record(BODY)), "kafka": kafka_event(BODY, headers={"tenant": "acme"})}
    for source, event in events.items():
        (explained,) = _explain(getattr(rig.once, source)(key="orderId", ignore=ignore)(_answer), event)
        assert [(each.path, each.places) for each in explained.ignored] == [
            *zip(ignore, (1, 1, 0, 0), strict=True)
        ]
        (attributes,) = (part.text for part in explained.parts if part.name == "@attributes")
        assert attributes in ("{}", "[]")


@pytest.mark.parametrize("record", [sqs_record, fifo_record])
def test_explain_the_key_of_an_event_in_a_message(rig: Rig, record: Callable[[object], Any]) -> None:
    """The event's id, of which a FIFO queue changes nothing."""
    (explained,) = _explain(rig.once.sqs(_answer), batch(record(tick("1"))))
    assert str(explained.key_from).startswith("the id of the EventBridge event")
    assert explained.key == "123456789012/1"


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        ({"a": 1}, "the body, a JSON object"),
        ([1], "the body, a JSON list"),
        ("5", "the body, a JSON value"),
        ("null", "the body, nothing"),
        ("text", "the body, text that is not a JSON object"),
        (
            notification("x"),
            "the body, an SNS notification, opened: its Message, text that is not a JSON object",
        ),
        (eventbridge({"a": 1}), "the body, an EventBridge event, opened: its detail, a JSON object"),
        ({"Records": [s3_record()]}, "the body, an S3 notification"),
    ],
)
def test_explain_opened_envelopes(rig: Rig, body: object, payload: str) -> None:
    """What the payload is, and which envelopes lay around it."""
    handler = rig.once.sqs(_answer)
    (explained,) = _explain(handler, batch(sqs_record(body)))
    assert explained.payload == payload


def test_explain_a_bad_record_beside_others(rig: Rig) -> None:
    """A bad record says what would be raised; the others are explained all the same."""

    @rig.once.sqs(model=Order, key=lambda order: 1 // order.amount)
    def ship(order: Order) -> None: ...

    event = batch(
        sqs_record(BODY, id_="a"),
        sqs_record("text", id_="b"),
        sqs_record(BODY | {"amount": 0}),
        {"messageId": "d"},
    )
    good, foreign, raising, malformed = _explain(ship, event)
    assert good.token is not None
    assert foreign.problem is not None
    assert foreign.problem.startswith("BadRecord: the payload is not a valid Order")
    assert raising.problem is not None
    assert raising.problem.startswith("Misconfigured: the callable")
    assert "of key= raised ZeroDivisionError" in raising.problem
    assert malformed.problem is not None
    assert "no text body" in malformed.problem
    assert {each.token for each in (foreign, raising, malformed)} == {None}


@pytest.mark.parametrize(
    ("options", "event", "message"),
    [
        ({"without_key": "reject"}, http(), "KeyMissing: the request has no Idempotency-Key"),
        ({}, rest(headers={KEY: ["k" * 256]}), "BadRequest: The header Idempotency-Key has 256 characters"),
        ({"without_key": "reject"}, rest(headers={KEY: ["null"]}), "KeyMissing: the request has no"),
        ({"key": "payment"}, http(), "KeyMissing: the key is missing"),
    ],
)
def test_explain_a_refused_request(rig: Rig, options: Any, event: Any, message: str) -> None:
    """What the client would get as a 400."""
    handler: Callable[..., Any] = rig.once.api_gateway(**options)(_answer)
    (explained,) = _explain(handler, event)
    assert explained.problem is not None
    assert explained.problem.startswith(message)


@pytest.mark.parametrize(
    ("options", "event", "named", "joins", "compared"),
    [
        ({}, http(), "nothing", None, False),
        ({}, sent(f"Bearer {jwt(ALICE)}"), "JWT in Authorization, unverified", "SHA-256 of the JWT", True),
        ({"key": "orderId"}, sent("Bearer s3cret"), "Authorization, whole", None, True),
        ({}, sent("Bearer s3cret"), "Authorization, whole", "SHA-256 of Authorization", True),
        (
            {},
            sent(f"Basic {basic('alice', 's3cret')}"),
            "user name of Basic",
            "SHA-256 of the user name",
            True,
        ),
        ({}, sent(x_api_key="s3cret"), "x-api-key", "SHA-256 of x-api-key", True),
        ({}, http(cookies=["session=s3cret"]), "the cookies", "SHA-256 of the cookies", False),
        ({"key": "orderId"}, http(cookies=["session=s3cret"]), "the cookies", None, False),
        ({}, http(authorizer={"lambda": {"principalId": "alice"}}), "Lambda authorizer", "SHA-256 of", True),
        (
            {"caller": "cookies.session"},
            http(cookies=["session=s3cret"]),
            'caller="cookies',
            "SHA-256",
            False,
        ),
        (
            {"caller": lambda event: f"alice {len(event)}"},
            http(),
            "caller= the callable",
            "SHA-256 of caller=",
            False,
        ),
        ({}, rest_by(apiKeyId="alice"), "the id of the API key", "SHA-256 of the id of the API key", False),
        ({}, alb(x_amzn_oidc_data=oidc()), "x-amzn-oidc-data, unverified", "SHA-256 of x-amzn", True),
        (
            {"caller": 'headers."x-user"'},
            http(headers={"x-user": "alice"}),
            """caller='headers."x-user"'""",
            "SHA-256",
            False,
        ),
        ({"caller": False}, http(), "caller=False", None, False),
    ],
)
def test_the_source_of_the_caller_is_shown_and_not_the_caller(
    rig: Rig, options: Any, event: Any, named: str, joins: str | None, *, compared: bool
) -> None:
    """Which rule it was, what of it joins the token, and whether a duplicate must present it again."""
    handler: Callable[..., Any] = rig.once.api_gateway(**options)(_answer)
    (explained,) = _explain(handler, event)
    assert named in str(explained.caller_from)
    assert (joins or "None") in str(explained.caller_joins)
    printed = unit_json(explained, full=True)
    assert printed["callerCompared"] is compared
    shown = f"{explained!r} {printed}"
    for secret in ("alice", "s3cret", jwt(ALICE), basic("alice", "s3cret")):
        assert secret not in shown


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("Bearer a", "Bearer a", Verdict.SAME),
        ("Bearer a", "Bearer b", Verdict.OTHER_CALLER),
        ("Bearer a", None, Verdict.OTHER_CALLER),
        (None, "Bearer b", Verdict.SAME),
        (f"Bearer {jwt(ALICE)}", f"Bearer {jwt(BOB)}", Verdict.OTHER),
    ],
)
def test_two_requests_of_one_key_are_compared_by_caller(
    rig: Rig, first: str | None, second: str | None, verdict: Verdict
) -> None:
    """What the handler would decide, in the words of the verdict."""
    handler: Callable[..., Any] = rig.once.api_gateway(key="orderId")(_answer)
    (found,) = compared(_explain(handler, sent(first)), _explain(handler, sent(second)))
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (http(), "nothing names the caller; no credential is compared"),
        (http(authorizer={"jwt": {"claims": ALICE}}), "iss and sub; its SHA-256, in the token"),
        (
            sent(f"Bearer {jwt(ALICE)}"),
            "its SHA-256, in the token; compared: a duplicate must present the same credential",
        ),
    ],
)
def test_a_person_reads_what_is_compared(rig: Rig, event: Any, line: str) -> None:
    """What joins the token is printed once."""
    handler: Callable[..., Any] = rig.once.api_gateway(key="orderId")(_answer)
    printed = StringIO()
    Console(width=500, file=printed).print(drawn([("request", _explain(handler, event))], [], full=True))
    assert f"{line}\n" in re.sub(" +\n", "\n", printed.getvalue())


@pytest.mark.parametrize(
    ("identity", "line"),
    [
        ({"sub": "alice", "issuer": "https://pool"}, "its SHA-256, in the token"),
        ({"resolverContext": {"exp": 1}}, "compared: a duplicate must present the same credential"),
    ],
    ids=["stable", "fresh"],
)
def test_a_person_reads_what_becomes_of_appsyncs_caller(rig: Rig, identity: Any, line: str) -> None:
    """Neither has a rule of requests that named the caller, so the line begins with what becomes of it."""
    handler = rig.once.event(key="arguments.id")(_answer)
    info = {"parentTypeName": "Mutation", "fieldName": "pay"}
    event = {"arguments": {"id": 1}, "identity": identity, "info": info}
    printed = StringIO()
    Console(width=500, file=printed).print(drawn([("event", _explain(handler, event))], [], full=True))
    assert re.search(rf"^ *caller +{line} *$", printed.getvalue(), re.MULTILINE)


def test_a_key_in_a_header_is_explained_as_such(rig: Rig) -> None:
    """Where there is no ``key=``."""
    handler: Callable[..., Any] = rig.once.api_gateway(_answer)
    (unit,) = _explain(handler, http(headers={KEY: "k"}))
    assert (unit.key, unit.key_from) == ("k", "the header Idempotency-Key")


TOKEN, COMPARED, LEFT_OUT = "in the token", "compared", "left out"
QUEUED = batch(sqs_record(BODY))
FIFO = batch(fifo_record(BODY))
APPSYNC: dict[str, Any] = {
    "arguments": {"id": 5},
    "identity": {"sub": "alice", "issuer": "https://issuer.example", "claims": {}, "username": "alice"},
    "info": {"fieldName": "pay", "parentTypeName": "Mutation", "variables": {}},
}
PARTS: list[tuple[str, dict[str, Any], Any, dict[str, str]]] = [
    ("sqs", {}, QUEUED, {"@origin": TOKEN, "@attributes": TOKEN, "content": TOKEN}),
    ("sqs", {"key": "orderId"}, QUEUED, {"@origin": COMPARED, "@attributes": COMPARED, "content": COMPARED}),
    (
        "sqs",
        {"key": "orderId", "ignore": ("@origin", "content")},  # a field of that name
        QUEUED,
        {"@origin": LEFT_OUT, "@attributes": COMPARED, "content": COMPARED},
    ),
    (
        "sqs",
        {"key": "orderId", "fingerprint": False},
        QUEUED,
        {"@origin": LEFT_OUT, "@attributes": LEFT_OUT, "content": LEFT_OUT},
    ),
    (
        "sqs",
        {},
        FIFO,
        {"@origin": TOKEN, "@position": TOKEN, "@attributes": COMPARED, "content": COMPARED},
    ),
    (
        "sqs",
        {"ignore": ("@origin", "@position")},  # a position isn't ignored
        FIFO,
        {"@origin": LEFT_OUT, "@position": TOKEN, "@attributes": COMPARED, "content": COMPARED},
    ),
    (
        "sqs",
        {"key": "orderId"},
        FIFO,
        {"@origin": COMPARED, "@position": LEFT_OUT, "@attributes": COMPARED, "content": COMPARED},
    ),
    ("api_gateway", {}, http(), {"operation": TOKEN, "content": TOKEN}),
    ("api_gateway", {"caller": False}, http(headers={KEY: "k"}), {"operation": TOKEN, "content": COMPARED}),
    (
        "api_gateway",
        {"key": "orderId"},
        sent(f"Bearer {jwt(ALICE)}"),
        {"caller": TOKEN, "credential": COMPARED, "operation": TOKEN, "content": COMPARED},
    ),
    ("event", {}, eventbridge({"a": 1}), {"operation": TOKEN, "@origin": TOKEN, "content": TOKEN}),
    ("event", {"key": "arguments.id"}, APPSYNC, {"caller": TOKEN, "operation": TOKEN, "content": COMPARED}),
    ("event", {"key": "id"}, {"id": 5}, {"content": COMPARED}),
]


def test_a_hash_is_within_no_queue_that_is_ignored(rig: Rig) -> None:
    """Else a message of another one, which is the same work, would seem to be none."""
    whole: Any = rig.once.sqs(_answer)
    loose: Any = rig.once.sqs(name="loose", ignore=("@origin",))(_answer)
    assert [_explain(each, QUEUED)[0].within for each in (whole, loose)] == ["123456789012/orders", None]


@pytest.mark.parametrize(("face", "options", "event", "parts"), PARTS)
def test_each_part_of_the_identity_has_a_line(
    rig: Rig, face: str, options: Any, event: Any, parts: dict[str, str]
) -> None:
    """What a source says, and whether that is in the token, compared or left out."""
    handler: Callable[..., Any] = getattr(rig.once, face)(**options)(_answer)
    explained = explain(handler.__once__, event, lambda_context(tenant_id="blue"))  # type: ignore[attr-defined]
    (unit,) = explained
    assert {part.name: part.standing.value for part in unit.parts} == {"tenant": TOKEN, **parts}
    assert {name: each["standing"] for name, each in unit_json(unit, full=True)["parts"].items()} == {
        "tenant": TOKEN,
        **parts,
    }
    printed = StringIO()
    Console(width=500, file=printed).print(drawn([("event", explained)], [], full=True))
    lines = [line.strip() for line in printed.getvalue().splitlines()]
    for name, standing in parts.items():
        label = "caller" if name == "credential" else name.removeprefix("@")
        (line,) = [line for line in lines if line.split(" ")[0] == label]
        assert standing in line


def test_a_part_has_its_text(rig: Rig) -> None:
    """What may be shown: never who asks."""
    handler: Any = rig.once.sqs(key="orderId")(_answer)
    (unit,) = _explain(handler, FIFO)
    text = {part.name: part.text for part in unit.parts}
    assert text["@origin"] == "123456789012/orders.fifo"
    assert text["content"] is None
    asked: Any = rig.once.event(key="arguments.id")(_answer)
    (unit,) = _explain(asked, APPSYNC)
    assert {part.name: part.text for part in unit.parts} == {
        "caller": None,
        "operation": "Mutation.pay",
        "content": None,
    }
    assert "alice" not in f"{unit.parts} {unit_json(unit, full=True)['parts']}"


def test_explain_a_duplicate_without_proof(rig: Rig) -> None:
    """Nobody gets its response; the command line says why, and what to do."""
    handler: Callable[..., Any] = rig.once.api_gateway(key="orderId")(_answer)
    unnamed, named = http(authorizer={"lambda": {"userId": "s3cret"}}), sent("Bearer a")
    explained = _explain(handler, unnamed)
    for first, second in (
        (explained, explained),
        (explained, _explain(handler, named)),
        (_explain(handler, named), explained),
    ):
        (found,) = compared(first, second)
        assert found.verdict is Verdict.OTHER_CALLER
    written = StringIO()
    console = Console(width=500, file=written)
    console.print(drawn([("request", explained)], [], full=True))
    shown = (unit_json(explained[0], full=True)["callerAdvice"], written.getvalue())
    for text in shown:
        assert 'caller="requestContext.authorizer.lambda.userId"' in text
        assert "s3cret" not in text


def test_explain_an_unprotected_request(rig: Rig) -> None:
    """What runs each time has no token, and is no error; `test_without_key` has the other reason."""
    handler: Callable[..., Any] = rig.once.api_gateway(methods=["PUT"])(_answer)
    (explained,) = _explain(handler, http())
    assert explained.unprotected is not None
    assert "POST is not among the methods" in explained.unprotected
    assert (explained.token, explained.problem) == (None, None)


@dataclass
class Cart:
    id: int
    lines: list[int]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_is_explained_by_its_arguments(rig: Rig, is_async: bool) -> None:
    """A dataclass is given as JSON; the token is the one that the call takes."""

    def plain(cart: Cart, note: str = "") -> None: ...

    async def coroutine(cart: Cart, note: str = "") -> None: ...

    once = rig.once.function(key="cart.id", name="place")(coroutine if is_async else plain)
    (explained,) = _explain(once, {"args": [{"id": 5, "lines": [1]}], "kwargs": {"note": "x"}})
    ran: Any = once(Cart(5, [1]), note="x")
    if is_async:
        asyncio.run(ran)
    assert (explained.token, explained.identity.fingerprint) == _identity(rig.row())
    assert explained.payload == "the arguments by name: cart, note"


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ([5], "a call is written as"),
        ({}, "a call is written as"),
        ({"order": 5}, "a call is written as"),
        ({"args": {"order": 5}}, "a call is written as"),
        ({"kwargs": [5]}, "a call is written as"),
        ({"args": [1, 2, 3]}, "the call does not fit charge: too many"),
        ({"kwargs": {"orders": 1}}, "the call does not fit charge: missing a required"),
    ],
)
def test_a_malformed_call_is_misconfigured(rig: Rig, event: Any, message: str) -> None:
    """What is wrong with the file is said in one line."""

    @rig.once.function(name="charge")
    def charge(order: int) -> None: ...

    with pytest.raises(Misconfigured, match=message):
        _explain(charge, event)


def test_other_decorators_keep_the_explanation(rig: Rig) -> None:
    """Under Powertools' decorators the handler is found; protected work inside of it is not taken for it."""

    @rig.once.function(name="inner")
    def inner(record: Any) -> None: ...

    @rig.once.sqs(name="outer")
    def outer(record: Any) -> None:
        inner(record)

    handler = Logger(service="explained").inject_lambda_context(outer)
    (explained,) = _explain(handler, batch(sqs_record(BODY)))
    assert (explained.decorator, explained.name) == ("once.sqs", "outer")


def test_two_payloads_are_compared(rig: Rig) -> None:
    """The verdict is that of the table; what differs is shown, and whether it counts."""

    @rig.once.sqs(key="orderId", ignore=("meta",))
    def ship(record: Any) -> None: ...

    def verdict(**changes: object) -> tuple[Verdict, list[tuple[str, str | None, str | None, bool]]]:
        first, second = (_explain(ship, batch(sqs_record(each))) for each in (BODY, BODY | changes))
        (found,) = compared(first, second)
        return found.verdict, [(part.name, part.first, part.second, part.counts) for part in found.parts]

    assert verdict(meta={"try": 2}) == (Verdict.SAME, [])
    assert verdict(amount=2) == (Verdict.REUSED, [("amount", "1", "2", True)])
    assert verdict(rush=True) == (Verdict.REUSED, [("rush", None, "true", True)])
    assert verdict(orderId=6, amount=2) == (
        Verdict.OTHER,
        [("key", "5", "6", True), ("amount", "1", "2", False), ("orderId", "5", "6", False)],
    )
    assert verdict(orderId=None)[0] is Verdict.UNKNOWN


def test_hashes_are_compared_by_field(rig: Rig) -> None:
    """Without a key every field counts; a text is compared as a whole."""

    @rig.once.sqs
    def ship(record: Any) -> None: ...

    def parts(first: object, second: object) -> list[str]:
        (found,) = compared(*(_explain(ship, batch(sqs_record(each))) for each in (first, second)))
        assert found.verdict is Verdict.OTHER
        return [part.name for part in found.parts]

    assert parts(BODY, BODY | {"amount": 2}) == ["amount"]
    assert parts("one", "two") == ["the payload"]


def test_batches_are_compared_one_by_one(rig: Rig) -> None:
    """In their order; what has nothing beside it is not known to be the same."""

    @rig.once.sqs
    def ship(record: Any) -> None: ...

    one, both = batch(sqs_record("a")), batch(sqs_record("a"), sqs_record("b"))
    found = compared(_explain(ship, one), _explain(ship, both))
    assert [each.verdict for each in found] == [Verdict.SAME, Verdict.UNKNOWN]
    assert len({each.verdict.sentence for each in found}) == len(found)
