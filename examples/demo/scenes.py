"""The scenes, each with its promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from .answers import ACKNOWLEDGED, BACK, DEAD, SILENT
from .driver import Driver, Step
from .world import GATEWAY, POWER_CUT, WAREHOUSE

API = "OrdersApiFunction"
PAYMENTS = "PaymentsFunction"
FULFILMENT = "FulfilmentFunction"
FUNCTIONS = (API, PAYMENTS, FULFILMENT)

DEAD_LETTERED = "dead letters"


@dataclass(frozen=True, slots=True)
class Promise:
    """How a scene ends if lambda-once does its work."""

    effects: tuple[str, ...]
    """All effects on other systems, in order."""
    counted: Mapping[str, int]
    """All metrics."""
    answers: tuple[str, ...]
    """The answer to each delivery."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing that goes wrong in production."""

    title: str
    play: Callable[[Driver], list[Step]]
    promise: Promise
    verdict: str
    """The summary that is printed if the promise is kept."""

    def broken(self, steps: list[Step]) -> tuple[str, ...]:
        """Return how *steps* differ from the promise."""
        effects = tuple(effect for step in steps for effect in step.ran)
        counted = sum((step.counted for step in steps), Counter[str]())
        answers = tuple(step.got for step in steps)
        found = [*_miscounted(Counter(effects), Counter(self.promise.effects))]
        if answers != self.promise.answers:
            found.append(f"answered {' / '.join(answers)}, promised {' / '.join(self.promise.answers)}")
        found += _miscounted(counted, Counter(self.promise.counted))
        return tuple(found)


def _miscounted(found: Counter[str], promised: Counter[str]) -> list[str]:
    return [
        f"{found[name]}× {name}, promised {promised[name]}×"
        for name in sorted(found.keys() | promised.keys())
        if found[name] != promised[name]
    ]


def _deliveries(function: str, *files: str) -> Callable[[Driver], list[Step]]:
    """Return a scene in which *files* are delivered one after the other."""
    return lambda driver: [driver.deliver(function, file) for file in files]


def _both_in_one_batch(driver: Driver) -> list[Step]:
    """Deliver one message twice in one batch."""
    return [replace(driver.deliver(FULFILMENT, "sqs-batch-twins"), delivered="both")]


def _two_at_once(driver: Driver) -> list[Step]:
    """Pause the first request inside the gateway, answer the second, then resume the first."""
    paused, started = driver.pause(API, "http-api-pay-5", GATEWAY)
    other = driver.deliver(API, "http-api-pay-5-retry")
    finished = driver.resume(paused)
    return [started.then(finished), other]


def _crash(function: str, file: str) -> Callable[[Driver], list[Step]]:
    """Return a scene in which the sandbox crashes after the effect, and the message is delivered again."""

    def play(driver: Driver) -> list[Step]:
        _, died = driver.pause(function, file, POWER_CUT)
        driver.let_leases_lapse(function)
        again = driver.deliver(function, f"{file}-redelivery")
        return [replace(died, got=DEAD) if died.got == SILENT else died, again]

    return play


def _late(driver: Driver) -> list[Step]:
    """Let an attempt whose lease has lapsed finish after the attempt that took over."""
    paused, started = driver.pause(FULFILMENT, "sqs-order", WAREHOUSE)
    driver.let_leases_lapse(FULFILMENT)
    successor = driver.deliver(FULFILMENT, "sqs-order-redelivery")
    woken = driver.resume(paused)
    return [started, successor, replace(woken, delivered="1st late")]


def _until_dead_letters(driver: Driver) -> list[Step]:
    """Deliver a payment as often as its queue does; the gateway does not answer."""
    times = driver.deliveries("PaymentsQueue")
    first = driver.deliver(PAYMENTS, "sqs-payment-timeout")
    again = [
        driver.deliver(PAYMENTS, "sqs-payment-timeout-redelivery", receives=receives)
        for receives in range(2, times + 1)
    ]
    together = reduce(Step.then, again)
    answers = {step.got for step in again}
    got = DEAD_LETTERED if answers == {BACK} else " / ".join(sorted(answers))
    return [first, replace(together, delivered=f"2nd–{times}th", got=got)]


NEW = {"started": 1, "completed": 1}

SCENES = (
    Scene(
        "Payment sent twice",
        _deliveries(PAYMENTS, "sqs-payment", "sqs-payment-redelivery"),
        Promise(("charged pay_12345",), {**NEW, "replayed": 1}, (ACKNOWLEDGED, ACKNOWLEDGED)),
        "charged once",
    ),
    Scene(
        "Twice in one batch",
        _both_in_one_batch,
        Promise(("shipped order_12351",), NEW, (ACKNOWLEDGED,)),
        "shipped once",
    ),
    Scene(
        "Two clicks at once",
        _two_at_once,
        Promise(("charged 5",), {**NEW, "inProgress": 1}, ("200", "409, try later")),
        "charged once",
    ),
    Scene(
        "An API client retries",
        _deliveries(API, "http-api-order", "http-api-order-retry"),
        Promise(("created order_12345",), {**NEW, "replayed": 1}, ("201", "201, replayed")),
        "created once",
    ),
    Scene(
        "Same key, other body",
        _deliveries(API, "http-api-order-same-key-other-body"),
        Promise((), {"keyReused": 1}, ("422",)),
        "refused, not lost",
    ),
    Scene(
        "Warehouse is busy",
        _deliveries(FULFILMENT, "sqs-order-flaky", "sqs-order-flaky-redelivery"),
        Promise(
            ("shipped order_12349",),
            {"started": 2, "errors": 1, "released": 1, "completed": 1},
            (BACK, ACKNOWLEDGED),
        ),
        "retried (RELEASE)",
    ),
    Scene(
        "Card is declined",
        _deliveries(PAYMENTS, "sqs-payment-declined", "sqs-payment-declined-redelivery"),
        Promise((), {"started": 1, "errors": 1, "stored": 1}, (ACKNOWLEDGED, ACKNOWLEDGED)),
        "stored (STORE)",
    ),
    Scene(
        "Gateway times out",
        _until_dead_letters,
        Promise(("charged pay_12347",), {"started": 1, "errors": 1, "held": 1}, (BACK, DEAD_LETTERED)),
        "charged once (HOLD)",
    ),
    Scene(
        "Crash while shipping",
        _crash(FULFILMENT, "sqs-order-crash"),
        Promise(
            ("shipped order_12350",),
            {"started": 2, "takenOver": 1, "completed": 1},
            (DEAD, ACKNOWLEDGED),
        ),
        "shipped once",
    ),
    Scene(
        "Crash while charging",
        _crash(PAYMENTS, "sqs-payment-crash"),
        Promise(("charged pay_12348",), {"started": 1}, (DEAD, BACK)),
        "charged once",
    ),
    Scene(
        "An attempt is late",
        _late,
        Promise(
            ("shipped order_12345",),
            {"started": 2, "takenOver": 1, "completed": 1, "fenced": 1, "replayed": 1},
            (SILENT, ACKNOWLEDGED, ACKNOWLEDGED),
        ),
        "shipped once",
    ),
)
