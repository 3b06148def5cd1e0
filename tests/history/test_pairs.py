"""Each row of docs/from-powertools.md, "Your decorator, and ours": same events, same answers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function

from lambda_once import Once
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import api_event, crash_at, lambda_context
from tests.docs.pages import ROOT
from tests.history.pairs import DICTS, HTTP, KEPT, PAIRS, RECORDS, Pair, Side, rows
from tests.kit.powertools import Shop

PAGE = ROOT / "docs" / "from-powertools.md"
EACH = pytest.mark.parametrize("pair", PAIRS, ids=[f"{each.door.name} {each.key}" for each in PAIRS])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Powertools warns of an event without a key."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No idempotency key")
        yield


@EACH
def test_duplicates_get_the_same(shop: Shop, pair: Pair) -> None:
    """A duplicate, the key with another payload, and another key."""
    events = [each for each in (pair.first, pair.first, pair.changed, pair.second, pair.second) if each]
    old, new = (
        [side.deliver(each) for each in events] for side in (pair.old_side(shop), pair.new_side(shop))
    )
    assert new == old
    of_records = pair.door in (RECORDS, KEPT, DICTS)
    first, again = old[:2]
    assert (first, again) == ("run 1", "nothing" if of_records and pair.door is RECORDS else again)
    assert len({each for each in old if each.startswith("run")}) == (1 if pair.second is None else 2)


@EACH
def test_a_failure_is_tried_again(shop: Shop, pair: Pair) -> None:
    """What raised has left nothing behind."""
    for side in (pair.old_side(shop), pair.new_side(shop)):
        found = [side.deliver(pair.first, ValueError()), side.deliver(pair.first), side.deliver(pair.first)]
        assert found[0] in ("failed", "retried")
        assert side.work.runs == 2


@EACH
def test_a_crash_is_taken_over(shop: Shop, pair: Pair) -> None:
    """A duplicate is refused until the time of what was killed is over, and then runs."""
    answers = []
    old, new = pair.old_side(shop), pair.new_side(shop)
    for side in (old, new):
        with crash_at("work") if side is new else nullcontext():
            side.deliver(pair.first, None if side is new else SystemExit())
        found = [side.deliver(pair.first)]
        shop.lapse_all()
        answers.append([*found, side.deliver(pair.first), side.deliver(pair.first)])
        assert side.work.runs == 2
    assert answers[0] == answers[1]
    assert answers[0][0] in ("in progress", "retried")


@pytest.mark.parametrize("pair", [each for each in PAIRS if each.keyless], ids=lambda each: each.new)
def test_what_has_no_key_is_refused(shop: Shop, pair: Pair) -> None:
    """As under raise_on_no_idempotency_key=True."""
    sides = (pair.old_side(shop, raise_on_no_idempotency_key=True), pair.new_side(shop))
    old, new = (side.deliver(pair.keyless) for side in sides)
    assert old == new
    assert old in ("no key", "retried")


@pytest.mark.parametrize("pair", [each for each in PAIRS if each.keyless], ids=lambda each: each.new)
def test_what_has_no_key_may_run(shop: Shop, pair: Pair) -> None:
    """By Powertools' default, and here by ``without_key="run"``."""
    for side in (pair.old_side(shop), pair.new_side(shop, keyless=True)):
        assert [side.deliver(pair.keyless) for _ in range(2)] == ["run 1", "run 2"]


@pytest.mark.parametrize("pair", [each for each in PAIRS if each.door.has_history], ids=lambda each: each.new)
def test_both_versions_at_once(shop: Shop, pair: Pair) -> None:
    """With ``history=`` neither does what the other has done."""
    old, new = pair.old_side(shop), pair.new_side(shop, history=True)
    assert old.deliver(pair.first) == "run 1"
    assert new.deliver(pair.first) in ("run 1", "nothing")
    assert new.work.runs == 0
    if pair.second is not None:
        assert new.deliver(pair.second) == "run 1"
        old.deliver(pair.second)
        assert old.work.runs == 1


def test_the_page_has_the_pairs() -> None:
    """In their order."""
    text = PAGE.read_text(encoding="utf-8").partition("## Your decorator, and ours")[2].partition("\n## ")[0]
    assert [line for line in text.splitlines() if line.startswith("|")][2:] == rows()


# ------------------------------------------------------------------ what changes


def _asked(shop: Shop, **options: Any) -> tuple[Side, Side]:
    """Return handlers of requests under both libraries."""
    (pair,) = [each for each in PAIRS if each.key == "powertools_json(body).id" and each.door is HTTP]
    given = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return pair.old_side(shop), pair._replace(new=f"@once.api_gateway({given})").new_side(shop)


def _request(authorization: str) -> dict[str, Any]:
    return api_event("POST", "/orders", {"id": 1}, {"Authorization": authorization})


@pytest.mark.parametrize(("options", "found"), [({}, "run 2"), ({"key": "id"}, "another payload")])
def test_another_caller(shop: Shop, options: dict[str, Any], found: str) -> None:
    """Powertools knows none; here it is another request, or one that has no right to the key."""
    old, new = _asked(shop, **options)
    assert [side.deliver(_request("Bearer a")) for side in (old, new)] == ["run 1", "run 1"]
    assert [side.deliver(_request("Bearer b")) for side in (old, new)] == ["run 1", found]


def test_all_callers_are_one(shop: Shop) -> None:
    """By ``caller=False``, which says what Powertools does."""
    old, new = _asked(shop, key="id", caller=False)
    for side in (old, new):
        assert [side.deliver(_request(each)) for each in ("Bearer a", "Bearer b")] == ["run 1", "run 1"]


def test_another_path(shop: Shop) -> None:
    """It counts here."""
    old, new = _asked(shop, key="id")
    events = [api_event("POST", path, {"id": 1}) for path in ("/orders", "/refunds")]
    assert [[side.deliver(each) for each in events] for side in (old, new)] == [
        ["run 1", "run 1"],
        ["run 1", "run 2"],
    ]


@pytest.mark.parametrize("status", [404, 503])
def test_an_error_response(shop: Shop, status: int) -> None:
    """Powertools replays it; here a retry runs, unless it is stored."""
    old, new = _asked(shop, key="id")
    stored = _asked(shop, key="id", name="stored", store_status={404, 503})[1]
    for side, runs in ((old, 1), (new, 2), (stored, 1)):
        side.work.status = status
        for _ in range(2):
            side.deliver(_request("Bearer a"))
        assert side.work.runs == runs


def test_the_first_caller_of_a_function_gets_its_object(shop: Shop) -> None:
    """With both libraries; a duplicate of ours an equal Decimal, one of Powertools text."""

    def price(order: int) -> dict[str, Any]:
        return {"price": Decimal("4.50"), "at": (order, 2)}

    config = IdempotencyConfig(lambda_context=lambda_context("shop"))
    old = idempotent_function(
        price, data_keyword_argument="order", persistence_store=shop.layer(), config=config
    )
    new = shop.once(history=None).function(key="order", fingerprint=False)(price)
    assert old(order=1) == new(order=1) == price(1)
    assert old(order=1) != price(1)
    assert new(order=1) == {"price": Decimal("4.50"), "at": [1, 2]}


def _nothing(_event: object) -> None: ...


def test_what_is_logged_at_warning(shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Each run, and equal content that comes again."""
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "WARNING")
    once = Once(store=DynamoDBStore(shop.tokens, shop.client), service="warned")
    handler = once.event(_nothing)
    with caplog.at_level(logging.WARNING):
        for request in ("r-1", "r-2"):
            handler({"id": 1}, lambda_context("shop", request))
    assert [each.message for each in caplog.records] == ["once.returned", "once.same_content"]
