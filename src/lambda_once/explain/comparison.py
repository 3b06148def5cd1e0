"""Two units of work side by side: are they the same, and where do they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import TYPE_CHECKING, assert_never

from lambda_once.core.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lambda_once.explain.explanation import Explanation


class Verdict(Enum):
    """What the second of two units is to the first."""

    SAME = "same"
    OTHER_CALLER = "same token, other credentials"
    REUSED = "same token, other payload"
    OTHER = "not the same"
    UNKNOWN = "not known"
    """One of them has no token, or there is none beside it."""

    @property
    def sentence(self) -> str:
        match self:
            case Verdict.SAME:
                return "the same: one token, so the second is a duplicate of the first"
            case Verdict.OTHER_CALLER:
                return "the same token, other credentials: the second would be OtherCaller"
            case Verdict.REUSED:
                return "the same token, another payload: the second would be KeyReused"
            case Verdict.OTHER:
                return "not the same: two tokens, so both would run"
            case Verdict.UNKNOWN:
                return "not to be told: one of them has no token"
            case _ as unreachable:
                assert_never(unreachable)


@dataclass(frozen=True, slots=True)
class Part:
    """Fields that differ: its name, and the canonical text of both; None if one has it not."""

    name: str
    first: str | None
    second: str | None
    counts: bool
    """Whether it alone makes another token or another fingerprint."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two units, and what is not the same in them."""

    verdict: Verdict
    parts: tuple[Part, ...]


def compared(first: Sequence[Explanation], second: Sequence[Explanation]) -> list[Comparison]:
    """Compare two events, unit by unit in their order; where one has more of them, they have no other."""
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
    if _other_credentials(one, other):
        return Verdict.OTHER_CALLER
    both = None not in (one.fingerprint, other.fingerprint)
    return Verdict.REUSED if both and one.fingerprint != other.fingerprint else Verdict.SAME


def _other_credentials(one: Explanation, other: Explanation) -> bool:
    """Whether *other* presents another credential than the row of *one* would keep."""
    if one.presented is None or one.presented.credential is None or other.presented is None:
        return False
    return one.presented != other.presented


def _parts(one: Explanation, other: Explanation) -> Iterator[Part]:
    for name in ("key", "scope"):
        left, right = getattr(one, name), getattr(other, name)
        if (first := _text(left)) != (second := _text(right)):
            yield Part(name, first, second, counts=True)
    # Under keys that differ the rest of the payload counts for nothing: two tokens it is.
    counts = one.key is None or one.key == other.key
    left, right = dict(_fields(one)), dict(_fields(other))
    for name in dict.fromkeys((*left, *right)):
        if left.get(name) != right.get(name):
            yield Part(name, left.get(name), right.get(name), counts=counts)


def _text(selected: object) -> str | None:
    return None if selected is None else canonical(selected).decode("utf-8", "backslashreplace")


def _fields(explanation: Explanation) -> Iterator[tuple[str, str]]:
    if explanation.hashed is None:
        return
    if explanation.hashed.fields:
        yield from explanation.hashed.fields
    else:
        yield "the payload", explanation.hashed.text
