"""The results of publishing a message. Group and deduplication id are those of `Publisher`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sent:
    """The message was accepted, now or as a duplicate of one within five minutes."""

    group: str
    deduplication_id: str
    message_id: str
    sequence: str | None
    """Its sequence number, if the response has one."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The message was refused for good, by the service or before sending; then group and id may be empty."""

    group: str
    deduplication_id: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No response, or no time left ("DeadlinePassed"). Publish it again; the deduplication id is the same."""

    group: str
    deduplication_id: str
    code: str


@dataclass(frozen=True, slots=True)
class Unsent:
    """The message was not sent, because an earlier one of its group failed."""

    group: str
    deduplication_id: str
    behind: int
    """The position of the failed message."""


Answer = Sent | Failed | Unanswered
"""The result of one request for a message."""

Result = Answer | Unsent
