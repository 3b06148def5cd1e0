"""docs/leaving.md: what its functions take along is replayed by Powertools, and what it names is not."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent

from lambda_once import HOLD, STORE, Once, ResultUnavailable
from lambda_once.testing import lambda_context
from tests.docs.pages import ROOT, blocks
from tests.kit.powertools import Shop

PAGE = ROOT / "docs" / "leaving.md"
CONTEXT = lambda_context("shop")
DAY = 86_400
PREFIX = "fn.app.handler"


@pytest.fixture
def page() -> ModuleType:
    """The functions of the page."""
    module = ModuleType("leaving")
    for block in blocks(PAGE):
        if block.language == "python":
            exec(block.text, module.__dict__)
    return module


def back(shop: Shop, ran: list[Any], key: str = "id", prefix: str | None = PREFIX) -> Any:
    """Return Powertools' version, on records that were written for it."""

    @idempotent(persistence_store=shop.layer(), config=IdempotencyConfig(key), key_prefix=prefix)
    def handler(event: Any, context: Any) -> Any:
        ran.append(event)
        return "ran"

    return lambda event: handler(event, CONTEXT)


def leave(page: ModuleType, shop: Shop, once: Once, prefix: str = PREFIX) -> None:
    """Take along what is complete of the function ``charge``."""
    found = page.completed(shop.client, shop.tokens, once, "shop", "charge")
    page.write_records(found, shop.layer(), prefix, DAY)


def done(shop: Shop, *events: Any, work: Any, name: str = "charge", **options: Any) -> Once:
    """Let our version do *work* for *events*; return its `Once`."""
    once = shop.once(history=None, **options)
    handler: Any = once.event(key="id", name=name)(work)
    for event in events:
        handler(event, CONTEXT)
    return once


KEYS = ["o-1", 5, "7", "a b/ä#c", "00", 0, -3, "x" * 200]


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_complete_is_replayed(page: ModuleType, shop: Shop, times: int) -> None:
    """Whatever a readable key is, and if the script is run again; nothing of another function is."""
    once = done(shop, *({"id": key} for key in KEYS), work=lambda event: {"charged": event["id"]})
    done(shop, {"id": "o-2"}, work=lambda _event: "refunded", name="refund")
    shop.client.put_item(TableName=shop.tokens, Item={"lockToken": {"S": "once#watchdog"}})
    for _ in range(times):
        leave(page, shop, once)
    ran: list[Any] = []
    handler = back(shop, ran)
    assert [handler({"id": key}) for key in KEYS] == [{"charged": key} for key in KEYS]
    assert ran == []
    assert handler({"id": "o-2"}) == "ran"


def test_the_default_prefix(page: ModuleType, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a decorator without one, as the page gives it."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "fn")
    once = done(shop, {"id": 1}, work=lambda _event: "charged")
    leave(page, shop, once, f"fn.{__name__}.back.<locals>.handler")
    assert back(shop, [], prefix=None)({"id": 1}) == "charged"


def test_what_runs_again(page: ModuleType, shop: Shop) -> None:
    """As the page names it: hashed keys, scopes, errors that were stored, work that is held."""
    once = shop.once(history=None)
    ran: list[Any] = []

    def fails(event: Any) -> None:
        raise ValueError

    def charge(event: Any) -> str:
        return "charged"

    given: list[tuple[dict[str, Any], Any, Any]] = [
        ({"key": "[id, n]"}, {"id": 1, "n": 2}, charge),
        ({"key": "id"}, {"id": "x" * 300}, charge),
        ({"key": "id", "scope": "tenant"}, {"id": "scoped", "tenant": "t"}, charge),
        ({"key": "id", "on_error": STORE}, {"id": "stored"}, fails),
        ({"key": "id", "on_error": HOLD}, {"id": "held"}, fails),
        ({"key": "id"}, {"id": "released"}, fails),
    ]
    for options, event, work in given:
        try:
            shop.once(history=None).event(**options, name="charge")(work)(event, CONTEXT)
        except ValueError:
            assert work is fails
    leave(page, shop, once)
    assert shop.items(shop.records) == []
    handler = back(shop, ran)
    for _, event, _work in given:
        handler(event)
    assert len(ran) == len(given)


def test_an_unavailable_result_stops_the_script(page: ModuleType, shop: Shop) -> None:
    """And leaves no record."""
    once = shop.once(history=None)
    with suppress(ResultUnavailable):
        done(shop, {"id": 1}, work=lambda _event: object())
    with pytest.raises(ResultUnavailable):
        leave(page, shop, once)
    assert shop.items(shop.records) == []


def test_the_slow_way(shop: Shop) -> None:
    """Under ``history=`` Powertools' version finds everything, whatever its key is hashed to."""
    config = IdempotencyConfig("[id, n]")
    history = shop.history(key="[id, n]", key_prefix=PREFIX)
    handler: Any = shop.once(history=history).event(key="[id, n]", name="charge")(lambda _event: "charged")
    handler({"id": 1, "n": 2}, CONTEXT)
    ran: list[Any] = []
    assert back(shop, ran, str(config.event_key_jmespath))({"id": 1, "n": 2}) == "charged"
    assert ran == []
