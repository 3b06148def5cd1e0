"""Ends: what an exception leaves. Ends and beginnings that a slow or silent table disturbs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from lambda_once import HOLD, RELEASE, STORE, Held, InProgress, RetryLater, StoredError, StoreUnavailable
from lambda_once.core.clock import Deadline, epoch_seconds
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Acquire, Extend, Holder, Release, Unclaimed, Write, new_write_id
from lambda_once.engine import finish as finishing
from lambda_once.engine.engine import Engine
from lambda_once.observability.events import Event
from lambda_once.stores.contract import AcquireAnswer, Unanswered, Won, WriteAnswer, Written
from lambda_once.testing import FakeClock, lambda_context
from tests.decorators.rig import Rig
from tests.kit.frail import FrailStore
from tests.simulation.guards import read_once


class Refused(Exception):
    pass


class CardRefused(Refused):
    pass


BY_CLASS = {Refused: STORE, CardRefused: HOLD}
BROKEN: list[Any] = [lambda _: None, lambda _: "store", lambda _: 1 / 0]


@pytest.mark.parametrize(
    ("options", "error", "state"),
    [
        ({"on_error": RELEASE}, Refused(), State.RELEASED),
        ({"on_error": STORE}, Refused(), State.COMPLETE),
        ({"on_error": HOLD}, Refused(), State.HELD),
        ({"on_error": BY_CLASS}, CardRefused(), State.HELD),  # the nearest class of its MRO
        ({"on_error": {KeyError: HOLD}}, Refused(), State.RELEASED),  # instead of that of `Once`
        ({"on_error": lambda error: STORE if error.args else HOLD}, Refused("final"), State.COMPLETE),
        ({"on_error": STORE}, RetryLater("soon"), State.RELEASED),  # never stored
        ({"on_error": HOLD}, InProgress("soon"), State.RELEASED),
        ({"on_error": STORE}, SystemExit(1), State.RELEASED),  # STORE is for exceptions
        ({"on_error": {BaseException: STORE}}, SystemExit(1), State.COMPLETE),
        ({"on_lapse": "hold"}, SystemExit(1), State.HELD),
        ({"on_lapse": lambda *_: None}, KeyboardInterrupt(), State.HELD),
        *(({"on_error": policy}, Refused(), State.HELD) for policy in BROKEN),
    ],
)
def test_what_an_exception_leaves(options: Any, error: BaseException, state: State) -> None:
    """The caller gets it as it is, a duplicate what the policy says; a policy that breaks holds."""
    rig = Rig()
    rig.once = rig.new(on_error={Refused: STORE})

    @rig.once.function(name="work", **options)
    def work(order: int) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        work(5)
    assert raised.value is error
    assert rig.row().state is state
    assert (Event.POLICY_FAILED.value in rig.events()) is (options.get("on_error") in BROKEN)
    duplicate = {State.RELEASED: type(error), State.COMPLETE: StoredError, State.HELD: Held}[state]
    with pytest.raises(duplicate) as again:
        work(5)
    if state is not State.RELEASED:
        assert getattr(again.value, "token", None) == rig.row().token


@dataclass(frozen=True)
class Frozen(Exception):
    """A class whose instances refuse attributes, ``__traceback__`` among them."""

    code: int


@pytest.mark.parametrize("door", ["function", "async function", "event", "run", "block", "invocation"])
def test_an_exception_that_refuses_attributes_is_the_callers(door: str) -> None:
    """None is set: another exception would reach a caller that catches this one."""
    rig, error = Rig(), Frozen(5)

    def work(*_: Any) -> None:
        if door == "block":
            with rig.once.begin(5, name="block"):
                raise error
        raise error

    async def async_work(order: int) -> None:
        raise error

    def call() -> None:
        match door:
            case "function":
                rig.once.function(name="work")(work)(5)
            case "async function":
                asyncio.run(rig.once.function(name="work")(async_work)(5))
            case "event":
                rig.once.event(key="id")(work)({"id": 5}, lambda_context())
            case "run":
                rig.once.run("work", 5, work)
            case "block":
                work()
            case _:
                with rig.once.invocation(lambda_context()):
                    work()

    with pytest.raises(Frozen) as raised:
        call()
    assert raised.value is error


def test_work_can_be_called_without_its_decorator() -> None:
    """The recipe of error-policies.md for work that must not be late: each call runs, and stores nothing."""
    rig = Rig()
    rig.store.out = True

    @rig.once.function(key="order")
    def remind(order: int, channel: str) -> str:
        return f"{order} by {channel}"

    def handler(order: int) -> str:
        try:
            return remind(order, "mail")
        except StoreUnavailable:
            plain: Any = remind
            return str(plain.__wrapped__(order, "mail"))

    assert [handler(5), handler(5)] == ["5 by mail"] * 2
    rig.store.out = False
    assert handler(5) == "5 by mail"
    assert rig.states() == [State.COMPLETE]


class Silent(FrailStore):
    """Its transactions are written, and the response is lost."""

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        super().transact(finish, items, deadline)
        return Unanswered("ReadTimeoutError")


def _a_transaction_nobody_hears_of(rig: Rig) -> None:
    rig.use_store(Silent)

    @rig.once.function
    def work(order: int) -> Any:
        return rig.once.current().transact([], result="paid")

    with pytest.raises(StoreUnavailable):
        work(5)
    assert rig.row().state is State.COMPLETE
    assert Event.FENCED not in [details.event for details in rig.reported]
    assert rig.reported[-1].event is Event.COMPLETED
    assert work(5) == "paid"


def test_an_unheard_transaction_fences_nobody() -> None:
    """The row of the attempt itself is reported as it is: started and finished counts are equal."""
    _a_transaction_nobody_hears_of(Rig())


def test_twin_that_takes_its_own_row_for_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at whose row it is, a fenced attempt is logged."""
    monkeypatch.setattr(finishing, "_FINISHED", {})
    with pytest.raises(AssertionError):
        _a_transaction_nobody_hears_of(Rig())


class Slow(FrailStore):
    """Acquiring eats the lease, so that it has to be extended before anything starts."""

    clock: FakeClock
    extension_takes = 0.0
    """Seconds until the answer to an extension comes."""
    extension_is_lost = False

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        answers = super().acquire(acquisitions, deadline)
        self.clock.advance(29)
        return answers

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if not isinstance(writes[0].change, Extend):
            return super().write(writes, deadline)
        if self.extension_is_lost:
            return [Unanswered("ReadTimeoutError")]
        answers = super().write(writes, deadline)
        self.clock.advance(self.extension_takes)
        return answers


def slow(rig: Rig) -> Slow:
    """Put *rig* on a slow store, and return the store."""
    rig.use_store(Slow)
    assert isinstance(rig.store, Slow)
    rig.store.clock = rig.clock
    return rig.store


def _begins_too_late(rig: Rig, error: type[RetryLater]) -> None:
    @rig.once.event(key="order", lease=timedelta(seconds=30))
    def handler(event: dict[str, Any], context: object) -> None:
        raise AssertionError

    with pytest.raises(error):
        handler({"order": "5"}, rig.context(seconds=900))
    assert rig.row().state is State.RELEASED
    happened = [details.event for details in rig.reported]
    assert (Event.ACQUIRED in happened, Event.RELEASED in happened) == (True, True)
    assert Event.FENCED not in happened


def test_an_extension_that_eats_the_lease_starts_nothing() -> None:
    """Its answer came when the new lease, too, was all but over: the token is given back."""
    rig = Rig()
    slow(rig).extension_takes = 29
    _begins_too_late(rig, RetryLater)


def test_twin_that_starts_on_any_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a second look at the lease, work starts on one that is all but over."""
    rig = Rig()
    slow(rig).extension_takes = 29
    looks = iter((False, True))
    monkeypatch.setattr(Engine, "may_start", lambda *_: next(looks))
    with pytest.raises(AssertionError):
        _begins_too_late(rig, RetryLater)


def test_an_extension_without_an_answer_gives_the_token_back() -> None:
    """Nothing started: no lease is waited for, and under hold no person reviews it."""
    rig = Rig()
    slow(rig).extension_is_lost = True
    _begins_too_late(rig, StoreUnavailable)


class Overtaken(Slow):
    """While the first extension is under way, its lease ends, and another attempt comes and gives up."""

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if isinstance(writes[0].change, Extend) and self.acquisitions == 1:
            self.clock.advance(2)
            self._another(writes[0], deadline)
        return super().write(writes, deadline)

    def _another(self, write: Write, deadline: Deadline) -> None:
        now = self.clock.now()
        acquisition = Acquire(
            token=write.token,
            attempt_id="another",
            locked_by="elsewhere",
            now=now,
            lease=now + timedelta(seconds=30),
            take=Unclaimed(take_over=True),
            ttl=None,
        )
        (won,) = self.sound.acquire([acquisition], deadline)
        assert isinstance(won, Won)
        ttl, change = epoch_seconds(now) + 1_000, Release()
        release = Write(write.token, Holder("another"), change, now, ttl, new_write_id(change))
        (written,) = self.sound.write([release], deadline)
        assert isinstance(written, Written)


def _starts_with_time_to_work(rig: Rig) -> None:
    rig.use_store(Overtaken)
    assert isinstance(rig.store, Overtaken)
    rig.store.clock = rig.clock

    @rig.once.event(key="order", lease=timedelta(seconds=30))
    def handler(event: dict[str, Any], context: object) -> None:
        assert rig.once.current().lease >= rig.clock.now() + timedelta(seconds=29)

    handler({"order": "5"}, rig.context(seconds=900))
    assert (rig.store.acquisitions > 1, rig.row().state) == (True, State.COMPLETE)


def test_what_is_acquired_again_is_looked_at_again() -> None:
    """The second acquisition was as slow as the first: its lease, too, is extended before work starts."""
    _starts_with_time_to_work(Rig())


def test_twin_that_looks_at_the_first_acquisition_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work starts on a lease that is all but over."""
    read_once(monkeypatch)
    with pytest.raises(AssertionError):
        _starts_with_time_to_work(Rig())
