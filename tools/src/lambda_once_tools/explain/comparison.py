"""Why two events are, or are not, the same unit of work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from lambda_once.core.canonical import canonical

if TYPE_CHECKING:
    from lambda_once_tools.explain.explanation import Explanation


class Verdict(Enum):
    """How the second of two units relates to the first."""

    SAME = "same"
    OTHER_CALLER = "same token, other credentials"
    REUSED = "same token, other payload"
    OTHER = "not the same"
    UNKNOWN = "not known"
    """One of them has no token or does not exist."""

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES: Final = {
    Verdict.SAME: "the same: one token, so the second is a duplicate of the first",
    Verdict.OTHER_CALLER: "the same token, other credentials: the second would raise OtherCaller",
    Verdict.REUSED: "the same token, another payload: the second would raise KeyReused",
    Verdict.OTHER: "not the same: two tokens, so both would run",
    Verdict.UNKNOWN: "not known: one of them has no token",
}


@dataclass(frozen=True, slots=True)
class ComparedPart:
    """A part that differs: its name, and the canonical text of both; None if one lacks it."""

    name: str
    first: str | None
    second: str | None
    counts: bool
    """Whether it alone changes the token or the fingerprint."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two units, and where they differ."""

    verdict: Verdict
    parts: tuple[ComparedPart, ...]


def compared(first: Sequence[Explanation], second: Sequence[Explanation]) -> list[Comparison]:
    """Compare two events, unit by unit in their order; those that one has more are UNKNOWN."""
    return [
        Comparison(Verdict.UNKNOWN, ())
        if one is None or other is None
        else Comparison(_verdict(one, other), tuple(_parts(one, other)))
        for one, other in zip_longest(first, second)
    ]


def _verdict(one: Explanation, other: Explanation) -> Verdict:
    if one.token is None or other.token is None:
        return Verdict.UNKNOWN
    if one.token != other.token:
        return Verdict.OTHER
    if one.identity.is_of_other_caller(other.identity):
        return Verdict.OTHER_CALLER
    return Verdict.REUSED if one.identity.clashes(other.identity) else Verdict.SAME


def _parts(one: Explanation, other: Explanation) -> Iterator[ComparedPart]:
    for name in ("key", "scope", "within"):
        left, right = getattr(one, name), getattr(other, name)
        if (first := _text(left)) != (second := _text(right)):
            yield ComparedPart(name, first, second, counts=True)
    # If the keys differ, so do the tokens: the rest of the payload does not matter.
    counts = one.key is None or one.key == other.key
    left, right = dict(_fields(one)), dict(_fields(other))
    for name in dict.fromkeys((*left, *right)):
        if left.get(name) != right.get(name):
            yield ComparedPart(name, left.get(name), right.get(name), counts=counts)


def _text(selected: object) -> str | None:
    return None if selected is None else canonical(selected).decode("utf-8", "backslashreplace")


def _fields(explanation: Explanation) -> Iterator[tuple[str, str]]:
    if explanation.hashed is None:
        return
    if explanation.hashed.fields:
        yield from explanation.hashed.fields
    else:
        yield "the payload", explanation.hashed.text
