from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes import (
    ALBEvent,
    APIGatewayProxyEvent,
    LambdaFunctionUrlEvent,
    S3Event,
    S3EventBridgeNotificationEvent,
)
from aws_lambda_powertools.utilities.data_classes.active_mq_event import ActiveMQEvent
from aws_lambda_powertools.utilities.data_classes.rabbit_mq_event import RabbitMQEvent
from aws_lambda_powertools.utilities.parser.models import KafkaMskEventModel, KafkaSelfManagedEventModel

from lambda_once import Once
from lambda_once.sources.http import Kind, kind_of, request_of
from lambda_once.testing import (
    activemq_event,
    alb_event,
    api_event,
    assert_completed,
    function_url_event,
    kafka_event,
    kinesis_event,
    lambda_context,
    rabbitmq_event,
    rest_api_event,
    s3_event,
    s3_eventbridge_event,
    using,
)

EVENTS = Path(__file__).parents[2] / "events"
BODY, HEADERS = {"item": "tea"}, {"Idempotency-Key": "5f2b"}

REQUESTS: list[tuple[Any, Kind]] = [
    (lambda **more: rest_api_event("post", "/orders", **more), Kind.REST),
    (lambda **more: api_event("post", "/orders", **more), Kind.HTTP),
    (lambda **more: function_url_event("post", "/orders", **more), Kind.FUNCTION_URL),
    (lambda **more: alb_event("post", "/orders", **more), Kind.ALB),
    (lambda **more: alb_event("post", "/orders", multi_value=True, **more), Kind.ALB_MULTI),
]


def shape(event: Any) -> Any:
    """The names of *event*, at every depth."""
    if isinstance(event, dict):
        return {name: shape(value) for name, value in event.items()}
    return [shape(value) for value in event] if isinstance(event, list) else None


@pytest.mark.parametrize(("build", "kind"), REQUESTS)
def test_a_request_is_of_its_kind(build: Any, kind: Kind) -> None:
    """The same request by every sender, distinguished by what surrounds it; a second one is answered once."""
    event = build(body=BODY, headers=HEADERS, query={"dry": "yes & no"})
    request = request_of(event)
    assert (kind_of(event), request.method, request.path) == (kind, "POST", "/orders")
    assert request.body == BODY
    assert request.headers["idempotency-key"] == ("5f2b",)
    once, ran = Once(service="shop"), list[Any]()

    @once.api_gateway
    def handler(event: Any) -> dict[str, Any]:
        ran.append(event)
        return {"statusCode": 201, "body": "{}"}

    with using(once) as store:
        for _ in range(2):
            assert handler(build(body=BODY, headers=HEADERS), lambda_context())["statusCode"] == 201
        assert_completed(store, "5f2b")
    assert len(ran) == 1


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("s3-put", s3_event("orders/5.pdf", version_id="v1")),
        ("alb-order", alb_event()),
        ("alb-order-multi-value", alb_event(multi_value=True)),
        ("function-url-order", function_url_event()),
        ("kinesis-orders", kinesis_event("a", "b", "c")),
    ],
)
def test_events_have_the_names_of_those_that_were_captured(name: str, event: Any) -> None:
    """Every name that is built is in the sample's event too, headers apart."""
    sample = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    for each in (sample, event):
        each.pop("headers", None)
        each.pop("multiValueHeaders", None)
    built, captured = json.dumps(shape(event), sort_keys=True), json.dumps(shape(sample), sort_keys=True)
    ids = '"x-amz-id-2": null, '  # the second of two ids of one S3 request
    assert built == captured.replace(ids, "")


def test_a_request_of_a_rest_api_has_names_of_one_that_was_captured() -> None:
    """No others: the path parameter is that of its resource, ``/{proxy+}``."""
    sample = json.loads((EVENTS / "api-gateway-order.json").read_text(encoding="utf-8"))
    event = rest_api_event()
    context = event["requestContext"]
    assert event.keys() == sample.keys()
    assert context.keys() <= sample["requestContext"].keys()
    assert context["identity"].keys() <= sample["requestContext"]["identity"].keys()
    assert event["resource"] == context["resourcePath"] == "/{proxy+}"
    assert event["pathParameters"] == {"proxy": "orders"}


def test_powertools_reads_them() -> None:
    """By its data classes."""
    rest = APIGatewayProxyEvent(rest_api_event("PUT", "/orders/5", BODY, HEADERS, query={"dry": "yes"}))
    assert (rest.http_method, rest.path, rest.json_body) == ("PUT", "/orders/5", BODY)
    assert rest.headers["idempotency-key"] == "5f2b"
    assert rest.resolved_query_string_parameters == {"dry": ["yes"]}
    assert ALBEvent(alb_event(body=BODY)).json_body == BODY
    assert LambdaFunctionUrlEvent(function_url_event(body=BODY)).json_body == BODY
    (record,) = S3Event(s3_event("orders/a b+c.pdf", bucket="documents")).records
    assert (record.s3.bucket.name, record.s3.get_object.key) == ("documents", "orders/a+b%2Bc.pdf")


def test_powertools_reads_batches_of_brokers() -> None:
    """Its models of Kafka events accept them, and its data classes of Amazon MQ find every part."""
    event = kafka_event({"orderId": 5}, {"orderId": 6}, partitions=[0, 1], headers={"tenant": "acme"})
    msk = KafkaMskEventModel.model_validate(event)
    assert [record.offset for records in msk.records.values() for record in records] == [0, 0]
    own = kafka_event("x", bootstrap_servers="b-1:9092,b-2:9092")
    assert KafkaSelfManagedEventModel.model_validate(own).bootstrapServers == ["b-1:9092", "b-2:9092"]
    (message,) = ActiveMQEvent(activemq_event({"orderId": 5}, redelivered=True)).messages
    assert (message.json_data, message.redelivered) == ({"orderId": 5}, True)
    assert (message.destination_physicalname, message.message_type) == ("orders", "jms/text-message")
    queues = RabbitMQEvent(rabbitmq_event("x", message_ids=["5"], vhost="shop")).rmq_messages_by_queue
    assert queues["orders::shop"][0].decoded_data == "x"
    assert queues["orders::shop"][0].basic_properties.message_id == "5"


def test_objects_are_worked_once_for_each_write() -> None:
    """Another write of the same object is other work; the same write, notified twice, is not."""
    once, keys = Once(service="shop"), list[str]()

    @once.event
    def stored(event: dict[str, Any]) -> None:
        keys.append(event["Records"][0]["s3"]["object"]["key"])

    with using(once):
        for event in (s3_event("a", "b"), s3_event("a"), s3_event("a", sequencer="1")):
            stored(event, lambda_context())
            stored(event, lambda_context())
        stored(s3_event("a", sequencer="1"), lambda_context())
    assert keys == ["a", "b", "a", "a"]


def test_objects_through_eventbridge_are_worked_once_for_each_write() -> None:
    """Whatever the event's id is; Powertools' data class reads them."""
    once, keys = Once(service="shop"), list[str]()

    @once.event
    def stored(event: dict[str, Any]) -> None:
        keys.append(event["detail"]["object"]["key"])

    build = s3_eventbridge_event
    with using(once):
        for event in (build("a b+c"), build("a b+c"), build("d", sequencer="1", event_id="1")):
            stored(event, lambda_context())
            stored(event, lambda_context())
        stored(build("d", sequencer="1", event_id="2"), lambda_context())
        stored(build("d", sequencer="1", detail_type="Object Deleted"), lambda_context())
        stored(build("d", sequencer="1", bucket="others"), lambda_context())
    assert keys == ["a b+c", "a b+c", "d", "d", "d"]
    read = S3EventBridgeNotificationEvent(build("a b", bucket="documents", version_id="v1"))
    thing = read.detail.object
    assert (read.detail.bucket.name, thing.key, thing.version_id) == ("documents", "a b", "v1")
    assert thing.sequencer < build("a")["detail"]["object"]["sequencer"]
    assert read.detail_type == "Object Created"
