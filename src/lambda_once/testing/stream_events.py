"""Stream events as AWS sends them; see `lambda_once.testing.events`."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from lambda_once.core.checks import checked_flag
from lambda_once.dynamodb.items import typed_item
from lambda_once.testing.events import ACCOUNT, AT_MS, REGION, Event, text_of

_kinesis = count(49590338271490256608559692538361571095921575989136588898)
_dynamodb = count(4421584500000000017450439091)
_messages = count(1)

Image = Mapping[str, object]


def kinesis_event(
    *data: object, partition_keys: str | Sequence[str] = "order-5", stream: str = "orders", shard: int = 0
) -> Event:
    """
    Return a batch of one shard with a record for each of *data*.

    Bytes and text are sent unchanged, anything else as JSON. *partition_keys*: one for all, or one for each.

        kinesis_event({"orderId": 5}, {"orderId": 6}, partition_keys=["5", "6"])
    """
    keys = [partition_keys] * len(data) if isinstance(partition_keys, str) else partition_keys
    return {
        "Records": [
            _kinesis_record(sent, key, stream, f"shardId-{shard:012d}")
            for sent, key in zip(data, keys, strict=True)
        ]
    }


def kafka_event(
    *values: object,
    partitions: int | Sequence[int] = 0,
    topic: str = "orders",
    first_offset: int = 0,
    headers: Mapping[str, str] | None = None,
    bootstrap_servers: str | None = None,
) -> Event:
    """
    Return a batch with a record for each of *values*.

    Bytes and text are sent unchanged, None as a tombstone, anything else as JSON. *partitions*: one for all,
    or one for each; in each partition offsets count from *first_offset*. *bootstrap_servers*: the addresses
    of a self-managed cluster.

        kafka_event({"orderId": 5}, {"orderId": 6}, partitions=[0, 1])
    """
    of_each = [partitions] * len(values) if isinstance(partitions, int) else partitions
    records: dict[str, list[Event]] = {}
    for value, partition in zip(values, of_each, strict=True):
        before = records.setdefault(f"{topic}-{partition}", [])
        before.append(
            {
                "topic": topic,
                "partition": partition,
                "offset": first_offset + len(before),
                "timestamp": int(AT_MS),
                "timestampType": "CREATE_TIME",
                "key": _base64("order-5"),
                "value": None if value is None else _base64(value),
                "headers": [{name: [*sent.encode()]} for name, sent in (headers or {}).items()],
            }
        )
    if bootstrap_servers is not None:
        return {
            "eventSource": "SelfManagedKafka",
            "bootstrapServers": bootstrap_servers,
            "records": records,
        }
    return {
        "eventSource": "aws:kafka",
        "eventSourceArn": f"arn:aws:kafka:{REGION}:{ACCOUNT}:cluster/shop/751d2973-a626-431c-9d4e-2",
        "bootstrapServers": f"b-1.shop.a1bcde.c1.kafka.{REGION}.amazonaws.com:9092",
        "records": records,
    }


def activemq_event(*data: object, queue: str = "orders", redelivered: bool = False) -> Event:
    """
    Return a batch with a message for each of *data*: bytes and text unchanged, anything else as JSON.

        activemq_event({"orderId": 5})
    """
    host = f"b-9bcfa592-423a-4942-879d-eb284b418fc8-1.mq.{REGION}.amazonaws.com"
    return {
        "eventSource": "aws:mq",
        "eventSourceArn": _broker("activemq"),
        "messages": [
            {
                "messageID": f"ID:{host}-37557-1234520418293-4:1:1:1:{next(_messages)}",
                "messageType": "jms/bytes-message" if isinstance(sent, bytes) else "jms/text-message",
                "deliveryMode": 1,
                "replyTo": None,
                "type": None,
                "expiration": "60000",
                "priority": 1,
                "correlationId": "myJMSCoID",
                "redelivered": checked_flag("redelivered", redelivered),
                "destination": {"physicalName": queue},
                "data": _base64(sent),
                "timestamp": int(AT_MS),
                "brokerInTime": int(AT_MS),
                "brokerOutTime": int(AT_MS) + 1,
                "properties": {"tenant": "acme"},
            }
            for sent in data
        ],
    }


def rabbitmq_event(
    *data: object,
    message_ids: Sequence[str | None] | None = None,
    queue: str = "orders",
    vhost: str = "/",
    redelivered: bool = False,
) -> Event:
    """
    Return a batch of one queue with a message for each of *data*, sent as in `activemq_event`.

    *message_ids*: the messageId that each sender set; by default none.

        rabbitmq_event({"orderId": 5}, message_ids=["order-5"])
    """
    ids = [None] * len(data) if message_ids is None else message_ids
    return {
        "eventSource": "aws:rmq",
        "eventSourceArn": _broker("rabbitmq"),
        "rmqMessagesByQueue": {
            f"{queue}::{vhost}": [
                {
                    "basicProperties": {
                        "contentType": "application/json",
                        "contentEncoding": None,
                        "headers": {"tenant": {"bytes": [97, 99, 109, 101]}},
                        "deliveryMode": 2,
                        "priority": None,
                        "correlationId": None,
                        "replyTo": None,
                        "expiration": "60000",
                        "messageId": id_,
                        "timestamp": "Nov 20, 2026, 10:12:00 AM",
                        "type": None,
                        "userId": None,
                        "appId": None,
                        "clusterId": None,
                        "bodySize": len(_bytes(sent)),
                    },
                    "redelivered": checked_flag("redelivered", redelivered),
                    "data": _base64(sent),
                }
                for sent, id_ in zip(data, ids, strict=True)
            ]
        },
    }


def pipes_event(event: Mapping[str, Any]) -> list[Event]:
    """
    Return the list that EventBridge Pipes sends for the records of *event*, which another builder made.

        pipes_event(sqs_event({"orderId": 5}, {"orderId": 6}))
    """
    if "Records" in event:  # the contents of ``kinesis`` are at the top level
        return [
            {name: value for name, value in record.items() if name != "kinesis"} | record.get("kinesis", {})
            for record in event["Records"]
        ]
    shared = {name: event[name] for name in ("eventSource", "eventSourceArn") if name in event}
    if shared["eventSource"] == "SelfManagedKafka":
        shared["bootstrapServers"] = event["bootstrapServers"]
    if "messages" in event:
        return [{**shared, "eventSource": "aws:amq", **message} for message in event["messages"]]
    lists = event["records"] if "records" in event else event["rmqMessagesByQueue"]
    return [
        {**shared, "eventSourceKey": name, **record}
        | ({"partition": str(record["partition"])} if "partition" in record else {})
        for name, records in lists.items()
        for record in records
    ]


def _broker(name: str) -> str:
    return f"arn:aws:mq:{REGION}:{ACCOUNT}:broker:{name}:b-9bcfa592-423a-4942-879d-eb284b418fc8"


def _bytes(sent: object) -> bytes:
    return sent if isinstance(sent, bytes) else text_of(sent).encode()


def _base64(sent: object) -> str:
    return base64.b64encode(_bytes(sent)).decode()


def _kinesis_record(sent: object, partition_key: str, stream: str, shard: str) -> Event:
    number = str(next(_kinesis))
    return {
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": partition_key,
            "sequenceNumber": number,
            "data": _base64(sent),
            "approximateArrivalTimestamp": int(AT_MS) / 1000,
        },
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": f"{shard}:{number}",
        "eventName": "aws:kinesis:record",
        "invokeIdentityArn": f"arn:aws:iam::{ACCOUNT}:role/orders",
        "awsRegion": REGION,
        "eventSourceARN": f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{stream}",
    }


def dynamodb_stream_event(
    *changes: tuple[Image | None, Image | None], key: str | Sequence[str] = "id", table: str = "orders"
) -> Event:
    """
    Return a batch of one shard with a record for each of *changes*.

    Each is the item before and the item after, in plain values; None for no item. *key*: the key attributes
    of the table.

        dynamodb_stream_event((None, {"id": "5", "total": 10}))
        dynamodb_stream_event(({"id": "5", "total": 10}, {"id": "5", "total": 12}), ({"id": "6"}, None))
    """
    names = [key] if isinstance(key, str) else key
    return {"Records": [_change(old, new, names, table) for old, new in changes]}


def _change(old: Image | None, new: Image | None, key: Sequence[str], table: str) -> Event:
    images = {"NewImage": new, "OldImage": old}
    item = new or old or {}
    stream = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}/stream/2026-11-20T10:12:00.000"
    return {
        "eventID": uuid.uuid4().hex,
        "eventName": "INSERT" if old is None else "REMOVE" if new is None else "MODIFY",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": REGION,
        "dynamodb": {
            "ApproximateCreationDateTime": int(AT_MS) / 1000,
            "Keys": _typed_item({name: item[name] for name in key}),
            **{name: _typed_item(image) for name, image in images.items() if image is not None},
            "SequenceNumber": str(next(_dynamodb)),
            "SizeBytes": 100,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": stream,
    }


def _typed_item(item: Image) -> Any:
    """Return *item* as Lambda sends it: typed attributes, with binary in base64."""
    return _sent(typed_item(item))


def _sent(part: object) -> object:
    match part:
        case bytes():
            return base64.b64encode(part).decode()
        case dict():
            return {name: _sent(each) for name, each in part.items()}
        case list():
            return [_sent(each) for each in part]
        case _:
            return part
