"""
Any bytes at all from the server: a documented outcome in time, and never the answer to another request.

The strict engine executes every request; what goes back is cut, merged, repeated, delayed or made up, on
real sockets, for both clients. `make fuzz N=100000` goes as far as one likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.stores.contract import Refused, Unanswered, Won
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, create_table
from tests.fuzz.test_fuzz import fuzz
from tests.kit import tables
from tests.kit.host import Sent
from tests.kit.played import played
from tests.kit.strict.mounted import mounted
from tests.stores.suite.world import PAID, World
from tests.stores.world import DynamoDBRows

LIMIT = 0.2
"""Seconds of one response."""
LONGEST_SECONDS = 30.0
"""Seconds of one example: each of its calls tries six times at most."""
TOKENS = ("t1", "t2", "t3")

Mangle = Callable[[bytes, bytes], Sent]
"""Makes what is sent of the right answer and the one before it."""


def _cut(at: int, ends: bool) -> Mangle:
    return lambda answer, _: Sent(answer[: len(answer) * at // 100], ends)


def _lengthened(by: int) -> Mangle:
    def mangle(answer: bytes, _: bytes) -> Sent:
        body = answer.partition(b"\r\n\r\n")[2]
        right, wrong = (f"content-length: {n}".encode() for n in (len(body), len(body) + by))
        return Sent(answer.replace(right, wrong), ends=by > 0)

    return mangle


mangles: st.SearchStrategy[Mangle] = st.one_of(
    st.just(lambda answer, _: Sent(answer)),
    st.just(lambda _, last: Sent(last or b"x", ends=not last)),
    st.just(lambda answer, last: Sent(last + answer)),
    st.just(lambda answer, last: Sent(answer + last)),
    st.just(lambda answer, _: Sent(answer, ends=True)),
    st.just(lambda answer, _: Sent(answer.replace(b"x-amz-crc32", b"x-other"))),
    st.just(lambda answer, _: Sent(answer.replace(b"HTTP/1.1 400", b"HTTP/1.1 200"))),
    st.just(lambda answer, _: Sent(answer.replace(b"HTTP/1.1 200", b"HTTP/1.1 204"))),
    st.just(lambda answer, _: Sent(answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n", ends=True)),
    st.sampled_from([100, 102, 103, 199]).map(
        lambda status: lambda answer, _: Sent(f"HTTP/1.1 {status} X\r\n\r\n".encode() + answer)
    ),
    st.builds(_cut, st.integers(0, 99), st.just(True)),
    st.builds(_lengthened, st.sampled_from([-2, -1, 1, 5])),
    st.binary(max_size=80).map(lambda data: lambda _answer, _last: Sent(data, ends=True)),
    st.builds(
        lambda head, body: lambda _answer, _last: Sent(head + body, ends=True),
        st.sampled_from([b"HTTP/1.1 200 OK\r\nx-amzn-requestid: 1\r\nContent-Length: 9\r\n\r\n"]),
        st.binary(min_size=9, max_size=9) | st.sampled_from([b"[1, 2, 3]", b'{"a": {}}', b"null     "]),
    ),
)


class Line:
    """Sends what the mangles make of each answer in turn; the answers after that are right."""

    def __init__(self) -> None:
        self._left: list[Mangle] = []
        self._last = b""

    def plan(self, planned: list[Mangle]) -> None:
        self._left, self._last = list(planned), b""

    def __call__(self, answer: bytes) -> Sent:
        sent = self._left.pop(0)(answer, self._last) if self._left else Sent(answer)
        self._last = answer
        return sent


class Ground(NamedTuple):
    """A store at the end of a line, and one beside it."""

    world: World
    line: Line
    sound: World


@contextmanager
def _ground(client: str) -> Iterator[Ground]:
    line = Line()
    with mounted(), played(line) as endpoint:
        beside = tables.shared()
        create_table(beside, "tokens")
        made = tables.CLIENTS[client](endpoint, LIMIT)
        clock = FakeClock()
        rows = DynamoDBRows(beside, "tokens")
        sound = World(DynamoDBStore("tokens", beside), rows, clock)
        yield Ground(World(DynamoDBStore("tokens", made), rows, clock), line, sound)
        made.close()


steps = st.lists(st.tuples(st.sampled_from(TOKENS), st.booleans()), min_size=1, max_size=5)


def _checked(ground: Ground, token: str, attempt: str, held: dict[str, str]) -> None:
    """Acquire *token*, and compare the answer with the table; *held* are the attempts that were granted."""
    acquisition = ground.world.acquisition(attempt, token=token)
    (answer,) = ground.world.store.acquire([acquisition], ground.world.deadline)
    row = ground.sound.store.read(token, ground.sound.deadline)
    match answer:
        case Won():
            assert row is not None
            assert row.attempt_id == attempt
            assert token not in held, "granted twice"
            held[token] = attempt
        case Refused(record):
            assert record is None or record.token == token
        case _:
            assert isinstance(answer, Unanswered | Misconfigured)


@pytest.mark.parametrize("client", tables.CLIENTS)
def test_hostile_bytes(client: str) -> None:
    """Acquisitions, alone and in batches, reads and completions: what is answered is true, in time."""

    @fuzz
    @given(st.lists(mangles, max_size=8), steps)
    def play(planned: list[Mangle], taken: list[tuple[str, bool]]) -> None:
        with _ground(client) as ground:
            began = Deadline(SystemClock(), SystemClock().now() + timedelta(seconds=LONGEST_SECONDS))
            ground.line.plan(planned)
            held: dict[str, str] = {}
            for number, (token, reads) in enumerate(taken):
                if reads:
                    _read(ground, token)
                _checked(ground, token, f"a{number}", held)
            pair = [ground.world.acquisition("b", token=f"n{n}") for n in range(2)]
            for acquisition, answer in zip(
                pair, ground.world.store.acquire(pair, ground.world.deadline), strict=True
            ):
                row = ground.sound.store.read(acquisition.token, ground.sound.deadline)
                assert not isinstance(answer, Won) or (row is not None and row.attempt_id == "b")
            for token, attempt in held.items():
                ground.world.store.write([ground.world.write(PAID, attempt, token)], ground.world.deadline)
            assert not began.passed()

    play()


def _read(ground: Ground, token: str) -> None:
    try:
        record = ground.world.store.read(token, ground.world.deadline)
    except (StoreUnavailable, Misconfigured):
        return
    assert record is None or record.token == token
