"""
What type checkers infer at the call sites of every decorator. Only checked, never run.

Each line that must be an error has a ``type: ignore`` for it, and an unused one is an error, too.
"""

# ruff: noqa: D103  (what the functions here are for is their types)

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, assert_never, assert_type

from aws_durable_execution_sdk_python import DurableContext
from aws_durable_execution_sdk_python.config import StepConfig
from aws_lambda_powertools import Tracer
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.active_mq_event import ActiveMQMessage
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.data_classes.kafka_event import KafkaEventRecord
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
from aws_lambda_powertools.utilities.data_classes.rabbit_mq_event import RabbitMessage
from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig
from aws_lambda_powertools.utilities.kafka import SchemaConfig
from aws_lambda_powertools.utilities.kafka.consumer_records import ConsumerRecordRecords
from aws_lambda_powertools.utilities.typing import LambdaContext
from opentelemetry import trace
from pydantic import BaseModel, TypeAdapter

from lambda_once import (
    HOLD,
    NOT_DONE,
    RELEASE,
    STORE,
    Answer,
    Attempt,
    Done,
    GiveUp,
    Lapsed,
    MemoryStore,
    Once,
    Outcome,
    PowertoolsHistory,
    Replayed,
    StoredError,
)
from lambda_once.integrations.durable import ExecutionAttempt, retry_strategy


class Order(BaseModel):
    id: str


class Receipt(BaseModel):
    order: str


once = Once(store=MemoryStore(), keep=timedelta(days=1), on_error={ValueError: HOLD}, on_in_progress="wait")
event: dict[str, Any] = {}
context = LambdaContext()

# ---------------------------------------------------------------------------------------------- sqs


@once.sqs
def sqs_bare(record: SQSRecord, context: LambdaContext) -> None: ...


@once.sqs
def sqs_alone(record: SQSRecord) -> None: ...


@once.sqs(key="orderId", scope="messageAttributes.tenant.stringValue", ignore=("sentDate",), concurrency=5)
def sqs_options(record: SQSRecord, context: LambdaContext) -> None: ...


@once.sqs(model=Order, key=lambda order: order.id, on_in_progress=timedelta(seconds=5))
def sqs_model(order: Order) -> None: ...


@once.sqs(key=lambda record, context: (record.message_id, context.aws_request_id))
def sqs_context(record: SQSRecord) -> None: ...


def of_event(event: dict[str, Any], context: LambdaContext) -> object:
    return event["id"], context.identity


def of_value(record: ConsumerRecordRecords, context: LambdaContext) -> object:
    return record.original_value, context.client_context


def of_order(order: Order, context: LambdaContext) -> object:
    return order.id, context.client_context


@once.sqs(model=Order, key=of_order)
def sqs_model_context(order: Order, context: LambdaContext) -> None: ...


@once.sqs
async def sqs_async(record: SQSRecord) -> None: ...


@once.sqs(model=Order)
async def sqs_async_model(order: Order, context: LambdaContext) -> None: ...


@once.sqs(model=Order | Receipt)
def sqs_union(found: Order | Receipt) -> None: ...


@once.sqs(model=Annotated[Order | Receipt, "tagged"], key="id")
def sqs_annotated(found: Order | Receipt, context: LambdaContext) -> None: ...


@once.sqs(model=TypeAdapter(list[Order]))
def sqs_adapter(orders: list[Order]) -> None: ...


assert_type(sqs_annotated(event, context), PartialItemFailureResponse)
assert_type(sqs_bare(event, context), PartialItemFailureResponse)
assert_type(sqs_alone(event, context), PartialItemFailureResponse)
assert_type(sqs_options(event, context), PartialItemFailureResponse)
assert_type(sqs_model(event, context), PartialItemFailureResponse)
assert_type(sqs_async(event, context), PartialItemFailureResponse)
assert_type(sqs_async_model(event, context), PartialItemFailureResponse)
assert_type(sqs_context(event, context), PartialItemFailureResponse)
assert_type(sqs_model_context(event, context), PartialItemFailureResponse)
sqs_alone(event, "no context")  # type: ignore[arg-type]
once.sqs(key="orderId", without_key="run")
once.sqs(model=Order, key="orderId", without_key="run")
once.sqs(key="orderId", without_key="hash")  # type: ignore[call-overload]
once.sqs(kee="orderId")  # type: ignore[call-overload]
once.sqs(model=Order, key=lambda order: order.no_such_field)  # type: ignore[attr-defined]
once.kinesis(key=lambda record, context: (record.event_id, context.tenant_id))
once.kinesis(key=of_order)  # type: ignore[arg-type]
once.mq(model=Order, key=of_order)
once.kafka(key=lambda record, context: (record.topic, context.tenant_id))
once.kafka(schema=SchemaConfig(value_schema_type="JSON"), key=of_value)
once.kafka(model=Order, key=of_order)


@once.sqs  # type: ignore[arg-type]
def sqs_of_a_string(record: int) -> None: ...


@once.sqs(model=Order)  # type: ignore[arg-type]
def sqs_of_another_model(order: Receipt) -> None: ...


# ---------------------------------------------------------------------------------------------- sns


@once.sns
def sns_bare(record: SNSEventRecord) -> None: ...


@once.sns(model=Order, on_error=STORE)
async def sns_model(order: Order, context: LambdaContext) -> None: ...


@once.sns(model=Annotated[Order | Receipt, "tagged"])
def sns_annotated(found: Order | Receipt) -> None: ...


@once.kinesis(model=Order | None)
def kinesis_union(found: Order | None) -> None: ...


@once.kafka(model=Annotated[Order | Receipt, "tagged"], concurrency=5)
async def kafka_annotated(found: Order | Receipt) -> None: ...


sns_result: Callable[[dict[str, Any], LambdaContext], None] = sns_bare
sns_result = sns_model

# ---------------------------------------------------------------------------------------------- streams


@once.kinesis
def kinesis_bare(record: KinesisStreamRecord, context: LambdaContext) -> None: ...


@once.kinesis(key="orderId", scope="kinesis.partitionKey", report_failures=True, concurrency=5)
async def kinesis_options(record: KinesisStreamRecord) -> None: ...


def park(record: KinesisStreamRecord, error: GiveUp) -> None: ...


@once.kinesis(model=Order, key=lambda order: order.id, on_give_up=park)
def kinesis_model(order: Order) -> None: ...


@once.dynamodb_stream
async def dynamodb_bare(record: DynamoDBRecord) -> None: ...


@once.dynamodb_stream(key=lambda record: record.event_id, on_error=STORE)
def dynamodb_options(record: DynamoDBRecord, context: LambdaContext) -> None: ...


assert_type(kinesis_bare(event, context), Mapping[str, Any] | None)
assert_type(kinesis_options(event, context), Mapping[str, Any] | None)
assert_type(kinesis_model(event, context), Mapping[str, Any] | None)
assert_type(dynamodb_bare(event, context), Mapping[str, Any] | None)
assert_type(dynamodb_options(event, context), Mapping[str, Any] | None)
once.kinesis(kee="orderId")  # type: ignore[call-overload]
once.dynamodb_stream(on_give_up=park)  # type: ignore[arg-type]
once.kinesis(raise_on_entire_batch_failure=False)  # type: ignore[call-overload]


@once.dynamodb_stream  # type: ignore[arg-type]
def dynamodb_of_kinesis(record: KinesisStreamRecord) -> None: ...


@once.kafka
def kafka_bare(record: KafkaEventRecord, context: LambdaContext) -> None: ...


@once.kafka(key=lambda record: record.topic, report_failures=True, concurrency=5)
async def kafka_options(record: KafkaEventRecord) -> None: ...


@once.kafka(schema=SchemaConfig(value_schema_type="JSON"), key=lambda record: record.original_value)
def kafka_schema(record: ConsumerRecordRecords) -> None: ...


@once.kafka(schema=SchemaConfig(value_schema_type="JSON"), model=Order, key=lambda order: order.id)
def kafka_model(order: Order, context: LambdaContext) -> None: ...


assert_type(kafka_bare(event, context), Mapping[str, Any] | None)
assert_type(kafka_options([event], context), Mapping[str, Any] | None)
assert_type(kafka_schema(event, context), Mapping[str, Any] | None)
assert_type(kafka_model(event, context), Mapping[str, Any] | None)
once.kafka(schema="AVRO")  # type: ignore[call-overload]
once.kinesis(schema=SchemaConfig())  # type: ignore[call-overload]


@once.kafka(schema=SchemaConfig())  # type: ignore[arg-type]
def kafka_schema_of_another_record(record: KafkaEventRecord) -> None: ...


# ---------------------------------------------------------------------------------------------- mq


@once.mq
def mq_bare(message: ActiveMQMessage | RabbitMessage, context: LambdaContext) -> None: ...


@once.mq(key=lambda message: message.data, scope="eventSourceKey")
async def mq_options(message: ActiveMQMessage | RabbitMessage) -> None: ...


@once.mq(model=Order, key=lambda order: order.id)
def mq_model(order: Order) -> None: ...


mq_result: Callable[[list[dict[str, Any]], LambdaContext], None] = mq_bare
mq_result = mq_options
mq_result = mq_model
once.mq(report_failures=True)  # type: ignore[call-overload]


@once.mq  # type: ignore[arg-type]
def mq_of_kafka(message: KafkaEventRecord) -> None: ...


# ---------------------------------------------------------------------------------------------- event


@once.event
def event_bare(event: dict[str, Any], context: LambdaContext) -> Receipt:
    return Receipt(order="5")


@once.event(key="detail.id", returns=Receipt)
def event_options(event: Mapping[str, Any]) -> Receipt:
    return Receipt(order="5")


@once.event
async def event_async(event: dict[str, Any]) -> Receipt:
    return Receipt(order="5")


@once.event(on_lapse="hold")
async def event_async_options(event: dict[str, Any], context: LambdaContext) -> int:
    return 5


assert_type(event_bare(event, context), Receipt)
assert_type(event_options(event, context), Receipt)
assert_type(event_async(event, context), Receipt)
assert_type(event_async_options(event, context), int)
assert_type(event_bare.__wrapped__, Callable[..., Any])
event_bare("no event", context)  # type: ignore[arg-type]

# ---------------------------------------------------------------------------------------------- api


@once.api_gateway
def api_bare(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    return {"statusCode": 200}


@once.api_gateway(scope="requestContext.authorizer.principalId", store_status={402}, without_key="reject")
async def api_options(event: dict[str, Any]) -> dict[str, int]:
    return {"statusCode": 200}


assert_type(api_bare(event, context), dict[str, int])
assert_type(api_options(event, context), dict[str, int])
once.api_gateway(without_key="ignore")  # type: ignore[call-overload]
once.api_gateway(unscoped="refuse")
once.api_gateway(unscoped="allow")  # type: ignore[call-overload]
once.api_gateway(key=of_event, caller=of_event)
once.route(key=of_event, caller=of_event)
once.event(caller=of_event)
once.route(without_key="run", methods={"POST"}, async_resolver=True)
once.route(concurrency=5)  # type: ignore[arg-type]

# ---------------------------------------------------------------------------------------------- function


@once.function
def function_bare(order: Order, currency: str = "EUR") -> Receipt:
    return Receipt(order=order.id)


@once.function(key="order.id", on_replay=lambda receipt, _: receipt)
def function_options(order: Order, *, currency: str = "EUR") -> Receipt:
    return Receipt(order=order.id)


@once.function
async def function_async(order: Order) -> Receipt:
    return Receipt(order=order.id)


class Shop:
    @once.function(key=lambda self, order: [self.name, order.id])
    def charge(self, order: Order) -> Receipt:
        return Receipt(order=order.id)

    name = "shop"


assert_type(function_bare(Order(id="5"), currency="CHF"), Receipt)
assert_type(function_options(Order(id="5"), currency="CHF"), Receipt)
assert_type(Shop().charge(Order(id="5")), Receipt)
function_bare("5")  # type: ignore[arg-type]
function_bare(Order(id="5"), no_such="CHF")  # type: ignore[call-arg]
function_options()  # type: ignore[call-arg]


@once.function(key="order.id", codec=(lambda receipt: receipt.model_dump(), Receipt.model_validate))
def with_a_pair(order: Order) -> Receipt:
    return Receipt(order=order.id)


assert_type(with_a_pair(Order(id="1")), Receipt)
once.function(codec=dict)  # type: ignore[call-overload]
by_id = IdempotencyConfig(event_key_jmespath="id")
history = PowertoolsHistory(DynamoDBPersistenceLayer(table_name="idempotency"), config=by_id, data="order")
with_history = Once(store=MemoryStore(), history=history)


@with_history.sqs(key="id", history=None)
def without_one(record: SQSRecord) -> None: ...


PowertoolsHistory("idempotency", config=by_id)  # type: ignore[arg-type]
PowertoolsHistory(DynamoDBPersistenceLayer(table_name="idempotency"), key="id")  # type: ignore[call-arg]
Once(store=MemoryStore(), history=PowertoolsHistory)  # type: ignore[arg-type]
once.function(keep=60)  # type: ignore[call-overload]


class Gateway:
    def send(self, to: str, *, copy: bool = False) -> Receipt:
        return Receipt(order=to if copy else "")

    async def asend(self, to: str) -> Receipt:
        return Receipt(order=to)


async def awaited() -> None:
    assert_type(await function_async(Order(id="5")), Receipt)
    assert_type(await once.run("mail", "k", function_async, Order(id="5")), Receipt)
    assert_type(await once.run("mail", "k", Gateway().asend, "bob"), Receipt)
    assert_type(await once.run("mail", "k", partial(function_async, Order(id="5"))), Receipt)
    async with once.begin("k", name="work") as attempt:
        assert_type(attempt, Attempt | Replayed)
        await attempt.acomplete(5)
    await once.current().aextend(60)


# ---------------------------------------------------------------------------------------------- begin, run


def create(order: Order, *, note: str = "") -> Receipt:
    return Receipt(order=order.id + note)


once.run("create", "k", create, "5")  # type: ignore[arg-type]
once.run("k", create, "5")  # type: ignore[arg-type]
assert_type(once.run("mail", "k", create, Order(id="5"), note="x"), Receipt)
assert_type(once.run("mail", 5, Gateway().send, "bob", copy=True), Receipt)
assert_type(once.run("mail", "k", partial(create, Order(id="5")), note="x"), Receipt)
assert_type(once.run("mail", "k", lambda: 5), int)
once.run("mail", "k", Gateway().send, 5)  # type: ignore[arg-type]
once.run("mail", "k", Gateway().send)  # type: ignore[call-arg]
once.run(5, "k", create, Order(id="5"))  # type: ignore[arg-type]
once.run("mail", create, Order(id="5"))  # type: ignore[arg-type]
once.run(name="mail", key="k", function=create)  # type: ignore[call-arg]

once.begin("k")  # type: ignore[call-arg]
once.begin("k", name=create)
once.begin("k", name=5)  # type: ignore[arg-type]
with once.begin("order/create/12345", name="orders", scope="acme", payload=event) as begun:
    assert_type(begun, Attempt | Replayed)
    if not begun.replayed:
        begun.complete(create(Order(id="5")))

assert_type(once.outcome("k", name="charge", returns=Receipt), Outcome[Receipt])
assert_type(once.outcome("k", name="charge", returns=Receipt).result, Receipt)
assert_type(once.outcome("k", name="charge", returns=list[int]).result, list[int])
assert_type(once.outcome(("acme", 5), name="charge", scope="acme"), Outcome[Any])
assert_type(once.outcome("k", name="charge", tenant="blue", returns=Receipt), Outcome[Receipt])
once.outcome("k", name="charge", tenant=5)  # type: ignore[call-overload]
assert_type(once.outcome("k", name="charge").error, StoredError | None)
assert_type(once.outcome("k", name="charge").finished, datetime | None)
once.outcome("k", name="charge", codec=(str, int), seal=(lambda data, _: data, lambda data, _: data))
once.outcome("k")  # type: ignore[call-overload]
once.outcome("k", name="charge", keep=timedelta(days=1))  # type: ignore[call-overload]


def status(outcome: Outcome[Receipt]) -> str:
    match outcome.state:
        case "complete":
            return outcome.result.order
        case "failed" | "held" | "lapsed":
            return "asked a person"
        case "unknown" | "in_progress" | "released":
            return "not yet"
        case _ as never:
            assert_never(never)


async def asked() -> None:
    assert_type(await once.aoutcome("k", name="charge", returns=Receipt), Outcome[Receipt])
    assert_type(await once.aoutcome("k", name="charge"), Outcome[Any])


with once.invocation(context):
    assert_type(once.current(), Attempt)
    assert_type(once.current().downstream_key("charge"), str)
    assert_type(once.current().fence, int)

# ---------------------------------------------------------------------------------------------- execution


def durable(event: dict[str, Any], context: DurableContext) -> None:
    lease = timedelta(hours=1)
    with once.execution(context, key=event["id"], lease=lease, name="pay", on_error=STORE) as attempt:
        assert_type(attempt, ExecutionAttempt | Replayed)
        if not isinstance(attempt, Replayed):
            assert_type(attempt.downstream_key(), str)
        attempt.complete(5)
    with once.execution(context, key="k", name="n", scope="acme", lease=lease, cache=1):  # type: ignore[arg-type]
        pass
    with once.execution(context, key="k", name="n"):  # type: ignore[call-arg]
        pass
    StepConfig(retry_strategy=retry_strategy)


# ---------------------------------------------------------------------------------------------- policies


def probe(lapsed: Lapsed, order: Order) -> Done[Receipt] | Answer:
    return Done(Receipt(order=lapsed.token)) if order.id else NOT_DONE


Once(on_error=lambda error: RELEASE if error.args else HOLD, on_lapse=probe)
Once(tracer=trace.get_tracer("shop"))
Once(tracer=Tracer())
Once(seal=(lambda data, _: data, lambda data, _: data), seal_required=True)
Once(tracer="shop")  # type: ignore[arg-type]
Once(seal=(lambda data, token: data + token.encode(), lambda sealed, _: sealed))
Once(seal=(lambda _, token: token, lambda sealed, _: sealed))  # type: ignore[arg-type, return-value]
Once(on_error="hold")  # type: ignore[arg-type]
Once(on_lapse="retry")  # type: ignore[arg-type]
Once(on_error={"ValueError": HOLD})  # type: ignore[dict-item]
