"""Machines with the package on them: its real decorators and stores, on a simulated client and clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from lambda_once import (
    HOLD,
    NOT_DONE,
    RELEASE,
    STORE,
    UNKNOWN,
    Done,
    Fenced,
    Lapsed,
    Once,
    OnceError,
    StoreUnavailable,
)
from lambda_once.core.clock import SystemClock
from lambda_once.testing.clock import START
from tests.simulation.endings import Endings
from tests.simulation.ledger import Ledger
from tests.simulation.network import Network
from tests.simulation.old_version import OLD, history_of, old_handler
from tests.simulation.outcomes import Outcomes
from tests.simulation.records import Records
from tests.simulation.scenario import Scenario
from tests.simulation.scheduler import Scheduler, running

TABLE = "tokens"
EFFECTS = "effects"


class TryAgain(Exception):
    """Nothing was done: RELEASE."""


class Final(Exception):
    """It failed for good: STORE."""


class Unsafe(Exception):
    """A person must look: HOLD."""


ON_ERROR: dict[str, Any] = {"release": RELEASE, "store": {Final: STORE}, "hold": {Unsafe: HOLD}}


class MachineClock:
    """A clock that is wrong by what its machine's is."""

    def __init__(self, scheduler: Scheduler, skew: int) -> None:
        self._scheduler = scheduler
        self._skew = skew

    def now(self) -> datetime:
        return START + timedelta(milliseconds=self._scheduler.now + self._skew)

    def sleep(self, seconds: float) -> None:
        self._scheduler.pause(max(1, round(seconds * 1000)))

    async def sleep_async(self, seconds: float) -> None:
        await SystemClock().sleep_async(max(0.001, seconds))  # by the time of the schedule's loop


@dataclass
class Machine:
    """One environment: its clock, its policy, and its handlers."""

    name: str
    skew: int
    on_lapse: str
    single: Callable[[Any, Any], Any]
    batch: Callable[[Any, Any], Any]


class Works:
    """Makes machines, and does the work that their handlers are for."""

    def __init__(
        self, scenario: Scenario, network: Network, ledger: Ledger, outcomes: Outcomes, rng: random.Random
    ) -> None:
        self._scenario = scenario
        self._network = network
        self._scheduler = network.scheduler
        self._ledger = ledger
        self._outcomes = outcomes
        self._rng = rng
        self.starting: Callable[[str], None] = lambda _message_id: None
        """Called with each message whose work starts."""
        self.endings = Endings(network.scheduler, network.story)
        self.records = Records(scenario, ledger, outcomes)

    def machine(self, name: str, skew: int, on_lapse: str) -> Machine:
        scenario = self._scenario
        once = Once(table=TABLE, client=self._network.client(), service="shop", hooks=[self._outcomes.hook])
        once._runtime.clock = MachineClock(self._scheduler, skew)
        options: dict[str, Any] = {
            "key": "order",
            "keep": timedelta(seconds=scenario.keep),
            "lease": None if scenario.lease is None else timedelta(milliseconds=scenario.lease),
            "on_error": ON_ERROR[scenario.on_error],
            "on_lapse": self._probe if on_lapse == "probe" else on_lapse,
            "on_in_progress": "wait" if scenario.waits else "conflict",
            "cache": scenario.cache,
            "history": history_of(scenario, self._network) if scenario.expires else None,
        }
        if scenario.lanes:
            return Machine(name, skew, on_lapse, *self._lanes(once, options))

        @once.event(name="charge", **options)
        def single(event: dict[str, Any]) -> Any:
            return self._work(once, str(event["amount"]))

        @once.sqs(name=single, **options)
        def batch(record: Any) -> Any:
            self.starting(record.message_id)
            return self._work(once, str(record.json_body["amount"]))

        return Machine(name, skew, on_lapse, single, batch)

    def _lanes(self, once: Once, options: dict[str, Any]) -> tuple[Any, Any]:
        @once.event(name="charge", **options)
        async def single(event: dict[str, Any]) -> Any:
            return await self._awaited(once, str(event["amount"]))

        @once.sqs(name=single, **options, concurrency=self._scenario.lanes)
        async def batch(record: Any) -> Any:
            self.starting(record.message_id)
            return await self._awaited(once, str(record.json_body["amount"]))

        return single, batch

    def old_machine(self, name: str, skew: int) -> Machine:
        """Return a machine of the version that is replaced."""
        handler = old_handler(self._old_work, self._scenario, self._network)
        return Machine(name, skew, OLD, handler, handler)

    # ---------------------------------------------------------------- the work

    def _old_work(self, event: dict[str, Any]) -> Any:
        token, attempt = f"shop/charge/{event['order']}", f"old {running().sandbox.name}"
        with self.records.working(token, lambda: True):
            for effect in (False, True):
                self._network.step()
                quick = self._network.calm or self._rng.random() < 0.6
                self._scheduler.pause(
                    self._rng.choice((0, 1)) if quick else self._rng.choice((20, 400, 1_500))
                )
                self._network.step()
                running().check()
                if effect:
                    break
                if self._rng.random() < 0.1:
                    raise TryAgain("busy")
                self._outcomes.effect(token, attempt)
                self._outcomes.done[token].add(str(event["amount"]))
        return {"by": attempt}

    def _work(self, once: Once, payload: str) -> Any:
        tenure = self._ledger.tenures.get(once.current().id)
        with (
            self.records.working(
                once.current().token, lambda: tenure is not None and self._ledger.alive(tenure)
            ),
            self.endings.working(),
        ):
            return self._worked(once, payload)

    async def _awaited(self, once: Once, payload: str) -> Any:
        """Do the work on the event loop, beside other records."""
        attempt = once.current()
        with self.endings.working():
            self._outcomes.starts(attempt)
            await self._toil_async(attempt)
            self._fail(attempt, payload)
            value = self._value(attempt.id)
            self._outcomes.effect(attempt.token, attempt.id)
            self._outcomes.ends(attempt, payload, value)
            await self._toil_async(attempt)
            if self._scenario.on_error == "hold" and self._rng.random() < 0.15:
                raise Unsafe
            return value

    def _worked(self, once: Once, payload: str) -> Any:
        attempt, rng = once.current(), self._rng
        self._outcomes.starts(attempt)
        self._toil(attempt)
        if self._scenario.extends:
            for seconds in sorted(rng.sample((5, 12, 25), rng.randint(0, 2))):
                self._extend(attempt, seconds)
                self._toil(attempt)
        self._fail(attempt, payload)
        value = self._value(attempt.id)
        if self._scenario.transacts and rng.random() < 0.5:
            if self._scenario.hurries and rng.random() < 0.7:
                return self._beside(attempt, payload, value)
            return self._transact(attempt, payload, value)
        self._outcomes.effect(attempt.token, attempt.id)
        self._outcomes.ends(attempt, payload, value)
        self._toil(attempt)
        if self._scenario.on_error == "hold" and rng.random() < 0.15:
            raise Unsafe
        return value

    def _toil(self, attempt: Any) -> None:
        self._network.step()
        self._scheduler.pause(self._toils())
        self._network.step()
        self._outcomes.works(attempt)

    async def _toil_async(self, attempt: Any) -> None:
        self._network.step()
        await SystemClock().sleep_async(self._toils() / 1000)
        self._network.step()
        self._outcomes.works(attempt)

    def _toils(self) -> int:
        """Return the milliseconds that a step of the work takes."""
        quick = self._network.calm or self._rng.random() < 0.6
        return self._rng.choice((0, 1)) if quick else self._rng.choice((20, 400, 1_500, 4_000))

    def _extend(self, attempt: Any, seconds: int) -> None:
        try:
            attempt.extend(seconds)
        except Fenced:
            self._outcomes.fenced(attempt)
            raise
        except StoreUnavailable:
            return

    def _fail(self, attempt: Any, payload: str) -> None:
        luck = self._rng.random()
        if luck > 0.2:
            return
        match self._scenario.on_error:
            case "store":
                self._outcomes.done[attempt.token].add(payload)
                raise Final("sold out")
            case "hold" if luck < 0.1:
                raise Unsafe("look at it")
            case _:
                raise TryAgain("busy")

    def _transact(self, attempt: Any, payload: str, value: Any) -> Any:
        item = {"id": {"S": attempt.id}, "token": {"S": attempt.token}, "payload": {"S": payload}}
        put = {"TableName": EFFECTS, "Item": item, "ConditionExpression": "attribute_not_exists(id)"}
        try:
            result = attempt.transact([{"Put": put}], result=value)
        except Fenced:
            self._outcomes.fenced(attempt)
            raise
        self._outcomes.reports(attempt)
        return result

    def _beside(self, attempt: Any, payload: str, value: Any) -> Any:
        """Send the transaction from a thread of its own, and go on: to complete, return or raise."""
        sandbox, rng = running().sandbox, self._rng
        other = value if rng.random() < 0.4 else self._value(attempt.id)

        def transacted() -> None:
            try:
                self._transact(attempt, payload, value)
            except (OnceError, ClientError) as error:
                self._network.story.tell(sandbox.name, f"its transaction raises {type(error).__name__}")

        self._network.story.tell(sandbox.name, "goes on beside its transaction")
        completes = rng.choice(("before", "after", "never", "never"))
        if completes == "before":
            self._complete(attempt, payload, other)
        self._scheduler.start(sandbox, transacted)
        self._scheduler.pause(rng.choice((1, 3, 8, 400, 3_500)))
        self._network.step()
        if completes == "after":
            self._complete(attempt, payload, other)
        if rng.random() < 0.2:
            raise TryAgain("not waited for")
        self._outcomes.ends(attempt, payload, other)
        return other

    def _complete(self, attempt: Any, payload: str, value: Any) -> None:
        self._outcomes.ends(attempt, payload, value)
        try:
            attempt.complete(value)
        except Fenced:
            self._outcomes.fenced(attempt)
            raise

    def _value(self, attempt: str) -> Any:
        if self._scenario.large:
            return {"by": attempt, "text": self._rng.randbytes(700).hex()}
        return self._rng.choice(
            ({"by": attempt}, {"by": attempt}, {"by": attempt}, 0, {}, [], "", False, None)
        )

    def _probe(self, lapsed: Lapsed, *_: Any) -> Any:
        """Say what is true of the lapsed attempt, or not know it."""
        with self.endings.working():
            return self._probed(lapsed)

    def _probed(self, lapsed: Lapsed) -> Any:
        # It asks another system, which takes its time: what it says may be out of date when it is heard.
        self._scheduler.pause(self._rng.choice((1, 5, 300, 2_500)))
        if self._rng.random() < 0.1:
            return UNKNOWN
        if self._outcomes.effects[lapsed.token]:
            return Done({"by": "the probe"})
        self._ledger.resolved.add(lapsed.attempt_id)
        return NOT_DONE
