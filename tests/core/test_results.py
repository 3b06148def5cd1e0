from __future__ import annotations

import json
import os
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.core import results
from lambda_once.core.results import (
    INLINE_LIMIT,
    LARGE,
    PART_LIMIT,
    PARTS_LIMIT,
    RESULT,
    TEXT_LIMIT,
    Chunks,
    Corrupt,
    Inline,
    NotSerialisable,
    Seal,
    Sealed,
    pack,
    unpack,
    unpack_chunks,
)


def noise(length: int) -> str:
    """Give JSON text of about *length* bytes that does not compress by more than half."""
    return json.dumps(os.urandom(length // 2).hex())


def restored(packed: Inline | Chunks | None) -> str:
    """Read back what was packed, as a store hands it out."""
    match packed:
        case None:
            return "null"
        case Inline(data):
            return unpack(data)
        case Chunks(parts):
            return unpack_chunks(parts)


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_what_is_packed_comes_back(value: object) -> None:
    """Any JSON text comes back as it was."""
    text = json.dumps(value, ensure_ascii=False)
    assert restored(pack(text)) == text


@pytest.mark.parametrize("text", ["0", "{}", "[]", '""', "false", '{"order":"12345","city":"Köln"}'])
def test_short_results_are_stored_as_they_stand(text: str) -> None:
    """With their letters, and falsy ones not as nothing, which None is."""
    assert pack(text) == Inline(text)
    assert pack("null") is None


def test_longer_text_is_compressed_in_the_row() -> None:
    """A result that compresses below the limit of a row stays in it, in whatever bytes a store returns."""
    text = json.dumps(["order"] * 5_000)
    packed = pack(text)
    assert isinstance(packed, Inline)
    assert isinstance(packed.data, bytes)
    assert len(packed.data) <= INLINE_LIMIT
    as_array: Any = bytearray(packed.data)
    assert restored(packed) == unpack(as_array) == text


def test_nothing_over_the_limit_is_in_the_row() -> None:
    """What compresses to more than the limit of a row is cut into parts, be it by few bytes."""
    for length in (INLINE_LIMIT - 2, INLINE_LIMIT, 2 * INLINE_LIMIT, 3 * INLINE_LIMIT):
        packed = pack(noise(length))
        assert len(packed.data if isinstance(packed, Inline) else "") <= INLINE_LIMIT
    assert isinstance(pack(noise(3 * INLINE_LIMIT)), Chunks)


def test_a_result_of_5_mb_comes_back() -> None:
    """Five megabytes are cut into parts that each fit an item, and come back."""
    text = noise(5_000_000)
    packed = pack(text)
    assert isinstance(packed, Chunks)
    assert len(packed.parts) > 1
    assert all(0 < len(part) <= PART_LIMIT for part in packed.parts)
    assert restored(packed) == text


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_a_large_result_is_compressed_fast(sealed: bool) -> None:
    """By level 1 from 100 KB on, by level 6 up to there; what either wrote is read."""
    seal = Seal(lambda data, _: data, lambda stored, _: stored, "t") if sealed else None
    for length, level in ((LARGE, 6), (LARGE + 1, 1)):
        text = noise(2 * LARGE)[: length - 1] + '"'
        packed = pack(text, seal)
        assert isinstance(packed, Chunks)
        stored = b"".join(packed.parts)
        opened = seal.open(stored, RESULT) if seal else stored
        assert opened == zlib.compress(text.encode(), level)
        assert unpack_chunks(packed.parts, seal) == text


def test_a_large_result_that_fits_the_row_is_in_it() -> None:
    """Level 1 takes up to five times the bytes of level 6: where those decide, level 6 is used."""
    text = json.dumps(["order"] * 200_000)
    assert len(zlib.compress(text.encode(), 1)) > INLINE_LIMIT > len(zlib.compress(text.encode(), 6))
    packed = pack(text)
    assert isinstance(packed, Inline)
    assert restored(packed) == text


def test_a_sealed_result_is_compressed_first() -> None:
    """What is sealed no longer compresses; limits count what is stored, and it comes back from one piece."""
    seal = Seal(lambda data, _: data + b"." * 450, lambda sealed, _: sealed[:-450], "t")
    texts = [noise(length) for length in range(1_000, 10_000, 50)]
    packs = [pack(text, seal) for text in texts]
    assert {type(packed) for packed in packs} == {Inline, Chunks}
    for text, packed in zip(texts, packs, strict=True):
        data = packed.data if isinstance(packed, Inline) else b"".join(packed.parts)  # type: ignore[union-attr]
        assert isinstance(data, bytes)
        assert (len(data) <= INLINE_LIMIT) is isinstance(packed, Inline)
        assert unpack(data, seal) == text
        with pytest.raises(Sealed, match="no seal="):
            unpack(data)
    packed = pack("1" * 1_000_000, seal)
    assert isinstance(packed, Inline)
    nothing = pack("null", seal)
    assert isinstance(nothing, Inline)
    assert unpack(nothing.data, seal) == "null"
    assert pack("null") is None


def test_a_sealed_result_has_the_limits_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its text before it is sealed, and of what it is stored in; what opens to a bomb is corrupt."""
    seal = Seal(lambda data, _: data * 2, lambda sealed, _: sealed[: len(sealed) // 2], "t")
    monkeypatch.setattr(results, "PART_LIMIT", 10_000)
    assert isinstance(pack(noise(PARTS_LIMIT * 10_000)), Chunks)
    with pytest.raises(NotSerialisable, match="exceeds the limit of 400,000"):
        pack(noise(PARTS_LIMIT * 10_000), seal)
    bomb = pack("1" * 2_000, seal)
    assert isinstance(bomb, Inline)
    monkeypatch.setattr(results, "TEXT_LIMIT", 1_000)
    with pytest.raises(NotSerialisable, match="limit of 1,000"):
        pack("1" * 1_001, seal)
    with pytest.raises(Corrupt, match="exceeds the limit of 1,000"):
        unpack(bomb.data, seal)


def test_a_result_beyond_all_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """More parts than one bulk read answers, or more text than is ever read, is NotSerialisable."""
    assert PARTS_LIMIT * PART_LIMIT < 16 * 1024 * 1024
    monkeypatch.setattr(results, "PART_LIMIT", 10_000)
    assert isinstance(pack(noise(PARTS_LIMIT * 10_000)), Chunks)
    with pytest.raises(NotSerialisable, match="exceeds the limit of 400,000"):
        pack(noise(PARTS_LIMIT * 25_000))
    monkeypatch.setattr(results, "TEXT_LIMIT", 1_000)
    with pytest.raises(NotSerialisable, match="limit of 1,000"):
        pack("1" * 1_001)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zlib",
        zlib.compress(b"[1, 2, 3]")[:-1],
        zlib.compress(b"[1, 2, 3]") + b"x",
        zlib.compress(b"\xff"),
        zlib.compress(b"[1, 2, 3]")[:-4] + b"0000",
    ],
)
def test_altered_bytes_are_corrupt(data: bytes) -> None:
    """Bytes that are cut off, extended or altered raise Corrupt, inline and in parts."""
    with pytest.raises(Corrupt):
        unpack(data)
    with pytest.raises(Corrupt):
        unpack_chunks([data[:3], data[3:]])


def test_a_part_that_is_missing_is_corrupt() -> None:
    """Parts without the last, or in another order, raise Corrupt."""
    packed = pack(noise(2_000_000))
    assert isinstance(packed, Chunks)
    with pytest.raises(Corrupt):
        unpack_chunks(packed.parts[:-1])
    with pytest.raises(Corrupt):
        unpack_chunks(packed.parts[::-1])


def test_a_bomb_is_corrupt() -> None:
    """A few kilobytes that would inflate without end are refused at the limit of any result."""
    inflater = zlib.compressobj(9)
    bomb = (
        b"".join(inflater.compress(b" " * 2**20) for _ in range(TEXT_LIMIT // 2**20 + 1)) + inflater.flush()
    )
    assert len(bomb) < 100_000
    with pytest.raises(Corrupt, match="exceeds the limit of 10,000,000 bytes"):
        unpack(bomb)
    with pytest.raises(Corrupt, match="exceeds the limit"):
        unpack_chunks([bomb])


def test_what_can_be_written_can_be_read() -> None:
    """The limit is one: a text of exactly 10 MB comes back, and one byte more is not stored."""
    longest = '"' + "x" * (TEXT_LIMIT - 2) + '"'
    assert TEXT_LIMIT == 10_000_000
    assert restored(pack(longest)) == longest
    with pytest.raises(NotSerialisable, match="10,000,001 bytes exceeds the limit"):
        pack(longest + " ")
