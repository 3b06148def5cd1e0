"""
Messages for a FIFO topic or queue: how they are built, and which may be sent next.

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
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

from lambda_once.core import keys
from lambda_once.core.canonical import NotCanonical, digest, fingerprint, json_number, plain
from lambda_once.core.fields import without
from lambda_once.errors import KeyMissing, KeyReused, Misconfigured, OnceError
from lambda_once.patterns.exact_json import exact_json
from lambda_once.patterns.fifo.results import Failed

BATCH: Final = 10
"""The most messages in one request."""
MOST_ATTRIBUTES: Final = 10
"""The most attributes of a message: SNS does not deliver one with more to a queue with raw delivery."""
ID_LIMIT: Final = 128
"""Characters of a message group id: ASCII letters, digits and punctuation."""

_PUNCTUATION = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # valid in an id, without the % of the encoding
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are invalid in a body. Source: Amazon SQS API reference, SendMessage, MessageBody."""
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,255}")

Attributes = Mapping[str, str | bytes | int | Decimal]
"""Message attributes by name."""

Selector = str | Callable[..., object]
"""A JMESPath expression over the message, or a callable that receives the message."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, ready to send."""

    body: str
    group: str
    deduplication_id: str
    attributes: Mapping[str, Mapping[str, Any]]
    """In the form that SNS and SQS share."""
    size: int
    """Bytes that count against the limits: the body, and names, types and values of the attributes."""
    problem: Failed | None = None
    """Why it cannot be sent. Its group is empty if unknown."""


def body_of(message: object) -> str:
    """Return text as it is, anything else as JSON with Decimals as numbers. Raises `Misconfigured`."""
    try:
        text = message if isinstance(message, str) else exact_json(_writable(message), _number)
        text.encode()
    except (NotCanonical, RecursionError, TypeError, ValueError) as error:
        raise Misconfigured(f"the message is not JSON-serialisable: {type(error).__name__}") from None
    if text == "":
        raise Misconfigured("the message is empty: neither SNS nor SQS accepts it")
    return _checked_text("the message", text)


def message_payload(message: object) -> object:
    """Return *message* as expressions see it: JSON text is parsed, as a receiver does."""
    if not isinstance(message, str):
        return plain(message)
    try:
        return json.loads(message)
    except (ValueError, RecursionError):
        return message


def group_id(group: object) -> str:
    """
    Return the message group id of *group*. Different texts have different ids.

    Invalid characters are percent-encoded; an id that is then too long, or looks like a digest, is replaced
    by a digest. A number that equals an integer becomes its digits. Raises `KeyMissing` and `Misconfigured`.
    """
    text = group if isinstance(group, str) else keys.whole_digits(group)
    if text is None:
        raise Misconfigured(f"a message group is text or a whole number, not a {type(group).__name__}")
    if text == "":
        raise KeyMissing("the message group is empty: select a field that every message has")
    encoded = quote(text, safe=_PUNCTUATION, errors="surrogatepass")
    return digest(text) if len(encoded) > ID_LIMIT or _DIGEST.fullmatch(encoded) else encoded


def attributes_of(attributes: Attributes) -> dict[str, dict[str, Any]]:
    """Return *attributes* as requests need them. Raises `Misconfigured`."""
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
    """How a publisher builds its messages. Reads the environment for each message."""

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
        """Return *message* ready to send. Raises `KeyMissing` and `Misconfigured`."""
        body = body_of(message)
        made = self.attributes(message) if callable(self.attributes) else self.attributes
        attributes = attributes_of({} if made is None else made)
        size = size_of(body, attributes)
        if size > self.largest:
            raise Misconfigured(
                f"the message has {size} bytes, and {self.name} takes {self.largest}: "
                f"store the large part elsewhere and send a reference"
            )
        token = self.token(message)
        identity = digest([token, self._content(message)] if self.with_content else token)
        return Message(body, self._group(message), identity, attributes, size)

    def all_prepared(self, messages: Sequence[object]) -> list[Message]:
        """Return *messages* ready to send; those that cannot be sent have a `Message.problem`."""
        ready: list[Message] = []
        first: dict[str, int] = {}
        for place, message in enumerate(messages):
            try:
                made = self.prepared(message)
                before = first.setdefault(made.deduplication_id, place)
                if before != place and self._content(messages[before]) != self._content(message):
                    raise KeyReused(
                        f"messages {before} and {place} have one key and differ, so the second would be "
                        f"dropped as a duplicate: make the key finer, or use with_content=True"
                    )
            except OnceError as error:
                made = self._unsendable(message, error)
            ready.append(made)
        return ready

    def _unsendable(self, message: object, error: OnceError) -> Message:
        group = ""
        with suppress(OnceError):
            group = self._group(message)
        return Message("", group, "", {}, 0, Failed(group, "", type(error).__name__, str(error)))

    def token(self, message: object) -> str:
        """
        Return the token whose digest is the deduplication id: with a key, that of a handler by these rules.

        Raises `KeyMissing`.
        """
        if self.key is None:
            key = keys.key_of_payload(without(message_payload(message), self.ignore), {})
        else:
            key = _selected(self.key, message, "key")
        scope = None if self.scope is None else _selected(self.scope, message, "scope")
        service = os.environ.get(keys.SERVICE_VARIABLE) if self.service is None else self.service
        return keys.token(service or keys.NO_SERVICE, self.name, scope, key)

    def _group(self, message: object) -> str:
        return group_id(_selected(self.group, message, "group"))

    def _content(self, message: object) -> str:
        return fingerprint(without(message_payload(message), self.ignore))


def _selected(selector: Selector, message: object, what: str) -> object:
    if isinstance(selector, str):
        return keys.select(selector, message_payload(message), what)
    return keys.select_from(selector, (message,), {}, what)


class Backlog:
    """
    The messages that are still to be sent, by position.

    At most one message of each group is in flight, so none overtakes another of its group, whatever fails.
    """

    def __init__(self, messages: Mapping[int, Message]) -> None:
        self._messages = messages
        self._behind: dict[str, deque[int]] = {}
        for position, message in messages.items():
            self._behind.setdefault(message.group, deque()).append(position)
        # Retries go first, so that all tries of a message are within five minutes; then the order given.
        self._heads = [(0, waiting.popleft()) for waiting in self._behind.values()]
        heapq.heapify(self._heads)

    def take(self, most_bytes: int) -> list[tuple[int, int]]:
        """
        Return the messages of the next request, as positions and earlier tries.

        They are at most ten, within *most_bytes*. Their groups are blocked until `sent`, `again` or `failed`
        is called for each.
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
        """Release the next message of the group of *position*."""
        waiting = self._behind[self._messages[position].group]
        if waiting:
            heapq.heappush(self._heads, (0, waiting.popleft()))

    def again(self, position: int, tries: int) -> None:
        """Put *position* back, ahead of all messages with fewer tries."""
        heapq.heappush(self._heads, (-tries, position))

    def failed(self, position: int) -> list[int]:
        """Give up *position*, and return the rest of its group, which is not sent."""
        waiting = self._behind[self._messages[position].group]
        held = list(waiting)
        waiting.clear()
        return held


def _writable(value: object) -> object:
    """Return *value* in JSON types and Decimals."""
    return plain(value, Decimal)


def _number(value: object) -> str:
    if not isinstance(value, Decimal) or not value.is_finite():
        raise TypeError(f"{type(value).__name__} is not JSON-serialisable")
    number = json_number(value)
    return str(value) if number is None else json.dumps(number)


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
