"""
One exchange of HTTP: exactly the response that was sent, or an error.

Sound responses are cut, repeated, glued together, and given wrong lengths, and arrive in any segments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from botocore.exceptions import ConnectionClosedError, HTTPClientError, ResponseStreamingError
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.dynamodb.connection import LARGEST_HEAD
from tests.dynamodb.test_connection import Peer, exchanged
from tests.fuzz.test_fuzz import fuzz


class Sound(NamedTuple):
    """A response as a server sends it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    sizes: list[int]
    """Of its chunks; without any it has a Content-Length."""

    def on_the_wire(self) -> bytes:
        framing = "transfer-encoding: chunked" if self.sizes else f"Content-Length: {len(self.body)}"
        lines = [f"HTTP/1.1 {self.status} Some Words", *[": ".join(pair) for pair in self.headers], framing]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + self._framed()

    def _framed(self) -> bytes:
        if not self.sizes:
            return self.body
        framed, left = b"", self.body
        for size in [*self.sizes, len(self.body)]:
            chunk, left = left[:size], left[size:]
            framed += b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunk else b""
        return framed + b"0\r\n\r\n"


Harm = Callable[[bytes], bytes]


def _behind_the_status(line: bytes) -> Harm:
    return lambda whole: whole.replace(b"\r\n", b"\r\n" + line + b"\r\n", 1)


def _with_length(by: int) -> Harm:
    def harmed(whole: bytes) -> bytes:
        head, end, body = whole.partition(b"\r\n\r\n")
        if b"chunked" in head:
            size, line, rest = body.partition(b"\r\n")
            return head + end + b"%x" % max(int(size, 16) + by, 1) + line + rest
        before, _, length = head.rpartition(b": ")
        return before + b": %d" % (int(length) + by) + end + body

    return harmed


names = st.sampled_from(["Server", "x-amz-crc32", "X-Amzn-RequestId", "Date", "x"])
values = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
responses = st.builds(
    Sound,
    st.sampled_from([200, 204, 400, 500, 503, 599]),
    st.lists(st.tuples(names, values), max_size=4, unique_by=lambda pair: pair[0]),
    st.binary(max_size=300),
    st.lists(st.integers(1, 40), max_size=4),
)
harms: st.SearchStrategy[Harm] = st.one_of(
    st.integers(0, 99).map(lambda at: lambda whole: whole[: len(whole) * at // 100]),
    st.just(lambda whole: whole + whole),
    responses.map(lambda other: lambda whole: whole + other.on_the_wire()),
    st.binary(min_size=1, max_size=5).map(lambda more: lambda whole: whole + more),
    st.sampled_from([-3, -1, 1, 2, 10**9]).map(_with_length),
    st.sampled_from(
        [
            b"content-length: 0",
            b"Content-Length: 7, 7",
            b"Transfer-Encoding: chunked",
            b"transfer-encoding: identity",
            b" folded",
            b"a b: c",
            b"no colon",
            b"x: \0",
            b"x: a\nb: c",
            b"x: a\rb: c",
            b"x: " + b"y" * LARGEST_HEAD,
        ]
    ).map(_behind_the_status),
    st.sampled_from([b"", b"content-length: 0\r\n"]).map(
        lambda line: lambda whole: b"HTTP/1.1 103 Early Hints\r\n" + line + b"\r\n" + whole
    ),
)
cuts = st.lists(st.integers(1, 400), max_size=12)


def _pieces(whole: bytes, sizes: list[int]) -> list[bytes]:
    """Cut *whole* into segments of *sizes*, and the rest into some that one read can take."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(whole[at : at + size])
        at += size
    pieces += [whole[start : start + 60_000] for start in range(at, len(whole), 60_000)]
    return [piece for piece in pieces if piece]


@fuzz
@given(responses, cuts)
def test_a_sound_response_arrives_as_it_was_sent(sent: Sound, sizes: list[int]) -> None:
    """However it is cut into segments."""
    response = exchanged(Peer(*_pieces(sent.on_the_wire(), sizes)))
    assert (response.status, response.body) == (sent.status, sent.body)
    expected = {name.lower(): value for name, value in sent.headers}
    assert response.headers.items() >= expected.items()


@fuzz
@given(responses, harms, cuts)
def test_no_other_response_comes_of_a_harmed_one(sent: Sound, harm: Harm, sizes: list[int]) -> None:
    """What comes behind it in a later segment is seen before the connection is used again (`is_quiet`)."""
    whole = sent.on_the_wire()
    harmed = harm(whole)
    peer = Peer(*_pieces(harmed, sizes))
    try:
        response = exchanged(peer)
    except (HTTPClientError, ResponseStreamingError, ConnectionClosedError):
        return
    assert (harmed != whole) == bool(peer.pieces)
    assert response.status == sent.status
    assert sent.body.startswith(response.body)  # too small a length; the checksum is wrong then
