from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from moto import mock_aws

from lambda_once import HOLD, RELEASE, STORE, MemoryStore, Once
from lambda_once.core.lifecycle import Resolve
from lambda_once.operations.decisions import Author, decided
from lambda_once.testing import (
    FakeClock,
    RecordingStore,
    assert_completed,
    assert_held,
    assert_in_progress,
    assert_lapsed,
    assert_no_token,
    assert_ran_once,
    assert_released,
    assert_stored_error,
    crash_at,
    create_table,
    lambda_context,
    using,
)
from lambda_once.testing.assertions import _deadline
from tests.kit import tables
from tests.kit.frail import FrailStore


class Declined(Exception):
    """The card was declined."""


class Charges:
    """Charges that end in each way, by their keys."""

    def __init__(self) -> None:
        self.once = Once(service="shop", on_error={Declined: STORE, TimeoutError: HOLD, OSError: RELEASE})
        self.clock = FakeClock()
        self.handler = self.once.event(key="id", name="charge")(self._work)

    def _work(self, event: dict[str, Any]) -> Any:
        if event["id"] == "declined":
            raise Declined("no credit")
        if event["id"] == "timeout":
            raise TimeoutError("no answer")
        if event["id"] == "broken":
            raise OSError("no line")
        return event.get("result")

    def deliver(self, key: object, result: Any = None) -> None:
        event = {"id": key, "result": result}
        if key == "dead":
            with crash_at("work"):
                self.handler(event, lambda_context("charge", "r-1"))
        elif key in ("declined", "timeout", "broken"):
            with pytest.raises((Declined, TimeoutError, OSError)):
                self.handler(event, lambda_context("charge", "r-1"))
        else:
            self.handler(event, lambda_context("charge", "r-1"))


@pytest.fixture
def charges() -> Iterator[Charges]:
    """Charges on a store in memory."""
    charges = Charges()
    with using(charges.once, clock=charges.clock):
        yield charges


def message_of(check: Callable[[], object]) -> str:
    """What a failing assertion says."""
    with pytest.raises(AssertionError) as raised:
        check()
    return str(raised.value)


ENDS: list[tuple[str, Callable[..., Any]]] = [
    ("5", assert_completed),
    ("declined", assert_stored_error),
    ("timeout", assert_held),
    ("broken", assert_released),
    ("dead", assert_in_progress),
]


@pytest.mark.parametrize("key", [key for key, _ in ENDS])
def test_each_state_passes_its_own_assertion_and_no_other(charges: Charges, key: str) -> None:
    """They return the row; the others fail with its story."""
    charges.deliver(key)
    for other, check in ENDS:
        if other == key:
            assert check(charges.once, key).token == f"shop/charge/{key}"
        else:
            assert f"token shop/charge/{key} is " in message_of(lambda check=check: check(charges.once, key))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("key", "check", "error", "other"),
    [
        ("declined", assert_stored_error, Declined, "TimeoutError"),
        ("timeout", assert_held, "TimeoutError", Declined),
        ("broken", assert_released, OSError, TimeoutError),
    ],
)
def test_an_error_is_compared_by_its_name(
    charges: Charges, key: str, check: Callable[..., Any], error: Any, other: Any
) -> None:
    """A class or its name; another one fails."""
    charges.deliver(key)
    check(charges.once, key, error=error)
    assert "it is not so because of" in message_of(lambda: check(charges.once, key, error=other))


def test_the_lease_is_judged_by_the_clock(charges: Charges) -> None:
    """In progress before it is over, lapsed after."""
    charges.deliver("dead")
    said = message_of(lambda: assert_lapsed(charges.once, "dead", clock=charges.clock))
    assert "it is not lapsed by 2026-11-20T10:12:00Z" in said
    assert "  2026-11-20T10:12:32.000Z  lease expires" in said
    charges.clock.advance(60)
    assert_lapsed(charges.once, "dead", clock=charges.clock)


@dataclass
class Receipt:
    amount: int


@pytest.mark.parametrize("result", [None, 0, "", [], {"a": [1, 2]}, "x" * 300, list(range(3000)), "é" * 5000])
def test_results_are_compared_as_json_has_them(charges: Charges, result: Any) -> None:
    """In the row, compressed, or in parts; falsy ones are results; the message has both."""
    charges.deliver("5", result)
    assert_completed(charges.once, "5", result=result)
    said = message_of(lambda: assert_completed(charges.once, "5", result={"other": 1}))
    assert ", not {'other': 1}" in said


def test_a_large_result_is_read_from_its_parts(charges: Charges) -> None:
    """However many there are; one that is gone is said."""
    result = "".join(f"{n:x}" for n in range(200_000))
    charges.deliver("5", result)
    store: Any = charges.once._runtime.engine.store
    assert_completed(charges.once, "5", result=result)
    store._chunks.clear()
    assert "is missing" in message_of(lambda: assert_completed(charges.once, "5", result=result))


def test_a_dataclass_is_what_json_makes_of_it(charges: Charges) -> None:
    """Expected values need not be taken apart by hand."""
    charges.deliver("5", {"amount": 5})
    assert_completed(charges.once, "5", result=Receipt(5))


class Price(NamedTuple):
    total: int
    raw: bytes


def test_a_handlers_result_is_what_lambda_writes(charges: Charges) -> None:
    """A named tuple is an object, and bytes are text."""
    charges.deliver("5", Price(5, b"r"))
    assert_completed(charges.once, "5", result=Price(5, b"r"))
    message_of(lambda: assert_completed(charges.once, "5", result=Price(6, b"r")))
    message_of(lambda: assert_completed(charges.once, "5", result={1: "a", "1": "b"}))


def test_a_result_is_shown_only_where_it_is_compared(charges: Charges) -> None:
    """The story measures it."""
    charges.deliver("5", "a secret")
    said = message_of(lambda: assert_held(charges.once, "5"))
    assert "secret" not in said
    assert "its result is JSON of 10 bytes in the row" in said


def test_a_story_is_in_order_of_time(charges: Charges) -> None:
    """Who acquired it, when and by which fence; who was refused; the end, and its error."""
    charges.deliver("timeout")
    row, lease = assert_held(charges.once), "lease until 2026-11-20T10:12:32.000Z"
    attempt = f"attempt {row.attempt_id}"
    charges.clock.advance(5)
    with pytest.raises(Exception, match="held for manual review"):
        charges.handler({"id": "timeout", "result": None}, lambda_context("charge", "r-2"))
    assert message_of(lambda: assert_completed(charges.once)).splitlines() == [
        "it is not complete",
        "token shop/charge/timeout is held",
        f"  2026-11-20T10:12:00.000Z  acquired by charge/r-1: {attempt}, fence {row.fence}, for delivery r-1",
        "  2026-11-20T10:12:00.000Z  held for manual review: TimeoutError: no answer",
        "requests:",
        f"  2026-11-20T10:12:00.000Z  acquired by charge/r-1 ({attempt}, fence {row.fence}), {lease}",
        f"  2026-11-20T10:12:00.000Z  held after TimeoutError, by {attempt}",
        "  2026-11-20T10:12:05.000Z  refused to charge/r-2: it is error",
    ]


def test_a_take_over_is_reported(charges: Charges) -> None:
    """With the second attempt's fence."""
    charges.once = Once(service="shop")
    charges.handler = charges.once.event(key="id", name="charge")(lambda _: 5)
    with using(charges.once, clock=charges.clock) as store:
        charges.deliver("dead")
        first = assert_ran_once(store)
        charges.clock.advance(60)
        charges.handler({"id": "dead", "result": None}, lambda_context("charge", "r-2"))
        said = message_of(lambda: assert_ran_once(store))
    assert "it is not a token of one attempt (2 acquired it)" in said
    assert f"taken over by charge/r-2 (attempt {store.records[first.token].attempt_id}" in said


def test_a_decision_of_a_person_is_reported(charges: Charges) -> None:
    """By whom, and why."""
    charges.deliver("timeout")
    store: Any = charges.once._runtime.engine.store
    now = datetime(2026, 11, 20, 11, tzinfo=UTC)
    held = assert_held(store)
    write = decided(held, Resolve.DONE, Author("mira", "the bank says so"), now)
    store.write([write], _deadline())
    said = message_of(lambda: assert_held(store))
    assert "  2026-11-20T11:00:00.000Z  completed, by mira" in said
    assert "mira (identity unverified) resolved it as done (it was held): the bank says so" in said


def test_a_store_that_remembers_nothing_tells_the_row() -> None:
    """Its times in their order."""
    charges, store = Charges(), MemoryStore()
    with using(charges.once, store, charges.clock):
        charges.deliver("timeout")
        said = message_of(lambda: assert_released(store)).splitlines()
        with pytest.raises(TypeError, match="counts no attempts"):
            assert_ran_once(store)
    assert [line.split("  ")[-1].partition(": attempt")[0] for line in said[2:]] == [
        "acquired by charge/r-1",
        "held for manual review: TimeoutError: no answer",
    ]


def test_keys_are_given_as_the_work_got_them(charges: Charges) -> None:
    """Text, numbers, lists, and what is percent-encoded; or the whole token."""
    for key in ("a/b #1", 7, ["x", 2]):
        charges.deliver(key, "r")
        token = assert_completed(charges.once, key, result="r").token
        assert assert_completed(charges.once, token).token == token


def test_an_unknown_token_lists_those_that_there_are(charges: Charges) -> None:
    """With their states; where and no other, what to look at."""
    assert "and no other" in message_of(lambda: assert_completed(charges.once, "6"))
    charges.deliver("5")
    charges.deliver("timeout")
    assert message_of(lambda: assert_completed(charges.once, "6")).splitlines() == [
        "there is no token of '6'. There are",
        "  shop/charge/5 (complete)",
        "  shop/charge/timeout (error)",
    ]
    for n in range(30):
        charges.deliver(f"n{n}")
    assert message_of(lambda: assert_completed(charges.once, "6")).endswith("… and 12 more")


def test_an_ambiguous_key_lists_what_it_could_mean(charges: Charges) -> None:
    """The same key under two names, and no key where there are two tokens."""
    ship: Any = charges.once.event(key="id", name="ship")(lambda _: None)
    ship({"id": "5"}, lambda_context())
    charges.deliver("5")
    for check in (lambda: assert_completed(charges.once, "5"), lambda: assert_completed(charges.once)):
        said = message_of(check)
        assert "2 tokens match" in said
        assert "  shop/ship/5 (complete)" in said


def test_absence_is_asserted(charges: Charges) -> None:
    """Of one token, and of all."""
    assert_no_token(charges.once)
    charges.deliver("5")
    assert_no_token(charges.once, "6")
    assert "it is not absent" in message_of(lambda: assert_no_token(charges.once))


def test_one_attempt_is_counted(charges: Charges) -> None:
    """Duplicates are none; a second attempt after a release is."""
    for _ in range(3):
        charges.deliver("5")
    assert_ran_once(charges.once, "5")
    for _ in range(2):
        charges.deliver("broken")
    assert "2 acquired it" in message_of(lambda: assert_ran_once(charges.once, "broken"))


def test_a_recording_store_counts_right_among_threads() -> None:
    """And remembers extensions, pins and transactions."""
    store, clock = RecordingStore(), FakeClock()
    once = Once(service="shop", store=store)
    once._runtime.clock = clock

    @once.event(key="id", name="h")
    def handler(event: dict[str, Any]) -> Any:
        once.current().extend(500)
        return once.current().transact(
            [{"Put": {"TableName": "orders", "Item": {"id": {"S": "5"}}}}], result=1
        )

    handler({"id": "5"}, lambda_context())
    story = [chapter.text.split(",")[0] for chapter in store.history["shop/h/5"]]
    assert story[1:] == ["extended until 2026-11-20T10:20:20.000Z", "completed"]
    assert store.history["shop/h/5"][-1].text.endswith("in one transaction")


def test_a_table_is_read_as_well() -> None:
    """By the Once that works on it: keys, parts, and what other writes left there."""
    with mock_aws():
        client = tables.client()
        create_table(client, "tokens")
        charges = Charges()
        charges.once = Once(table="tokens", client=client, service="shop", keep=timedelta(days=1))
        charges.handler = charges.once.event(key="id", name="charge")(charges._work)
        large = "".join(f"{n:x}" for n in range(200_000))
        client.put_item(TableName="tokens", Item={"lockToken": {"S": "another program's"}})
        charges.deliver("5", large)
        assert_completed(charges.once, "5", result=large)
        assert "  shop/charge/5 (complete)" in message_of(lambda: assert_held(charges.once, "6"))
        assert "token shop/charge/5 is complete" in message_of(lambda: assert_held(charges.once, "5"))


def test_a_store_of_ones_own_is_asked_for_tokens() -> None:
    """It can read a row, and list none."""
    charges, store = Charges(), FrailStore(MemoryStore())
    with using(charges.once, store, charges.clock):
        charges.deliver("5")
        assert_completed(store, "shop/charge/5")
        assert "cannot list" in message_of(lambda: assert_completed(store, "shop/charge/6"))
        with pytest.raises(TypeError, match="pass the whole token"):
            assert_completed(store)
