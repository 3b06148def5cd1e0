"""The story, scene by scene, each with what it promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from .answers import ACKNOWLEDGED, BACK, DEAD, SILENT
from .outside import GATEWAY, POWER_CUT, WAREHOUSE
from .stage import Stage, Step

API = "OrdersApiFunction"
PAYMENTS = "PaymentsFunction"
FULFILMENT = "FulfilmentFunction"
FUNCTIONS = (API, PAYMENTS, FULFILMENT)

GIVEN_UP = "dead letters"


@dataclass(frozen=True, slots=True)
class Promise:
    """How a scene ends if the layer does its work."""

    effects: tuple[str, ...]
    """Everything that happens outside, in order."""
    counted: Mapping[str, int]
    """Every metric that is counted."""
    answers: tuple[str, ...]
    """What each delivery is answered."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing that goes wrong in production, played through."""

    title: str
    play: Callable[[Stage], list[Step]]
    promise: Promise
    verdict: str
    """What it comes down to where the promise is kept."""

    def broken(self, steps: list[Step]) -> tuple[str, ...]:
        """Say where *steps* are not as promised; nothing where they are."""
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


def _deliveries(function: str, *files: str) -> Callable[[Stage], list[Step]]:
    """Return a scene in which *files* are delivered one after the other."""
    return lambda stage: [stage.deliver(function, file) for file in files]


def _two_at_once(stage: Stage) -> list[Step]:
    """Stop one click inside the gateway, answer the other, and only then let the gateway charge."""
    begun, started = stage.begin(API, "http-api-pay-5", GATEWAY)
    other = stage.deliver(API, "http-api-pay-5-retry")
    finished = stage.go_on(begun)
    return [started.then(finished), other]


def _crash(function: str, file: str) -> Callable[[Stage], list[Step]]:
    """Return a scene in which the machine dies behind the effect, and the message is delivered again."""

    def play(stage: Stage) -> list[Step]:
        _, died = stage.begin(function, file, POWER_CUT)
        stage.let_leases_lapse(function)
        again = stage.deliver(function, f"{file}-redelivery")
        return [replace(died, got=DEAD) if died.got == SILENT else died, again]

    return play


def _late(stage: Stage) -> list[Step]:
    """Let an attempt that was taken for dead finish behind its successor."""
    begun, started = stage.begin(FULFILMENT, "sqs-order", WAREHOUSE)
    stage.let_leases_lapse(FULFILMENT)
    successor = stage.deliver(FULFILMENT, "sqs-order-redelivery")
    woken = stage.go_on(begun)
    return [started, successor, replace(woken, delivered="the first wakes up")]


def _until_dead_letters(stage: Stage) -> list[Step]:
    """Deliver a payment whose gateway gives no answer as often as its queue does."""
    times = stage.deliveries("PaymentsQueue")
    first = stage.deliver(PAYMENTS, "sqs-payment-timeout")
    again = [
        stage.deliver(PAYMENTS, "sqs-payment-timeout-redelivery", receives=receives)
        for receives in range(2, times + 1)
    ]
    together = reduce(Step.then, again)
    answers = {step.got for step in again}
    got = GIVEN_UP if answers == {BACK} else " / ".join(sorted(answers))
    return [first, replace(together, delivered=f"2nd to {times}th time", got=got)]


NEW = {"started": 1, "completed": 1}

SCENES = (
    Scene(
        "A payment arrives",
        _deliveries(PAYMENTS, "sqs-payment"),
        Promise(("charged pay_12345",), NEW, (ACKNOWLEDGED,)),
        "charged once",
    ),
    Scene(
        "…and comes again",
        _deliveries(PAYMENTS, "sqs-payment-redelivery"),
        Promise((), {"replayed": 1}, (ACKNOWLEDGED,)),
        "still charged once",
    ),
    Scene(
        "Twins in one batch",
        _deliveries(FULFILMENT, "sqs-batch-twins"),
        Promise(("shipped order_12351",), NEW, (f"2 {ACKNOWLEDGED}",)),
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
        "Same key, other order",
        _deliveries(API, "http-api-order-same-key-other-body"),
        Promise((), {"keyReused": 1}, ("422",)),
        "refused, not lost",
    ),
    Scene(
        "The warehouse is busy",
        _deliveries(FULFILMENT, "sqs-order-flaky", "sqs-order-flaky-redelivery"),
        Promise(
            ("shipped order_12349",),
            {"started": 2, "errors": 1, "released": 1, "completed": 1},
            (BACK, ACKNOWLEDGED),
        ),
        "retried (RELEASE)",
    ),
    Scene(
        "The card is declined",
        _deliveries(PAYMENTS, "sqs-payment-declined", "sqs-payment-declined-redelivery"),
        Promise((), {"started": 1, "errors": 1, "stored": 1}, (ACKNOWLEDGED, ACKNOWLEDGED)),
        "stored (STORE)",
    ),
    Scene(
        "The gateway is silent",
        _until_dead_letters,
        Promise(("charged pay_12347",), {"started": 1, "errors": 1, "held": 1}, (BACK, GIVEN_UP)),
        "charged once (HOLD)",
    ),
    Scene(
        "A crash while shipping",
        _crash(FULFILMENT, "sqs-order-crash"),
        Promise(
            ("shipped order_12350",),
            {"started": 2, "takenOver": 1, "completed": 1},
            (DEAD, ACKNOWLEDGED),
        ),
        "shipped once, by key",
    ),
    Scene(
        "…and while charging",
        _crash(PAYMENTS, "sqs-payment-crash"),
        Promise(("charged pay_12348",), {"started": 1}, (DEAD, BACK)),
        "charged once, held",
    ),
    Scene(
        "The dead one wakes up",
        _late,
        Promise(
            ("shipped order_12345",),
            {"started": 2, "takenOver": 1, "completed": 1, "fenced": 1, "replayed": 1},
            (SILENT, ACKNOWLEDGED, ACKNOWLEDGED),
        ),
        "fenced, shipped once",
    ),
)
