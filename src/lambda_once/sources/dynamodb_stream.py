"""
DynamoDB Streams: a record is a unit, its change in plain values the payload. A batch is of one shard.

Numbers are as in a JSON body (`envelopes.parse`), sets are sets, binary is bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, NoReturn

from lambda_once.sources.envelopes import NotBase64, at, decoded, parse
from lambda_once.sources.records import EventRecord, RecordSource, malformed, text_at
from lambda_once.sources.source import Source
from lambda_once.sources.unit import Malformed, Unit, itself

_CHANGES: Final = ("INSERT", "MODIFY", "REMOVE")
_ITEMS: Final = ("Keys", "NewImage", "OldImage")


class NoAttributeValue(ValueError):
    """A value is not written as DynamoDB writes attribute values."""


def _read(raw: object) -> EventRecord:
    from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord

    id_ = text_at(raw, "dynamodb", "SequenceNumber")
    record = DynamoDBRecord(raw) if isinstance(raw, dict) else raw
    return EventRecord(id_, _item(raw), _unit(raw, id_, record), record)


def _item(raw: object) -> str | None:
    """Return what tells the item of *raw* from every other one; None if it has no key."""
    keys = at(raw, "dynamodb", "Keys")
    return json.dumps(keys, sort_keys=True) if isinstance(keys, Mapping) and keys else None


def _unit(raw: object, id_: str | None, record: object) -> Unit | Malformed:
    if not isinstance(raw, Mapping) or id_ is None:
        return malformed(id_, "has no sequence number")
    stream, event_id = text_at(raw, "eventSourceARN"), text_at(raw, "eventID")
    if stream is None or event_id is None:
        return malformed(id_, "has no eventID or no eventSourceARN")
    if raw.get("eventName") not in _CHANGES or _item(raw) is None:
        return malformed(id_, f"has no Keys, or its eventName is none of {', '.join(_CHANGES)}")
    change = raw["dynamodb"]
    try:
        items = {name: plain_attributes(change[name]) for name in _ITEMS if change.get(name) is not None}
    except NoAttributeValue as error:
        return malformed(id_, f"has {error}")
    payload = {"eventName": raw["eventName"], **items}
    return Unit(payload, raw, record, event_id, itself, f"{stream}/{event_id}", parsed=False)


def plain_attributes(item: object) -> dict[str, object]:
    """Return the attributes of *item* as plain values. Raises `NoAttributeValue`."""
    if not isinstance(item, Mapping):
        _refuse("an item that is not an object")
    return {name: _plain(value) for name, value in item.items()}


def _plain(value: object) -> object:
    if not isinstance(value, Mapping) or len(value) != 1:
        _refuse("an attribute value that is not one type and its content")
    ((kind, content),) = value.items()
    if kind not in _TYPES:
        _refuse("an attribute value of an unknown type")
    return _TYPES[kind](content)


def _is(kind: type, otherwise: str) -> Callable[[object], object]:
    return lambda content: content if isinstance(content, kind) else _refuse(otherwise)


def _number(content: object) -> int | float | Decimal:
    found = parse(content) if isinstance(content, str) else None
    if isinstance(found, int | float | Decimal) and not isinstance(found, bool):
        return found
    return _refuse("an N that is not a number")


def _binary(content: object) -> bytes:
    try:
        return decoded(content)
    except NotBase64:
        return _refuse("binary data that is not base64")


def _members(content: object) -> list[object]:
    return content if isinstance(content, list) else _refuse("a list or set that is not an array")


def _refuse(what: str) -> NoReturn:
    raise NoAttributeValue(what)


_text: Final = _is(str, "an S that is not text")
_TYPES: Final[dict[object, Callable[[object], object]]] = {
    "S": _text,
    "N": _number,
    "B": _binary,
    "BOOL": _is(bool, "a BOOL that is not true or false"),
    "NULL": lambda _: None,
    "M": plain_attributes,
    "L": lambda content: [_plain(each) for each in _members(content)],
    "SS": lambda content: {_text(each) for each in _members(content)},
    "NS": lambda content: {_number(each) for each in _members(content)},
    "BS": lambda content: {_binary(each) for each in _members(content)},
}
"""How each type is read (DynamoDB API reference, AttributeValue)."""

DYNAMODB_STREAM: Final = RecordSource(
    Source.DYNAMODB,
    _read,
    "eventName, Keys, NewImage and OldImage in plain values",
    "the eventID, within the stream's ARN",
    piped_id="eventID",
    needs=("dynamo_db_stream_event",),
)
