"""`once.begin` and `once.run`: the explicit forms."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextvars import copy_context
from typing import Any

import pytest

from lambda_once import HOLD, Held, KeyMissing, KeyReused, Misconfigured
from lambda_once.core.lifecycle import State
from lambda_once.engine.invocation import current_invocation
from tests.decorators.rig import Rig, in_memory, on_every_store


@on_every_store
def test_the_block_runs_once(rig: Rig) -> None:
    """The second block is given the first one's result instead of an attempt."""

    def create(order: int) -> Any:
        with rig.once.begin(order, name="orders", scope="acme") as attempt:
            if attempt.replayed:
                return "replayed", attempt.result
            return "new", attempt.complete({"order": order})

    assert create(5) == ("new", {"order": 5})
    assert create(5) == ("replayed", {"order": 5})
    assert rig.row().token.startswith("shop/orders/acme/")


def test_leaving_cleanly_completes_with_none(rig: Rig) -> None:
    """A block that does not complete is complete all the same; that of a duplicate cannot complete."""
    with rig.once.begin("k", name="n") as first:
        assert not first.replayed
    with rig.once.begin("k", name="n") as second:
        assert (second.replayed, second.result) == (True, None)
    with pytest.raises(Misconfigured, match=r"\.replayed"), rig.once.begin("k", name="n") as third:
        third.complete(1)
    assert rig.row().state is State.COMPLETE


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_an_exception_leaves_by_on_error(rig: Rig, is_async: bool) -> None:
    """RELEASE lets the next one in; HOLD keeps it out."""

    async def left(**options: Any) -> None:
        if is_async:
            async with rig.once.begin("k", name="work", **options):
                raise ValueError("x")
        with rig.once.begin("k", name="work", **options):
            raise ValueError("x")

    for options, state in (({}, State.RELEASED), ({"on_error": HOLD}, State.HELD)):
        with pytest.raises(ValueError, match="x"):
            asyncio.run(left(**options))
        assert rig.row().state is state
    with pytest.raises(Held):
        asyncio.run(left())


def test_an_abandoned_block_leaves_the_current_invocation(rig: Rig) -> None:
    """Collected within a later invocation, it does not end that one."""
    abandoned = [rig.once.begin("k", name="n")]
    copy_context().run(abandoned[0].__enter__)
    with rig.once.invocation(later := rig.context(seconds=60)):
        abandoned.clear()
        gc.collect()
        found = current_invocation()
        assert found is not None
        assert found.context is later


def test_what_was_completed_stays(rig: Rig) -> None:
    """An exception after complete() changes nothing, and a second complete() neither."""

    def create() -> None:
        with rig.once.begin("k", name="n") as attempt:
            attempt.complete(1)
            attempt.complete(2)
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        create()
    with rig.once.begin("k", name="n") as again:
        assert (again.replayed, again.result) == (True, 1)


@in_memory
@pytest.mark.parametrize("key", [None, "", [], {}])
def test_an_empty_key_is_missing(rig: Rig, key: object) -> None:
    """An empty value is no key, in both forms."""
    with pytest.raises(KeyMissing), rig.once.begin(key, name="work"):
        raise AssertionError
    with pytest.raises(KeyMissing):
        rig.once.run("len", key, len, [1])


def test_an_async_block_completes_off_the_loop(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """`acomplete` stores as `complete` does, in another thread; a replayed block cannot."""
    threads: list[int] = []
    write = rig.store.write

    def noted(*args: Any) -> Any:
        threads.append(threading.get_ident())
        return write(*args)

    monkeypatch.setattr(rig.store, "write", noted)

    async def create() -> Any:
        async with rig.once.begin("k", name="orders") as attempt:
            if not attempt.replayed:
                assert rig.once.current() is attempt
            else:
                with pytest.raises(Misconfigured, match=r"\.replayed"):
                    await attempt.acomplete(1)
                return attempt.result
            return await attempt.acomplete({"order": 5})

    assert [asyncio.run(create()), asyncio.run(create())] == [{"order": 5}, {"order": 5}]
    assert threads
    assert threading.get_ident() not in threads


@in_memory
def test_a_block_needs_a_name(rig: Rig) -> None:
    """A default would be shared by two blocks of one function."""
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
        rig.once.begin("k")  # type: ignore[call-arg]
    with pytest.raises(Misconfigured, match="pass name="):
        rig.once.begin("k", name=None)  # type: ignore[arg-type]


@in_memory
def test_text_in_returns_without_frames(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a Python keeps no frames, builtins are all that the text can name."""
    monkeypatch.setattr("lambda_once._once.currentframe", lambda: None)
    for _ in range(2):
        with rig.once.begin("k", name="work", returns="tuple[int, str]") as attempt:
            done = attempt.result if attempt.replayed else attempt.complete((1, "a"))
        assert done == (1, "a")
    with pytest.raises(Misconfigured, match=r"pytest.* is not defined"):
        rig.once.begin("k", name="work", returns="pytest.Item")


def test_run_runs_once(rig: Rig) -> None:
    """once.run calls the function for a key once, plain or async, and replays its typed result."""
    seen: list[int] = []

    def create(order: int, *, note: str = "") -> tuple[int, str]:
        seen.append(order)
        return order, note

    async def later(order: int) -> int:
        seen.append(order)
        return order

    assert rig.once.run("create", "k", create, 5, note="x") == (5, "x")
    assert rig.once.run("create", "k", create, 5, note="x") == (5, "x")
    assert asyncio.run(rig.once.run("later", "k", later, 6)) == 6
    assert asyncio.run(rig.once.run("later", "k", later, 6)) == 6
    assert seen == [5, 6]


def test_run_refuses_other_arguments_under_the_key(rig: Rig) -> None:
    """The arguments are the payload: the same key with others is KeyReused."""
    rig.once.run("len", "k", len, [1])
    with pytest.raises(KeyReused):
        rig.once.run("len", "k", len, [1, 2])


def test_a_lease_is_the_time_that_remains(rig: Rig) -> None:
    """And two seconds: that of the invocation, or of the longest there is."""
    with rig.once.invocation(rig.context(seconds=7)), rig.once.begin("k", name="work"):
        pass
    with rig.once.begin("l", name="work"):
        pass
    rows = rig.rows()
    assert [(row.expected_completion - row.created).total_seconds() for row in rows] == [9, 902]
    assert rows[0].locked_by == "orders/request-1"
