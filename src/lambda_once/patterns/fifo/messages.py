"""
Messages for a FIFO topic or queue: how they are made, and which may be sent next.

Limits: API references of PublishBatch and SendMessageBatch; SNS developer guide, "Raw message delivery".
"""

from __future__ import annotations

import heapq
import json
import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

from lambda_once.core import keys
from lambda_once.core.canonical import NotCanonical, converted, digest, fingerprint, json_number, plain
from lambda_once.core.fields import without
from lambda_once.errors import KeyMissing, KeyReused, Misconfigured, OnceError

BATCH: Final = 10
"""The most messages of one request."""
MOST_ATTRIBUTES: Final = 10
"""Of one message: with more, SNS does not deliver it to a queue with raw delivery."""
ID_LIMIT: Final = 128
"""Characters of a message group id: ASCII letters, digits and punctuation."""

_PUNCTUATION = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # valid in an id, without the % of the encoding
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Not valid in a body. Source: Amazon SQS API reference, SendMessage, MessageBody."""
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,255}")

Attributes = Mapping[str, str | bytes | int | Decimal]
"""Message attributes by their names."""

Selector = str | Callable[..., object]
"""A JMESPath expression over the message, or a callable that gets it."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, ready to be sent."""

    body: str
    group: str
    deduplication_id: str
    attributes: Mapping[str, Mapping[str, Any]]
    """In the form that SNS and SQS share."""
    size: int
    """Bytes that count: the body, and names, types and values of the attributes."""
    problem: OnceError | None = None
    """Why it cannot be sent; its group is empty where that is not known."""


def body_of(message: object) -> str:
    """Return *message* as text, or as JSON, a Decimal as a number of its value. Raises `Misconfigured`."""
    try:
        text = message if isinstance(message, str) else _json(message)
        text.encode()
    except (NotCanonical, TypeError, ValueError) as error:
        raise Misconfigured(f"the message is not JSON-serialisable: {type(error).__name__}") from None
    if text == "":
        raise Misconfigured("the message is empty: neither SNS nor SQS accepts it")
    return _checked_text("the message", text)


def message_payload(message: object) -> object:
    """Return *message* as expressions see it: text that is JSON is parsed, as its receiver does."""
    if not isinstance(message, str):
        return plain(message)
    try:
        return json.loads(message)
    except (ValueError, RecursionError):
        return message


def group_id(group: object) -> str:
    """
    Return the message group id of *group*: no two texts have the same.

    Characters that are not valid are percent-encoded, and what is then too long, or looks like a digest, is
    digested. A whole number is its digits. Raises `KeyMissing` and `Misconfigured`.
    """
    if isinstance(group, int) and not isinstance(group, bool):
        return str(group)
    if not isinstance(group, str):
        raise Misconfigured(f"a message group is text or a whole number, not a {type(group).__name__}")
    if group == "":
        raise KeyMissing("the message group is empty: select a field that every message has")
    encoded = quote(group, safe=_PUNCTUATION, errors="surrogatepass")
    return digest(group) if len(encoded) > ID_LIMIT or _DIGEST.fullmatch(encoded) else encoded


def attributes_of(attributes: Attributes) -> dict[str, dict[str, Any]]:
    """Return *attributes* in the form of requests. Raises `Misconfigured`."""
    if len(attributes) > MOST_ATTRIBUTES:
        raise Misconfigured(
            f"{len(attributes)} attributes: a queue with raw delivery accepts {MOST_ATTRIBUTES}, "
            f"and SNS drops a message with more; put the rest into the body"
        )
    return {name: _attribute(name, each) for name, each in attributes.items()}


def size_of(body: str, attributes: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the bytes that count against the limits of a message and of a request."""
    written: list[str | bytes] = [body, *attributes]
    written += [part for each in attributes.values() for part in each.values()]
    return sum(len(part.encode()) if isinstance(part, str) else len(part) for part in written)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFormat:
    """How one publisher makes messages. Reads the environment at each message."""

    key: keys.Selector
    scope: keys.Selector
    group: Selector
    service: str | None
    name: str
    with_content: bool
    ignore: tuple[str, ...]
    attributes: Attributes | Callable[[Any], Attributes] | None
    largest: int

    def __post_init__(self) -> None:
        for selector, what in ((self.key, "key"), (self.scope, "scope"), (self.group, "group")):
            if isinstance(selector, str):
                keys.compile_expression(selector, what)

    def prepared(self, message: object) -> Message:
        """Return *message* ready to be sent. Raises `KeyMissing` and `Misconfigured`."""
        body = body_of(message)
        payload = message_payload(message)
        made = self.attributes(message) if callable(self.attributes) else self.attributes
        attributes = attributes_of({} if made is None else made)
        size = size_of(body, attributes)
        if size > self.largest:
            raise Misconfigured(
                f"the message has {size} bytes, and {self.name} takes {self.largest}: "
                f"store the large part elsewhere and send a reference"
            )
        group = group_id(_selected(self.group, message, payload, "group"))
        return Message(body, group, self._deduplication_id(message, payload), attributes, size)

    def all_prepared(self, messages: Sequence[object]) -> list[Message]:
        """Return *messages* ready to be sent, each with its `Message.problem` if it has one."""
        ready = [self._judged(message) for message in messages]
        first: dict[str, int] = {}
        for position, message in enumerate(ready):
            if message.problem is not None:
                continue
            before = first.setdefault(message.deduplication_id, position)
            if before != position and self._content(messages[before]) != self._content(messages[position]):
                problem = KeyReused(
                    f"messages {before} and {position} have one key and differ, so the second would be "
                    f"dropped as a duplicate: make the key finer, or use with_content=True"
                )
                ready[position] = replace(message, problem=problem)
        return ready

    def token(self, message: object) -> str:
        """Return the token whose digest is the deduplication id. Raises `KeyMissing`."""
        return self._token(message, message_payload(message))

    def _judged(self, message: object) -> Message:
        try:
            return self.prepared(message)
        except OnceError as error:
            group = ""
            with suppress(OnceError):
                group = group_id(_selected(self.group, message, message_payload(message), "group"))
            return Message("", group, "", {}, 0, error)

    def _token(self, message: object, payload: object) -> str:
        if self.key is None:
            key = keys.of_payload(without(payload, self.ignore), {})
        else:
            key = _selected(self.key, message, payload, "key")
        scope = None if self.scope is None else _selected(self.scope, message, payload, "scope")
        service = os.environ.get(keys.SERVICE_VARIABLE) if self.service is None else self.service
        return keys.token(service or keys.NO_SERVICE, self.name, scope, key)

    def _deduplication_id(self, message: object, payload: object) -> str:
        token = self._token(message, payload)
        return digest([token, self._content(message)] if self.with_content else token)

    def _content(self, message: object) -> str:
        return fingerprint(without(message_payload(message), self.ignore))


def _selected(selector: Selector, message: object, payload: object, what: str) -> object:
    if isinstance(selector, str):
        return keys.select(selector, payload, what)
    return keys.select_from(selector, (message,), {}, what)


class Backlog:
    """
    The messages that are still to be sent, by position.

    At most one of a group is in flight: none overtakes another of its group, whichever of a request fail.
    """

    def __init__(self, messages: Mapping[int, Message]) -> None:
        self._messages = messages
        self._behind: dict[str, deque[int]] = {}
        for position, message in messages.items():
            self._behind.setdefault(message.group, deque()).append(position)
        # Retries go first, so that all tries of a message are within five minutes; then in the order given.
        self._heads = [(0, waiting.popleft()) for waiting in self._behind.values()]
        heapq.heapify(self._heads)

    def take(self, most_bytes: int) -> list[tuple[int, int]]:
        """
        Return the next request's messages: position and tries before, at most ten, within *most_bytes*.

        No message of their groups is returned again until one of the other methods was called for each.
        """
        taken: list[tuple[int, int]] = []
        size = 0
        while self._heads and len(taken) < BATCH:
            size += self._messages[self._heads[0][1]].size
            if taken and size > most_bytes:
                break
            before, position = heapq.heappop(self._heads)
            taken.append((position, -before))
        return taken

    def sent(self, position: int) -> None:
        """Make the next message of the group of *position* available."""
        waiting = self._behind[self._messages[position].group]
        if waiting:
            heapq.heappush(self._heads, (0, waiting.popleft()))

    def again(self, position: int, tries: int) -> None:
        """Put *position* back, before all with fewer tries."""
        heapq.heappush(self._heads, (-tries, position))

    def failed(self, position: int) -> list[int]:
        """Give up *position*, and return the rest of its group, which stays unsent."""
        waiting = self._behind[self._messages[position].group]
        held = list(waiting)
        waiting.clear()
        return held


# -- JSON with every digit


class _Digits:
    """A Decimal that no float equals. JSON has a number for it, json.dumps has none."""

    def __init__(self, value: Decimal) -> None:
        self.text = str(value)


def _json(message: object) -> str:
    return _written(plain(_with_digits(message)))


def _with_digits(value: object) -> object:
    return converted(value, _exact, lambda names: names)


def _exact(value: object, _: object) -> object:
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError("JSON has no number for it")
        return _Digits(value) if json_number(value) is None else value
    if isinstance(value, set | frozenset):
        ordered = sorted(value, key=lambda each: json.dumps(plain(each), sort_keys=True, default=repr))
        return [_with_digits(each) for each in ordered]
    return value


def _written(value: object) -> str:
    """Return the JSON of a plain *value*: by the encoder, which is fast, but for what has digits in it."""
    if isinstance(value, _Digits):
        return value.text
    try:
        return _JSON.encode(value)
    except TypeError:
        if isinstance(value, list):
            return f"[{','.join(map(_written, value))}]"
        if isinstance(value, dict):
            names = (name if isinstance(name, str) else _JSON.encode(name) for name in value)
            members = zip(map(_JSON.encode, names), map(_written, value.values()), strict=True)
            return f"{{{','.join(f'{name}:{each}' for name, each in members)}}}"
        raise


def _checked_text(what: str, text: str) -> str:
    if found := _FORBIDDEN.search(text):
        raise Misconfigured(f"{what} has the character U+{ord(found[0]):04X}, which SQS takes in no message")
    return text


def _attribute(name: str, given: object) -> dict[str, Any]:
    if not _ATTRIBUTE_NAME.fullmatch(name):
        wanted = "letters, digits, '-', '_' and '.', 256 characters at most"
        raise Misconfigured(f"attribute {name!r}: a name is {wanted}")
    if given in ("", b""):
        raise Misconfigured(f"attribute {name!r} is empty: leave it out")
    match given:
        case bytes():
            return {"DataType": "Binary", "BinaryValue": given}
        case str():
            return {"DataType": "String", "StringValue": _checked_text(f"attribute {name!r}", given)}
        case int() | Decimal() if not isinstance(given, bool):
            return {"DataType": "Number", "StringValue": str(given)}
        case _:
            kind = type(given).__name__
            raise Misconfigured(f"attribute {name!r} is a {kind}: give text, a number or bytes")
