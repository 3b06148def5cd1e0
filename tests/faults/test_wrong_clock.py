"""A clock that is wrong: refused by name where AWS sees it, and what leases do where nothing detects it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import Held, InProgress, MemoryStore, Misconfigured, Once
from lambda_once.stores.batches import Batches
from lambda_once.testing import FakeClock, lambda_context
from tests.faults.test_bad_table import answering, runs_nothing
from tests.kit.frail import FrailStore
from tests.sources.samples import batch, sqs_record

FAST = (
    "Signature not yet current: 20261120T111200Z is still later than "
    "20261120T101700Z (20261120T101200Z + 5 min.)"
)
SLOW = "Signature expired: 20261120T091200Z is now earlier than 20261120T100700Z (20261120T101200Z - 5 min.)"
HOUR = 3600


@pytest.mark.parametrize("said", [FAST, SLOW], ids=["fast", "slow"])
def test_a_clock_that_aws_refuses(said: str) -> None:
    """Beyond five minutes it refuses the signature: the error names the clock and both times."""
    layers, answers = answering(400, "InvalidSignatureException", said)
    words = r"clock of this machine is wrong.*\(Signature .*T10\d\d00Z.*set the clock"
    runs_nothing(layers, Misconfigured, words)
    assert answers.asked == 1


def test_a_signature_that_is_wrong_otherwise() -> None:
    """A wrong secret is no matter of the clock."""
    said = "The request signature we calculated does not match the signature you provided."
    layers, _ = answering(400, "InvalidSignatureException", said)
    runs_nothing(
        layers, Misconfigured, "InvalidSignatureException.*the credentials have expired, or are wrong"
    )


@pytest.mark.parametrize("usable", [True, False], ids=["batches", "single writes"])
def test_a_batch_by_a_clock_that_aws_refuses(usable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record fails by the same words; a clock that is set right has its batches back."""
    monkeypatch.setattr(Batches, "usable", property(lambda batches: usable and not batches._stopped))
    layers, _ = answering(400, "InvalidSignatureException", FAST)
    once = layers.once()

    @once.sqs(raise_on_entire_batch_failure=False)
    def handler(record: Any) -> None:
        pytest.fail("it ran unprotected")

    answer = handler(batch(sqs_record("x", id_="a"), sqs_record("y", id_="b")), layers.context())
    assert [each["itemIdentifier"] for each in answer["batchItemFailures"]] == ["a", "b"]
    store: Any = once._runtime.engine.store
    assert not store._batches._stopped


class Machine:
    """One of several at a table, with a clock of its own."""

    def __init__(self, store: FrailStore, off: float = 0, **options: Any) -> None:
        self.clock = FakeClock()
        self.clock.advance(off)
        self.once = Once(store=store, service="shop", **options)
        self.once._runtime.clock = self.clock

    def runs(self, work: Callable[[], object]) -> Callable[[], Any]:
        """Protect *work* under the one key there is here, for invocations of 30 s."""

        @self.once.event(key="order", name="charge")
        def handler(event: Any) -> Any:
            return work()

        return lambda: handler({"order": 5}, lambda_context("charge", remaining_ms=30_000))


@pytest.fixture
def store() -> FrailStore:
    """An empty store, for machines that differ in their clocks alone."""
    return FrailStore(MemoryStore())


@pytest.mark.parametrize(("ours", "theirs"), [(0, HOUR), (-HOUR, 0)], ids=["they are fast", "we are slow"])
def test_clocks_that_differ_take_over_a_living_attempt(store: FrailStore, ours: float, theirs: float) -> None:
    """Degraded: an hour later its lease is over. Both run; the outcome is one, and everybody gets it."""
    ran: list[str] = []

    def work() -> str:
        ran.append("first")
        second()
        return "of the first"

    def again() -> str:
        ran.append("second")
        return "of the second"

    second = Machine(store, theirs).runs(again)
    assert Machine(store, ours).runs(work)() == "of the second"
    assert second() == "of the second"
    assert ran == ["first", "second"]


def test_twin_of_clocks_that_agree(store: FrailStore) -> None:
    """Where both clocks are right the second finds the first in progress."""
    second = Machine(store).runs(lambda: pytest.fail("it ran beside the first"))

    def work() -> str:
        with pytest.raises(InProgress):
            second()
        return "of the first"

    assert Machine(store).runs(work)() == "of the first"


@pytest.mark.parametrize(("ours", "theirs"), [(0, HOUR), (-HOUR, 0)], ids=["they are fast", "we are slow"])
def test_under_hold_a_wrong_clock_runs_nothing_twice(store: FrailStore, ours: float, theirs: float) -> None:
    """A living attempt is taken for one that waits for a person; its outcome is what counts in the end."""
    second = Machine(store, theirs, on_lapse="hold").runs(lambda: pytest.fail("it ran beside the first"))

    def work() -> str:
        with pytest.raises(Held):
            second()
        return "of the first"

    assert Machine(store, ours, on_lapse="hold").runs(work)() == "of the first"
    assert second() == "of the first"


def test_a_slow_clock_waits_an_hour_longer(store: FrailStore) -> None:
    """Degraded: an hour behind, a crashed attempt looks alive for an hour more; then it is taken over."""
    store.loses_ends = True
    Machine(store).runs(lambda: "lost in the crash")()
    store.loses_ends = False
    slow = Machine(store, -HOUR)
    second = slow.runs(lambda: "of the second")
    for seconds in (33, HOUR - 34):
        slow.clock.advance(seconds)
        with pytest.raises(InProgress):
            second()
    slow.clock.advance(40)
    assert second() == "of the second"
