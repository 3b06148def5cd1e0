"""What becomes of a token whose attempt never said how it ended."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import HOLD, NOT_DONE, RELEASE, UNKNOWN, Done, Held, InProgress, Lapsed, Misconfigured
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig, in_memory, on_every_store


def raising(*_: object) -> object:
    """A probe that fails."""
    raise ConnectionError("the books are closed")


class Crashed:
    """Protected work whose first attempt crashed, after its lease is over."""

    def __init__(self, rig: Rig, *, wait: float = 1000, **options: Any) -> None:
        self.rig = rig
        self.runs: list[int] = []

        @rig.once.function(**options)
        def work(order: int, *, note: str = "") -> str:
            self.runs.append(order)
            return f"run {len(self.runs)}"

        self.work = work
        with rig.crash():
            work(5)
        self.row = rig.row()
        rig.clock.advance(wait)


@pytest.mark.parametrize(
    "options",
    [{}, {"on_error": lambda _: RELEASE, "on_lapse": "take_over"}, {"on_lapse": lambda *_: NOT_DONE}],
    ids=["by default", "asked for", "a probe's NOT_DONE"],
)
@on_every_store
def test_taken_over(rig: Rig, options: Any) -> None:
    """Without a policy that can hold, the next delivery runs the work again, under a larger fence."""
    crashed = Crashed(rig, **options)
    assert crashed.work(5) == "run 2"
    assert rig.row().fence > crashed.row.fence
    assert "once.taken_over" in rig.events()


@pytest.mark.parametrize("options", [{}, {"on_lapse": raising}], ids=["take over", "probe"])
def test_not_before_the_lease_is_over(rig: Rig, options: Any) -> None:
    """While the lease lasts the other attempt may be alive, and no probe is asked."""
    crashed = Crashed(rig, wait=900, **options)
    with pytest.raises(InProgress):
        crashed.work(5)
    assert "once.probe_failed" not in rig.events()


@pytest.mark.parametrize(
    "options",
    [{"on_lapse": "hold"}, {"on_error": HOLD}, {"on_error": {KeyError: HOLD}}, {"on_error": lambda _: HOLD}],
    ids=["asked for", "HOLD", "mapping", "callable"],
)
@on_every_store
def test_held_where_asked_or_where_errors_can_hold(rig: Rig, options: Any) -> None:
    """A lapsed token waits for manual review, has no ttl, and stays as it is."""
    crashed = Crashed(rig, **options)
    with pytest.raises(Held, match=r"lapsed: attempt .* and its outcome is unknown; check"):
        crashed.work(5)
    rig.clock.advance(100 * 86_400)
    with pytest.raises(Held) as raised:
        crashed.work(5)
    assert crashed.runs == [5]
    assert (rig.row(), rig.row().ttl) == (crashed.row, None)
    assert (raised.value.lapsed, raised.value.state) == (True, "inProgress")
    assert raised.value.locked_by == crashed.row.locked_by
    assert pickle.loads(pickle.dumps(raised.value)).lapsed


@on_every_store
def test_twin_whose_token_is_held(rig: Rig) -> None:
    """The attempt ended, and its policy holds the token: nothing lapsed, however long ago that was."""

    @rig.once.function(on_error=HOLD)
    def work(order: int) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        work(5)
    rig.clock.advance(100 * 86_400)
    with pytest.raises(Held, match="is held for manual review: ") as raised:
        work(5)
    assert (raised.value.lapsed, raised.value.state) == (False, "error")


@in_memory
@pytest.mark.parametrize("on_error", [HOLD, {KeyError: HOLD}])
def test_hold_beside_take_over_is_misconfigured(rig: Rig, on_error: Any) -> None:
    """Work that needs manual review would run again."""
    with pytest.raises(Misconfigured, match="take_over"):
        rig.once.function(on_error=on_error, on_lapse="take_over")


@on_every_store
def test_a_probe_that_knows_it_was_done(rig: Rig) -> None:
    """Done(result) completes the token, and every caller gets that result; nothing runs."""
    crashed = Crashed(rig, on_lapse=lambda *_: Done("from the books"))
    assert [crashed.work(5), crashed.work(5)] == ["from the books"] * 2
    assert crashed.runs == [5]
    row = rig.row()
    assert (row.state, row.fence) == (State.COMPLETE, crashed.row.fence + 1)
    assert row.attempt_id != crashed.row.attempt_id


@pytest.mark.parametrize("probe", [lambda *_: UNKNOWN, lambda *_: None, raising])
def test_a_probe_that_cannot_tell(rig: Rig, probe: Callable[..., object]) -> None:
    """UNKNOWN, no answer at all and an exception hold, and leave the row unchanged."""
    crashed = Crashed(rig, on_lapse=probe)
    with pytest.raises(Held) as raised:
        crashed.work(5)
    assert raised.value.lapsed
    assert crashed.runs == [5]
    assert rig.row() == crashed.row
    failed = [told.event.level for told in rig.reported if told.error == "ConnectionError"]
    assert failed == ([logging.ERROR] if probe is raising else [])


def test_a_probe_sees_the_lapsed_attempt_and_the_arguments(rig: Rig) -> None:
    """It gets the lapsed attempt and the arguments, however the arguments were passed."""
    seen: list[Any] = []

    def probe(lapsed: Lapsed, order: int) -> object:
        seen.append((lapsed.attempt_id, lapsed.fence, lapsed.locked_by, order))
        return UNKNOWN

    crashed = Crashed(rig, on_lapse=probe)
    with pytest.raises(Held):
        crashed.work(5)
    with pytest.raises(Held):
        crashed.work(order=5)
    row = crashed.row
    assert seen == [(row.attempt_id, row.fence, row.locked_by, 5)] * 2


def test_a_probe_knows_the_key_that_was_handed_on(rig: Rig) -> None:
    """It is the one that the lapsed attempt gave to the next system, and that its successor will give."""
    handed_on: list[str] = []

    def probe(lapsed: Lapsed) -> object:
        handed_on.append(lapsed.downstream_key("charge"))
        return NOT_DONE

    @rig.once.function(key="'order-5'", on_lapse=probe)
    def work() -> None:
        handed_on.append(rig.once.current().downstream_key("charge"))

    with rig.crash():
        work()
    rig.clock.advance(3_600)
    work()
    assert len(handed_on) == 3
    assert len(set(handed_on)) == 1


def test_an_async_probe_is_awaited(rig: Rig) -> None:
    """A probe may be a coroutine function, under plain and under async work."""

    async def probe(lapsed: Lapsed, order: int) -> object:
        await asyncio.to_thread(int)
        return Done(f"order {order}")

    crashed = Crashed(rig, on_lapse=probe)
    assert crashed.work(5) == "order 5"

    @rig.once.function(on_lapse=probe)
    async def later(order: int) -> str:
        return "ran"

    with rig.crash():
        asyncio.run(later(6))
    rig.clock.advance(1000)
    assert asyncio.run(later(6)) == "order 6"
