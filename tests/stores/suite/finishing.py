"""Writes to a token after its acquisition. Every refusal leaves the row unchanged."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lambda_once.core.lifecycle import OnLapse, State
from lambda_once.core.results import Inline, Unavailable
from lambda_once.core.writes import Change, Complete, Extend, Holder, Pin, Resolver
from lambda_once.stores.contract import Refused, Written

from .world import (
    BROKEN,
    FAILED,
    HELD,
    HELD_SEALED,
    KEEP,
    LEASE,
    PAID,
    RELEASED,
    SEALED,
    UNSTARTED,
    World,
    resolver,
)

FINISHES = {
    "complete": (PAID, State.COMPLETE),
    "stored error": (FAILED, State.COMPLETE),
    "sealed": (SEALED, State.COMPLETE),
    **{each.value: (Complete(each), State.COMPLETE) for each in Unavailable},
    "held": (HELD, State.HELD),
    "held, sealed": (HELD_SEALED, State.HELD),
    "released": (RELEASED, State.RELEASED),
    "unstarted": (UNSTARTED, State.RELEASED),
}
by_finish = pytest.mark.parametrize(("change", "state"), FINISHES.values(), ids=FINISHES.keys())


def _refused(world: World, change: Change, by: Holder | Resolver | str) -> None:
    before, item = world.read(), world.item()
    assert world.finish(change, by) == Refused(before)
    assert world.read() == before
    assert world.item() == item


class Finishing:
    """`Store.write`, by the attempt that holds the token, and by a third party."""

    @by_finish
    def test_the_holder_finishes_its_attempt(self, world: World, change: Change, state: State) -> None:
        """The row has the outcome, and keeps the attempt."""
        world.won(fingerprint="f", delivery="m-1")
        before = world.row()
        world.clock.advance(1)
        assert world.finish(change, write="w1") == Written.WRITTEN
        finished = state in (State.COMPLETE, State.HELD)
        assert world.row() == before._replace(
            state=state,
            actual_completion=world.clock.now() if finished else None,
            stored=getattr(change, "result", None),
            error=getattr(change, "error", None),
            ttl=None if state is State.HELD else int((world.clock.now() + KEEP).timestamp()),
            write_id="w1",
            generation=None if state is State.COMPLETE else before.generation,
        )

    @by_finish
    def test_a_third_party_finishes_the_attempt_that_it_read(
        self, world: World, change: Change, state: State
    ) -> None:
        """It writes its own attempt id and a larger fence, so that the attempt does not recognise the row."""
        first = world.won()
        assert world.finish(change, resolver(world.row())) == Written.WRITTEN
        row = world.row()
        assert (row.state, row.attempt_id, row.fence) == (state, "operator", first.fence + 1)

    @by_finish
    def test_a_finish_sent_again_is_written(self, world: World, change: Change, state: State) -> None:
        """If the response was lost, the refusal of the second copy is recognised as our own first write."""
        world.won()
        write = world.write(change)
        world.send(write)
        before = world.row()
        world.clock.advance(1)
        assert world.send(write) == Written.WRITTEN
        assert world.row() == before
        assert before.state is state
        assert before.write_id == write.id

    @by_finish
    def test_an_equal_finish_is_another_write(self, world: World, change: Change, state: State) -> None:
        """Even with the same content in the same millisecond, the row has another write id of the attempt."""
        world.won()
        world.finish(change)
        _refused(world, change, "a1")
        assert world.row().state is state

    @by_finish
    def test_a_third_partys_finish_sent_again_is_written(
        self, world: World, change: Change, state: State
    ) -> None:
        """It is recognised by its write id."""
        world.won()
        write = world.write(change, resolver(world.row()))
        world.send(write)
        before = world.row()
        assert world.send(write) == Written.WRITTEN
        assert world.row() == before
        assert before.state is state

    @by_finish
    def test_an_attempt_that_was_taken_over_finishes_nothing(
        self, world: World, change: Change, state: State
    ) -> None:
        """That applies to every kind of finish."""
        world.won()
        world.clock.advance(LEASE.total_seconds() + 1)
        world.won("a2")
        _refused(world, change, "a1")
        assert world.row().attempt_id == "a2"
        assert state is not State.IN_PROGRESS

    @by_finish
    @pytest.mark.parametrize("late", [PAID, HELD, RELEASED, "extend", "pin"])
    def test_a_finished_row_is_final(
        self, world: World, change: Change, state: State, late: Change | str
    ) -> None:
        """A later write of the same attempt is refused."""
        world.won()
        world.finish(change)
        then: dict[str, Change] = {"extend": Extend(world.ends(timedelta(hours=1))), "pin": Pin.PIN}
        _refused(world, then[late] if isinstance(late, str) else late, "a1")
        assert world.row().state is state

    @by_finish
    def test_a_third_party_writes_only_to_the_row_that_it_read(
        self, world: World, change: Change, state: State
    ) -> None:
        """Another attempt, another lease or a finished row refuses the write."""
        world.won()
        seen = world.row()
        _refused(world, change, Resolver("other", seen.expected_completion, "operator"))
        _refused(world, change, Resolver("a1", seen.expected_completion + timedelta(seconds=1), "operator"))
        world.finish(PAID)
        _refused(world, change, resolver(seen))
        assert state is not State.IN_PROGRESS

    @by_finish
    def test_without_a_row_nothing_is_finished(self, world: World, change: Change, state: State) -> None:
        """A finish does not create a row."""
        _refused(world, change, "a1")
        assert world.read() is None
        assert state is not State.IN_PROGRESS

    def test_extend_lengthens_the_lease_and_moves_the_ttl(self, world: World) -> None:
        """The ttl follows the new lease; nothing else changes."""
        world.won()
        before = world.row()
        later = world.ends(timedelta(hours=1))
        assert world.finish(Extend(later)) == Written.WRITTEN
        assert world.row() == before._replace(expected_completion=later, ttl=int((later + KEEP).timestamp()))

    def test_a_delayed_extend_does_not_shorten_a_later_one(self, world: World) -> None:
        """A delayed copy of an extension counts as written, and changes nothing."""
        world.won()
        world.finish(Extend(world.ends(timedelta(hours=1))))
        before = world.row()
        assert world.finish(Extend(world.ends(timedelta(minutes=1)))) == Written.WRITTEN
        assert world.row() == before

    def test_extend_is_refused_once_the_token_was_taken_over(self, world: World) -> None:
        """The successor's lease is unchanged."""
        world.won()
        world.clock.advance(LEASE.total_seconds() + 1)
        world.won("a2")
        _refused(world, Extend(world.ends(timedelta(hours=1))), "a1")

    def test_pin_takes_the_ttl_away(self, world: World) -> None:
        """A row that may be held must not expire; nothing else changes."""
        world.won()
        before = world.row()
        assert world.finish(Pin.PIN) == Written.WRITTEN
        assert world.row() == before._replace(ttl=None)
        assert world.finish(Pin.PIN) == Written.WRITTEN
        _refused(world, Pin.PIN, "a2")

    def test_a_token_acquired_again_has_nothing_of_before(self, world: World) -> None:
        """Its earlier result, error, completion, delivery, fingerprint, fields, ttl and write are removed."""
        world.won(fingerprint="f", delivery="m-1")
        world.send(world.write(Complete(Unavailable.UNAVAILABLE, BROKEN), fields=b"\0\1ab"))
        assert world.row().fields == b"\0\1ab"
        world.clock.advance(KEEP.total_seconds() + 1)
        world.won("a2", rule=OnLapse.HOLD)
        row = world.row()
        assert (row.state, row.stored, row.error, row.actual_completion) == (
            State.IN_PROGRESS,
            None,
            None,
            None,
        )
        assert (row.delivery, row.fingerprint, row.fields, row.ttl, row.write_id) == (None,) * 5

    def test_many_finishes_are_answered_each_by_itself(self, world: World) -> None:
        """A refusal does not affect the others."""
        tokens = [f"{world.token}-{n}" for n in range(12)]
        world.store.acquire([world.acquisition(token=token) for token in tokens], world.deadline)
        writes = [world.write(PAID, "a1" if n != 3 else "a2", token) for n, token in enumerate(tokens)]
        answers = world.store.write(writes, world.deadline)
        assert answers[3] == Refused(world.read(tokens[3]))
        assert all(answer == Written.WRITTEN for n, answer in enumerate(answers) if n != 3)
        states = [record.state for record in map(world.read, tokens) if record is not None]
        assert states == [State.COMPLETE if n != 3 else State.IN_PROGRESS for n in range(12)]

    @pytest.mark.parametrize("data", ["0", "{}", "[]", '""', "false", b"\x00\xff"])
    def test_results_come_back_as_they_were_stored(self, world: World, data: str | bytes) -> None:
        """Falsy results and bytes are preserved; None has no attribute."""
        world.won()
        world.finish(Complete(Inline(data)))
        assert world.row().stored == Inline(data)
