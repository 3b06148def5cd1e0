"""
Messages for a FIFO topic or queue, and which of them may go next. Pure.

The limits are those of the API references of Amazon SNS (PublishBatch) and Amazon SQS (SendMessageBatch), and
of the SNS developer guide, "Raw message delivery" (ten attributes).
"""

from __future__ import annotations

import heapq
import json
import os
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

from lambda_once.core.canonical import NotCanonical, converted, digest, plain
from lambda_once.core.numbers import json_number
from lambda_once.errors import KeyMissing, Misconfigured

BATCH: Final = 10
"""Messages of one request at most."""

MOST_ATTRIBUTES: Final = 10
"""Attributes of one message: with more, SNS drops it on its way to a queue of raw delivery."""

ID_LIMIT: Final = 128
"""Characters of a message group id; they are ASCII letters, digits and punctuation."""

_PUNCTUATION = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # what may be in an id, without the % of the encoding
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What a body may not have. Source: Amazon SQS API reference, SendMessage, MessageBody."""
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,255}")

Attributes = Mapping[str, str | bytes | int | Decimal]
"""Message attributes by their names."""


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


def body_of(message: object) -> str:
    """
    Return what is sent of *message*: text as it is, anything else as JSON.

    A Decimal is a JSON number of the same value. Raises `Misconfigured` for what is empty, what JSON cannot
    write, and characters that no message may have.
    """
    try:
        text = message if isinstance(message, str) else _json(message)
        text.encode()
    except (NotCanonical, TypeError, ValueError) as error:
        raise Misconfigured(f"the message cannot be written as JSON: {type(error).__name__}") from None
    if text == "":
        raise Misconfigured("the message is empty: neither SNS nor SQS takes one")
    return _checked_text("the message", text)


def payload_of(message: object) -> object:
    """Return what expressions look into: text that is JSON is opened, as its receiver opens it."""
    if not isinstance(message, str):
        return plain(message)
    try:
        return json.loads(message)
    except (ValueError, RecursionError):
        return message


def group_id(group: object) -> str:
    """
    Return the message group id of *group*: no two texts have one.

    As it stands where it may; other characters are percent-encoded, and what is then too long, or looks like
    a digest, is digested. A whole number is its digits. Raises `KeyMissing` for an empty group, and
    `Misconfigured` for one that is neither text nor a whole number.
    """
    if isinstance(group, int) and not isinstance(group, bool):
        return str(group)
    if not isinstance(group, str):
        raise Misconfigured(f"a message group is text or a whole number, not a {type(group).__name__}")
    if group == "":
        raise KeyMissing("the message group is empty: select what every message has")
    encoded = quote(group, safe=_PUNCTUATION, errors="surrogatepass")
    return digest(group) if len(encoded) > ID_LIMIT or _DIGEST.fullmatch(encoded) else encoded


def attributes_of(attributes: Attributes) -> dict[str, dict[str, Any]]:
    """Return *attributes* as requests have them. Raises `Misconfigured` for what no message can have."""
    if len(attributes) > MOST_ATTRIBUTES:
        raise Misconfigured(
            f"{len(attributes)} attributes: a queue of raw delivery takes {MOST_ATTRIBUTES}, "
            f"and SNS drops a message with more; put the rest into the body"
        )
    return {name: _attribute(name, each) for name, each in attributes.items()}


def size_of(body: str, attributes: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the bytes that count against the limits of a message and of a request."""
    written: list[str | bytes] = [body, *attributes]
    written += [part for each in attributes.values() for part in each.values()]
    return sum(len(part.encode()) if isinstance(part, str) else len(part) for part in written)


class Backlog:
    """
    What is still to be sent.

    At most one message of a group is on its way at a time: so none overtakes another of its group, whichever
    of a request's messages fail.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._behind: dict[str, deque[int]] = {}
        for position, message in enumerate(messages):
            self._behind.setdefault(message.group, deque()).append(position)
        # What was tried before goes first, so that its tries lie close together; then in the order given.
        self._heads = [(0, waiting.popleft()) for waiting in self._behind.values()]
        heapq.heapify(self._heads)

    def take(self, most_bytes: int) -> list[tuple[int, int]]:
        """
        Return the next request's messages: position and tries before, at most ten, within *most_bytes*.

        Nothing of their groups is given again until each is settled by one of the other methods.
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
        """Let the next of the group of *position* go."""
        waiting = self._behind[self._messages[position].group]
        if waiting:
            heapq.heappush(self._heads, (0, waiting.popleft()))

    def again(self, position: int, tries: int) -> None:
        """Put *position* back, before all that was tried less often."""
        heapq.heappush(self._heads, (-tries, position))

    def failed(self, position: int) -> list[int]:
        """Give up *position* and return what stood behind it in its group, which now stays unsent."""
        waiting = self._behind[self._messages[position].group]
        held = list(waiting)
        waiting.clear()
        return held


def _json(message: object) -> str:
    nonce = os.urandom(16).hex()  # no text of the message's begins with it
    form = plain(converted(message, lambda value, _: _with_digits(value, nonce), lambda names: names))
    text = json.dumps(form, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub(f'"{nonce}([^"]*)"', r"\1", text)


def _with_digits(value: object, nonce: str) -> object:
    """Mark a Decimal that no float equals, whose digits then stand in the text as a number."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError("JSON has no number for it")
        return f"{nonce}{value}" if json_number(value) is None else value
    if isinstance(value, set | frozenset):
        ordered = sorted(value, key=lambda each: json.dumps(plain(each), sort_keys=True, default=repr))
        return [
            converted(each, lambda part, _: _with_digits(part, nonce), lambda names: names)
            for each in ordered
        ]
    return value


def _checked_text(what: str, text: str) -> str:
    if found := _FORBIDDEN.search(text):
        raise Misconfigured(f"{what} has the character U+{ord(found[0]):04X}, which SQS takes in no message")
    return text


def _attribute(name: str, given: object) -> dict[str, Any]:
    if not _ATTRIBUTE_NAME.fullmatch(name):
        raise Misconfigured(
            f"attribute {name!r}: a name is letters, digits, '-', '_' and '.', 256 characters at most"
        )
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
            raise Misconfigured(
                f"attribute {name!r} is a {type(given).__name__}: give text, a number or bytes"
            )
