"""Events of streams as AWS sends them: see `lambda_once.testing.events`."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import count
from typing import Any

from lambda_once.testing.events import ACCOUNT, AT_MS, REGION, Event, text_of

_kinesis = count(49590338271490256608559692538361571095921575989136588898)
_dynamodb = count(4421584500000000017450439091)

Image = Mapping[str, object]


def kinesis_event(
    *data: object, partition_keys: str | Sequence[str] = "order-5", stream: str = "orders", shard: int = 0
) -> Event:
    """
    Return a batch of one shard with a record for each of *data*.

    Bytes and text are sent as they are, anything else as JSON. *partition_keys*: one for all, or for each.

        kinesis_event({"orderId": 5}, {"orderId": 6}, partition_keys=["5", "6"])
    """
    keys = [partition_keys] * len(data) if isinstance(partition_keys, str) else partition_keys
    return {
        "Records": [
            _kinesis_record(sent, key, stream, f"shardId-{shard:012d}")
            for sent, key in zip(data, keys, strict=True)
        ]
    }


def _kinesis_record(sent: object, partition_key: str, stream: str, shard: str) -> Event:
    number = str(next(_kinesis))
    raw = sent if isinstance(sent, bytes) else text_of(sent).encode()
    return {
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": partition_key,
            "sequenceNumber": number,
            "data": base64.b64encode(raw).decode(),
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

    Each is an item before and after, in plain values; None: there was no item, or there is none now.
    *key*: the key attributes of the table.

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


def _typed_item(item: Image) -> dict[str, Any]:
    return {name: _typed(value) for name, value in item.items()}


def _typed(value: object) -> dict[str, Any]:
    """Return *value* as an attribute value, with binary in base64 as Lambda sends it."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case bytes():
            return {"B": base64.b64encode(value).decode()}
        case int() | float() | Decimal():
            return {"N": str(value)}
        case set() | frozenset():
            members = [_typed(each) for each in value]
            kinds = {f"{kind}S" for member in members for kind in member}
            return {kind: [each for member in members for each in member.values()] for kind in kinds}
        case Mapping():
            return {"M": _typed_item(value)}
        case list() | tuple():
            return {"L": [_typed(each) for each in value]}
        case _:
            message = f"DynamoDB has no {type(value).__name__}"
            raise TypeError(message)
