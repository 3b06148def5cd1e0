"""`seal_required=True` and what a decision gave, which nobody seals: it is returned until an attempt runs."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from lambda_once import HOLD, STORE, Done, Once
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import MOST_DECISIONS, Record, Resolve, State
from lambda_once.core.results import Inline, is_sealed
from lambda_once.errors import Held, ResultUnavailable, StoredError
from lambda_once.operations.decisions import LONGEST_ARN, LONGEST_NAME, LONGEST_REASON, Author, decided
from lambda_once.operations.watchdog_actions import Actions
from lambda_once.stores.contract import Written
from tests.decorators.rig import Rig
from tests.decorators.test_seal_forged import Forger, pair

ANN = Author("ann", "seen at the bank", caller="arn:aws:sts::123456789012:assumed-role/ops/ann")
RECEIPT = '{"receipt": 5}'
PLAIN = "is not sealed, which seal_required=True refuses"


def deadline(rig: Rig) -> Deadline:
    """A minute from now."""
    return Deadline(rig.clock, rig.clock.now() + timedelta(minutes=1))


class Decided(Forger):
    """An order whose work was killed, and what is decided about it."""

    def killed(self) -> Record:
        """Let the work of order 5 end in a lapsed token."""
        with self.rig.crash():
            self.works("5", returns="paid")
        self.rig.clock.advance(1_000)
        self.ran.clear()
        return self.rig.row()

    def decide(self, how: Resolve, result: str | None = None, author: Author = ANN) -> Record:
        write = decided(self.rig.row(), how, author, self.rig.clock.now(), result=result)
        (answer,) = self.rig.store.write([write], deadline(self.rig))
        assert isinstance(answer, Written)
        return self.rig.row()


@pytest.fixture
def order(rig: Rig) -> Decided:
    """An order under a seal that is required."""
    return Decided(rig)


@pytest.mark.parametrize(("given", "result"), [(RECEIPT, {"receipt": 5}), (None, None)])
def test_a_result_that_a_person_gave_is_returned(order: Decided, given: str | None, result: object) -> None:
    """In plain text, or None; the work does not run."""
    order.killed()
    order.decide(Resolve.DONE, given)
    assert order.works("5") == result
    assert order.ran == []


def test_a_failure_that_a_person_gave_is_raised(order: Decided) -> None:
    """With his reason."""
    order.killed()
    order.decide(Resolve.FAILED)
    with pytest.raises(StoredError, match="seen at the bank"):
        order.works("5")


def test_twin_without_the_mark(order: Decided, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person gave would be refused, as any plain text is."""
    order.killed()
    order.decide(Resolve.DONE, RECEIPT)
    monkeypatch.setattr(Record, "is_given", False)
    order.is_refused("5", PLAIN)


@pytest.mark.parametrize("times", [1, 2 * MOST_DECISIONS])
def test_keep_leaves_what_was_given(order: Decided, times: int) -> None:
    """However often, and however long its reasons are: the decision that gave it stays on the row."""
    order.killed()
    order.decide(Resolve.DONE, RECEIPT)
    long = Author("a" * LONGEST_NAME, "b" * LONGEST_REASON, caller="c" * LONGEST_ARN)
    for _ in range(times):
        order.decide(Resolve.KEEP, author=long)
    assert order.rig.row().decisions[0].because == ANN.because
    assert order.works("5") == {"receipt": 5}


@pytest.mark.parametrize("how", [Resolve.KEEP, Resolve.NOT_DONE])
def test_other_decisions_are_no_mark(order: Decided, how: Resolve) -> None:
    """Plain text in a row that a person only kept, or released, is refused."""
    order.works("5", returns="paid")
    order.decide(how)
    order.alter("5", status=None, result={"S": RECEIPT}, actualCompletion={"S": "2026-11-20T10:12:00.000Z"})
    assert order.rig.row().state is State.COMPLETE
    order.is_refused("5", PLAIN)


def test_an_attempt_ends_the_mark(order: Decided) -> None:
    """The decision stays on the row, but what is planted behind the next attempt is refused."""
    order.killed()
    order.decide(Resolve.DONE, RECEIPT)
    order.decide(Resolve.NOT_DONE)
    assert order.works("5", returns="paid") == "paid"
    assert [each.how for each in order.rig.row().decisions] == [Resolve.DONE, Resolve.NOT_DONE]
    order.alter("5", result={"S": RECEIPT})
    order.is_refused("5", PLAIN)


def test_done_accepts_what_a_complete_row_has(order: Decided) -> None:
    """A person has read it: what was stored before the seal was required, say."""
    order.works("5", returns="paid")
    order.alter("5", result={"S": RECEIPT})
    order.is_refused("5", PLAIN)
    order.decide(Resolve.DONE)
    assert order.works("5") == {"receipt": 5}


def test_a_sealed_result_that_is_kept_is_opened(order: Decided) -> None:
    """It is bound to no attempt; after `--done` what was moved is refused as before."""
    order.works("5", returns="paid")
    order.decide(Resolve.KEEP)
    order.decide(Resolve.DONE)
    assert order.works("5") == "paid"
    order.works("6", returns="of 6")
    order.move_result("6", "5")
    order.is_refused("5", "sealed as something else")


def test_a_decorator_seals_what_its_probe_found(order: Decided) -> None:
    """Its function has the key."""
    row = order.killed()
    once = order.rig.new(seal=order.seal, seal_required=True)

    @once.function(key="order", name="charge", on_lapse=lambda *_: Done({"receipt": 5}))
    def charge(order: str) -> None: ...

    assert charge("5") == {"receipt": 5}
    stored = order.rig.row().stored
    assert isinstance(stored, Inline)
    assert is_sealed(stored.data)
    assert order.rig.row().attempt_id != row.attempt_id


def test_what_the_watchdog_found_is_a_decision(order: Decided) -> None:
    """It has no key, as a person has none."""
    row = order.killed()
    actions = Actions({"charge": lambda _: Done({"receipt": 5})}, times=3)
    action = actions.of(row.token)
    assert action is not None
    (answer,) = order.rig.store.write(
        [actions.decide(action, row, order.rig.clock.now())], deadline(order.rig)
    )
    assert isinstance(answer, Written)
    assert order.works("5") == {"receipt": 5}


@pytest.mark.parametrize("how", [Resolve.FORGET, Resolve.HOLD])
def test_what_is_no_text_is_as_before(order: Decided, how: Resolve) -> None:
    """A forgotten result is unavailable, a held token held."""
    order.works("5", returns="paid")
    order.decide(how)
    with pytest.raises(ResultUnavailable if how is Resolve.FORGET else Held):
        order.works("5")
    assert order.ran == ["5"]


# -- outcome, cache


def _asked(rig: Rig, order: Decided) -> Once:
    return rig.new(seal=order.seal, seal_required=True)


def test_an_outcome_refuses_as_a_duplicate_does(order: Decided, rig: Rig) -> None:
    """Its result and its error, at once and off the loop; what a decision gave is there."""
    once = _asked(rig, order)
    order.works("5", returns="paid")
    assert once.outcome("5", name="charge").result == "paid"
    order.alter("5", result={"S": RECEIPT})
    outcomes = once.outcome("5", name="charge"), asyncio.run(once.aoutcome("5", name="charge"))
    for outcome in outcomes:
        assert outcome.state == "complete"
        with pytest.raises(ResultUnavailable, match=PLAIN):
            outcome.result  # noqa: B018
    order.alter("5", result=None, error={"M": {"kind": {"S": "Paid"}, "message": {"S": "EVIL"}}})
    with pytest.raises(ResultUnavailable, match=PLAIN):
        once.outcome("5", name="charge").error  # noqa: B018
    order.decide(Resolve.DONE, RECEIPT)
    assert once.outcome("5", name="charge").result == {"receipt": 5}


def test_refused_text_is_not_remembered(order: Decided, rig: Rig) -> None:
    """With `cache=`; what was sealed is, and later changes of the row are not seen for five minutes."""
    once = rig.new(seal=order.seal, seal_required=True, cache=8)

    @once.function(key="order", name="charge")
    def charge(order: str) -> str:
        return f"receipt of {order}"

    assert charge("5") == "receipt of 5"
    order.alter("5", result={"S": RECEIPT})
    assert charge("5") == "receipt of 5"
    order.rig.clock.advance(301)
    for _ in range(2):
        with pytest.raises(ResultUnavailable, match=PLAIN):
            charge("5")
    assert once._runtime.engine.replayer.memory.get("shop/charge/5", rig.clock.now()) is None


def test_a_held_message_is_never_returned(rig: Rig) -> None:
    """A surrogate in it breaks no seal, either."""
    once = rig.new(seal=pair(), seal_required=True, on_error={ValueError: STORE, KeyError: HOLD})

    @once.function(key="order", name="charge")
    def charge(order: str) -> None:
        raise (ValueError if order == "5" else KeyError)("no \ud800")

    for order in "56":
        with pytest.raises((ValueError, KeyError)):
            charge(order)
    with pytest.raises(StoredError, match=r"no \\ud800"):
        charge("5")
    with pytest.raises(Held):
        charge("6")
