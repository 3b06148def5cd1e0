"""Batches in conflict and in part, on the strict engine: which requests they cost, and what they answer."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.core.results import Chunks
from lambda_once.core.writes import Acquire, Complete
from lambda_once.dynamodb import paging
from lambda_once.dynamodb.retry import TRIES
from lambda_once.stores.contract import Refused, Unanswered, Won, Written
from tests.kit.strict.engine import client_error
from tests.stores.strict import (
    BATCH,
    PARTS,
    READ,
    SINGLE,
    Client,
    Ground,
    after,
    before,
    failing,
    muddled,
    throttled,
)
from tests.stores.world import World

CONFLICT = "TransactionConflict"
PATIENCE = 10
"""Seconds after which somebody who should have come by now is missed."""


@dataclass
class Strict:
    """A world on the strict engine."""

    world: World
    client: Client

    def token(self, n: int) -> str:
        return f"{self.world.token}-{n}"

    def acquisition(self, n: int, attempt: str = "a1") -> Acquire:
        return self.world.acquisition(attempt, token=self.token(n))

    def held(self, *numbers: int, attempt: str = "a1") -> None:
        """Acquire these tokens, one by one, and forget how."""
        for n in numbers:
            self.world.won(attempt, token=self.token(n))
        self.client.sent.clear()


@pytest.fixture
def strict(partiql: None) -> Strict:
    """An empty table, which takes batches."""
    ground = Ground()
    return Strict(World(ground.store, ground), ground.client)


def test_a_lasting_conflict_brings_the_row_that_stands(strict: Strict) -> None:
    """A transaction has the item: its row is read as the loser's is, and the conflict is no outage."""
    strict.held(0, attempt="other")
    strict.client.fates[BATCH] = [failing(CONFLICT)] * TRIES
    first, second = strict.world.store.acquire(
        [strict.acquisition(0), strict.acquisition(1)], strict.world.deadline
    )
    assert first == Refused(strict.world.row_of(strict.token(0)))
    assert isinstance(second, Won)
    assert strict.client.sent[: TRIES + 1] == [BATCH] * TRIES + [READ]
    assert SINGLE not in strict.client.sent


def _in_conflict(_arguments: dict[str, Any], _forward: Any) -> Any:
    """Answer a single write that meets a transaction."""
    raise client_error("TransactionConflictException", "as the test wants it", "any")


def test_a_conflict_before_a_throttled_try_is_a_refusal(strict: Strict) -> None:
    """Somebody was at the row: it is read, and only the last try's silence would be an outage."""
    strict.held(0, attempt="other")
    strict.client.fates[SINGLE] = [_in_conflict, *[throttled] * (TRIES - 1)]
    (answer,) = strict.world.store.acquire([strict.acquisition(0)], strict.world.deadline)
    assert answer == Refused(strict.world.row_of(strict.token(0)))


def test_a_conflict_in_a_batch_before_a_throttled_try_is_a_refusal(strict: Strict) -> None:
    """The same for a statement: the row is read, and the other one is not touched by it."""
    strict.held(0, attempt="other")
    silent = failing("ThrottlingError")
    strict.client.fates[BATCH] = [failing(CONFLICT), *[silent] * (TRIES - 1)]
    first, second = strict.world.store.acquire(
        [strict.acquisition(0), strict.acquisition(1)], strict.world.deadline
    )
    assert first == Refused(strict.world.row_of(strict.token(0)))
    assert isinstance(second, Won)


def test_a_conflict_that_passes_is_no_answer_yet(strict: Strict) -> None:
    """The statement is sent again by itself, and wins."""
    strict.client.fates[BATCH] = [failing(CONFLICT), failing(CONFLICT)]
    answers = strict.world.store.acquire(
        [strict.acquisition(0), strict.acquisition(1)], strict.world.deadline
    )
    assert [type(answer) for answer in answers] == [Won, Won]
    assert strict.client.sent == [BATCH] * 3


def test_an_ending_in_a_lasting_conflict_is_unanswered(strict: Strict) -> None:
    """The attempt has its token still: it was not fenced, and may try again."""
    strict.held(0, 1)
    writes = [strict.world.write(Complete(None), token=strict.token(n)) for n in (0, 1)]
    strict.client.fates[BATCH] = [failing(CONFLICT)] * TRIES
    assert strict.world.store.finish(writes, strict.world.deadline) == [Unanswered(CONFLICT), Written()]
    assert strict.client.sent == [BATCH] * TRIES + [READ]
    assert strict.world.row_of(strict.token(0)).state is State.IN_PROGRESS


def test_an_ending_that_landed_in_spite_of_a_conflict_is_written(strict: Strict) -> None:
    """The row bears its `write`."""
    strict.held(0, 1)
    writes = [strict.world.write(Complete(None), token=strict.token(n)) for n in (0, 1)]
    strict.client.fates[BATCH] = [muddled(CONFLICT)] * TRIES
    assert strict.world.store.finish(writes, strict.world.deadline) == [Written()] * 2


def test_an_early_read_that_found_no_row_is_repeated(strict: Strict) -> None:
    """Of a redelivery, beside its INSERT: the row came in between. It costs one read, and no write."""
    read = threading.Event()

    def another_wins() -> None:
        assert read.wait(PATIENCE)
        strict.world.won("other", token=strict.token(0))
        strict.client.sent.remove(SINGLE)

    strict.client.fates = {READ: [after(read.set)], BATCH: [before(another_wins)]}
    acquisitions = [strict.acquisition(n)._replace(likely=not n) for n in (0, 1)]
    first, second = strict.world.store.acquire(acquisitions, strict.world.deadline)
    assert first == Refused(strict.world.row_of(strict.token(0)))
    assert isinstance(second, Won)
    assert sorted(strict.client.sent[:3]) == sorted([READ, BATCH, READ])
    assert SINGLE not in strict.client.sent


# ------------------------------------------------------------------ the parts of a large result

FIVE = Chunks((b"1", b"2", b"3", b"4", b"5"))


@pytest.fixture
def in_twos(strict: Strict, monkeypatch: pytest.MonkeyPatch) -> Strict:
    """Parts go out two a call; token 0 is held."""
    monkeypatch.setattr(paging, "MOST_WRITES", 2)
    strict.held(0)
    return strict


def test_parts_stop_at_the_deadline(in_twos: Strict) -> None:
    """Each call may be the last that ends in time: what is left is not sent."""
    write = in_twos.world.write(Complete(FIVE), token=in_twos.token(0))
    deadline = in_twos.world.deadline
    in_twos.client.fates[PARTS] = [after(lambda: in_twos.world.clock.advance(20))]
    (answer,) = in_twos.world.store.finish([write], deadline)
    assert isinstance(answer, Unanswered)
    assert answer.parts == 2
    assert in_twos.client.sent == [PARTS]


def test_parts_that_are_written_are_not_sent_again(in_twos: Strict) -> None:
    """The next try goes on where the one before was throttled."""
    write = in_twos.world.write(Complete(FIVE), token=in_twos.token(0))
    once = in_twos.world.deadline._replace(one_try=True)
    in_twos.client.fates[PARTS] = [after(lambda: None), throttled]
    (answer,) = in_twos.world.store.finish([write], once)
    assert isinstance(answer, Unanswered)
    assert answer.parts == 2
    in_twos.client.sent.clear()
    assert in_twos.world.store.finish([replace(write, parts_written=2)], once) == [Written()]
    assert in_twos.client.sent == [PARTS, PARTS, SINGLE]
    row = in_twos.world.row_of(in_twos.token(0))
    assert in_twos.world.store.chunks(row, in_twos.world.deadline) == FIVE.parts
