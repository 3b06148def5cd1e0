"""
The stored form of a result: a short one in the row, a long one in parts in other rows.

A refused conditional write costs write units by the size of the row (DynamoDB developer guide, capacity
consumption), so a long result in the row would make every duplicate expensive.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from lambda_once.errors import OnceError

INLINE_LIMIT = 4 * 1024
"""Most bytes of a result that is stored in the row itself."""

ROW_LIMIT = 380 * 1024
"""Most bytes of a result in the row if no parts may be written: 400 KB less the other attributes."""

PART_LIMIT = 350_000
"""Most bytes of one part. An item may have 409,600, including names and numbers (DynamoDB)."""

PARTS_LIMIT = 40
"""Most parts of one result: 40 x 350,000 = 14 MB is within the 16 MB of one BatchGetItem."""

TEXT_LIMIT = 10 * 1000 * 1000
"""
Most bytes of a result's text, so that a small function can read what a large one wrote.

`json.loads` needs up to 25 times as much memory for ``[{},{},…]``. Lambda returns at most 6 MB.
"""

LARGE = 100 * 1024
"""Bytes of a text above which zlib's level 1 is used; it takes half the time of level 6."""

_PLAIN_LIMIT = 256  # bytes below which an operator's readable text is worth more than what zlib saves


# -- what a row has for its result; None: the result is None, and not sealed


class Inline(NamedTuple):
    """The result itself: JSON text, zlib-compressed bytes, or sealed compressed bytes."""

    data: str | bytes


@dataclass(frozen=True, slots=True)
class Parts:
    """The result is in *count* part rows of this attempt."""

    count: int


class Unavailable(Enum):
    """Why the result of completed work is not stored."""

    UNAVAILABLE = "unavailable"
    """It could not be stored."""
    FORGOTTEN = "forgotten"
    """An operator erased it."""
    WITHHELD = "withheld"
    """It is a response for its own caller only, and the caller is unknown."""


Stored = Inline | Parts | Unavailable | None


class Chunks(NamedTuple):
    """The compressed bytes of a result, cut into parts, before it is stored."""

    parts: tuple[bytes, ...]

    def in_row(self) -> Inline | Unavailable:
        """Return the whole result for the row if it fits into `ROW_LIMIT` bytes, else `Unavailable`."""
        data = b"".join(self.parts)
        return Inline(data) if len(data) <= ROW_LIMIT else Unavailable.UNAVAILABLE


class NotSerialisable(ValueError):
    """The work is done, but its result cannot be written or read back. The message has its type."""


class Corrupt(ValueError):
    """Stored bytes are truncated, altered, or larger than any result."""


def utf8(text: str) -> bytes:
    r"""Return the JSON *text* in UTF-8; a lone surrogate becomes its escape, ``\udxxx``."""
    return text.encode("utf-8", "backslashreplace")


# -- sealed: what is stored is encrypted by functions of the developer's

SEALED = b"sealed:"
"""The prefix of sealed bytes. A zlib stream never has it: its first byte is 0x78."""
RESULT = "result"
"""Ends the context of a sealed result; for an error it is ``error:`` and its kind (`lifecycle.Failure`)."""


class Sealed(Corrupt):
    """Sealed bytes cannot be opened, or plain text is refused. The message is a predicate without data."""


class Seal(NamedTuple):
    """
    The developer's functions to encrypt and decrypt, for the outcome of one token.

    Both get a context as second argument: the token, ``#``, and what is sealed. The digest of the context is
    sealed with the data, so data copied from another row is refused even if the functions ignore the context.
    """

    seal: Callable[[bytes, str], bytes]
    unseal: Callable[[bytes, str], bytes]
    token: str
    required: bool = False
    """Whether plain text is refused."""

    def close(self, data: bytes, what: str) -> bytes:
        """Return *data* sealed. Raises NotSerialisable if that fails; *data* is then not stored at all."""
        context = self._context(what)
        try:
            sealed = self.seal(_digest(context) + data, context)
        except Exception as error:
            raise NotSerialisable(
                f"seal= raised {type(error).__name__}; nothing is stored unsealed"
            ) from error
        if not isinstance(sealed, bytes):
            raise NotSerialisable(f"seal= returned a {type(sealed).__name__}, not bytes")
        return SEALED + sealed

    def open(self, sealed: bytes, what: str) -> bytes:
        """Return the data that `close` sealed. Raises Sealed, or an OnceError that the function raises."""
        context = self._context(what)
        try:
            data = self.unseal(sealed.removeprefix(SEALED), context)
        except OnceError:  # such as RetryLater while the key service does not answer
            raise
        except Exception as error:
            why = f"its seal cannot be opened ({type(error).__name__}): another key, or another token's data"
            raise Sealed(f"is unreadable, for {why}") from error
        if not isinstance(data, bytes):
            raise Sealed(f"is unreadable, for seal= opened it as a {type(data).__name__}, not bytes")
        digest = _digest(context)
        if not data.startswith(digest):
            raise Sealed("is unreadable, for it was sealed as something else: another token's data, or moved")
        return data[len(digest) :]

    def _context(self, what: str) -> str:
        return f"{self.token}#{what}"


def _digest(context: str) -> bytes:
    return hashlib.sha256(utf8(context)).digest()


def is_sealed(data: str | bytes | None) -> bool:
    return isinstance(data, bytes) and data.startswith(SEALED)


def check_plain(seal: Seal | None) -> None:
    """Raise Sealed if *seal* refuses plain text."""
    if seal is not None and seal.required:
        raise Sealed("is not sealed, which seal_required=True refuses")


def unsealed(data: bytes, seal: Seal | None, what: str) -> bytes:
    """Return *data*, opened if sealed. Raises as `Seal.open` and `check_plain`, and Sealed without *seal*."""
    if not is_sealed(data):
        check_plain(seal)
        return data
    if seal is None:
        raise Sealed("is sealed, and there is no seal= to open it")
    return seal.open(data, what)


# -- text


def pack(text: str, seal: Seal | None = None) -> Inline | Chunks | None:
    """
    Return the stored form of the JSON *text*; None for ``null`` without *seal*.

    Inline up to INLINE_LIMIT, perhaps compressed, else compressed chunks of PART_LIMIT. With *seal* it is
    always compressed and sealed. Raises NotSerialisable beyond TEXT_LIMIT or PARTS_LIMIT chunks, and if it
    cannot be sealed.
    """
    if text == "null" and seal is None:
        return None
    data = utf8(text)
    if len(data) > TEXT_LIMIT:
        raise NotSerialisable(f"a result of {len(data):,} bytes exceeds the limit of {TEXT_LIMIT:,}")
    if seal is not None:
        sealed = seal.close(_compressed(data), RESULT)
        return Inline(sealed) if len(sealed) <= INLINE_LIMIT else _cut(sealed)
    if len(data) <= _PLAIN_LIMIT:
        return Inline(data.decode())
    compressed = _compressed(data)
    smallest = min(len(compressed), len(data))
    if smallest <= INLINE_LIMIT:
        return Inline(compressed if len(compressed) < len(data) else data.decode())
    return _cut(compressed)


def _compressed(data: bytes) -> bytes:
    """Return *data* compressed: at level 1 if it is large, unless level 6 might make it fit into the row."""
    fast = zlib.compress(data, level=1) if len(data) > LARGE else None
    # For highly compressible data, level 1 takes up to five times the bytes of level 6.
    if fast is not None and not INLINE_LIMIT < len(fast) <= 5 * INLINE_LIMIT:
        return fast
    return zlib.compress(data, level=6)


def _cut(compressed: bytes) -> Chunks:
    parts = tuple(compressed[start : start + PART_LIMIT] for start in range(0, len(compressed), PART_LIMIT))
    if len(parts) > PARTS_LIMIT:
        most = PART_LIMIT * PARTS_LIMIT
        raise NotSerialisable(
            f"a result of {len(compressed):,} bytes, compressed, exceeds the limit of {most:,}"
        )
    return Chunks(parts)


def unpack(data: str | bytes | None, seal: Seal | None = None) -> str:
    """
    Return the JSON text that `pack` stored inline, at most TEXT_LIMIT bytes; ``null`` for None.

    Raises Corrupt, and as `unsealed` does.
    """
    if isinstance(data, str | None):
        check_plain(seal)
        return "null" if data is None else data
    return _inflated(unsealed(bytes(data), seal, RESULT))


def unpack_chunks(parts: Iterable[bytes], seal: Seal | None = None) -> str:
    """Return the JSON text that `pack` cut into *parts*, given complete and in order. Raises as `unpack`."""
    return _inflated(unsealed(b"".join(map(bytes, parts)), seal, RESULT))


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
