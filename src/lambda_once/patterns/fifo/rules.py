"""From what a user publishes to what is sent: its group, and the id by which it is known again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lambda_once.core import keys
from lambda_once.core.canonical import digest, fingerprint, without
from lambda_once.errors import KeyMissing, KeyReused, Misconfigured, OnceError
from lambda_once.patterns.fifo.messages import (
    Attributes,
    Message,
    attributes_of,
    body_of,
    group_id,
    payload_of,
    size_of,
)

Selector = str | Callable[..., object]
"""A JMESPath expression over the message, or a callable that gets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
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
        """Return *message* as it is to be sent. Raises `KeyMissing` and `Misconfigured`."""
        body = body_of(message)
        payload = payload_of(message)
        made = self.attributes(message) if callable(self.attributes) else self.attributes
        attributes = attributes_of({} if made is None else made)
        size = size_of(body, attributes)
        if size > self.largest:
            raise Misconfigured(
                f"the message has {size} bytes, and {self.name} takes {self.largest}: "
                f"store what is large and send where it is"
            )
        group = group_id(_selected(self.group, message, payload, "group"))
        return Message(body, group, self._deduplication_id(message, payload), attributes, size)

    def all_prepared(self, messages: Sequence[object]) -> list[Message]:
        """
        Return *messages* as they are to be sent, each of which would be delivered.

        Raises what `prepared` raises, with the position; and `KeyReused` for a message with the id of an
        earlier one and another content: it would be taken, and never delivered.
        """
        ready = [self._at(position, message) for position, message in enumerate(messages)]
        first: dict[str, int] = {}
        for position, message in enumerate(ready):
            before = first.setdefault(message.deduplication_id, position)
            if before != position and self._content(messages[before]) != self._content(messages[position]):
                raise KeyReused(
                    f"messages {before} and {position} have one key and differ, nothing was sent: the second "
                    f"would vanish as a duplicate; make the key finer, or give with_content=True"
                )
        return ready

    def token(self, message: object) -> str:
        """Return the lock token whose digest is the deduplication id. Raises `KeyMissing`."""
        return self._token(message, payload_of(message))

    def _at(self, position: int, message: object) -> Message:
        try:
            return self.prepared(message)
        except OnceError as error:
            raise type(error)(f"message {position}, nothing was sent: {error}") from error

    def _token(self, message: object, payload: object) -> str:
        key = self._hashed(payload) if self.key is None else _selected(self.key, message, payload, "key")
        scope = None if self.scope is None else _selected(self.scope, message, payload, "scope")
        service = os.environ.get("POWERTOOLS_SERVICE_NAME", "") if self.service is None else self.service
        return keys.token("service_undefined" if service == "" else service, self.name, scope, key)

    def _deduplication_id(self, message: object, payload: object) -> str:
        token = self._token(message, payload)
        return digest([token, self._content(message)] if self.with_content else token)

    def _hashed(self, payload: object) -> object:
        """Return the key of a message that names none, tagged as a handler without ``key=`` tags it."""
        if keys.is_nothing(payload):
            raise KeyMissing("an empty message is no key: name one with key=, or send what tells it by")
        return {"payload": without(payload, self.ignore)}

    def _content(self, message: object) -> str:
        return fingerprint(without(payload_of(message), self.ignore))


def _selected(selector: Selector, message: object, payload: object, what: str) -> object:
    if isinstance(selector, str):
        return keys.select(selector, payload, what)
    return keys.select_from(selector, (message,), {}, what)
