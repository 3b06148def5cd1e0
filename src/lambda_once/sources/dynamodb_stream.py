"""
`once.dynamodb_stream`: what happens to a change of a table's item.

Its shared reader is in `records`; `streams` runs the batch in the order of its shard and makes the response.
The payload is the change in plain values, as a handler would read it from JSON: numbers as in a JSON body
(`envelopes.parse`), sets are sets, binary is bytes. The eventID is the key: a shard repeats a record with its
id, and every write to the item is a change of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NoReturn

from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord

from lambda_once.core.identity import NOTHING, Content, Identity, itself
from lambda_once.core.unit import Delivered, Unit
from lambda_once.sources.envelopes import BadData, Parsed, at, decoded, named_in, parse, text_at
from lambda_once.sources.records import Raw, RecordSource
from lambda_once.sources.source import Source
from lambda_once.sources.streams import in_stream, stream_handler

if TYPE_CHECKING:
    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings

_CHANGES: Final = ("INSERT", "MODIFY", "REMOVE")
_ITEMS: Final = ("Keys", "NewImage", "OldImage")


def _locate(raw: Raw) -> Delivered:
    """Return *raw*, a change, with its sequence number; the changes of one item are a group."""
    number, keys = text_at(raw, "dynamodb", "SequenceNumber"), at(raw, "dynamodb", "Keys")
    item = None
    with suppress(RecursionError):  # keys of no table: the record alone is refused
        if isinstance(keys, Mapping) and keys:
            item = json.dumps({**keys}, sort_keys=True, default=str)
    return Delivered(DynamoDBRecord(raw), raw, number, id=number, group=item)


def _read_content(record: Delivered, raw: Raw) -> Unit:
    event_id, arn = in_stream(record, raw)
    if raw.get("eventName") not in _CHANGES or record.group is None:
        raise BadData(f"has no Keys, or its eventName is none of {', '.join(_CHANGES)}")
    change = raw["dynamodb"]
    read = itself if isinstance(raw, Parsed) else _plain_item
    try:
        items = {name: read(change[name]) for name in _ITEMS if change.get(name) is not None}
    except RecursionError:
        raise BadData("has an item that is nested too deeply") from None
    identity = Identity(
        who=NOTHING,
        operation=NOTHING,
        origin=named_in(arn),
        position=[event_id],
        attributes=NOTHING,
        content=Content({"eventName": raw["eventName"], **items}, parsed=False),
    )
    return Unit(identity, Delivered(record.argument, raw, event_id, id=record.id, group=record.group))


DYNAMODB_STREAM: Final = RecordSource(
    Source.DYNAMODB,
    _locate,
    _read_content,
    "eventName, Keys, NewImage and OldImage in plain values",
    "the eventID, within the table",
    repeats=True,
    piped_id="eventID",
)


def dynamodb_stream_handler(
    runtime: Runtime, function: Callable[..., Any], settings: Settings
) -> Callable[..., Any]:
    """Return the Lambda handler that runs *function* for each change of a shard, in order."""
    return stream_handler(DYNAMODB_STREAM, runtime, function, settings)


# ------------------------------------------------------------------ plain values


def _plain_item(item: object) -> dict[str, object]:
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
    except BadData:
        return _refuse("binary data that is not base64")


def _members(content: object) -> list[object]:
    return content if isinstance(content, list) else _refuse("a list or set that is not an array")


def _refuse(what: str) -> NoReturn:
    raise BadData(f"has {what}")


_text: Final = _is(str, "an S that is not text")
_TYPES: Final[dict[object, Callable[[object], object]]] = {
    "S": _text,
    "N": _number,
    "B": _binary,
    "BOOL": _is(bool, "a BOOL that is not true or false"),
    "NULL": lambda _: None,
    "M": _plain_item,
    "L": lambda content: [_plain(each) for each in _members(content)],
    "SS": lambda content: {_text(each) for each in _members(content)},
    "NS": lambda content: {_number(each) for each in _members(content)},
    "BS": lambda content: {_binary(each) for each in _members(content)},
}
"""How each type is read (DynamoDB API reference, AttributeValue)."""
