"""
Each part that a source says beside the content, a cell of its own: what becomes of another one of it.

In the token: the other event runs, too. Compared: it's refused aloud. Left out: it's a duplicate. The tables
of docs/key-design.md have the same sources, and the same answers for each part.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from lambda_once import GiveUp, KeyReused, MemoryStore, Once
from lambda_once.core.identity import ATTRIBUTES, CONTENT, ORIGIN, POSITION, KeyFrom, Standing, standing
from lambda_once.testing import (
    activemq_event,
    api_event,
    dynamodb_stream_event,
    eventbridge_event,
    kafka_event,
    kinesis_event,
    lambda_context,
    rabbitmq_event,
    sns_event,
    sqs_event,
)
from tests.decorators.test_askers import ROLE, appsync, pool, socket, tool
from tests.decorators.test_beside import from_topic, mail, refusal, split
from tests.docs.pages import ROOT

Json = dict[str, Any]
PAGE: Final = (ROOT / "docs" / "key-design.md").read_text(encoding="utf-8")
ORDER: Final = {"orderId": 5}
WHO, OPERATION, FRESH = "who", "operation", "who, fresh"
IN_TOKEN, COMPARED, LEFT_OUT = Standing.IN_TOKEN, Standing.COMPARED, Standing.LEFT_OUT
BECOMES: Final = {
    WHO: (IN_TOKEN, IN_TOKEN),
    OPERATION: (IN_TOKEN, IN_TOKEN),
    FRESH: (IN_TOKEN, COMPARED),
    ORIGIN: (IN_TOKEN, COMPARED),
    POSITION: (IN_TOKEN, LEFT_OUT),
    ATTRIBUTES: (IN_TOKEN, COMPARED),
    "attributes beside a position": (COMPARED, COMPARED),
    "position and content": (IN_TOKEN, COMPARED),  # without a payload of its own the event is the content
    "nothing": (LEFT_OUT, LEFT_OUT),
}
"""What becomes of a part without ``key=``, and under it."""


class Cell(NamedTuple):
    """One part of what one source says, and two deliveries that differ in it alone."""

    source: str
    """As in a first column of docs/key-design.md."""
    part: str
    decorator: str
    first: Any
    second: Any
    contexts: tuple[Any, Any] = (None, None)


def changed(event: Json, *changes: tuple[str, Any]) -> Json:
    """Return *event* with other values under dotted paths, in which a number is a position."""
    found = copy.deepcopy(event)
    for path, value in changes:
        *way, last = [int(name) if name.isdecimal() else name for name in path.split(".")]
        place: Any = found
        for name in way:
            place = place[name]
        place[last] = value
    return found


def cell(source: str, part: str, decorator: str, event: Json, *changes: tuple[str, Any]) -> Cell:
    """Return the cell of *event* and of it with *changes*."""
    return Cell(source, part, decorator, event, changed(event, *changes))


STANDARD, FIFO, BROKERS = "SQS standard, SNS", "SQS FIFO", "Amazon MQ"
STREAM, TABLE, TOPIC = "Kinesis", "DynamoDB Streams", "Kafka"
BUS, DIRECT, HTTP = "EventBridge", "direct invocations", "HTTP"
SQS = sqs_event(ORDER, message_ids=["m-1"], attributes={"type": "created"})
GROUPED = changed(SQS, ("Records.0.attributes.MessageGroupId", "a"))
GROUP_OF_SENDER = {"dataType": "String", "stringValue": "a"}  # an attribute of the queue's own name for it
NOTICE = changed(
    sns_event(ORDER), ("Records.0.Sns.MessageAttributes", {"type": {"Type": "String", "Value": "a"}})
)
NAMED_ALIKE = {"MessageGroupId": "sender's", "type": "created"}  # of a notification that a message holds
WRAPPED = changed(
    sqs_event(
        changed(
            sns_event(ORDER),
            (
                "Records.0.Sns.MessageAttributes",
                {name: {"Type": "String", "Value": text} for name, text in NAMED_ALIKE.items()},
            ),
        )["Records"][0]["Sns"],
        attributes={"type": "forwarded"},
        message_ids=["m-1"],
    ),
    ("Records.0.attributes.MessageGroupId", "a"),
)
QUEUED = sqs_event(ORDER, fifo_groups="g", message_ids=["m-1"])
KINESIS = kinesis_event(ORDER)
SPLIT = split(ORDER)
CHANGE = dynamodb_stream_event((None, ORDER | {"id": "1"}))
KAFKA = kafka_event(ORDER, headers={"type": "created"})
IN_KAFKA = "records.orders-0.0"
RABBIT = rabbitmq_event(ORDER)
NUMBERED = rabbitmq_event(ORDER, message_ids=["1"])
IN_RABBIT = "rmqMessagesByQueue.orders::/.0"
ACTIVE = activemq_event(ORDER)
OWN = eventbridge_event(ORDER, event_id="i-1")
OF_AWS = eventbridge_event(ORDER, "Finding", "aws.guardduty", event_id="i-1")
REQUEST = api_event("POST", "/orders", ORDER, {"Idempotency-Key": "k"})
OF_ANN, OF_BOB = (
    changed(REQUEST, ("requestContext.authorizer", {"jwt": {"claims": {"iss": "i", "sub": sub}}}))
    for sub in ("ann", "bob")
)
PARTNER = eventbridge_event(ORDER, "shopifyWebhook", "aws.partner/shopify.com/12345/orders", event_id="i-1")
AGAIN = PARTNER | {"id": "i-2"}  # EventBridge gives it another id (API reference, PutPartnerEvents)
MAIL, MAIL_OF_TWO = mail("a@example.com"), mail("a@example.com", "b@example.com")
CELLS: tuple[Cell, ...] = (
    Cell(DIRECT, WHO, "event", ORDER, ORDER, (lambda_context(identity="a"), lambda_context(identity="b"))),
    Cell(DIRECT, OPERATION, "event", ORDER, ORDER, (tool("t___pay"), tool("t___refund"))),
    Cell(DIRECT, ATTRIBUTES, "event", ORDER, ORDER, (tool("pay", kind="a"), tool("pay", kind="b"))),
    Cell(DIRECT, ORIGIN, "event", ORDER, ORDER, (tool("pay"), tool("pay", gateway="gw-2"))),
    Cell(DIRECT, "nothing", "event", ORDER, ORDER, (tool("pay"), tool("pay", request="2"))),
    *(
        Cell("AppSync", part, "event", appsync(pool("a")), other)
        for part, other in (
            (WHO, appsync(pool("b"))),
            (OPERATION, appsync(pool("a"), field="refund")),
            (OPERATION, appsync(pool("a"), parent="Query")),
            ("nothing", appsync(pool("a"), stash={"a": 1})),
        )
    ),
    Cell(
        "AppSync",
        FRESH,
        "event",
        appsync({"resolverContext": {"user": "a"}}),
        appsync({"resolverContext": {"user": "b"}}),
    ),
    Cell("AppSync", FRESH, "event", appsync({"userArn": f"{ROLE}a"}), appsync({"userArn": f"{ROLE}b"})),
    Cell("WebSocket APIs", FRESH, "event", socket("1"), socket("2")),
    Cell("WebSocket APIs", OPERATION, "event", socket("1"), socket("1", route="refund")),
    Cell(
        "WebSocket APIs",
        WHO,
        "event",
        socket("1", authorizer={"principalId": "a"}),
        socket("1", authorizer={"principalId": "b"}),
    ),
    cell(STANDARD, ORIGIN, "sqs", SQS, ("Records.0.eventSourceARN", "arn:aws:sqs:e:123456789012:other")),
    cell(STANDARD, ORIGIN, "sqs", SQS, ("Records.0.eventSourceARN", "arn:aws:sqs:e:999999999999:orders")),
    Cell(STANDARD, ORIGIN, "sqs", from_topic(ORDER, "placed"), from_topic(ORDER, "cancelled")),
    cell(
        STANDARD, "nothing", "sqs", SQS, ("Records.0.eventSourceARN", "arn:aws:sqs:other:123456789012:orders")
    ),
    cell(STANDARD, "nothing", "sqs", SQS, ("Records.0.messageId", "m-2")),
    cell(STANDARD, ATTRIBUTES, "sqs", SQS, ("Records.0.messageAttributes.type.stringValue", "cancelled")),
    cell(STANDARD, ATTRIBUTES, "sqs", GROUPED, ("Records.0.attributes.MessageGroupId", "b")),
    cell(
        STANDARD,
        ATTRIBUTES,
        "sqs",
        changed(GROUPED, ("Records.0.messageAttributes", {"MessageGroupId": GROUP_OF_SENDER})),
        ("Records.0.messageAttributes.MessageGroupId.stringValue", "b"),
    ),
    cell(STANDARD, ATTRIBUTES, "sqs", WRAPPED, ("Records.0.attributes.MessageGroupId", "b")),
    cell(STANDARD, ATTRIBUTES, "sqs", WRAPPED, ("Records.0.messageAttributes.type.stringValue", "moved")),
    cell(STANDARD, "nothing", "sqs", WRAPPED, ("Records.0.messageId", "m-2")),
    cell(STANDARD, ORIGIN, "sns", NOTICE, ("Records.0.Sns.TopicArn", "arn:aws:sns:e:123456789012:other")),
    cell(STANDARD, ATTRIBUTES, "sns", NOTICE, ("Records.0.Sns.MessageAttributes.type.Value", "b")),
    cell(STANDARD, "nothing", "sns", NOTICE, ("Records.0.Sns.MessageId", "another")),
    Cell(STANDARD, "nothing", "sqs", sqs_event(PARTNER), sqs_event(AGAIN)),
    Cell(STANDARD, "nothing", "sns", sns_event(PARTNER), sns_event(AGAIN)),
    cell(FIFO, ORIGIN, "sqs", QUEUED, ("Records.0.eventSourceARN", "arn:aws:sqs:e:123456789012:other.fifo")),
    cell(FIFO, POSITION, "sqs", QUEUED, ("Records.0.attributes.MessageDeduplicationId", "another")),
    cell(
        FIFO,
        "attributes beside a position",
        "sqs",
        QUEUED,
        ("Records.0.messageAttributes", {"type": {"dataType": "String", "stringValue": "a"}}),
    ),
    cell(
        STREAM,
        ORIGIN,
        "kinesis",
        KINESIS,
        ("Records.0.eventSourceARN", "arn:aws:kinesis:e:123456789012:stream/other"),
    ),
    cell(STREAM, POSITION, "kinesis", KINESIS, ("Records.0.eventID", "shardId-000000000001:1")),
    cell(STREAM, POSITION, "kinesis", SPLIT, ("Records.0.kinesis.subSequenceNumber", 7)),
    cell(
        TABLE,
        ORIGIN,
        "dynamodb_stream",
        CHANGE,
        ("Records.0.eventSourceARN", "arn:aws:dynamodb:e:123456789012:table/other/stream/1"),
    ),
    cell(TABLE, POSITION, "dynamodb_stream", CHANGE, ("Records.0.eventID", "another")),
    cell(TOPIC, ORIGIN, "kafka", KAFKA, (f"{IN_KAFKA}.topic", "other")),
    cell(TOPIC, POSITION, "kafka", KAFKA, (f"{IN_KAFKA}.partition", 7)),
    cell(TOPIC, POSITION, "kafka", KAFKA, (f"{IN_KAFKA}.offset", 7)),
    cell(TOPIC, POSITION, "kafka", KAFKA, (f"{IN_KAFKA}.timestamp", 7)),
    Cell(
        TOPIC,
        "position and content",
        "kafka",
        KAFKA,
        kafka_event({**ORDER, "total": 7}, headers={"type": "created"}),
    ),
    cell(
        TOPIC,
        "attributes beside a position",
        "kafka",
        KAFKA,
        (f"{IN_KAFKA}.headers.0.type", [*b"cancelled"]),
    ),
    cell(TOPIC, "nothing", "kafka", KAFKA, ("bootstrapServers", "other:9092")),
    cell(TOPIC, "nothing", "kafka", KAFKA, (f"{IN_KAFKA}.headers", [{"type": [*b"created"]}, {"b3": [49]}])),
    cell(BROKERS, ORIGIN, "mq", RABBIT, ("eventSourceArn", "arn:aws:mq:e:123456789012:broker:other:b-1")),
    Cell(BROKERS, ORIGIN, "mq", RABBIT, rabbitmq_event(ORDER, queue="other")),
    cell(
        BROKERS, "nothing", "mq", RABBIT, ("eventSourceArn", "arn:aws:mq:e:123456789012:broker:rabbitmq:b-1")
    ),
    cell(BROKERS, POSITION, "mq", NUMBERED, (f"{IN_RABBIT}.basicProperties.messageId", "2")),
    cell(BROKERS, ATTRIBUTES, "mq", RABBIT, (f"{IN_RABBIT}.basicProperties.type", "cancelled")),
    cell(BROKERS, ATTRIBUTES, "mq", RABBIT, (f"{IN_RABBIT}.basicProperties.headers", None)),
    cell(
        BROKERS,
        "attributes beside a position",
        "mq",
        NUMBERED,
        (f"{IN_RABBIT}.basicProperties.type", "cancelled"),
    ),
    cell(BROKERS, "nothing", "mq", RABBIT, (f"{IN_RABBIT}.basicProperties.headers.x-delivery-count", 2)),
    cell(BROKERS, "nothing", "mq", ACTIVE, ("messages.0.properties.traceparent", "00-1-1-01")),
    cell(BROKERS, ORIGIN, "mq", ACTIVE, ("messages.0.destination.physicalName", "other")),
    cell(BROKERS, POSITION, "mq", ACTIVE, ("messages.0.messageID", "ID:2")),
    cell(BROKERS, "attributes beside a position", "mq", ACTIVE, ("messages.0.type", "cancelled")),
    cell(BROKERS, "attributes beside a position", "mq", ACTIVE, ("messages.0.properties.tenant", "other")),
    cell(BUS, OPERATION, "event", OWN, ("source", "shop.other")),
    cell(BUS, OPERATION, "event", OWN, ("detail-type", "OrderCancelled")),
    cell(BUS, ORIGIN, "event", OWN, ("account", "999999999999")),
    cell(BUS, POSITION, "event", OF_AWS, ("id", "i-2")),
    cell(BUS, "nothing", "event", OWN, ("id", "i-2")),
    Cell(BUS, "nothing", "event", PARTNER, AGAIN),
    cell(HTTP, OPERATION, "api_gateway", REQUEST, ("requestContext.http.method", "PUT")),
    cell(HTTP, OPERATION, "api_gateway", REQUEST, ("rawPath", "/refunds")),
    Cell(HTTP, WHO, "api_gateway", OF_ANN, OF_BOB),
    cell(
        "SES",
        "nothing",
        "event",
        MAIL_OF_TWO,
        ("Records.0.ses.receipt.recipients", ["b@example.com", "a@example.com"]),
    ),
    cell("SES", POSITION, "event", MAIL, ("Records.0.ses.mail.messageId", "another")),
    cell(
        "SES", "position and content", "event", MAIL, ("Records.0.ses.receipt.recipients", ["b@example.com"])
    ),
)
KEYS: dict[str, str | Callable[[Any], object]] = {
    **dict.fromkeys(("sqs", "sns", "kinesis", "kafka", "mq"), "orderId"),
    "dynamodb_stream": "NewImage.orderId",
    "event": lambda _: 5,
}
"""What says that two deliveries are the same; HTTP's header does."""
WAYS_OUT: Final = {ORIGIN: ORIGIN, ATTRIBUTES: ATTRIBUTES, "attributes beside a position": ATTRIBUTES}
"""What `ignore=` has to name, which the error says."""
NEED_A_KEY: Final = {HTTP, "AppSync", "WebSocket APIs"}


def becomes(of: Cell, *, keyed: bool) -> Standing:
    """Return what becomes of the part in which the deliveries of a cell differ."""
    ran: list[object] = []
    options: Json = {"key": KEYS[of.decorator]} if keyed and of.decorator in KEYS else {}
    if of.decorator == "api_gateway":
        options["methods"] = {"POST", "PUT"}

    def work(given: Any) -> Json:
        ran.append(given)
        return {"statusCode": 200}

    once = Once(store=MemoryStore(), service="shop")
    handler = getattr(once, of.decorator)(name="work", **options)(work)
    errors = []
    for event, context in zip((of.first, of.second, of.first), (*of.contexts, of.contexts[0]), strict=True):
        errors.append(refusal(_in(handler, context), copy.deepcopy(event)))
    assert errors[0] is errors[2] is None
    if errors[1] is not None:
        assert isinstance(errors[1], GiveUp if of.part == FRESH else KeyReused)
        way_out = WAYS_OUT.get(of.part)
        assert way_out is None or f'"{way_out}"' in str(errors[1])
        assert len(ran) == 1
        return COMPARED
    return IN_TOKEN if len(ran) == 2 else LEFT_OUT


def _in(handler: Any, context: Any) -> Any:
    return handler if context is None else lambda event, _: handler(event, context)


@pytest.mark.parametrize(
    ("of", "keyed"),
    [
        pytest.param(of, keyed, id=f"{of.source}, {of.decorator}, {of.part}, {'key=' if keyed else 'no key'}")
        for of in CELLS
        for keyed in (False, True)
        if keyed or of.source not in NEED_A_KEY
    ],
)
def test_a_cell(of: Cell, *, keyed: bool) -> None:
    """Another one of the part runs, is refused aloud or replays; the first one again is a duplicate."""
    assert becomes(of, keyed=keyed) is BECOMES[of.part][keyed]


# ------------------------------------------------------------------ the page


def rows(head: str) -> dict[str, list[str]]:
    """The rows of the page's table under *head*, its first line: the other columns by the first."""
    lines = PAGE.split(f"\n{head}\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    cells = [[part.strip() for part in line[1:-1].split("|")] for line in lines]
    return {re.sub(r", also through a queue$", "", first): others for first, *others in cells}


def test_the_page_says_what_becomes_of_each_part() -> None:
    """As `standing` decides, the one place that does."""
    table = rows("| part | what it is | without `key=` | with `key=` |")
    parts = {"content": CONTENT, "`@attributes`": ATTRIBUTES, "`@origin`": ORIGIN, "position": POSITION}
    assert table.keys() == parts.keys()
    for label, part in parts.items():
        by_hash, by_position, by_option = (
            standing(part, key_from).value for key_from in (KeyFrom.HASH, KeyFrom.SOURCE, KeyFrom.OPTION)
        )
        without = by_hash if by_hash == by_position else f"{by_hash}; with a position: {by_position}"
        assert table[label][1:] == [without, by_option], label
        if part != CONTENT:
            assert BECOMES[part] == (standing(part, KeyFrom.HASH), standing(part, KeyFrom.OPTION)), label


def test_each_source_of_the_page_has_its_cells() -> None:
    """And each part that its row names; S3 and functions say nothing beside their content."""
    tested = {of.source for of in CELLS}
    default_keys = rows("| source | the key |")
    assert default_keys.keys() - tested == {"S3", "direct invocations, Step Functions, functions"}
    assert (
        tested - default_keys.keys() - {"SES"}
        <= rows("| source | operation | caller in the token | compared |").keys()
    )
    for source, (operation, caller, compared) in rows(
        "| source | operation | caller in the token | compared |"
    ).items():
        parts = {of.part for of in CELLS if of.source == source}
        assert OPERATION in parts if operation else True, source
        assert WHO in parts if caller else True, source
        assert parts & {FRESH, ORIGIN, ATTRIBUTES} if compared else True, source
    assert "SES (messageId and recipients; with `key=` recipients" in PAGE
