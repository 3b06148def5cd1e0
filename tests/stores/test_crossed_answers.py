"""No request is answered by the response to another one, whatever client sent it: nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from lambda_once.core.writes import Acquire, Holder
from lambda_once.errors import StoreUnavailable
from lambda_once.stores.contract import Refused, Unanswered, Won, Written
from lambda_once.stores.store import DynamoDBStore
from lambda_once.stores.transport import TokenTransport
from lambda_once.testing import create_table
from tests.kit import tables
from tests.kit.played import Crossing, played
from tests.kit.strict.mounted import mounted
from tests.stores.suite.world import PAID, World
from tests.stores.world import DynamoDBRows

ALWAYS = 100


class Ground(NamedTuple):
    """A store behind a line on which answers are crossed, and one beside it."""

    world: World
    line: Crossing
    sound: World

    def acquisition(self, token: str, attempt: str) -> Acquire:
        return self.world.acquisition(attempt, token=token)

    def acquired(self, *acquisitions: Acquire) -> list[Any]:
        return self.world.store.acquire(list(acquisitions), self.world.deadline)

    def taken(self, *tokens: str, change: Any = None) -> None:
        """Let another attempt hold *tokens*, or have finished them by *change*."""
        for token in tokens:
            assert isinstance(self.sound.acquire(self.acquisition(token, f"other-{token}")), Won)
            if change is not None:
                write = self.sound.write(change, Holder(f"other-{token}"), token)
                assert self.sound.store.write([write], self.sound.deadline) == [Written.WRITTEN]

    def holder(self, token: str) -> str | None:
        record = self.sound.store.read(token, self.sound.deadline)
        return None if record is None else record.attempt_id


@pytest.fixture(params=tables.CLIENTS)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Each client in turn."""
    line = Crossing()
    with mounted(), played(line) as endpoint:
        beside = tables.shared()
        create_table(beside, "tokens")
        client = tables.CLIENTS[request.param](endpoint)
        rows = DynamoDBRows(beside, "tokens")
        sound = World(DynamoDBStore("tokens", beside), rows)
        world = replace(sound, store=DynamoDBStore("tokens", client))
        yield Ground(world, line, sound)
        client.close()


@pytest.mark.parametrize("change", [None, PAID], ids=["in progress", "complete"])
@pytest.mark.parametrize("times", [1, 3])
def test_the_grant_of_another_is_none(ground: Ground, change: Any, times: int) -> None:
    """A token that another attempt holds, or has finished, is not granted by the answer before."""
    ground.taken("t2", change=change)
    (first,) = ground.acquired(ground.acquisition("t1", "a1"))
    ground.line.begin(times)
    (second,) = ground.acquired(ground.acquisition("t2", "a2"))
    assert isinstance(first, Won)
    assert isinstance(second, Refused)
    assert second.record is not None
    assert (second.record.token, second.record.attempt_id) == ("t2", "other-t2")
    assert ground.line.crossed == times


@pytest.mark.parametrize("change", [None, PAID], ids=["in progress", "complete"])
def test_the_refusal_of_another_is_none(ground: Ground, change: Any) -> None:
    """New work is not answered by another key's row: it would be lost, or get that key's result."""
    ground.taken("t1", change=change)
    (first,) = ground.acquired(ground.acquisition("t1", "a1"))
    ground.line.begin()
    (second,) = ground.acquired(ground.acquisition("t2", "a2"))
    assert isinstance(first, Refused)
    assert isinstance(second, Won)
    assert ground.holder("t2") == "a2"


def test_where_every_answer_is_crossed_there_is_none(ground: Ground) -> None:
    """Neither granted nor refused: the record is delivered again."""
    ground.taken("t2")
    ground.acquired(ground.acquisition("t1", "a1"))
    ground.line.begin(ALWAYS)
    for token, attempt in [("t2", "a2"), ("t3", "a3")]:
        (answer,) = ground.acquired(ground.acquisition(token, attempt))
        assert isinstance(answer, Unanswered)
        assert "got no whole response (CrossedResponse)" in answer.reason


def test_the_finish_of_a_fenced_attempt_is_not_answered_by_anothers_row(ground: Ground) -> None:
    """Whose row it was not, the write is tried again."""
    for token in ("t1", "t2"):
        assert isinstance(ground.sound.acquire(ground.acquisition(token, f"a-{token}")), Won)
    ground.taken("t3")
    (refused,) = ground.acquired(ground.acquisition("t3", "a3"))
    assert isinstance(refused, Refused)
    ground.line.begin()
    write = ground.world.write(PAID, Holder("a-t1"), "t1")
    assert ground.world.store.write([write], ground.world.deadline) == [Written.WRITTEN]
    assert ground.line.crossed == 1


def test_a_row_that_is_read_is_the_one_that_was_asked_for(ground: Ground) -> None:
    """Another one is no answer."""
    ground.taken("t1", "t2")
    assert ground.world.store.read("t1", ground.world.deadline) is not None
    ground.line.begin()
    record = ground.world.store.read("t2", ground.world.deadline)
    assert record is not None
    assert record.token == "t2"
    ground.line.begin(ALWAYS)
    with pytest.raises(StoreUnavailable):
        ground.world.store.read("t1", ground.world.deadline)


def test_the_answer_to_another_batch_is_none(ground: Ground) -> None:
    """It has another number of responses: of three that others hold none is granted by two grants."""
    ground.taken("t1", "t2", "t3")
    new = [ground.acquisition(f"n{n}", "a1") for n in range(2)]
    assert all(isinstance(answer, Won) for answer in ground.acquired(*new))
    ground.line.begin()
    answers = ground.acquired(*(ground.acquisition(f"t{n}", "a2") for n in (1, 2, 3)))
    assert [answer.record.token for answer in answers] == ["t1", "t2", "t3"]
    assert ground.line.crossed == 1


@pytest.mark.parametrize("times", [1, 2])
def test_a_batch_is_not_answered_by_a_single_write(ground: Ground, times: int) -> None:
    """Nor are the rows that refused it those of another read."""
    ground.taken("t1", "t2", "t3")
    ground.acquired(ground.acquisition("n", "a1"))
    ground.line.begin(times)
    answers = ground.acquired(*(ground.acquisition(f"t{n}", "a2") for n in (1, 2, 3)))
    assert [(answer.record.token, answer.record.attempt_id) for answer in answers] == [
        (f"t{n}", f"other-t{n}") for n in (1, 2, 3)
    ]


def test_the_rows_of_another_read_refuse_nothing(ground: Ground) -> None:
    """Of a batch that was refused the rows are read: they bear their keys."""
    ground.taken("t1", "t2", change=PAID)
    ground.taken("t3", "t4")
    ground.acquired(*(ground.acquisition(token, "a1") for token in ("t1", "t2")))
    crossed = ground.line
    original = TokenTransport.items

    def items(self: TokenTransport, *args: Any, **options: Any) -> Any:
        crossed.begin()
        return original(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TokenTransport, "items", items)
        answers = ground.acquired(*(ground.acquisition(token, "a2") for token in ("t3", "t4")))
    assert [answer.record.attempt_id for answer in answers] == ["other-t3", "other-t4"]
    assert crossed.crossed == 1


@pytest.mark.parametrize("ground", ["boto3"], indirect=True)
def test_without_the_proof_a_grant_is_crossed(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: what these tests see is there to be seen."""
    monkeypatch.setattr(TokenTransport, "is_answer", lambda *_: True)
    ground.taken("t2")
    ground.acquired(ground.acquisition("t1", "a1"))
    ground.line.begin()
    (second,) = ground.acquired(ground.acquisition("t2", "a2"))
    assert isinstance(second, Won)
    assert ground.holder("t2") == "other-t2"
