"""Plays one schedule: everything that happens in it follows from its seed."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from lambda_once import InProgress, KeyReused, OnceError, ResultUnavailable
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Resolve
from lambda_once.errors import StoredError
from lambda_once.operations.decisions import Author, decided
from lambda_once.stores.row import record_of
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context, sqs_event
from tests.kit.strict.engine import StrictEngine
from tests.kit.strict.schemas import token_table
from tests.kit.strict.tables import Table
from tests.kit.strict.trees import Item
from tests.simulation.determined import determined
from tests.simulation.ledger import MARGIN_MS, SKEW_MS, START_S, Ledger, milliseconds, state
from tests.simulation.machines import EFFECTS, TABLE, Final, Machine, MachineClock, TryAgain, Unsafe, Works
from tests.simulation.network import FAIR, LATEST_MS, Network
from tests.simulation.old_version import EARLY_MS, OLD, REFUSALS, context_until
from tests.simulation.outcomes import Outcomes
from tests.simulation.post import Message, Post
from tests.simulation.scenario import Scenario, scenario
from tests.simulation.scheduler import Sandbox, Scheduler
from tests.simulation.story import RECORDS, Counterexample, Story

QUIET_MS = 40_000
"""When misfortunes end."""
FINISHED_MS = QUIET_MS + LATEST_MS + 10_000
"""When the last delayed request has arrived."""
ROUND_MS = 40_000
"""Between two deliveries afterwards: longer than any lease that is not renewed."""
ROUNDS = 8
COLLEAGUE_MS = 2_000
"""How much later another operator looks at what waits."""
LATE_KILL_MS = 700
"""How late a sandbox may be killed: what was seen on Lambda."""
EXPECTED = (OnceError, TryAgain, Final, Unsafe, *REFUSALS)
"""What callers may get; anything else is a mistake, and ends the schedule."""


def play(seed: int) -> Story:
    """Play the schedule of *seed*. Raises as `play_out`."""
    return play_out(scenario(seed))


def play_out(found: Scenario) -> Story:
    """Play the schedule of *found*. Raises `Counterexample`, with its story, where a promise is broken."""
    with determined(found.seed):
        schedule = Schedule(found)
        schedule.run()
    story = schedule.story
    if story.broken:
        summary = f"seed {found.seed}: {story.broken[0]}"
        raise Counterexample(f"{summary}\n{found}\n{story.text()}\n{summary}")
    return story


class Schedule:
    """One table, its machines, and the messages that come to them."""

    def __init__(self, found: Scenario) -> None:
        self.scenario = found
        self.rng = random.Random(f"schedule {found.seed}")
        self.scheduler = Scheduler()
        self.story = Story(lambda: self.scheduler.now)
        kept = (token_table(TABLE), Table(EFFECTS, "id"), Table(RECORDS, "id"))
        engine = StrictEngine(*kept, watch=self._watch)
        self.network = Network(self.scheduler, engine, self.story, self.rng)
        self.network.freeze = self._frozen
        self.ledger = Ledger(self.scheduler, self.network, self.story, found.lease)
        self.outcomes = Outcomes(self.ledger)
        self.post = Post.of(found, self.rng)
        works = Works(found, self.network, self.ledger, self.outcomes, self.rng)
        works.starting = self._starting
        self.records, self.endings = works.records, works.endings
        skew = SKEW_MS // 2 if found.expires else SKEW_MS
        self.machines = [
            works.machine(f"machine {n}", self.rng.randint(-skew, skew), rule)
            for n, rule in enumerate(found.on_lapse)
        ]
        if found.expires:
            self.machines.append(works.old_machine("the old version", self.rng.randint(-skew, skew)))
            self.ledger.completed = self.records.completed
        self._frozen_until: dict[Sandbox, int] = {}
        self._invocations = 0

    def run(self) -> None:
        self.network.weather = self.scenario.weather
        if self.scenario.outage:
            begins = self.rng.randrange(QUIET_MS // 2)
            self.network.outage = range(begins, begins + QUIET_MS // 2)
        for _ in range(self.scenario.deliveries + self.rng.randint(1, 4)):
            self.scheduler.at(self.rng.randrange(1, QUIET_MS // 2), self._deliver)
        for _ in range(4):
            self.scheduler.at(self.rng.randrange(QUIET_MS // 2, QUIET_MS), self._deliver)
        for when in (self.rng.randrange(QUIET_MS), self.rng.randrange(QUIET_MS, FINISHED_MS)):
            self.scheduler.at(when, self._operator)
            self.scheduler.at(when + COLLEAGUE_MS, self._operator)  # who may look at the very same row
            self.scheduler.at(self.rng.randrange(FINISHED_MS), self._sweep)
        self.scheduler.at(QUIET_MS, self._calm)
        for n in range(ROUNDS):
            self.scheduler.at(FINISHED_MS + n * ROUND_MS, self._round)
        self.scheduler.run()
        for message in self.post.open:
            self.story.breaks(f"message {message.id} was lost: it was never finished")

    # ---------------------------------------------------------------- deliveries

    def _deliver(self) -> None:
        """Deliver what waits, or some of it, to one of the machines."""
        fifo = self.scenario.face == "fifo"
        waiting = self.post.waiting(fifo=fifo)
        if not waiting:
            return
        machine = self.rng.choice(self.machines)
        if self.scenario.face == "event" or (not fifo and self.rng.random() < 0.2):
            self._invoke(machine, [self.rng.choice(waiting)], single=True)
            return
        some = waiting if fifo else self.rng.sample(waiting, self.rng.randint(1, len(waiting)))
        self._invoke(machine, some, single=False)

    def _invoke(self, machine: Machine, messages: list[Message], *, single: bool) -> None:
        self._invocations += 1
        name = f"call {self._invocations}"
        remaining = self.scenario.remaining
        sandbox = Sandbox(
            name, machine.skew, self.scheduler.now + machine.skew + remaining, on_lapse=machine.on_lapse
        )
        brought = ", ".join(f"{message.id} ({message.key}: {message.amount})" for message in messages)
        self.story.tell(name, f"{machine.name} ({machine.skew:+} ms, {machine.on_lapse}) gets {brought}")
        for message in messages:
            message.away = True
            message.received += 1
        # Lambda tries an asynchronous event again under the same request id.
        own = messages[0].id if single and self.rng.random() < 0.5 else str(self._invocations)
        context: Any = lambda_context(request_id=f"request {own}", remaining_ms=remaining)
        ends = self.scheduler.now + remaining
        if machine.on_lapse == OLD:
            context = context_until(ends, self.network)
            ends -= EARLY_MS

        def main() -> None:
            if single:
                self._called(sandbox, machine, messages[0], context)
            else:
                self._batched(sandbox, machine, messages, context)
            sandbox.over = True
            self._ended(sandbox)

        self.scheduler.start(sandbox, main)
        self.scheduler.at(ends + self.rng.randrange(LATE_KILL_MS), lambda: self._time_is_up(sandbox))
        self.scheduler.at(ends + LATE_KILL_MS + 1_000, lambda: self._visible(sandbox, messages))

    def _called(self, sandbox: Sandbox, machine: Machine, message: Message, context: Any) -> None:
        try:
            value = machine.single(message.body, context)
        except EXPECTED as error:
            self.story.tell(sandbox.name, f"raises {type(error).__name__}")
            self.outcomes.refused(sandbox, message.token, error)
            if isinstance(error, InProgress) and self.scenario.expires:
                self.records.in_progress(sandbox, message.token)
            self._failed(message, error)
        else:
            self.story.tell(sandbox.name, f"answers {value!r:.60}")
            if not (machine.on_lapse == OLD and value is None):  # it replays None for what is falsy
                self.outcomes.answered(sandbox, message.token, value)
            self._finished(message)
        message.away = False

    def _batched(self, sandbox: Sandbox, machine: Machine, messages: list[Message], context: Any) -> None:
        groups = [message.group for message in messages] if self.scenario.face == "fifo" else None
        event = sqs_event(
            *(message.body for message in messages), fifo_groups=groups, message_ids=[m.id for m in messages]
        )
        for record, message in zip(event["Records"], messages, strict=True):
            record["attributes"]["ApproximateReceiveCount"] = str(message.received)
        try:
            answer = machine.batch(event, context)
        except BatchProcessingError as error:
            self.story.tell(sandbox.name, f"raises {type(error).__name__}")
            failed = {message.id for message in messages}
        else:
            failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            self.story.tell(sandbox.name, f"gives back {', '.join(sorted(failed)) or 'nothing'}")
        for message in messages:
            message.away = False
            if message.id not in failed:
                self._finished(message)
            elif (
                message.payload not in self.outcomes.done[message.token] and self.outcomes.done[message.token]
            ):
                message.closed = True  # another payload was done under its key: it is for the dead letters

    def _finished(self, message: Message) -> None:
        if not message.closed:
            message.closed = True
            self.outcomes.acknowledged(message.token, message.payload)

    def _failed(self, message: Message, error: Exception) -> None:
        if isinstance(error, StoredError | ResultUnavailable):
            self._finished(message)
        elif isinstance(error, KeyReused):
            message.closed = True

    def _starting(self, message_id: str) -> None:
        if self.scenario.face != "fifo":
            return
        message = self.post.by_id(message_id)
        for one in self.post.before(message):
            if not (one.closed or one.payload in self.outcomes.done[one.token]):
                self.story.breaks(f"message {message.id} started before {one.id} of its group was finished")

    # ---------------------------------------------------------------- what befalls invocations

    def _ended(self, sandbox: Sandbox) -> None:
        if not self.scenario.expires:  # guarantee 11 does not cover a history
            self.endings.over(sandbox)

    def _frozen(self, sandbox: Sandbox, milliseconds_: int) -> None:
        self._frozen_until[sandbox] = self.scheduler.now + milliseconds_
        self.endings.excuse(sandbox)

    def _time_is_up(self, sandbox: Sandbox) -> None:
        """Kill what is still running; what is paused just then is forgotten, and goes on as a zombie."""
        if sandbox.over or sandbox.dead or self._frozen_until.get(sandbox, -1) >= self.scheduler.now:
            return
        self.story.tell(sandbox.name, "its time is up")
        self._ended(sandbox)
        self.network.troubled.add(sandbox)
        self.scheduler.kill(sandbox)

    def _visible(self, sandbox: Sandbox, messages: list[Message]) -> None:
        if not sandbox.over:
            for message in messages:
                message.away = False

    # ---------------------------------------------------------------- after the storm

    def _calm(self) -> None:
        self.network.weather, self.network.calm = FAIR, True
        self.story.tell("", "---------------- from here on all is well")

    def _round(self) -> None:
        if not self.post.open:
            return
        if self.rng.random() < 0.5:
            self._sweep()
        self._operator()
        for n in range(len(self.post.open) + 1):
            self.scheduler.at(self.scheduler.now + 2_000 + n * 300, self._deliver)

    def _sweep(self) -> None:
        """Delete some of what is past its ttl, as DynamoDB does, in any order."""
        table = self.network.engine.tables[TABLE]
        now = START_S + self.scheduler.now // 1000
        for key in self.rng.sample(sorted(table.items), len(table.items)):
            if (
                "ttl" in table.items[key]
                and int(table.items[key]["ttl"]["N"]) <= now
                and self.rng.random() < 0.7
            ):
                self.story.tell("ttl", f"deletes {key}")
                self.network.engine.delete(TABLE, key)

    def _operator(self) -> None:
        """A person looks at what is held or lapsed, finds out what was done, and says so."""
        for token, row in sorted(self.ledger.rows.items()):
            lapsed = milliseconds(row["expectedCompletion"]["S"]) + MARGIN_MS + SKEW_MS < self.scheduler.now
            waits = state(row) == "inProgress" and lapsed and ("ttl" not in row or self.scenario.watched)
            if state(row) == "error" or waits:
                self._resolve(token, row)

    def _resolve(self, token: str, row: Item) -> None:
        """Settle a token as the command line does it: the row that was read is decided about."""
        clock = MachineClock(self.scheduler, 0)
        sandbox = Sandbox("operator")
        done = bool(self.outcomes.effects[token])
        seen = record_of(row)

        def resolve() -> None:
            store = DynamoDBStore(TABLE, self.network.client())
            if not done:
                self.ledger.excused.add(seen.attempt_id)
                self.ledger.resolved.add(seen.attempt_id)
            author = Author("operator", "seen")
            write = decided(
                seen,
                Resolve.DONE if done else Resolve.NOT_DONE,
                author,
                clock.now(),
                result='{"by":"operator"}' if done else None,
                keep=timedelta(seconds=self.scenario.keep),
            )
            store.write([write], Deadline(clock, write.now.replace(year=2030)))

        self.ledger.seen_by_operators[sandbox] = row
        self.story.tell("operator", f"{token} is {state(row)}, and was {'done' if done else 'not done'}")
        self.scheduler.start(sandbox, resolve)

    def _watch(self, table: Table, key: str, before: Item | None, after: Item | None) -> None:
        if table.name == RECORDS:
            self.records.watch(key, before, after)
        elif table.name == EFFECTS:
            assert after is not None
            token, attempt, payload = (str(after[name]["S"]) for name in ("token", "id", "payload"))
            self.outcomes.effect(token, attempt)
            self.outcomes.done[token].add(payload)
        else:
            self.ledger.watch(table, key, before, after)
