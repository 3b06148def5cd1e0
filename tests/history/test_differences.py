"""Where the same event gets another answer than from Powertools, and what both make of typed results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes import SQSEvent, event_source
from aws_lambda_powertools.utilities.data_classes.common import DictWrapper
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyKeyError,
)
from aws_lambda_powertools.utilities.idempotency.serialization.custom_dict import CustomDictSerializer
from aws_lambda_powertools.utilities.idempotency.serialization.dataclass import DataclassSerializer
from aws_lambda_powertools.utilities.idempotency.serialization.pydantic import PydanticSerializer
from pydantic import BaseModel

from lambda_once import KeyMissing, KeyReused, Once
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context
from tests.kit.powertools import Shop
from tests.sources.samples import batch, sqs_record

NO_KEY = (IdempotencyKeyError, KeyMissing)
CONTEXT = lambda_context("shop")


class Custom(DictWrapper):
    """A data class of an application's own."""


def as_text(order: Any) -> str:
    """Return *order* as text."""
    return str(order)


class Runs:
    """Work that counts its runs."""

    def __init__(self, result: Any = None) -> None:
        self.seen: list[Any] = []
        self._result = result

    def __call__(self, event: Any = None, **others: Any) -> Any:
        self.seen.append(event if event is not None else others)
        return {"run": len(self.seen)} if self._result is None else self._result


def handler(side: str, shop: Shop, key: str, fingerprint: Any = False) -> Callable[[Any], Any]:
    """Return a handler that counts its runs, protected by the library *side*."""
    runs = Runs()
    if side == "here":
        options: dict[str, Any] = {"key": key, "name": "side", "fingerprint": fingerprint}

        @once_of(shop).event(**options)
        def here(event: Any) -> Any:
            return runs(event)

        return lambda event: here(event, CONTEXT)
    config = IdempotencyConfig(event_key_jmespath=key, raise_on_no_idempotency_key=True)

    @idempotent(persistence_store=shop.layer(), config=config, key_prefix="side")
    def powertools(event: Any, context: Any) -> Any:
        return runs(event)

    return lambda event: powertools(event, CONTEXT)


def once_of(shop: Shop) -> Once:
    """Return this package's side, on its own table."""
    return Once(store=DynamoDBStore(shop.tokens, shop.client), service="shop")


def test_event_source(shop: Shop) -> None:
    """Below a data class decorator, its event is the payload."""
    raw = batch(sqs_record({"id": 1}))
    runs = Runs()

    @event_source(data_class=SQSEvent)
    @idempotent(persistence_store=shop.layer(), config=IdempotencyConfig(), key_prefix="side")
    def old(event: SQSEvent, context: Any) -> Any:
        return runs(event)

    assert old(raw, CONTEXT) == old(raw, CONTEXT) == {"run": 1}

    @once_of(shop).event(key="detail.id", name="new")
    def inner(event: Any) -> Any:
        return runs(event)

    new = event_source(data_class=Custom)(inner)
    assert new({"detail": {"id": 1}}, CONTEXT) == new({"detail": {"id": 1}}, CONTEXT) == {"run": 2}


@pytest.mark.parametrize(
    ("key", "event", "powertools", "here"),
    [
        ("id", {"id": "o-1"}, "key", "key"),
        ("id", {"id": 0}, "key", "key"),
        ("id", {"id": False}, "key", "key"),
        ("id", {"id": ""}, "none", "none"),
        ("id", {"id": None}, "none", "none"),
        ("id", {}, "none", "none"),
        ("id", {"id": []}, "none", "none"),
        ("id", {"id": {}}, "none", "none"),
        ("[a, b]", {"a": 1, "b": 2}, "key", "key"),
        ("[a, b]", {}, "none", "none"),
        ("{a: a, b: b}", {}, "none", "none"),
        ("[a, b]", {"a": 1}, "key", "none"),
        ("{a: a, b: b}", {"a": 1}, "key", "none"),
        ("id", {"id": [None, "v"]}, "key", "key"),
        ("id", {"id": {"a": None, "b": 1}}, "key", "key"),
        ("id", {"id": [[None]]}, "key", "key"),
        ("[id, a]", {"id": {"b": None}, "a": 1}, "key", "none"),
        ("id", {"id": {"a": {}}}, "key", "key"),
        ("id", {"id": " "}, "key", "key"),
        ("id", {"id": float("nan")}, "key", "key"),
    ],
)
def test_which_keys_are_keys(shop: Shop, key: str, event: Any, powertools: str, here: str) -> None:
    """What Powertools takes for a key and this package refuses: parts that are missing or null."""
    assert [_taken(side, shop, key, event) for side in ("powertools", "here")] == [powertools, here]


def _taken(side: str, shop: Shop, key: str, event: Any) -> str:
    protected = handler(side, shop, key)
    try:
        assert protected(event) == protected(event) == {"run": 1}
    except NO_KEY:
        return "none"
    return "key"


def test_a_path_is_a_key(shop: Shop) -> None:
    """Powertools hashes a path as its text, and so does an expression here."""
    path = PurePosixPath("/invoices/1")
    config = IdempotencyConfig(lambda_context=CONTEXT)
    old: Any = idempotent_function(
        as_text, data_keyword_argument="order", persistence_store=shop.layer(), config=config
    )
    assert old(order=path) == old(order=path)
    work = once_of(shop).function(key="order")(as_text)
    assert work(path) == work(path) == "/invoices/1"


def test_numbers_that_are_equal(shop: Shop) -> None:
    """1, 1.0 and "1" are three keys of Powertools, and one here, where the fingerprint tells types apart."""
    old, new = handler("powertools", shop, "id"), handler("here", shop, "id")
    assert [old({"id": id_})["run"] for id_ in (1, 1.0, "1")] == [1, 2, 3]
    assert [new({"id": id_})["run"] for id_ in (1, 1.0, "1")] == [1, 1, 1]
    strict = handler("here", shop, "id", fingerprint="id")
    strict({"id": 2})
    with pytest.raises(KeyReused):
        strict({"id": "2"})


@dataclass(frozen=True)
class Receipt:
    """A dataclass."""

    id: str


class Model(BaseModel):
    """A pydantic model."""

    id: str


PAIR: Any = (lambda receipt: {"i": receipt.id}, lambda data: Receipt(data["i"]))


@pytest.mark.parametrize(
    ("result", "serializer", "options"),
    [
        (Receipt("1"), DataclassSerializer(model=Receipt), {"returns": Receipt}),
        (Model(id="1"), PydanticSerializer(model=Model), {"returns": Model}),
        (Receipt("1"), CustomDictSerializer(*PAIR), {"codec": PAIR}),
        (None, CustomDictSerializer(*PAIR), {"codec": PAIR}),
    ],
)
@pytest.mark.parametrize("first", ["old", "new"])
def test_serialisers(shop: Shop, result: Any, serializer: Any, options: Any, first: str) -> None:
    """A replay is of the same type; and what one version stored the other one reads (history)."""
    runs = Runs()

    def work(order: int) -> Any:
        runs(order)
        return result

    config = IdempotencyConfig(lambda_context=CONTEXT)
    old = idempotent_function(
        work,
        data_keyword_argument="order",
        persistence_store=shop.layer(),
        config=config,
        output_serializer=serializer,
        key_prefix="side",
    )
    history = shop.history(key="", key_prefix="side")
    new = shop.once(history=history).function(key="order", **options)(work)
    calls = [old, old, new, new] if first == "old" else [new, new, old, old]
    assert [call(order=5) for call in calls] == [result] * 4
    assert len(runs.seen) == 1


def test_without_the_remaining_time(shop: Shop) -> None:
    """Powertools warns, and killed work stays in progress until it expires; here it has a lease."""
    config = IdempotencyConfig()

    def killed(order: int) -> None:
        raise SystemExit

    decorated: Any = idempotent_function(
        killed, data_keyword_argument="order", persistence_store=shop.layer(), config=config
    )
    with pytest.warns(UserWarning, match="Couldn't determine the remaining time"), pytest.raises(SystemExit):
        decorated(order=1)
    record = shop.record()
    assert record is not None
    assert "in_progress_expiration" not in record
    seen: list[Any] = []
    once = once_of(shop)
    once.function(key="order", name="work")(lambda order: seen.append([order, once.current().lease]))(1)
    assert seen[0][1] is not None
