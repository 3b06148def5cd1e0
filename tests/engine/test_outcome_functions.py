"""
Finishing with a `codec=` and a `seal=`, functions of the developer's, that fail at any of their calls.

The work is done by then: it is never done again, whatever fails, and whatever comes later gets its outcome or
is refused.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_once import HOLD, STORE, Done, Once, OnceError, ResultUnavailable, RetryLater
from lambda_once.observability.reporter import Tally
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig

RESULT = {"charged": 5}
DECLINED = "declined"


class KeyServiceDown(RetryLater):
    """The key service does not answer."""


class Failing:
    """Functions for ``codec=`` and ``seal=``, whose call number *fails_at*, from 0, raises *error*."""

    def __init__(self, error: BaseException, fails_at: int) -> None:
        self.has_failed = False
        self._error = error
        self._left = fails_at

    def options(self) -> dict[str, Any]:
        """Return the options of a decorator."""
        return {
            "codec": (self._wrapped(lambda value: [value]), self._wrapped(lambda data: data[0])),
            "seal": (self._wrapped(lambda data, _: data[::-1]), self._wrapped(lambda data, _: data[::-1])),
        }

    def _wrapped(self, works: Callable[..., Any]) -> Callable[..., Any]:
        def one(value: Any) -> Any:
            return self._call(works, value)

        def two(value: Any, token: Any) -> Any:
            return self._call(works, value, token)

        return one if works.__code__.co_argcount == 1 else two

    def _call(self, works: Callable[..., Any], *args: Any) -> Any:
        self._left -= 1
        if self._left == -1:
            self.has_failed = True
            raise self._error
        return works(*args)


class Order:
    """An order, charged under one key; how often."""

    def __init__(self, once: Once) -> None:
        self.once = once
        self.charged = 0

    def charge(self, *_: Any) -> dict[str, Any]:
        self.charged += 1
        return dict(RESULT)

    def decline(self, *_: Any) -> None:
        self.charged += 1
        raise ValueError(DECLINED)


Way = Callable[[Rig, Order, dict[str, Any]], Callable[[], Any]]
"""From a rig, an order and the options: what delivers the order."""


def _protected(once: Once, does: Callable[[], Any], options: dict[str, Any]) -> Callable[[int], Any]:
    @once.function(**{"key": "n", "name": "charge"} | options)
    def work(n: int) -> Any:
        return does()

    return work


def function(_rig: Rig, order: Order, options: dict[str, Any]) -> Callable[[], Any]:
    """Return what calls a function."""
    work = _protected(order.once, order.charge, options)
    return lambda: work(5)


def coroutine(_rig: Rig, order: Order, options: dict[str, Any]) -> Callable[[], Any]:
    """Return what calls an async function."""

    async def charge(n: int) -> Any:
        return order.charge()

    work = order.once.function(key="n", name="charge", **options)(charge)
    return lambda: asyncio.run(work(5))


def block(_rig: Rig, order: Order, options: dict[str, Any]) -> Callable[[], Any]:
    """Return what enters a block, and completes it."""

    def deliver() -> Any:
        with order.once.begin("5", name="charge", **options) as attempt:
            return attempt.result if attempt.replayed else attempt.complete(order.charge())

    return deliver


def transaction(rig: Rig, order: Order, options: dict[str, Any]) -> Callable[[], Any]:
    """Return what charges in a transaction."""

    def charge(n: int) -> Any:
        result = order.once.current().transact([rig.ground.booking], dict(RESULT))
        order.charged += 1
        return result

    work = order.once.function(key="n", name="charge", **options)(charge)
    return lambda: work(5)


def queue(rig: Rig, order: Order, options: dict[str, Any]) -> Callable[[], Any]:
    """Return what delivers a message. A queue has no codec: it stores None."""
    del options["codec"]
    handler = order.once.sqs(name="charge", raise_on_entire_batch_failure=False, **options)(order.charge)

    def deliver() -> Any:
        if handler(sqs_event("5"), rig.context())["batchItemFailures"]:
            raise KeyServiceDown("again")  # as the queue understands it: again, later
        return RESULT

    return deliver


def probed(rig: Rig, order: Order, options: dict[str, Any]) -> Callable[[], Any]:
    """Return what finds a killed attempt, whose probe knows that it charged."""
    options = {"on_lapse": lambda *_: Done(dict(RESULT)), **options}
    work = _protected(order.once, order.charge, options)
    plain = _protected(order.once, order.charge, {"name": work})
    with rig.crash():
        plain(5)
    rig.clock.advance(1000)
    return lambda: work(5)


def declined(_rig: Rig, order: Order, options: dict[str, Any]) -> Callable[[], Any]:
    """Return what calls a function that fails after its charge."""
    work = _protected(order.once, order.decline, options)
    return lambda: work(5)


WAYS = [function, coroutine, block, transaction, queue, probed]
ERRORS = [RuntimeError("broken"), KeyServiceDown("later"), SystemExit(3), KeyboardInterrupt()]


def failures(way: Way, error: BaseException, **options: Any) -> Iterator[tuple[Order, list[Any]]]:
    """Yield the order and the answers to four deliveries, for each call that may fail."""
    for fails_at in itertools.count():
        rig, failing = Rig(), Failing(error, fails_at)
        order = Order(rig.once)
        deliver = way(rig, order, failing.options() | options)
        answers: list[Any] = []
        for _ in range(4):
            try:
                answers.append(deliver())
            except (OnceError, RuntimeError, ValueError, SystemExit, KeyboardInterrupt) as raised:
                answers.append(raised)
            rig.clock.advance(1000)
        yield order, answers
        if not failing.has_failed:
            return


OF_EACH_ERROR = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


@OF_EACH_ERROR
@pytest.mark.parametrize("way", WAYS)
def test_done_work_is_never_repeated(way: Way, error: BaseException) -> None:
    """Duplicates get the result or `ResultUnavailable`; what interrupts, or is to be retried, comes once."""
    for order, answers in failures(way, error):
        assert order.charged == 1
        raised = [answer for answer in answers if isinstance(answer, type(error))]
        assert len(raised) <= 1
        assert all(
            answer == RESULT or answer in raised or isinstance(answer, ResultUnavailable)
            for answer in answers
        )


@OF_EACH_ERROR
@pytest.mark.parametrize("policy", [STORE, HOLD])
def test_failed_work_is_never_repeated(policy: Any, error: BaseException) -> None:
    """Neither if its message cannot be sealed, nor if it cannot be opened."""
    for order, answers in failures(declined, error, on_error=policy):
        assert order.charged == 1
        assert isinstance(answers[0], ValueError) or answers[0] is error
        assert all(isinstance(answer, OnceError) or answer is error for answer in answers[1:])


@pytest.mark.parametrize("way", [function, coroutine, block, queue])
def test_twin_that_is_interrupted_at_once(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interruption that is not kept until the outcome is written costs a second charge."""

    def interrupt(_: Tally, error: BaseException) -> None:
        raise error

    monkeypatch.setattr(Tally, "interrupt", interrupt)
    assert max(order.charged for order, _ in failures(way, SystemExit(3))) > 1


@OF_EACH_ERROR
def test_the_schedules_reach_every_call(error: BaseException) -> None:
    """Three write, seal and read back what is stored; two open and read it for each of three duplicates."""
    assert sum(1 for _ in failures(function, error)) == 10
