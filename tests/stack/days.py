"""Days of traffic in the sample stack, as the metrics that they leave in CloudWatch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import inf
from random import Random
from typing import Final

from lambda_once.observability.events import Event

from .cloudwatch import Metrics, Series

DAY: Final = 1440
TROUBLE: Final = 600
"""The minute at which a scenario's trouble begins: ten o'clock."""

LEASE: Final = 32
"""Seconds: the functions' timeout, and the margin for late kills."""
VISIBILITY: Final = 180
"""Seconds until the queue delivers a message again."""
GRACE, NEW, RUNS, LONG = 10, 15 * 60, 5 * 60, 3600
"""Seconds of the watchdog: until a lease is overdue; of what is new; until released work runs; long ago."""
ROWS: Final = 1000
"""Overdue tokens that one of its runs checks."""

PAYMENTS, API, WATCHDOG = "PaymentsFunction", "OrdersApiFunction", "WatchdogFunction"
QUEUES: Final = ("PaymentsQueue", "FulfilmentQueue", "ReceiptsQueue", "LoyaltyQueue")
DEAD_LETTERS: Final = (
    *("PaymentsDeadLetters", "FulfilmentDeadLetters", "ReceiptsDeadLetters", "LoyaltyDeadLetters"),
    "FailedEvents",
)
FUNCTIONS: Final = (
    *(PAYMENTS, "FulfilmentFunction", "ReceiptsFunction", "LoyaltyFunction", "NotificationsFunction"),
    *("InvoicesFunction", "CatalogueFunction", "PricesFunction", "ContractsCleaner", "ContractsAnnouncer"),
)
STREAMS: Final = ("ContractsCleaner", "ContractsAnnouncer")


@dataclass(slots=True)
class Spell:
    """How long one token is lapsed, held or released, in seconds of the day."""

    since: float
    until: float = inf

    def at(self, second: float) -> bool:
        return self.since <= second < self.until


@dataclass
class Day:
    """What happens, and what is counted of it. Times are minutes, or seconds where they say so."""

    minutes: int = DAY
    random: Random = field(default_factory=lambda: Random(23))
    lapsed: list[Spell] = field(default_factory=list)
    held: list[Spell] = field(default_factory=list)
    released: list[Spell] = field(default_factory=list)
    alive: list[Spell] = field(default_factory=list)
    metrics: Metrics = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.minutes)

    # -- what is counted

    def count(self, event: Event, minute: float, times: int = 1, function: str = PAYMENTS) -> None:
        """Count *event* in the embedded metric format."""
        assert event.metric is not None
        if minute < self.minutes:
            dimensions = frozenset({("service", "orders"), ("function", function)})
            self.metrics.put(Series("Orders", event.metric, dimensions), int(minute), 1.0, times)

    def measure(self, minute: float, **values: float) -> None:
        """Write the watchdog's metrics."""
        dimensions = frozenset({("service", "orders"), ("function", WATCHDOG)})
        for name, value in values.items():
            self.metrics.put(Series("Orders", name, dimensions), int(minute), value)

    def aws(self, space: str, metric: str, minute: float, value: float, **dimensions: str) -> None:
        """Write a metric of AWS' own."""
        if minute < self.minutes:
            self.metrics.put(
                Series(f"AWS/{space}", metric, frozenset(dimensions.items())), int(minute), value
            )

    def fails(self, function: str, minute: float, metric: str = "Errors", times: int = 1) -> None:
        """Fail, or throttle, invocations of *function*."""
        self.aws("Lambda", metric, minute, float(times), FunctionName=function)

    def letters(self, queue: str, since: float, until: float = inf) -> None:
        """Keep a message in *queue*."""
        for minute in range(int(since), int(min(until, self.minutes))):
            self.aws("SQS", "ApproximateNumberOfMessagesVisible", minute, 1.0, QueueName=queue)

    def throttles(self, metric: str, minute: float, *, index: bool = False) -> None:
        """Throttle the token table, or its index."""
        own = {"GlobalSecondaryIndexName": "byStatus"} if index else {}
        self.aws("DynamoDB", metric, minute, 20.0, TableName="TokenTable", **own)

    # -- what happens

    def work(self, second: float, seconds: float) -> None:
        """Do one piece of work."""
        self.count(Event.ACQUIRED, second / 60)
        self.count(Event.COMPLETED, (second + seconds) / 60)
        self.alive.append(Spell(second, second + seconds))

    def die(self, second: float, seconds: float, *, redelivered: bool = True) -> None:
        """Die in a piece of work; the queue's redelivery takes it over, if there is one."""
        again = second + VISIBILITY + 5
        self.count(Event.ACQUIRED, second / 60)
        self.fails(PAYMENTS, (second + seconds) / 60)
        self.alive.append(Spell(second, second + LEASE))
        self.lapsed.append(Spell(second + LEASE, again if redelivered else inf))
        if redelivered:
            self.count(Event.TAKEN_OVER, again / 60)
            self.work(again, seconds)

    def hold(self, minute: float, until: float = inf) -> None:
        """Hold a payment for manual review; its message ends in the dead-letter queue."""
        self.count(Event.ACQUIRED, minute)
        self.count(Event.HELD, minute)
        self.held.append(Spell(minute * 60, until * 60))
        self.letters("PaymentsDeadLetters", minute + 15, until)

    def traffic(
        self,
        rate: float,
        seconds: tuple[float, float],
        dying: float = 0.0,
        size: int = 1,
    ) -> None:
        """Work at *rate* a second in groups of *size*; of those in trouble, the part *dying* dies."""
        second = 0.0
        while (second := second + self.random.expovariate(rate / size)) < self.minutes * 60:
            for _ in range(size):
                lasting = self.random.uniform(*seconds)
                if second >= TROUBLE * 60 and self.random.random() < dying:
                    self.die(second, lasting)
                else:
                    self.work(second, lasting)

    def usual(self) -> None:
        """Count what belongs to any day: metrics that AWS writes, duplicates, and what passes by itself."""
        for minute in range(0, self.minutes, 5):
            for queue in QUEUES:
                age = self.random.uniform(0, 5)
                self.aws("SQS", "ApproximateAgeOfOldestMessage", minute, age, QueueName=queue)
            for function in STREAMS:
                self.aws("Lambda", "IteratorAge", minute, 20_000.0, FunctionName=function)
        for hour in range(0, self.minutes, 60):
            for event in (Event.REPLAYED, Event.IN_PROGRESS, Event.SAME_CONTENT, Event.KEY_REUSED):
                self.count(event, hour + self.random.uniform(0, 59))
            declined = hour + self.random.uniform(0, 59)
            self.count(Event.FAILED, declined)
            self.count(Event.STORED, declined)
        for event in (Event.STORE_UNAVAILABLE, Event.PROBE_FAILED, Event.TAKEN_OVER):
            self.count(event, self.random.uniform(60, self.minutes))
        once = self.random.uniform(60, self.minutes)
        self.throttles("WriteThrottleEvents", once)
        self.aws("ApiGateway", "5xx", once, 1.0, ApiId="OrdersApi")
        self.fails(PAYMENTS, once, "Throttles")

    def watched(
        self,
        *,
        until: float = inf,
        release: bool = False,
        failing: float = inf,
        unread: float = inf,
        lagging: float = inf,
    ) -> None:
        """
        Run the watchdog every five minutes; *release*: it releases what it finds overdue.

        From *failing* on each run fails; from *unread* on after all else, for it cannot read the stream; from
        *lagging* on it stays where it is.
        """
        checked = 0
        began, ended = (sorted(getattr(each, end) for each in self.alive) for end in ("since", "until"))
        for tick in range(2, min(self.minutes, int(min(until, self.minutes))), 5):
            minute = tick + self.random.choice((0, 0, 0, 1))
            if minute >= failing:
                self.fails(WATCHDOG, minute)
                continue
            now = minute * 60.0
            overdue = [each for each in self.lapsed if each.at(now) and each.since <= now - GRACE]
            waiting = [each for each in self.released if each.at(now)]
            self.measure(
                minute,
                missingTasks=len(overdue),
                oldestOverdueSeconds=max((now - each.since for each in overdue), default=0.0),
                heldTokens=sum(each.at(now) for each in self.held),
                tokensInProgress=bisect_right(began, now) - bisect_right(ended, now),
                newlyOverdue=sum(each.since > now - NEW for each in overdue),
                releasedTokens=sum(each.since <= now - LONG for each in waiting),
                newlyReleased=sum(RUNS < now - each.since <= RUNS + NEW for each in waiting),
            )
            checked = checked + ROWS if checked + ROWS < len(overdue) else 0
            self.measure(minute, watchdogTruncated=float(checked > 0))
            if minute >= unread:
                self.fails(WATCHDOG, minute)
            else:
                self.measure(minute, streamLagSeconds=max(5.0, (minute - lagging) * 60))
            for each in overdue if release else []:
                each.until = now
                self.released.append(Spell(now))


# -- healthy days


def small(day: Day) -> None:
    """Work for half a second, every ten."""
    day.traffic(0.1, (0.2, 0.6))


def steady(day: Day) -> None:
    """Work for some seconds, every second."""
    day.traffic(1, (2, 20))


def in_tens(day: Day) -> None:
    """Work in batches of ten, a batch every five seconds."""
    day.traffic(2, (2, 25), size=10)


def slow(day: Day) -> None:
    """Work nearly as long as there is time."""
    day.traffic(1, (20, 29), size=10)


def blip(day: Day) -> None:
    """Throttle the table for a minute."""
    day.traffic(1, (2, 20))
    for metric in ("WriteThrottleEvents", "ReadThrottleEvents"):
        day.throttles(metric, TROUBLE)
    day.count(Event.STORE_UNAVAILABLE, TROUBLE, 40)
    day.aws("ApiGateway", "5xx", TROUBLE, 10.0, ApiId="OrdersApi")
    day.fails(PAYMENTS, TROUBLE, times=40)


def redriven(day: Day) -> None:
    """Release forty held payments of the night; the queue delivers them within two minutes."""
    for n in range(40):
        day.released.append(Spell((TROUBLE + n / 20) * 60, (TROUBLE + n / 20 + 2) * 60))


# -- work is lost


def lossy(day: Day) -> None:
    """Die in one of twenty."""
    day.traffic(1, (2, 20), dying=0.05)


def lossy_and_small(day: Day) -> None:
    """Die in one of twenty, where little happens."""
    day.traffic(0.1, (0.2, 0.6), dying=0.05)


def one_lost(day: Day) -> None:
    """Die in the last delivery of an event."""
    day.die(TROUBLE * 60, 5, redelivered=False)


def two_lost(day: Day) -> None:
    """Lose two events, an hour apart: the first is left where it is."""
    for minute in (TROUBLE, TROUBLE + 60):
        day.die(minute * 60, 5, redelivered=False)


def many_lost(day: Day) -> None:
    """Lose ten thousand events at once, which nobody delivers again."""
    day.lapsed.extend(Spell(TROUBLE * 60) for _ in range(10 * ROWS))


def piled_up(day: Day) -> None:
    """Wait for a slow provider, in leases of 15 minutes: each piece of work takes six of them."""
    day.traffic(0.1, (0.2, 0.6))
    for second in range(TROUBLE * 60, (TROUBLE + 60) * 60):
        day.work(second, 360)


# -- decisions


def weekend(day: Day) -> None:
    """Hold a payment on Friday evening; on Monday forty more, one every ten minutes."""
    day.hold(TROUBLE)
    for n in range(40):
        day.hold(TROUBLE + 2 * DAY + n * 10)


def released_without_delivery(day: Day) -> None:
    """Release forty held payments, one of which has lost its message."""
    redriven(day)
    day.released.append(Spell(TROUBLE * 60))


# -- the table, the functions, the queues


def throttled(day: Day) -> None:
    """Throttle the index for half an hour, and with it the table's writes."""
    for minute in range(TROUBLE, TROUBLE + 30):
        day.throttles("WriteThrottleEvents", minute, index=True)
        day.count(Event.STORE_UNAVAILABLE, minute, 20)
        day.aws("ApiGateway", "5xx", minute, 5.0, ApiId="OrdersApi")


def denied(day: Day) -> None:
    """Take a permission away; after five receives the messages are dead letters."""
    for minute in range(TROUBLE, TROUBLE + 60):
        day.count(Event.MISCONFIGURED, minute, 10)
        day.fails(PAYMENTS, minute, times=10)
        day.aws("ApiGateway", "5xx", minute, 5.0, ApiId="OrdersApi")
    day.letters("PaymentsDeadLetters", TROUBLE + 15)


def provider_down(day: Day) -> None:
    """Raise in all work for half an hour; it is released, and delivered again."""
    for minute in range(TROUBLE, TROUBLE + 30):
        day.count(Event.FAILED, minute, 60)
        day.count(Event.RELEASED, minute, 60)


def crowded(day: Day) -> None:
    """Use up the account's concurrency for twenty minutes."""
    for minute in range(TROUBLE, TROUBLE + 20):
        for function in FUNCTIONS:
            day.fails(function, minute, "Throttles", 5)


def unread(day: Day) -> None:
    """Leave a queue alone for an hour."""
    for minute in range(60):
        day.aws("SQS", "ApproximateAgeOfOldestMessage", TROUBLE + minute, minute * 60, QueueName=QUEUES[1])


def behind(day: Day) -> None:
    """Let a change that always fails stop its shard for forty minutes; then it is given up."""
    for minute in range(40):
        day.aws(
            "Lambda", "IteratorAge", TROUBLE + minute, minute * 60_000.0, FunctionName="ContractsAnnouncer"
        )
    day.letters("FailedEvents", TROUBLE + 40)


# -- what is counted once


def each_once(day: Day) -> None:
    """Count once, an hour apart, what no function may count."""
    for hour, event in enumerate(ONCE):
        day.count(event, 120 + 60 * hour)


ONCE: Final = (
    *(Event.FENCED, Event.COMPLETION_FAILED, Event.DISABLED, Event.RESULT_UNAVAILABLE, Event.POLICY_FAILED),
    *(Event.BAD_RECORD, Event.GIVEN_UP, Event.FULL, Event.TOO_FAR_AHEAD, Event.FELL_BACK, Event.UNSENT),
)


def bursts(day: Day) -> None:
    """Reuse twenty keys, overwrite twenty documents, and let the probe fail for half an hour."""
    day.count(Event.KEY_REUSED, 120, 20)
    day.count(Event.CONFLICT, 240, 20)
    for minute in range(360, 390, 2):
        day.count(Event.PROBE_FAILED, minute)


def dead_letters(day: Day) -> None:
    """Give up one message of each queue, an hour apart; it stays for an hour."""
    for hour, queue in enumerate(DEAD_LETTERS):
        day.letters(queue, 120 + 60 * hour, 180 + 60 * hour)


def watchdog_runs(day: Day) -> None:
    """Run it every five minutes; it only reports."""
    day.watched()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A day, or three, and how the watchdog runs in it."""

    says: str
    plays: Callable[[Day], None]
    watched: Callable[[Day], None] = watchdog_runs
    days: int = 1
    spread: bool = False
    """Whether its parts are hours apart: no minute is that of the trouble."""

    @cache  # noqa: B019  (scenarios live as long as this module)
    def metrics(self) -> Metrics:
        """Play it, once."""
        day = Day(self.days * DAY)
        day.usual()
        self.plays(day)
        self.watched(day)
        return day.metrics


SCENARIOS: Final = (
    Scenario("one order in ten seconds, of half a second", small),
    Scenario("one a second, of 2 to 20 s", steady),
    Scenario("two a second in tens, of 2 to 25 s", in_tens),
    Scenario("one a second in tens, slow: 20 to 29 s", slow),
    Scenario("the table throttles for a minute", blip),
    Scenario("forty held payments are released, and delivered again", redriven),
    Scenario("5 % of one a second die, and are delivered again", lossy),
    Scenario("5 % of one in ten seconds die, and are delivered again", lossy_and_small),
    Scenario("two events are lost, an hour apart", two_lost),
    Scenario("an event is lost; the watchdog releases it", one_lost, lambda day: day.watched(release=True)),
    Scenario("10,000 events are lost at once", many_lost),
    Scenario("work takes 6 minutes for an hour, in longer leases", piled_up),
    Scenario("a payment is held on Friday, forty on Monday", weekend, days=3),
    Scenario("forty are released, of which one has no delivery left", released_without_delivery),
    Scenario("the watchdog's schedule is disabled", small, lambda day: day.watched(until=TROUBLE)),
    Scenario("the watchdog fails", small, lambda day: day.watched(failing=TROUBLE)),
    Scenario("the table's stream is off", small, lambda day: day.watched(unread=TROUBLE)),
    Scenario("a shard of the stream is not read on", small, lambda day: day.watched(lagging=TROUBLE)),
    Scenario("the index throttles for half an hour", throttled),
    Scenario("a permission is missing", denied),
    Scenario("the work raises for half an hour", provider_down),
    Scenario("the account's concurrency is used up for 20 minutes", crowded),
    Scenario("a queue is left alone for an hour", unread),
    Scenario("a change stops its shard, until it is given up", behind),
    Scenario("one of each, an hour apart", each_once, spread=True),
    Scenario("keys are reused, documents overwritten; probes fail", bursts, spread=True),
    Scenario("a message in each dead-letter queue", dead_letters, spread=True),
)
