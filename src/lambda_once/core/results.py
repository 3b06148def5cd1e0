"""
How a result is stored: short ones in the row, long ones in parts beside it.

A refused conditional write costs write units by the size of the row that is there (DynamoDB developer
guide, capacity consumption), so every duplicate would pay for a long result: the row stays small.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

INLINE_LIMIT = 4 * 1024
"""Bytes of a result that are kept in the row itself."""

PART_LIMIT = 350_000
"""Bytes of one part: an item may have 400 KB, its names and numbers counted (DynamoDB: 409,600 bytes)."""

PARTS_LIMIT = 40
"""Parts of one result: they stay within the 16 MB that one BatchGetItem answers (40 x 350,000 = 14 MB)."""

TEXT_LIMIT = 10 * 1000 * 1000
"""
Bytes of a result's text, when written and when read: what a large function wrote, a small one can read.

`json.loads` makes up to 25 times as much of a text such as ``[{},{},…]``. Lambda answers with 6 MB at most.
"""

_PLAIN_LIMIT = 256  # bytes below which an operator's readable text is worth more than what zlib saves


# -- stored forms: what a row says of its result; None says that the result is None


class Inline(NamedTuple):
    """The result itself: JSON text, or its bytes compressed by zlib."""

    data: str | bytes


@dataclass(frozen=True, slots=True)
class Parts:
    """The result lives in *count* part rows of this attempt."""

    count: int


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The work is done, but its result could not be written."""


Stored = Inline | Parts | Unavailable | None


# -- what a result becomes before it is stored


class Chunks(NamedTuple):
    """The compressed bytes of a result, cut into parts for rows of their own."""

    parts: tuple[bytes, ...]


class NotSerialisable(ValueError):
    """A result cannot be written, or not be read back. Says which type; the work itself is done."""


class Corrupt(ValueError):
    """Stored bytes are not what was written: cut off, altered, or larger than any result."""


def utf8(text: str) -> bytes:
    r"""Return the JSON *text* in UTF-8; a lone surrogate becomes its escape, ``\udxxx``."""
    return text.encode("utf-8", "backslashreplace")


def pack(text: str) -> Inline | Chunks | None:
    """
    Return how the JSON *text* is stored; None for ``null``.

    Inline as it is when short, inline compressed when that fits INLINE_LIMIT, otherwise in compressed chunks
    of at most PART_LIMIT. Raises NotSerialisable beyond TEXT_LIMIT, and beyond PARTS_LIMIT chunks.
    """
    if text == "null":
        return None
    data = utf8(text)
    if len(data) <= _PLAIN_LIMIT:
        return Inline(data.decode())
    if len(data) > TEXT_LIMIT:
        raise NotSerialisable(f"a result of {len(data):,} bytes exceeds the limit of {TEXT_LIMIT:,}")
    compressed = zlib.compress(data, level=6)
    smallest = min(len(compressed), len(data))
    if smallest <= INLINE_LIMIT:
        return Inline(compressed if len(compressed) < len(data) else data.decode())
    return _cut(compressed)


def _cut(compressed: bytes) -> Chunks:
    parts = tuple(compressed[start : start + PART_LIMIT] for start in range(0, len(compressed), PART_LIMIT))
    if len(parts) > PARTS_LIMIT:
        most = PART_LIMIT * PARTS_LIMIT
        raise NotSerialisable(
            f"a result of {len(compressed):,} bytes, compressed, is over the {most:,} that can be stored"
        )
    return Chunks(parts)


def unpack(data: str | bytes) -> str:
    """
    Return the JSON text that `pack` stored inline as *data*.

    Never makes more than TEXT_LIMIT bytes of it. Raises Corrupt.
    """
    return data if isinstance(data, str) else _inflated(bytes(data))


def unpack_chunks(parts: Iterable[bytes]) -> str:
    """Return the JSON text that `pack` cut into *parts*, given in order and complete. Raises Corrupt."""
    return _inflated(b"".join(map(bytes, parts)))


def _inflated(compressed: bytes) -> str:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(compressed, TEXT_LIMIT + 1)
    except zlib.error as error:
        raise Corrupt(f"the stored result is corrupt: {error}") from None
    if len(data) > TEXT_LIMIT:
        raise Corrupt(f"the stored result exceeds the limit of {TEXT_LIMIT:,} bytes")
    if not inflater.eof or inflater.unused_data:
        raise Corrupt("the stored result is corrupt: truncated, or followed by other data")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Corrupt("the stored result is corrupt: not UTF-8") from None
