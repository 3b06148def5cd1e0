"""`once.current()`: the attempt from inside its work."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import HOLD, Fenced, Held, Misconfigured, StoreUnavailable
from lambda_once.core.keys import downstream
from lambda_once.core.lifecycle import State
from lambda_once.engine import attempt as attempts
from lambda_once.testing import api_event, sqs_event
from tests.decorators.rig import Rig, in_memory, on_every_store

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"


@in_memory
def test_outside_of_work_there_is_none(rig: Rig) -> None:
    """current() outside of protected work is Misconfigured, before and after."""

    @rig.once.function
    def work(order: int) -> str:
        return rig.once.current().token

    for _ in range(2):
        with pytest.raises(Misconfigured, match="inside protected work"):
            rig.once.current()
        work(5)


@on_every_store
def test_it_is_the_row(rig: Rig) -> None:
    """Token, id and fence are the row's, and the fence grows with every acquisition."""
    seen: list[tuple[str, str, int]] = []

    @rig.once.function
    def work(order: int) -> None:
        attempt = rig.once.current()
        row = rig.row()
        assert (attempt.token, attempt.id, attempt.fence) == (row.token, row.attempt_id, row.fence)
        assert row.state is State.IN_PROGRESS
        seen.append((attempt.token, attempt.id, attempt.fence))
        if len(seen) < 3:
            raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError, match=r"^$"):
            work(5)
    work(5)
    assert len({token for token, _, _ in seen}) == 1
    assert len({id_ for _, id_, _ in seen}) == 3
    assert [fence for _, _, fence in seen] == sorted({fence for _, _, fence in seen})


def test_it_has_what_the_reference_says_and_nothing_else(rig: Rig) -> None:
    """What the engine knows of an attempt is no part of the handle that the work has."""
    section = REFERENCE.read_text(encoding="utf-8").partition("## `Attempt`")[2].partition("\n## ")[0]
    members = "|".join(line.partition(": ")[0] for line in section.splitlines() if line.startswith("* `"))
    documented = set(re.findall(r"\.(\w+)", members))

    @rig.once.function
    def work(order: int) -> list[str]:
        return [name for name in dir(rig.once.current()) if not name.startswith("_")]

    assert {"fence", "aextend", "result"} <= documented
    assert set(work(5)) == documented


class Provider:
    """A payment provider that charges once for each of the keys that it remembers."""

    def __init__(self, rig: Rig, *, fails: bool = False) -> None:
        self.charged: list[str] = []
        self.fails = fails
        """Whether the first request fails after its charge."""
        self._rig = rig

    def charge(self) -> None:
        key = self._rig.once.current().downstream_key("charge")
        if key not in self.charged:
            self.charged.append(key)
        if self.fails:
            self.fails = False
            raise ValueError


def _ordered_twice(rig: Rig, provider: Provider, minutes: float) -> None:
    """Order the same by two requests without a key, *minutes* apart."""

    @rig.once.api_gateway(name="pay")
    def pay(event: Any, context: Any) -> Any:
        provider.charge()
        return {"statusCode": 201}

    event = api_event("POST", "/pay", {"cents": 4990})
    with suppress(ValueError):
        pay(event, rig.context("r1"))
    rig.clock.advance(minutes * 60)
    assert pay(event, rig.context("r2"))["statusCode"] == 201


@pytest.mark.parametrize(
    ("fails", "minutes", "charges"), [(False, 6, 2), (True, 1, 1)], ids=["after keep", "a retry"]
)
def test_an_order_is_charged_once_within_keep(rig: Rig, fails: bool, minutes: float, charges: int) -> None:
    """A retry has the key of what failed; after keep it is new work, under another key."""
    provider = Provider(rig, fails=fails)
    _ordered_twice(rig, provider, minutes)
    assert len(provider.charged) == charges


def test_twin_of_a_key_without_a_generation(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second order is never charged."""
    monkeypatch.setattr(attempts, "downstream", lambda token, _, label: downstream(token, None, label))
    provider = Provider(rig)
    _ordered_twice(rig, provider, minutes=6)
    assert len(provider.charged) == 1


@on_every_store
def test_records_of_a_batch_show_the_key_of_their_row(rig: Rig) -> None:
    """Another for each label. Acquired together, new and released before; tried again after their lease."""
    keys: dict[str, set[str]] = {}

    @rig.once.sqs(key="id")
    def work(record: SQSRecord) -> None:
        attempt = rig.once.current()
        labelled = {attempt.downstream_key(), attempt.downstream_key("mail")}
        keys.setdefault(attempt.token, set()).update(labelled)
        raise ValueError

    for _ in range(3):
        with suppress(BatchProcessingError):
            work(sqs_event({"id": 1}, {"id": 2}, {"id": 3}), rig.context())
    assert [len(found) for found in keys.values()] == [2, 2, 2]
    assert len(set.union(*keys.values())) == 6


def test_nested_work_has_its_own_attempt(rig: Rig) -> None:
    """The innermost attempt is the current one, and the outer one is again after it."""
    tokens: list[str] = []

    @rig.once.function
    def inner(order: int) -> None:
        tokens.append(rig.once.current().token)

    @rig.once.function
    def outer(order: int) -> None:
        tokens.append(rig.once.current().token)
        inner(order)
        tokens.append(rig.once.current().token)

    outer(5)
    assert tokens[0] == tokens[2] != tokens[1]
    assert rig.states() == [State.COMPLETE, State.COMPLETE]


def test_threads_have_their_own_attempts(rig: Rig) -> None:
    """Functions in threads of one Once finish their own tokens, each with its own result."""

    @rig.once.function
    def work(order: int) -> tuple[int, str]:
        return order, rig.once.current().id

    with ThreadPoolExecutor(8) as threads:
        first = list(threads.map(work, range(40)))
        second = list(threads.map(work, range(40)))
    assert [order for order, _ in first] == list(range(40))
    assert second == first
    assert len({id_ for _, id_ in first}) == 40


@on_every_store
def test_extend_lengthens_and_never_shortens(rig: Rig) -> None:
    """The lease moves to seconds from now where that is later, and stays where it is not."""
    leases: list[float] = []

    @rig.once.function(lease=timedelta(seconds=60))
    def work(order: int) -> None:
        for seconds in (100, 10):
            rig.once.current().extend(seconds)
            leases.append((rig.row().expected_completion - rig.clock.now()).total_seconds())

    work(5)
    assert leases == [100.0, 100.0]


@in_memory
@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_extend_by_nothing_is_misconfigured(rig: Rig, seconds: float) -> None:
    """Seconds must be positive."""

    @rig.once.function(name="n")
    def work(order: int) -> None:
        rig.once.current().extend(seconds)

    with pytest.raises(Misconfigured, match="positive"):
        work(5)


def test_extend_by_a_fraction_of_a_millisecond_is_cut(rig: Rig) -> None:
    """A row keeps whole milliseconds: what it cannot say is not asked for, nor compared."""

    @rig.once.function(lease=timedelta(seconds=10 / 3))
    def work(order: int) -> None:
        attempt = rig.once.current()
        assert attempt.lease == rig.row().expected_completion
        for seconds in (3_100 / 3, 3_100 / 3 + 1e-4, 3_100 / 3 + 2e-4):
            attempt.extend(seconds)
            assert attempt.lease == rig.row().expected_completion
            assert attempt.lease == rig.clock.now() + timedelta(milliseconds=1_033_333)

    work(5)
    assert rig.states() == [State.COMPLETE]


def test_extend_without_the_table_says_so(rig: Rig) -> None:
    """An extend that is not answered raises, and the lease stays as it was."""

    @rig.once.function(lease=timedelta(seconds=60))
    def work(order: int) -> None:
        rig.store.out = True
        with pytest.raises(StoreUnavailable):
            rig.once.current().extend(100)
        rig.store.out = False
        assert (rig.once.current().lease - rig.clock.now()).total_seconds() == 60

    work(5)


@pytest.mark.parametrize(
    "act",
    [
        lambda rig: rig.once.current().extend(100),
        lambda rig: rig.once.current().transact([rig.ground.booking], "x"),
    ],
    ids=["extend", "transact"],
)
@on_every_store
def test_what_lost_its_token_is_fenced(rig: Rig, act: Any) -> None:
    """Extend and transact of an overtaken attempt raise Fenced, and change nothing."""
    rows: list[Any] = []

    @rig.once.function(lease=timedelta(seconds=5), key="order", fingerprint=False)
    def work(order: int, who: str) -> str:
        if who == "first":
            rig.clock.advance(6)
            work(order, "second")
            rows.append(rig.row())
            act(rig)
        return who

    with pytest.raises(Fenced):
        work(5, "first")
    assert rows == [rig.row()]
    assert rig.ground.bookings == 0


def test_an_overtaken_attempt_is_held_with_its_successor(rig: Rig) -> None:
    """The successor failed and is held: the late one must not look as if it could be retried."""

    @rig.once.function(
        lease=timedelta(seconds=5),
        on_error=lambda _: HOLD,
        on_lapse="take_over",
        key="order",
        fingerprint=False,
    )
    def work(order: int, who: str) -> str:
        if who == "second":
            raise ValueError
        rig.clock.advance(6)
        with pytest.raises(ValueError, match=r"^$"):
            work(order, "second")
        return who

    with pytest.raises(Held):
        work(5, "first")
    assert rig.states() == [State.HELD]


def test_an_overtaken_attempt_returns_its_successors_outcome(rig: Rig) -> None:
    """The late finisher gets what every duplicate gets, and its own write is refused."""

    @rig.once.function(lease=timedelta(seconds=5), key="order", fingerprint=False)
    def work(order: int, who: str) -> str:
        if who == "first":
            rig.clock.advance(6)
            assert work(order, "second") == "second"
        return who

    assert work(5, "first") == "second"
    assert work(5, "third") == "second"
    assert "once.fenced" in rig.events()


@on_every_store
def test_transact_writes_items_and_completion_together(rig: Rig) -> None:
    """The user's items are written with the token, the result replays, and later failures change nothing."""
    runs: list[int] = []

    @rig.once.function
    def work(order: int) -> Any:
        runs.append(order)
        result = rig.once.current().transact([rig.ground.booking], {"order": order})
        assert rig.row().state is State.COMPLETE
        if len(runs) == 1:
            raise ValueError
        return result

    with pytest.raises(ValueError, match=r"^$"):
        work(5)
    assert work(5) == {"order": 5}
    assert (runs, rig.ground.bookings) == ([5], 1)


def test_transact_is_for_once(rig: Rig) -> None:
    """A second transact of one attempt is Misconfigured and writes nothing."""

    @rig.once.function
    def work(order: int) -> Any:
        rig.once.current().transact([rig.ground.booking], 1)
        with pytest.raises(Misconfigured, match="twice"):
            rig.once.current().transact([rig.ground.booking], 2)
        return "ignored"

    assert [work(5), work(5)] == [1, 1]
    assert rig.ground.bookings == 1


def test_the_async_forms(rig: Rig) -> None:
    """Aextend and atransact do the same off the loop."""

    @rig.once.function(lease=timedelta(seconds=60))
    async def work(order: int) -> Any:
        attempt = rig.once.current()
        await attempt.aextend(100)
        assert (rig.row().expected_completion - rig.clock.now()).total_seconds() == 100
        return await attempt.atransact([rig.ground.booking], "done")

    assert [asyncio.run(work(5)), asyncio.run(work(5))] == ["done", "done"]
    assert rig.ground.bookings == 1
