"""Two places in the code with one default name and key: the work of the second would never run."""

# ruff: noqa: SIM117  (blocks beside each other are the subject)

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lambda_once import Misconfigured, Once
from lambda_once.core.lifecycle import State
from lambda_once.engine import places
from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import batch, sqs_record

DECLINED = RuntimeError("declined")


def two_blocks(once: Once, order: object, done: list[str], **options: Any) -> None:
    """A helper with two effects."""
    with once.begin(order, **options) as attempt:
        if not attempt.replayed:
            done.append("charge")
    with once.begin(order, **options) as attempt:
        if not attempt.replayed:
            done.append("mail")


def handler_of(rig: Rig, work: Callable[[object], object]) -> Callable[..., Any]:
    """A handler of batches that calls *work* with the body of each record."""

    @rig.once.sqs(raise_on_entire_batch_failure=False)
    def handler(record: Any) -> None:
        work(record.body)

    return handler


def failures(answer: Any) -> int:
    """How many records *answer* names."""
    return len(answer["batchItemFailures"])


def test_two_blocks_of_one_helper(rig: Rig) -> None:
    """The second is refused, at the first delivery and at each redelivery; with names both run, once."""
    done: list[str] = []
    handler = handler_of(rig, lambda order: two_blocks(rig.once, order, done))
    for request in ("request-1", "request-2"):
        assert failures(handler(batch(sqs_record("o-1")), rig.context(request))) == 1
    assert done == ["charge"]
    errors = [each.reason for each in rig.reported if each.event == "once.misconfigured"]
    assert len(errors) == 2
    for words in ("two_blocks/o-1", "test_places.py:", "give each a name"):
        assert words in str(errors[0])
    assert rig.events().count("once.replayed") == 1  # the first block's, at the redelivery


@in_memory
def test_a_name_for_each(rig: Rig) -> None:
    """The way out that the message names."""
    done: list[str] = []

    def work(order: object) -> None:
        for name in ("charge", "mail"):
            with rig.once.begin(order, name=name) as attempt:
                if not attempt.replayed:
                    done.append(name)

    handler = handler_of(rig, work)
    for request in ("request-1", "request-2"):
        assert failures(handler(batch(sqs_record("o-1")), rig.context(request))) == 0
    assert done == ["charge", "mail"]


@in_memory
def test_one_name_for_both_is_meant(rig: Rig) -> None:
    """With name= the places share the token on purpose."""
    done: list[str] = []
    handler = handler_of(rig, lambda order: two_blocks(rig.once, order, done, name="both"))
    assert failures(handler(batch(sqs_record("o-1")), rig.context())) == 0
    assert done == ["charge"]


@in_memory
def test_async_blocks(rig: Rig) -> None:
    """The same of `async with`, in tasks that run at once."""

    async def work(order: object) -> None:
        async with rig.once.begin(order):
            await asyncio.to_thread(len, "")
        async with rig.once.begin(order):
            pass

    @rig.once.sqs(raise_on_entire_batch_failure=False)
    async def handler(record: Any) -> None:
        await work(record.body)

    assert (
        failures(handler(batch(sqs_record("o-1", id_="a"), sqs_record("o-2", id_="b")), rig.context())) == 2
    )


@in_memory
def test_in_an_invocation_without_a_record(rig: Rig) -> None:
    """A handler without a decorator, in `once.invocation`: all of it is one piece of work."""
    done: list[str] = []
    with rig.once.invocation(rig.context()):
        with pytest.raises(Misconfigured, match="would never run"):
            two_blocks(rig.once, "o-1", done)
    assert done == ["charge"]


@in_memory
def test_outside_of_an_invocation_nothing_is_seen(rig: Rig) -> None:
    """Each block is an invocation of its own there: a limit that the guarantees name."""
    done: list[str] = []
    two_blocks(rig.once, "o-1", done)
    assert done == ["charge"]


# ------------------------------------------------------------------ what stays a duplicate


def _loop(rig: Rig, order: object) -> None:
    for _ in range(3):
        with rig.once.begin(order):
            pass


def _retry_at_another_place(rig: Rig, order: object) -> None:
    with suppress(RuntimeError):
        with rig.once.begin(order):
            raise DECLINED
    with rig.once.begin(order) as attempt:
        assert not attempt.replayed


def _finally(rig: Rig, order: object) -> None:
    """The compiler writes a `finally` twice: for the way out, and for an exception."""
    for fails in (False, True):
        with suppress(RuntimeError):
            try:
                if fails:
                    raise DECLINED
            finally:
                with rig.once.begin(order):
                    pass


def _helper(rig: Rig, order: object) -> Any:
    return rig.once.begin(order)


def _one_helper(rig: Rig, order: object) -> None:
    with _helper(rig, order):
        pass
    with _helper(rig, order):
        pass


def _nested_function(rig: Rig, order: object) -> None:
    def block() -> None:
        with rig.once.begin(order):
            pass

    block()
    block()


DUPLICATES = [_loop, _retry_at_another_place, _finally, _one_helper, _nested_function]


@in_memory
@pytest.mark.parametrize("work", DUPLICATES)
def test_a_duplicate_is_no_mistake(rig: Rig, work: Callable[[Rig, object], None]) -> None:
    """Loops, retries and helpers come back to a token."""
    handler = handler_of(rig, lambda order: work(rig, order))
    assert failures(handler(batch(sqs_record("o-1")), rig.context())) == 0
    with rig.once.invocation(rig.context("request-2")):
        work(rig, "o-2")
    assert set(rig.states()) == {State.COMPLETE}


@in_memory
def test_twins_of_a_batch_may_take_two_branches(rig: Rig) -> None:
    """Records are apart: the second gets the outcome of the first, wherever it asks."""
    bodies: list[object] = []

    def work(body: object) -> None:
        bodies.append(body)
        if len(bodies) == 1:
            with rig.once.begin("o-1") as attempt:
                assert not attempt.replayed
        else:
            with rig.once.begin("o-1") as attempt:
                assert attempt.replayed

    handler = handler_of(rig, work)
    assert failures(handler(batch(sqs_record("a", id_="a"), sqs_record("b", id_="b")), rig.context())) == 0
    assert len(bodies) == 2


@in_memory
def test_another_table_is_another_token(rig: Rig) -> None:
    """Two `Once` with one service and key: each block has an outcome of its own."""
    other = Rig()

    def work(order: object) -> None:
        with rig.once.begin(order):
            pass
        with other.once.begin(order):
            pass

    handler = handler_of(rig, work)
    for request in ("request-1", "request-2"):
        assert failures(handler(batch(sqs_record("o-1")), rig.context(request))) == 0


# ------------------------------------------------------------------ functions


@in_memory
def test_two_nested_functions_of_one_name(rig: Rig) -> None:
    """`run` and `function` are places, too: that of the def."""

    def twice(make: Callable[[int], Callable[[], int]]) -> None:
        for number in (1, 2):
            rig.once.run("o-1", make(number))

    def make(number: int) -> Callable[[], int]:
        if number == 1:

            def work() -> int:
                return 1
        else:

            def work() -> int:
                return 2

        return work

    with rig.once.invocation(rig.context()), pytest.raises(Misconfigured, match="run_as"):
        twice(make)
    with rig.once.invocation(rig.context("request-2")):
        twice(lambda _: make(1))


@in_memory
def test_twin_without_places_the_second_effect_is_lost(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is deleted, and the mail was never sent."""
    monkeypatch.setattr(places, "check", lambda *_: None)
    done: list[str] = []
    handler = handler_of(rig, lambda order: two_blocks(rig.once, order, done))
    assert failures(handler(batch(sqs_record("o-1")), rig.context())) == 0
    assert done == ["charge"]
