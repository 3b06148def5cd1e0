"""
What identifies the work in an argument of a function.

A record counts as under the decorator of its source, and an event as under `once.event`, whether the function
gets it as a dict, as Powertools' data class or as a model of its parser: receipt handle, receive count,
timestamps and signatures belong to one delivery. Anything else is itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType
from typing import Any, Final, NamedTuple

from lambda_once.core.unit import NOTHING, Malformed, Unit, itself
from lambda_once.errors import Misconfigured
from lambda_once.sources.envelopes import s3_record_content
from lambda_once.sources.event import unit_of
from lambda_once.sources.ordered import DYNAMODB_STREAM, KINESIS, MQ
from lambda_once.sources.records import SNS, SQS
from lambda_once.sources.source import Source, as_sent, named_source

_PLAIN: Final = frozenset({str, int, float, bool, NoneType})
_RECORDS: Final = {
    Source.SQS: (SQS, "receiptHandle"),
    Source.SNS: (SNS, "Sns"),
    Source.KINESIS: (KINESIS, "kinesis"),
    Source.DYNAMODB: (DYNAMODB_STREAM, "dynamodb"),
}
"""Sources of records, and a field that each of their records has."""


class Argument(NamedTuple):
    """The part of a record or event, an argument of a function, that identifies the work."""

    payload: object
    content: Callable[[object], object] = itself
    """From the payload without ignored fields to what counts of it."""
    key: object = NOTHING
    """What distinguishes a record from another one with equal content."""
    attributes: Mapping[str, object] = MappingProxyType({})
    """What counts of a message's attributes."""
    view: object = NOTHING
    """What expressions see in place of the payload: a dict or model is seen as the function gets it."""
    unread: str | None = None
    """What is wrong with a record that cannot be read."""
    is_malformed: bool = False
    """Whether it counts as it came, with what belongs to one delivery: it is no key."""
    refused: str | None = None
    """Why it identifies no work: it is a batch or a request, or asks for a decision."""


def argument_of(value: object) -> Argument | None:
    """Return what identifies the work in *value*; None if it is neither a record nor an event."""
    if type(value) in _PLAIN:
        return None
    if isinstance(value, list | tuple):
        return _batch(value)
    sent = as_sent(value)
    if sent is None:
        return None
    is_data_class = not isinstance(value, dict) and sent is getattr(value, "raw_event", None)
    unit = _record(sent, is_data_class=is_data_class)
    if isinstance(unit, Malformed):
        is_of_stream = named_source(sent) in (Source.KINESIS, Source.DYNAMODB)  # every delivery is equal
        return Argument(sent, unread=unit.message, is_malformed=not is_of_stream)
    if unit is not None:
        key = unit.key if NOTHING in (unit.key, unit.within) else [unit.within, unit.key]
        view = NOTHING if is_data_class else value
        return Argument(unit.payload, unit.content, key, unit.attributes, view, unit.unread)
    view = NOTHING if is_data_class or sent is value else value
    match named_source(sent):
        case Source.S3 if "s3" in sent:
            return Argument(s3_record_content(sent), view=sent if view is NOTHING else view)
        case Source.KAFKA if "offset" in sent:  # its position is that of every delivery
            return Argument(sent, view=view)
    try:
        unit = unit_of(sent, None, "once.function")
    except Misconfigured as error:
        return Argument(sent, view=view, refused=f"{error} Or pass once.function key= and fingerprint=.")
    return Argument(unit.payload, unit.content, unit.key, view=view)


def _batch(value: Any) -> Argument | None:
    """Return the error for *value* if it is a list of records, as a loop over a batch would group them."""
    first = as_sent(next(iter(value), None))
    if first is None or _record(first, is_data_class=False) is None:
        return None
    return Argument(
        value,
        refused=(
            "once.function received a list of records, which the next delivery groups in another way. "
            "Nothing ran. Call it with one record at a time, or pass key= and fingerprint=."
        ),
    )


def _record(sent: dict[str, Any], *, is_data_class: bool) -> Unit | Malformed | None:
    """Return *sent*, a record, as a unit; None if it is none."""
    if "redelivered" in sent and "data" in sent:  # a message of Amazon MQ: the event names source and queue
        broker = "aws:rmq" if "basicProperties" in sent else "aws:amq"
        return MQ.read({"eventSource": broker, "eventSourceKey": "?", **sent}).unit
    source, field = _RECORDS.get(named_source(sent), (None, ""))
    if source is None or not (is_data_class or field in sent):
        return None
    return source.read(sent).unit


class Arguments(NamedTuple):
    """The arguments of a function by name, as far as they identify the work."""

    named: Mapping[str, object]
    special: Mapping[str, Argument]
    """Those that are records or events."""

    def unit(self, arguments: object, *, guarded: bool) -> Unit:
        """
        Return the unit of a call with all *arguments*.

        *guarded*: nothing says what identifies a batch or a request, so it is refused.
        """
        named, special = self.named, self.special
        if not special:
            return Unit(named, named, arguments, None, itself, parsed=False)
        payload = {name: special[name].payload if name in special else each for name, each in named.items()}
        seen = {
            name: each if name not in special or special[name].view is NOTHING else special[name].view
            for name, each in payload.items()
        }
        keys = {name: each.key for name, each in special.items() if each.key is not NOTHING}
        alone = len(special) == 1
        attributes = {
            text if alone else f"{name}.{text}": form
            for name, each in special.items()
            for text, form in each.attributes.items()
        }
        return Unit(
            payload,
            seen,
            arguments,
            None,
            self._content,
            within=keys or NOTHING,
            parsed=False,
            unread=next(filter(None, (each.unread for each in special.values())), None),
            is_malformed=any(each.is_malformed for each in special.values()),
            attributes=attributes,
            view=seen,
            refused=next(filter(None, (each.refused for each in special.values() if guarded)), None),
        )

    def _content(self, payload: object) -> object:
        """Return what counts of *payload*, the arguments without ignored fields."""
        special = self.special
        return {
            name: special[name].content(each) if name in special else each
            for name, each in dict(payload).items()  # type: ignore[call-overload]  # by name
        }
