"""`once.outcome` and `once.aoutcome`: what became of a key, without running anything."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from dataclasses import FrozenInstanceError
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from lambda_once import (
    HOLD,
    STORE,
    Held,
    InProgress,
    KeyMissing,
    Misconfigured,
    Once,
    Outcome,
    PowertoolsHistory,
    ResultUnavailable,
    RetryLater,
    StoredError,
    StoreUnavailable,
)
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Decider, Decision, Record, Resolve
from lambda_once.core.results import INLINE_LIMIT, PART_LIMIT, Inline, Parts, Unavailable
from lambda_once.core.writes import Complete, Release, resolving
from lambda_once.engine.outcome import OutcomeState
from lambda_once.stores.contract import Written
from lambda_once.stores.memory import MemoryStore
from lambda_once.testing import FakeClock, using
from tests.decorators.rig import Rig, in_memory, on_every_store
from tests.decorators.test_seal import pair
from tests.kit import tables


class Receipt(BaseModel):
    """A typed result."""

    order: str
    total: Decimal


class Declined(Exception):
    """An error for good."""


def charge(
    rig: Rig, key: object = 5, result: object = None, error: Exception | None = None, **by: Any
) -> None:
    """Do work under *key*, which returns *result* or raises *error*."""

    def work() -> object:
        if error is not None:
            raise error
        return result

    once = rig.new(**by) if by else rig.once
    if error is None:
        once.run("charge", key, work)
    else:
        with pytest.raises(type(error)):
            once.run("charge", key, work)


def left_in_progress(rig: Rig, key: object = 5) -> None:
    """An attempt acquires *key* and dies."""
    with rig.crash(), rig.once.begin(key, name="charge"):
        pass


# ------------------------------------------------------------------ states


@on_every_store
def test_each_state_is_distinguished(rig: Rig) -> None:
    """Seven states, as the row has them; asking changes nothing."""
    asked: dict[OutcomeState, object] = {}

    def ask() -> None:
        before, events = rig.rows(), rig.events()
        outcome = rig.once.outcome(5, name="charge")
        asked[outcome.state] = outcome.token
        assert (rig.rows(), rig.events()) == (before, events)

    ask()
    left_in_progress(rig)
    ask()
    rig.clock.advance(1000)
    ask()
    charge(rig, error=ValueError("again"))
    ask()
    charge(rig)
    ask()
    rig.clock.advance(15 * 24 * 3600)
    charge(rig, error=Declined("no funds"), on_error=STORE)
    ask()
    rig.clock.advance(15 * 24 * 3600)
    charge(rig, error=Declined("no answer"), on_error=HOLD)
    ask()
    states = ["unknown", "in_progress", "lapsed", "released", "complete", "failed", "held"]
    assert asked == dict.fromkeys(states, "shop/charge/5")


@on_every_store
def test_a_decision_is_seen_at_once(rig: Rig) -> None:
    """A person releases what was held, and completes what lapsed."""

    def decide(change: Complete | Release, how: Resolve) -> None:
        now, row = rig.clock.now(), rig.row()
        decision = Decision(now, Decider.PERSON, "ann", "seen at the bank", row.state, how, "")
        ttl = int(now.timestamp()) + 3600 if how is Resolve.DONE else None
        write = resolving(row, change, ttl, now, decision)
        deadline = Deadline(rig.clock, now + timedelta(seconds=30))
        assert rig.store.write([write], deadline) == [Written.WRITTEN]

    charge(rig, error=Declined("no answer"), on_error=HOLD)
    decide(Release(None), Resolve.NOT_DONE)
    released = rig.once.outcome(5, name="charge")
    assert (released.state, released.expires) == ("released", None)
    left_in_progress(rig)
    rig.clock.advance(1000)
    assert rig.once.outcome(5, name="charge").state == "lapsed"
    decide(Complete(Inline('"paid"')), Resolve.DONE)
    assert rig.once.outcome(5, name="charge").result == "paid"


@in_memory
def test_the_times_are_those_of_the_row(rig: Rig) -> None:
    """When it was acquired, completed, and until when it is kept; also asked inside of the work."""
    began = rig.clock.now()
    charge(rig, key="other")
    with rig.once.begin(5, name="charge") as attempt:
        inside = rig.once.outcome(5, name="charge")
        assert rig.once.outcome("other", name="charge").state == "complete"
        rig.clock.advance(3)
        attempt.complete("paid")
    outcome = rig.once.outcome(5, name="charge")
    assert (inside.state, inside.acquired, inside.finished, inside.expires) == (
        *("in_progress", began, None, None),
    )
    assert (outcome.acquired, outcome.finished) == (began, began + timedelta(seconds=3))
    assert outcome.expires is not None
    assert outcome.expires - rig.clock.now() == timedelta(days=14)
    assert outcome.expires.tzinfo is not None


@in_memory
def test_what_has_expired_is_unknown(rig: Rig) -> None:
    """DynamoDB deletes it days later; until a moment before it is complete."""
    charge(rig, result="paid")
    rig.clock.advance(14 * 24 * 3600 - 1)
    assert rig.once.outcome(5, name="charge").state == "complete"
    rig.clock.advance(1)
    outcome = rig.once.outcome(5, name="charge")
    assert (outcome.state, outcome.acquired, outcome.finished, outcome.expires, outcome.error) == (
        *("unknown", None, None, None, None),
    )


@in_memory
def test_an_outcome_is_a_value(rig: Rig) -> None:
    """Frozen, equal by what it says, its repr without the result; the state is text in JSON."""
    charge(rig, result={"card": "4111"})
    outcome = rig.once.outcome(5, name="charge")
    assert outcome == rig.once.outcome(5, name="charge")
    assert outcome.result == {"card": "4111"}
    assert "4111" not in repr(outcome)
    assert json.dumps({"state": outcome.state}) == '{"state": "complete"}'
    with pytest.raises(FrozenInstanceError):
        outcome.state = "held"  # type: ignore[misc]


# ------------------------------------------------------------------ results and errors


@pytest.mark.parametrize("size", [1, INLINE_LIMIT, PART_LIMIT], ids=["small", "one part", "two parts"])
@on_every_store
def test_the_result_is_the_stored_one(rig: Rig, size: int) -> None:
    """Of any size."""
    scan = os.urandom(size).hex()
    charge(rig, result={"scan": scan})
    assert rig.once.outcome(5, name="charge").result == {"scan": scan}
    assert asyncio.run(asked(rig.once)).result == {"scan": scan}


async def asked(once: Once, **options: Any) -> Outcome[Any]:
    """Ask asynchronously."""
    outcome: Outcome[Any] = await once.aoutcome(5, name="charge", **options)
    return outcome


@in_memory
def test_none_is_a_result(rig: Rig) -> None:
    """Never the sign that there is none: that raises."""
    charge(rig, result=None)
    assert rig.once.outcome(5, name="charge").result is None
    with pytest.raises(RetryLater):
        _ = rig.once.outcome(6, name="charge").result


@in_memory
def test_a_typed_result_is_of_its_type(rig: Rig) -> None:
    """By `returns=`, also as text; without it, what JSON has."""
    receipt = Receipt(order="o-1", total=Decimal("9.90"))
    with rig.once.begin(5, name="charge", returns=Receipt) as attempt:
        attempt.complete(receipt)
    assert rig.once.outcome(5, name="charge", returns=Receipt).result == receipt
    assert rig.once.outcome(5, name="charge", returns="Receipt").result == receipt
    assert asyncio.run(asked(rig.once, returns=Receipt)).result == receipt
    assert rig.once.outcome(5, name="charge").result == {"order": "o-1", "total": "9.90"}


@in_memory
def test_a_codec_reads_the_result(rig: Rig) -> None:
    """As it does for a duplicate."""
    pair_of_functions = (str, lambda text: text + " read")
    with rig.once.begin(5, name="charge", codec=pair_of_functions) as attempt:
        attempt.complete(7)
    assert rig.once.outcome(5, name="charge", codec=pair_of_functions).result == "7 read"


@in_memory
def test_a_result_that_does_not_fit_is_unavailable(rig: Rig) -> None:
    """A result of an older version of the code, perhaps."""
    charge(rig, result={"order": "o-1"})
    outcome = rig.once.outcome(5, name="charge", returns=Receipt)
    assert outcome.state == "complete"
    for _ in range(2):
        with pytest.raises(ResultUnavailable, match="does not fit"):
            _ = outcome.result


@in_memory
@pytest.mark.parametrize(
    ("why", "words"),
    [
        (Unavailable.UNAVAILABLE, "could not be stored"),
        (Unavailable.FORGOTTEN, "was erased by `lambda-once forget`"),
        (Unavailable.WITHHELD, 'sets a cookie or says no-store.*without_key="run"'),
    ],
)
def test_a_result_that_is_not_there_is_not_none(rig: Rig, why: Unavailable, words: str) -> None:
    """Each reason has its own words, for who asks and for a duplicate."""
    charge(rig)
    store: Any = rig.store.sound
    store.records = {token: row._replace(stored=why) for token, row in store.records.items()}
    outcome = rig.once.outcome(5, name="charge")
    assert (outcome.state, outcome.error) == ("complete", None)
    with pytest.raises(ResultUnavailable, match=words):
        _ = outcome.result
    with pytest.raises(ResultUnavailable, match=words):
        charge(rig)


@on_every_store
def test_a_stored_error_is_the_error(rig: Rig) -> None:
    """Its kind and message; and it is raised in place of a result."""
    charge(rig, error=Declined("no funds"), on_error=STORE)
    outcome = rig.once.outcome(5, name="charge")
    assert isinstance(outcome.error, StoredError)
    assert (outcome.error.kind, str(outcome.error)) == ("Declined", "no funds")
    with pytest.raises(StoredError, match="no funds"):
        _ = outcome.result


@in_memory
def test_a_stored_error_is_of_its_class_where_that_is_named(rig: Rig) -> None:
    """By the `on_error` of this Once."""
    named = rig.new(on_error={Declined: STORE})
    charge(rig, error=Declined("no funds"), on_error={Declined: STORE})
    assert isinstance(named.outcome(5, name="charge").error, Declined)
    assert not isinstance(rig.once.outcome(5, name="charge").error, Declined)


@in_memory
def test_what_is_sealed_is_opened(rig: Rig) -> None:
    """Results and errors, by the seal of this Once or of the question; without one they are unavailable."""
    seal = pair()
    charge(rig, key="paid", result={"name": "Ann"}, seal=seal)
    charge(rig, key="declined", error=Declined("Ann"), on_error=STORE, seal=seal)
    asking: list[tuple[Once, Any]] = [(rig.new(seal=seal), {}), (rig.once, {"seal": seal})]
    for once, options in asking:
        assert once.outcome("paid", name="charge", **options).result == {"name": "Ann"}
        assert str(once.outcome("declined", name="charge", **options).error) == "Ann"
    paid, declined = (rig.once.outcome(key, name="charge") for key in ("paid", "declined"))
    assert (paid.state, declined.state) == ("complete", "failed")
    with pytest.raises(ResultUnavailable, match="sealed"):
        _ = paid.result
    with pytest.raises(ResultUnavailable, match="sealed"):
        _ = declined.error


@in_memory
def test_a_key_service_without_an_answer_is_asked_again(rig: Rig) -> None:
    """What may succeed later is not remembered; the async form raises it at once."""
    (encrypt, decrypt), down = pair(), [True]

    def opened(sealed: bytes, token: str) -> bytes:
        if down[0]:
            raise RetryLater("the key service does not answer")
        return decrypt(sealed, token)

    charge(rig, result="paid", seal=(encrypt, decrypt))
    outcome = rig.once.outcome(5, name="charge", seal=(encrypt, opened))
    with pytest.raises(RetryLater, match="key service"):
        _ = outcome.result
    with pytest.raises(RetryLater, match="key service"):
        asyncio.run(asked(rig.once, seal=(encrypt, opened)))
    down[0] = False
    assert outcome.result == "paid"


@in_memory
def test_states_without_an_outcome_raise_what_to_do(rig: Rig) -> None:
    """As a duplicate would; none is an empty result."""
    left_in_progress(rig, "running")
    charge(rig, key="released", error=ValueError("again"))
    charge(rig, key="held", error=Declined("no answer"), on_error=HOLD)
    for key, kind, words in (
        ("running", InProgress, "is in progress"),
        ("released", RetryLater, "is released"),
        ("held", Held, "lambda-once resolve shop/charge/held"),
        ("never", RetryLater, "is unknown"),
    ):
        outcome = rig.once.outcome(key, name="charge")
        assert outcome.error is None
        with pytest.raises(kind, match=words) as caught:
            _ = outcome.result
        assert caught.value.token == f"shop/charge/{key}"
    rig.clock.advance(1000)
    with pytest.raises(RetryLater, match="has lapsed") as lapsed:
        _ = rig.once.outcome("running", name="charge").result
    assert not isinstance(lapsed.value, InProgress)


# ------------------------------------------------------------------ what is read, and when


@in_memory
def test_only_the_result_reads_the_parts(rig: Rig) -> None:
    """And once; the async form reads them with the row, so that its result never blocks the loop."""
    charge(rig, result={"scan": os.urandom(PART_LIMIT).hex()})
    read: list[Record] = []
    real = rig.store.chunks

    def chunks(record: Record, deadline: Any) -> Any:
        read.append(record)
        return real(record, deadline)

    rig.store.chunks = chunks  # type: ignore[method-assign]
    outcome = rig.once.outcome(5, name="charge")
    assert (outcome.state, outcome.error, read) == ("complete", None, [])
    assert outcome.result == outcome.result
    assert len(read) == 1
    eager = asyncio.run(asked(rig.once))
    assert len(read) == 2
    assert eager.result == outcome.result
    assert len(read) == 2


@on_every_store
def test_a_lost_part_makes_it_unavailable(rig: Rig) -> None:
    """As it is for a duplicate."""
    charge(rig, result={"scan": os.urandom(PART_LIMIT).hex()})
    assert isinstance(rig.row().stored, Parts)
    outcome = rig.once.outcome(5, name="charge")
    rig.store.chunks = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(ResultUnavailable, match="a part"):
        _ = outcome.result


@in_memory
def test_a_table_that_does_not_answer_is_no_unknown_key(rig: Rig) -> None:
    """`StoreUnavailable`: the caller must not take it for work that was never done."""
    charge(rig, result={"scan": os.urandom(PART_LIMIT).hex()})
    outcome = rig.once.outcome(5, name="charge")
    rig.store.out = True
    with pytest.raises(StoreUnavailable):
        rig.once.outcome(5, name="charge")
    with pytest.raises(StoreUnavailable):
        asyncio.run(asked(rig.once))
    rig.store.out = False
    assert outcome.result == rig.once.outcome(5, name="charge").result


@in_memory
def test_the_event_loop_goes_on_meanwhile(rig: Rig) -> None:
    """The row and the parts are read in another thread; the result is at hand."""
    charge(rig, result={"scan": os.urandom(PART_LIMIT).hex()})
    threads: list[threading.Thread] = []
    read, chunks = rig.store.read, rig.store.chunks

    def reading(token: str, deadline: Any) -> Any:
        threads.append(threading.current_thread())
        return read(token, deadline)

    def reading_parts(record: Record, deadline: Any) -> Any:
        threads.append(threading.current_thread())
        return chunks(record, deadline)

    rig.store.read, rig.store.chunks = reading, reading_parts  # type: ignore[method-assign]
    assert asyncio.run(asked(rig.once)).result
    assert len(threads) == 2
    assert threading.current_thread() not in threads


@in_memory
def test_the_memory_of_an_environment_is_not_asked(rig: Rig) -> None:
    """An operator's decision counts at once, whatever `cache=` remembers."""
    once = rig.new(cache=10)
    for _ in range(2):
        once.run("charge", 5, lambda: "paid")
    rig.ground.store.records.clear()  # type: ignore[attr-defined]
    assert once.outcome(5, name="charge").state == "unknown"


# ------------------------------------------------------------------ inside and outside


@in_memory
def test_it_needs_no_invocation(rig: Rig) -> None:
    """Nothing is logged about a missing context: a read has a time limit of its own."""
    charge(rig)
    rig.reported.clear()
    rig.once.outcome(5, name="charge")
    assert rig.events() == []


def test_the_store_and_clock_of_a_test_are_used() -> None:
    """As by every decorator."""
    once, clock = Once(service="shop"), FakeClock()
    with using(once, clock=clock):
        once.run("charge", 5, lambda: "paid")
        assert once.outcome(5, name="charge").result == "paid"
        clock.advance(15 * 24 * 3600)
        assert once.outcome(5, name="charge").state == "unknown"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"function_name": "app.charge", "config": IdempotencyConfig()}, "event_key_jmespath"),
        ({"config": IdempotencyConfig(event_key_jmespath="id")}, "key_prefix="),
    ],
)
def test_a_history_that_a_key_does_not_lead_to(options: dict[str, Any], reason: str) -> None:
    """It is not asked under a key that no record has. tests/history/test_outcome.py has the others."""
    layer = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=tables.client())
    once = Once(store=MemoryStore(), service="shop", history=PowertoolsHistory(layer, **options))
    with pytest.raises(Misconfigured, match=reason):
        once.outcome(5, name="charge")
    assert once.outcome(5, name="charge", history=None).state == "unknown"


def test_nothing_is_known_where_nothing_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """`LAMBDA_ONCE_DISABLED`: no table is needed, and none is read."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    once = Once(service="shop")
    once.run("charge", 5, lambda: "paid")
    assert once.outcome(5, name="charge").state == "unknown"


def test_the_service_is_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in every token."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "orders")
    assert Once(store=MemoryStore()).outcome(5, name="charge").token == "orders/charge/5"


# ------------------------------------------------------------------ mistakes


@in_memory
def test_a_name_is_required(rig: Rig) -> None:
    """The message has the reason, and the line to write."""
    once: Any = rig.once
    for ask in (once.outcome, once.aoutcome):
        with pytest.raises(Misconfigured, match=r'begins with the function.*name="charge"'):
            ask(5)
        with pytest.raises(Misconfigured, match="name="):
            ask(5, name="")
        with pytest.raises(Misconfigured, match="unknown option keep"):
            ask(5, name="charge", keep=timedelta(days=1))


@in_memory
@pytest.mark.parametrize("key", [None, "", [], {}, ("a", None)])
def test_nothing_is_no_key(rig: Rig, key: object) -> None:
    """As for work: it would be one token for all."""
    with pytest.raises(KeyMissing):
        rig.once.outcome(key, name="charge")
    if key is not None:
        with pytest.raises(KeyMissing):
            rig.once.outcome(5, name="charge", scope=key)


# ------------------------------------------------------------------ keys

SCALARS = st.one_of(
    st.text(min_size=1, max_size=300),
    st.integers(),
    st.booleans(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.datetimes(),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, min_size=1, max_size=3),
    st.lists(SCALARS, min_size=1, max_size=3).map(tuple),
    st.dictionaries(st.text(max_size=3), SCALARS, min_size=1, max_size=2),
    st.tuples(st.tuples(SCALARS)),
)


@given(key=VALUES, scope=st.none() | VALUES)
def test_a_key_has_the_token_that_the_work_has(key: object, scope: object) -> None:
    """Of `function`, `begin`, `run` and `outcome`, for any value: one derivation."""
    store = MemoryStore()
    once = Once(store=store, service="shop")
    scoped: Any = {} if scope is None else {"scope": lambda _: scope}

    @once.function(key=lambda _: key, name="charge", **scoped)
    def work(order: int) -> None:
        del order

    work(1)
    assert [*store.records] == [once.outcome(key, name="charge", scope=scope).token]
    with once.begin(key, name="charge", scope=scope) as begun:
        assert begun.replayed
    if scope is None:
        once.run("charge", key, work, 1)
    assert len(store.records) == 1


@in_memory
def test_twin_other_values_are_other_tokens(rig: Rig) -> None:
    """The test above sees a difference."""
    pairs = [(5, "6"), ("a", "b"), (("a", "b"), "a:b"), ([5], 5), (True, 1), ("x" * 300, "x" * 299)]
    for one, other in pairs:
        tokens = {rig.once.outcome(key, name="charge").token for key in (one, other)}
        assert len(tokens) == 2
    scopes = (None, "t", "u", 5, ("a", "b"), ["a", 5], {"a": 1})
    assert len({rig.once.outcome(5, name="charge", scope=scope).token for scope in scopes}) == len(scopes)
