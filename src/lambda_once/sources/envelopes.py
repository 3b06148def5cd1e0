"""
What's in a message: its body parsed as JSON, and the SNS, EventBridge and S3 envelopes in it opened.

An envelope has an id and a time of its own for each send, so what counts is inside. Numbers keep every digit,
and what isn't JSON is text: two bodies that a parser would make equal by losing something stay two.

What we're not happy with: an envelope is recognised by its looks, so a payload of yours with the fields of a
notification is opened, too.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from math import inf, isinf
from typing import Any, Final, NoReturn, TypeGuard

from lambda_once.core.canonical import is_shortest
from lambda_once.core.identity import NOTHING, Content, Identity, whole
from lambda_once.core.objects import Fields
from lambda_once.sources.attributes import MAPPINGS, counted, is_dead_letter, united

# IEEE 754 binary64: a normal float, 2.2250738585072014e-308 and up, preserves any 15 significant digits.
_LEAST_NORMAL: Final = 2.2250738585072014e-308
_SHORT: Final = 15 + 1  # characters: one more is the point
_BOUNDS: Final = (0.0, inf, -inf)  # what a float makes of a number outside its range


class BadData(ValueError):
    """Data that cannot be read. The message continues a sentence about it, and quotes nothing of it."""


class TooDeep(BadData):
    """
    The text nests deeper than Python's recursion limit.

    How deep Python can read depends on the stack: the same body could be JSON once, and the next time plain
    text with another hash. So it's refused.
    """


def parse(text: str) -> object:
    """
    Return *text* as JSON, or *text* itself if it is not JSON.

    Numbers keep every digit: one that a float would round is a `Decimal`.
    `NaN`, `Infinity`, a number outside the range of a float and an integer over
    Python's limit for conversions (4,300 digits) make the whole plain text.
    Raises `TooDeep`.
    """
    try:
        result: object = _DECODER.decode(text)
    except RecursionError:
        raise TooDeep("is JSON nested too deeply to be read") from None
    except ValueError:
        return text
    return result


def decoded(data: object) -> bytes:
    """Return the bytes of *data*, base64 text. Raises `BadData`."""
    try:
        return b64decode(data, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise BadData("is not base64") from None


def parse_bytes(data: bytes) -> object:
    """Return *data* as `parse` returns it where it is UTF-8, else itself. Raises `TooDeep`."""
    try:
        return parse(data.decode())
    except UnicodeDecodeError:
        return data


def _exact(text: str) -> float | Decimal:
    number = float(text)
    if len(text) <= _SHORT and _LEAST_NORMAL < abs(number) < inf:
        return number
    if number in _BOUNDS:
        if isinf(number) or text.lower().partition("e")[0].strip("-0."):
            # Kept exact, "1e999999999" would grow to a gigabyte as soon as someone writes it out.
            _no_json(text)
        return number
    return number if is_shortest(text, number) else Decimal(text)


def _no_json(text: str) -> NoReturn:
    message = f"{len(text)} characters that are not a portable JSON number"
    raise ValueError(message)


# Made once: with these options, `json.loads` makes a decoder for each text.
_DECODER: Final = json.JSONDecoder(parse_float=_exact, parse_constant=_no_json)


# -- envelopes

# EventBridge → SNS → SQS is the longest chain that AWS builds by itself; the rest is room for topics that
# are fed from topics. What lies deeper is payload.
MOST_ENVELOPES: Final = 4


class Parsed(dict[str, Any]):
    """A record or event that a parser made: its body may be parsed already."""

    def __init__(self, fields: Fields) -> None:
        super().__init__(fields)
        self.fields = fields
        """Those of its model, which know what of them counts."""


def named_in(arn: object) -> object:
    """
    Return account and name of a queue, topic, stream or table by its ARN; `NOTHING` if it is none.

    Never the region: over one table of two regions, both regions' copies of a message are one work.
    """
    parts = str(arn).split(":", 5)  # a resource may have colons
    if parts[0] != "arn" or len(parts) <= 5:  # noqa: PLR2004  (partition, service, region, account, resource)
        return NOTHING
    account, resource = parts[4:]
    if "/" not in resource and ":" not in resource:  # first, for speed: queues and topics
        return [account, resource]
    kind, _, path = resource.partition("/")
    if kind in ("stream", "table"):
        return [account, path.partition("/")[0]]
    return [account, resource.split(":")[1] if resource.startswith("broker:") else resource]


def origin_of(arn: object, attributes: object) -> object:
    """Return `named_in` of *arn*; `NOTHING` if *attributes* are a dead letter's: its body has the origin."""
    return NOTHING if is_dead_letter(attributes) else named_in(arn)


def opened(raw: object, body: object, name: str, origin: object, attributes: object) -> Identity:
    """Return `open_body` of *body*, the field *name* of *raw*. Raises `BadData`."""
    if not isinstance(body, str) and (body is None or not isinstance(raw, Parsed)):
        raise BadData(f"has no text {name}")
    try:
        return open_body(body, origin, attributes)
    except BadData as error:
        raise BadData(f"has a {name} that {error}") from None


def read_data(data: object, name: str = "data", raw: object = None) -> object:
    """
    Return *data*, base64, as JSON, text or bytes. If a parser made *raw*, *data* may be read already.

    Bytes are the data itself if a parser made *raw*; aws-kinesis-agg 1.2.3 writes base64 as bytes in a plain
    dict. Raises `BadData` with the *name* of the field.
    """
    if isinstance(raw, Parsed) and not isinstance(data, str | bytes | None):
        return data
    try:
        is_read = isinstance(data, bytes) and isinstance(raw, Parsed)
        return parse_bytes(data if is_read else decoded(data))  # type: ignore[arg-type]  # bytes
    except BadData as error:
        raise BadData(f"has {name} that {error}") from None


def open_body(body: object, origin: object, attributes: object, most: int = MOST_ENVELOPES) -> Identity:
    """
    Return the identity of the work in *body*, a text or a parser's model, of a message from *origin*.

    The payload of an SNS notification is its Message, of an EventBridge event its detail, of anything else
    the text as `parse` returns it. Raises `TooDeep`.
    """
    is_text = isinstance(body, str)
    value = parse(body) if is_text else body  # type: ignore[arg-type]  # a text
    if most > 0 and is_notification(value, str if is_text else object):
        outer, inner = attributes if isinstance(attributes, Mapping) else {}, value.get("MessageAttributes")
        topic = named_in(value["TopicArn"])
        if is_dead_letter(inner):
            origin = NOTHING
        elif topic is not NOTHING:
            origin = topic if origin is NOTHING else [origin, topic]
        attributes = united(outer, counted(inner))
        return open_body(value["Message"], origin, attributes, most - 1)
    if is_eventbridge(value):  # origin and attributes of the message around it don't count
        return of_eventbridge(value, Content(value["detail"], partial(detail_content, value)))
    if is_s3(value):
        return whole(Content(value, s3_content))
    return Identity(
        who=NOTHING,
        operation=NOTHING,
        origin=origin,
        position=NOTHING,
        attributes=attributes,
        content=Content(value),
    )


def of_eventbridge(event: Mapping[str, object], content: Content) -> Identity:
    """Return the identity of an EventBridge *event* with *content*: what happened is the operation."""
    account = event.get("account")
    return Identity(
        who=NOTHING,
        operation=(str(event["source"]), str(event["detail-type"])),
        origin=[account] if isinstance(account, str) and account else NOTHING,
        position=eventbridge_key(event),
        attributes=NOTHING,
        content=content,
    )


def is_notification(value: object, message: type = str) -> TypeGuard[Mapping[str, object]]:
    """
    Whether *value* is the envelope that SNS puts around a message, of type *message*: a parser may change it.

    Amazon SNS developer guide, "HTTP/HTTPS notification JSON format"; SQS
    gets the same unless raw message delivery is on.
    """
    return (
        isinstance(value, MAPPINGS)
        and value.get("Type") == "Notification"
        and all(isinstance(value.get(name), str) for name in ("MessageId", "TopicArn"))
        and isinstance(value.get("Message"), message)
    )


def is_eventbridge(value: object) -> TypeGuard[Mapping[str, object]]:
    """
    Whether *value* is an event as EventBridge delivers it.

    EventBridge gives each an id. An event without one comes from elsewhere (an input transformer, a test) and
    is payload as a whole.
    """
    return (
        isinstance(value, MAPPINGS)
        and "detail" in value
        and all(isinstance(value.get(name), str) for name in ("id", "source", "detail-type"))
    )


def is_s3(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether *value* is an event notification of S3."""
    match value:
        case {"Records": [{"eventSource": "aws:s3"}, *_]}:
            return True
        case _:
            return False


def eventbridge_content(event: object) -> object:
    """
    Return the content of an EventBridge event: source, detail-type, resources and detail.

    Not id and time: an event that is put twice gets others. *event* may lack ignored fields.
    """
    return detail_content(event, at(event, "detail"))


def eventbridge_key(event: Mapping[str, object]) -> object:
    """
    Return the id of *event* if the next one may have the same content, else `NOTHING`.

    The detail of a schedule is empty, and events of AWS itself ("aws.*", but not those of partners, who send
    one again under another id: API reference, PutPartnerEvents) report states that recur. An event
    of S3 has a sequencer, which its duplicates share and the next write of the object does not.
    """
    detail, source = event["detail"], event["source"]
    if _s3_occasion(event) is not None:
        return NOTHING
    empty = detail is None or (isinstance(detail, str | Mapping | list) and not detail)
    is_of_aws = str(source).startswith("aws.") and not str(source).startswith("aws.partner/")
    return [event["id"]] if empty or is_of_aws else NOTHING


def s3_content(event: object) -> object:
    """
    Return event name, bucket, key, version and sequencer of each record of an S3 event.

    If there is no sequencer, the id of the request that caused the event (Amazon S3 user guide, "Event
    message structure"), and if there is neither, the record itself.
    """
    records = at(event, "Records")
    return [s3_record_content(record) for record in records] if isinstance(records, list) else event


def at(value: object, *path: str) -> object:
    """Return the value under *path* in *value*; None if there is none."""
    for name in path:
        if not isinstance(value, MAPPINGS):
            return None
        value = value.get(name)
    return value


def text_at(value: object, *path: str) -> str | None:
    """Return the text in *value* under *path*; None if there is none, or an empty one."""
    text = at(value, *path)
    return text if isinstance(text, str) and text else None


def at_each(value: object, paths: Iterable[Sequence[str]]) -> list[object]:
    """Return the value under each of *paths* in *value*."""
    return [at(value, *path) for path in paths]


def detail_content(event: object, detail: object) -> object:
    """Return `eventbridge_content` of *event*, whose detail is *detail* without ignored fields."""
    occasion = _s3_occasion(event)
    if occasion is not None:
        return occasion
    return {**{name: at(event, name) for name in ("source", "detail-type", "resources")}, "detail": detail}


def _s3_occasion(event: object) -> list[object] | None:
    """
    Return detail-type, bucket, key, version and sequencer of *event* if S3 sent it through EventBridge.

    None if it has no sequencer: restores, tags and access lists have none (Amazon S3 user guide, "EventBridge
    event message structure").
    """
    detail = at(event, "detail")
    if at(event, "source") != "aws.s3" or not at(detail, "object", "sequencer"):
        return None
    paths = (("bucket", "name"), ("object", "key"), ("object", "version-id"), ("object", "sequencer"))
    return [at(event, "detail-type"), *at_each(detail, paths)]


def s3_record_content(record: object) -> object:
    """Return the part of `s3_content` for one *record*."""
    # Notifications of Intelligent-Tiering say "get_object" for "object".
    s3_object = at(record, "s3", "object") or at(record, "s3", "get_object")
    occasion = at(s3_object, "sequencer") or at(record, "responseElements", "x-amz-request-id") or record
    bucket = at(record, "s3", "bucket", "name")
    return [at(record, "eventName"), bucket, at(s3_object, "key"), at(s3_object, "versionId"), occasion]
