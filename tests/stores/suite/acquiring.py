"""Acquisitions. Every refusal leaves the row unchanged."""

from __future__ import annotations

import pytest

from lambda_once.core.identity import Presented
from lambda_once.core.lifecycle import OnLapse, Record, State
from lambda_once.core.writes import AsSeen, Change, Unclaimed
from lambda_once.stores.contract import Refused, Won, Written

from .world import (
    FAILED,
    HELD,
    KEEP,
    LEASE,
    PAID,
    RELEASED,
    UNSTARTED,
    World,
    resolver,
)

RULES = [OnLapse.TAKE_OVER, OnLapse.HOLD]
ENDED = {"complete": PAID, "stored error": FAILED, "held": HELD}


def _refused(world: World, attempt: str = "a2", **options: object) -> Record:
    """
    Check that an acquisition is refused with the row, and that the row is unchanged.

    Also one of a token that is known to have a row: a store may send another condition for it, which would
    otherwise decide only in a race.
    """
    before, item = world.row(), world.item()
    acquisition = world.acquisition(attempt, **options)  # type: ignore[arg-type]  # options of `acquisition`
    for known in (False, True):
        assert world.acquire(acquisition._replace(known=known)) == Refused(before)
        assert world.row() == before
        assert world.item() == item
    return before


ALICE, BOB = Presented("Bearer alice"), Presented("Bearer bob")


class Acquiring:
    """`Store.acquire`, one token at a time and many."""

    @pytest.mark.parametrize("rule", RULES)
    def test_a_new_token_is_won(self, world: World, rule: OnLapse) -> None:
        """Without a row, one is written with every attribute of the acquisition."""
        answer = world.won(rule=rule, fingerprint="f", delivery="m-1")
        assert answer == Won(answer.fence, took_over=False, generation="a1")
        assert world.row() == Record(
            token=world.token,
            state=State.IN_PROGRESS,
            attempt_id="a1",
            fence=answer.fence,
            locked_by="orders/request-of-a1",
            created=world.clock.now(),
            expected_completion=world.ends(),
            delivery="m-1",
            fingerprint="f",
            ttl=int((world.ends() + KEEP).timestamp()) if rule is OnLapse.TAKE_OVER else None,
            generation="a1",
        )

    @pytest.mark.parametrize("rule", RULES)
    def test_a_token_in_progress_is_refused(self, world: World, rule: OnLapse) -> None:
        """No other attempt acquires it until its lease has expired, to the millisecond."""
        world.won()
        assert _refused(world, rule=rule).attempt_id == "a1"
        world.clock.advance(LEASE.total_seconds())
        _refused(world, rule=rule)

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("change", ENDED.values(), ids=ENDED.keys())
    def test_a_complete_or_held_token_is_refused(self, world: World, rule: OnLapse, change: Change) -> None:
        """It is refused however long ago its lease expired."""
        world.won()
        world.finish(change)
        world.clock.advance(LEASE.total_seconds() + 1)
        _refused(world, rule=rule)

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("change", [PAID, FAILED, RELEASED], ids=["complete", "stored error", "released"])
    def test_a_finished_token_past_its_ttl_is_free(self, world: World, rule: OnLapse, change: Change) -> None:
        """From its ttl on, to the second, the row counts as absent, whether or not it is deleted."""
        first = world.won()
        world.finish(change)
        ttl = world.row().ttl
        assert ttl is not None
        world.clock.advance(ttl - world.clock.now().timestamp() - 1)
        if change is not RELEASED:
            _refused(world, rule=rule)
        world.clock.advance(1)
        second = world.won("a2", rule=rule)
        assert second.fence > first.fence
        assert not second.took_over
        row = world.row()
        assert (row.state, row.attempt_id, row.actual_completion) == (State.IN_PROGRESS, "a2", None)
        assert (row.stored, row.error) == (None, None)

    @pytest.mark.parametrize("rule", RULES)
    def test_a_held_token_never_expires(self, world: World, rule: OnLapse) -> None:
        """It is held until it is resolved."""
        world.won()
        world.finish(HELD)
        world.clock.advance(10 * KEEP.total_seconds())
        _refused(world, rule=rule)

    def test_a_released_token_is_free(self, world: World) -> None:
        """Under take_over the next attempt acquires it at once, and the earlier error is removed."""
        first = world.won()
        world.finish(RELEASED)
        second = world.won("a2")
        assert second.fence > first.fence
        assert not second.took_over
        assert world.row().error is None

    def test_a_generation_lasts_until_the_work_is_complete(self, world: World) -> None:
        """A release, a lapse and a resolved hold keep it: it is the same work, retried."""
        assert world.won("a1").generation == "a1"
        world.finish(RELEASED)
        assert world.won("a2").generation == "a1"
        world.clock.advance(LEASE.total_seconds() + 1)
        assert world.won("a3").generation == "a1"
        world.finish(HELD, "a3")
        world.finish(UNSTARTED, resolver(world.row())._replace(state=State.HELD))
        acquisition = world.acquisition("a4")
        assert isinstance(world.acquire(acquisition), Won)
        again = world.acquire(acquisition)
        assert isinstance(again, Won)
        assert again.generation == world.row().generation == "a1"

    @pytest.mark.parametrize("change", [PAID, FAILED], ids=["complete", "stored error"])
    def test_a_completion_ends_its_generation(self, world: World, change: Change) -> None:
        """An acquisition after the ttl is new work, with new downstream keys."""
        world.won()
        world.finish(change)
        row = world.row()
        assert row.generation is None
        assert row.ttl is not None
        world.clock.advance(row.ttl - world.clock.now().timestamp())
        assert world.won("a2").generation == world.row().generation == "a2"

    @pytest.mark.parametrize(
        ("state", "change"), [(State.IN_PROGRESS, None), (State.HELD, HELD), (State.RELEASED, RELEASED)]
    )
    def test_a_completion_by_a_third_party_ends_its_generation(
        self, world: World, state: State, change: Change | None
    ) -> None:
        """That applies to an operator's completion of a token in progress, held or released."""
        world.won()
        if change is not None:
            world.finish(change)
        assert world.finish(PAID, resolver(world.row())._replace(state=state)) is Written.WRITTEN
        assert world.row().generation is None

    def test_a_released_token_is_not_reopened_by_a_copy_of_its_own_acquisition(self, world: World) -> None:
        """A delayed copy of the acquisition does not change the released token."""
        delayed = world.acquisition()
        world.acquire(delayed)
        world.finish(RELEASED)
        before = world.row()
        for known in (False, True):
            assert world.acquire(delayed._replace(known=known)) == Refused(before)
            assert world.row() == before

    def test_a_lapsed_token_is_not_taken_over_by_a_copy_of_its_own_acquisition(self, world: World) -> None:
        """A delayed copy that arrives after the lease changes nothing, and is answered as the first."""
        delayed = world.acquisition()
        first = world.acquire(delayed)
        assert isinstance(first, Won)
        before = world.row()
        world.clock.advance(LEASE.total_seconds() + 1)
        later = delayed._replace(now=world.clock.now(), lease=world.ends())
        for known in (False, True):
            assert world.acquire(later._replace(known=known)) == first._replace(lease=delayed.lease)
            assert world.row() == before

    def test_under_hold_a_released_token_is_acquired_only_as_seen(self, world: World) -> None:
        """Only the row that was read is acquired, or a delayed copy of an acquisition would end up held."""
        first = world.won(rule=OnLapse.HOLD)
        world.finish(RELEASED)
        _refused(world, rule=OnLapse.HOLD)
        _refused(world, rule=OnLapse.HOLD, seen=AsSeen("another", None))
        second = world.won("a2", rule=OnLapse.HOLD, seen=AsSeen("a1", None))
        assert second.fence > first.fence
        assert world.row().ttl is None

    @pytest.mark.parametrize("change", ENDED.values(), ids=ENDED.keys())
    def test_a_row_seen_released_is_refused_once_it_is_finished(self, world: World, change: Change) -> None:
        """The attempt is the same, but the state is not the one that was read."""
        world.won()
        world.finish(change)
        _refused(world, seen=AsSeen("a1", None))

    def test_a_lapsed_token_is_taken_over(self, world: World) -> None:
        """A millisecond after the lease the next attempt acquires it, with a larger fence."""
        first = world.won()
        world.clock.advance(LEASE.total_seconds() + 0.001)
        second = world.won("a2")
        assert second == Won(second.fence, took_over=True, generation="a1")
        assert second.fence > first.fence
        assert world.row().attempt_id == "a2"

    @pytest.mark.parametrize("rule", [OnLapse.HOLD, OnLapse.PROBE])
    def test_a_lapsed_token_is_not_taken_over_under_hold_and_probe(self, world: World, rule: OnLapse) -> None:
        """It is unknown whether the work happened: an operator or a probe decides."""
        world.won(rule=rule)
        world.clock.advance(LEASE.total_seconds() + 1)
        _refused(world, rule=rule)

    def test_a_lapsed_token_is_taken_exactly_as_the_probe_was_asked(self, world: World) -> None:
        """Of two acquisitions that expect the same attempt and lease, one wins."""
        world.won(rule=OnLapse.PROBE)
        world.clock.advance(LEASE.total_seconds() + 1)
        seen = world.row()
        asked = AsSeen(seen.attempt_id, seen.expected_completion)
        assert world.won("a2", rule=OnLapse.PROBE, seen=asked).took_over
        assert _refused(world, "a3", rule=OnLapse.PROBE, seen=asked).attempt_id == "a2"

    def test_another_lease_is_not_what_the_probe_was_asked_about(self, world: World) -> None:
        """An attempt that has extended its lease is alive."""
        world.won()
        seen = world.row()
        world.clock.advance(1)
        _refused(world, seen=AsSeen("a1", world.ends()))
        _refused(world, seen=AsSeen("another", seen.expected_completion))
        _refused(world, seen=AsSeen("a1", None))
        world.finish(HELD)
        _refused(world, seen=AsSeen("a1", seen.expected_completion))

    def test_what_is_not_there_cannot_be_taken_as_seen(self, world: World) -> None:
        """The row that was read is gone, and the acquisition does not create one."""
        assert world.acquire(world.acquisition(seen=AsSeen("a1", None))) == Refused(None)
        assert world.acquire(world.acquisition(seen=AsSeen("a1", world.ends()))) == Refused(None)
        assert world.read() is None

    @pytest.mark.parametrize(("stored", "asked"), [("f", None), (None, "f"), ("f", "f"), (None, None)])
    def test_a_lapsed_token_of_the_same_payload_is_taken_over(
        self, world: World, stored: str | None, asked: str | None
    ) -> None:
        """Payloads are compared only if both are known."""
        world.won(fingerprint=stored)
        world.clock.advance(LEASE.total_seconds() + 1)
        world.won("a2", fingerprint=asked)
        assert world.row().fingerprint == asked

    def test_a_lapsed_token_of_another_payload_is_refused(self, world: World) -> None:
        """An amended order does not take over the token of the original."""
        world.won(fingerprint="new")
        world.clock.advance(LEASE.total_seconds() + 1)
        _refused(world, fingerprint="amended")

    @pytest.mark.parametrize("presented", [None, Presented(None), ALICE, BOB])
    def test_a_lapsed_token_of_a_caller_is_taken_over_as_seen(
        self, world: World, presented: Presented | None
    ) -> None:
        """Only a request that has read the row can compare callers, so other take-overs are refused."""
        world.won(presented=ALICE)
        seen = world.row()
        world.clock.advance(LEASE.total_seconds() + 1)
        _refused(world, presented=presented)
        assert world.row() == seen
        world.won("a2", seen=AsSeen("a1", seen.expected_completion), presented=presented)
        assert world.row().caller == (None if presented is None else presented.mark("a2"))

    @pytest.mark.parametrize("second", [None, Presented(None), BOB])
    def test_every_acquisition_sets_or_removes_the_caller(
        self, world: World, second: Presented | None
    ) -> None:
        """The row has the credential of its last acquisition, or none."""
        world.won(presented=ALICE)
        world.finish(RELEASED)
        world.won("a2", presented=second)
        row = world.row()
        assert row.is_of_another(ALICE) is (second == BOB)
        assert not row.is_of_another(second)

    @pytest.mark.parametrize("change", [PAID, FAILED, HELD])
    def test_what_ends_an_attempt_keeps_its_caller(self, world: World, change: Change) -> None:
        """That includes an operator's decision, which gives the row another attempt id."""
        world.won(presented=ALICE)
        seen = world.row()
        world.finish(change, resolver(seen))
        row = world.row()
        assert row.attempt_id != seen.attempt_id
        assert row.caller == seen.caller
        assert (row.is_of_another(ALICE), row.is_of_another(BOB)) == (False, True)

    @pytest.mark.parametrize("second", [None, "00-5b-6d-01"])
    def test_every_acquisition_sets_or_removes_the_trace(self, world: World, second: str | None) -> None:
        """The row has the trace of its last acquisition, or none; a finish keeps it."""
        world.won(trace="00-5b-6c-01")
        world.finish(RELEASED)
        assert world.row().trace == "00-5b-6c-01"
        world.won("a2", trace=second)
        world.finish(PAID, "a2")
        assert world.row().trace == second

    def test_an_acquisition_sent_again_is_won_again(self, world: World) -> None:
        """If the response was lost, the retry gets the same fence and the same row."""
        acquisition = world.acquisition()
        first = world.acquire(acquisition)
        assert isinstance(first, Won)
        before = world.row()
        assert world.acquire(acquisition) == first._replace(lease=acquisition.lease)
        assert world.row() == before

    def test_the_fence_grows_with_every_acquisition(self, world: World) -> None:
        """It grows across release, take-over, expiry and deletion."""
        fences = [world.won("a1").fence]
        world.finish(RELEASED, "a1")
        fences.append(world.won("a2").fence)
        world.clock.advance(LEASE.total_seconds() + 1)
        fences.append(world.won("a3").fence)
        world.finish(PAID, "a3")
        world.clock.advance(KEEP.total_seconds() + 1)
        fences.append(world.won("a4").fence)
        world.clock.advance(1)
        world.rows.forget(world.token)
        fences.append(world.won("a5").fence)
        assert fences == sorted(set(fences))

    def test_a_resolution_raises_the_fence(self, world: World) -> None:
        """The next acquisition has a higher fence than the resolution."""
        first = world.won()
        assert world.finish(RELEASED, resolver(world.row())) == Written.WRITTEN
        assert world.row().fence == first.fence + 1
        assert world.won("a2").fence > first.fence + 1

    def test_many_tokens_are_answered_each_by_itself(self, world: World) -> None:
        """Answers come in the order of the acquisitions; a refusal does not affect the others."""
        tokens = [f"{world.token}-{n}" for n in range(12)]
        taken = world.acquisition("other", token=tokens[5])
        world.acquire(taken)
        acquisitions = [world.acquisition(f"a{n}", token=token) for n, token in enumerate(tokens)]
        answers = world.store.acquire(acquisitions, world.deadline)
        assert answers[5] == Refused(world.read(tokens[5]))
        assert all(isinstance(answer, Won) for n, answer in enumerate(answers) if n != 5)
        owners = [record.attempt_id for record in map(world.read, tokens) if record is not None]
        assert owners == [f"a{n}" if n != 5 else "other" for n in range(12)]

    def test_an_empty_call_has_an_empty_answer(self, world: World) -> None:
        """Nothing is written."""
        assert world.store.acquire([], world.deadline) == []
        assert world.store.write([], world.deadline) == []

    def test_the_absent_is_read_as_none(self, world: World) -> None:
        """A token that was never acquired has no row."""
        assert world.read() is None
        assert world.acquisition().take == Unclaimed(take_over=True)
