"""
Powertools' own scenarios, run on both libraries with the same events (docs/from-powertools.md lists them).

Where both behave alike there is one assertion for both; where they differ the test states how.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes import SQSEvent, event_source
from aws_lambda_powertools.utilities.data_classes.common import DictWrapper
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyKeyError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.serialization.custom_dict import CustomDictSerializer
from aws_lambda_powertools.utilities.idempotency.serialization.dataclass import DataclassSerializer
from aws_lambda_powertools.utilities.idempotency.serialization.pydantic import PydanticSerializer
from botocore.exceptions import ReadTimeoutError
from pydantic import BaseModel

from lambda_once import InProgress, KeyMissing, KeyReused, Misconfigured, Once
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import api_event, lambda_context
from tests.history.test_failures import Broken
from tests.kit.powertools import Shop
from tests.sources.samples import batch, sqs_record

IN_PROGRESS = (IdempotencyAlreadyInProgressError, InProgress)
TAMPERED = (IdempotencyValidationError, KeyReused)
NO_KEY = (IdempotencyKeyError, KeyMissing)
CONTEXT = lambda_context("shop")
Work = Callable[..., Any]


class Custom(DictWrapper):
    """A data class of an application's own."""


def as_text(order: Any) -> str:
    """Return *order* as text."""
    return str(order)


class Side:
    """One of the two libraries, on tables of its own."""

    name: str

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    def handler(self, work: Work, key: str | None = "id", **options: Any) -> Callable[[Any], Any]:
        """Return a handler that does *work*; *options*: ``validation``, ``cache``, ``hook``, ``raises``."""
        raise NotImplementedError

    def function(self, work: Work, key: str | None = None) -> Work:
        """Return a protected function of ``order=`` and other arguments."""
        raise NotImplementedError

    def age(self) -> None:
        """Let what is stored expire."""
        raise NotImplementedError


class Old(Side):
    name = "powertools"

    def handler(self, work: Work, key: str | None = "id", **options: Any) -> Callable[[Any], Any]:
        config = IdempotencyConfig(
            event_key_jmespath=key or "",
            payload_validation_jmespath=options.get("validation", ""),
            raise_on_no_idempotency_key=options.get("raises", True),
            use_local_cache=options.get("cache", 0) > 0,
            response_hook=options.get("hook"),
        )

        @idempotent(persistence_store=self.shop.layer(), config=config, key_prefix="side")
        def handler(event: Any, context: Any) -> Any:
            return work(event)

        return lambda event: handler(event, CONTEXT)

    def function(self, work: Work, key: str | None = None) -> Work:
        config = IdempotencyConfig(event_key_jmespath=key or "", lambda_context=CONTEXT)
        decorated: Work = idempotent_function(
            work, data_keyword_argument="order", persistence_store=self.shop.layer(), config=config
        )
        return decorated

    def age(self) -> None:
        for item in self.shop.client.scan(TableName=self.shop.records)["Items"]:
            self.shop.client.put_item(TableName=self.shop.records, Item=item | {"expiration": {"N": "1000"}})


class New(Side):
    name = "lambda_once"

    def handler(self, work: Work, key: str | None = "id", **options: Any) -> Callable[[Any], Any]:
        hook = options.get("hook")
        made: Any = self.once.event
        once = made(
            name="side",
            keep=timedelta(hours=1),
            fingerprint=options.get("validation", False),
            cache=options.get("cache", 0),
            **({} if key is None else {"key": key}),
            **({} if hook is None else {"on_replay": hook}),
        )

        def handle(event: Any) -> Any:
            return work(event)

        handler = once(handle)
        return lambda event: handler(event, CONTEXT)

    def function(self, work: Work, key: str | None = None) -> Work:
        path = "order" if key is None else f"order.{key}"
        return self.once.function(key=path, fingerprint=False)(work)

    @property
    def once(self) -> Once:
        return Once(store=DynamoDBStore(self.shop.tokens, self.shop.client), service="shop")

    def age(self) -> None:
        for item in self.shop.client.scan(TableName=self.shop.tokens)["Items"]:
            self.shop.client.put_item(TableName=self.shop.tokens, Item=item | {"ttl": {"N": "1000"}})


@pytest.fixture(params=[Old, New], ids=lambda side: side.name)
def side(request: pytest.FixtureRequest, shop: Shop) -> Side:
    """Each library in turn."""
    made: Side = request.param(shop)
    return made


class Runs:
    """Work that counts its runs."""

    def __init__(self, result: Any = None) -> None:
        self.seen: list[Any] = []
        self._result = result

    def __call__(self, event: Any = None, **others: Any) -> Any:
        self.seen.append(event if event is not None else others)
        return {"run": len(self.seen)} if self._result is None else self._result


# ------------------------------------------------------------------------------------------- handlers


@pytest.mark.parametrize("cache", [0, 256])
def test_already_completed(side: Side, cache: int) -> None:
    """A duplicate gets the stored result, with and without a local cache."""
    runs = Runs()
    handler = side.handler(runs, cache=cache)
    assert [handler({"id": 1}), handler({"id": 1, "other": 2}), handler({"id": 2})] == [
        {"run": 1},
        {"run": 1},
        {"run": 2},
    ]


def test_in_progress(side: Side) -> None:
    """A duplicate meanwhile is refused."""

    def again(event: Any) -> Any:
        return handler(event)

    handler = side.handler(again)
    with pytest.raises(IN_PROGRESS, match=r"in progress"):
        handler({"id": 1})


def test_expired(side: Side) -> None:
    """After the time to live the work runs again."""
    handler = side.handler(Runs())
    assert handler({"id": 1}) == {"run": 1}
    side.age()
    assert handler({"id": 1}) == {"run": 2}


def test_the_event_is_changed(side: Side) -> None:
    """The key is that of the event before the handler changed it."""
    runs = Runs()

    def work(event: dict[str, Any]) -> Any:
        event["id"] = "changed"
        return runs(event)

    handler = side.handler(work)
    assert handler({"id": 1}) == handler({"id": 1}) == {"run": 1}


def test_an_exception_releases(side: Side) -> None:
    """It reaches the caller, and the next delivery runs."""
    runs = Runs()

    def work(event: Any) -> Any:
        if not runs(event)["run"] > 1:
            raise ValueError("declined")
        return "charged"

    handler = side.handler(work)
    with pytest.raises(ValueError, match="declined"):
        handler({"id": 1})
    assert handler({"id": 1}) == handler({"id": 1}) == "charged"


@pytest.mark.parametrize("cache", [0, 256])
def test_a_tampered_payload(side: Side, cache: int) -> None:
    """``payload_validation_jmespath`` is ``fingerprint=``: the same key with another amount is refused."""
    handler = side.handler(Runs(), validation="total", cache=cache)
    assert handler({"id": 1, "total": 5, "trace": 1}) == handler({"id": 1, "total": 5, "trace": 2})
    with pytest.raises(TAMPERED):
        handler({"id": 1, "total": 6})


def test_the_hash_of_the_whole_event(side: Side) -> None:
    """Without a key, in any order of its fields."""
    handler = side.handler(Runs(), key=None)
    assert handler({"a": 1, "b": 2}) == handler({"b": 2, "a": 1}) == {"run": 1}
    assert handler({"a": 1, "b": 3}) == {"run": 2}


@pytest.mark.parametrize("result", [{"run": 1}, None, {}])
def test_a_response_hook(side: Side, result: Any) -> None:
    """``response_hook`` is ``on_replay=``: it is called for a replay only, None included."""
    calls: list[Any] = []

    def hook(response: Any, stored: Any) -> Any:
        calls.append(response)
        return "hooked"

    handler = side.handler(lambda _: result, hook=hook)
    assert handler({"id": 1}) == result
    assert calls == []
    assert handler({"id": 1}) == "hooked"
    # Powertools' hook gets None for an empty dict.
    assert calls == [None if side.name == "powertools" and not result else result]


def test_powertools_json(side: Side) -> None:
    """Powertools' functions of JMESPath work in ``key=``, over an event."""
    handler = side.handler(Runs(), key="powertools_json(body).[user, id]")
    event = {"body": '{"user": "bob", "id": 1}'}
    assert handler(event) == handler({**event, "body": '{"id": 1, "user": "bob"}'}) == {"run": 1}


def test_an_unknown_function(shop: Shop) -> None:
    """Powertools fails at the first event, this package when decorated; give a callable."""
    with pytest.raises(IdempotencyPersistenceLayerError):
        Old(shop).handler(Runs(), key="mine(id)")({"id": 1})
    with pytest.raises(Misconfigured):
        New(shop).handler(Runs(), key="mine(id)")


def test_event_source(shop: Shop) -> None:
    """Below a data class decorator, its event is the payload."""
    raw = batch(sqs_record({"id": 1}))
    runs = Runs()

    @event_source(data_class=SQSEvent)
    @idempotent(persistence_store=shop.layer(), config=IdempotencyConfig(), key_prefix="side")
    def old(event: SQSEvent, context: Any) -> Any:
        return runs(event)

    assert old(raw, CONTEXT) == old(raw, CONTEXT) == {"run": 1}

    @New(shop).once.event(key="detail.id", name="new")
    def inner(event: Any) -> Any:
        return runs(event)

    new = event_source(data_class=Custom)(inner)
    assert new({"detail": {"id": 1}}, CONTEXT) == new({"detail": {"id": 1}}, CONTEXT) == {"run": 2}


# ----------------------------------------------------------------------------------------------- keys


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
    assert [_taken(side, key, event) for side in (Old(shop), New(shop))] == [powertools, here]


def _taken(side: Side, key: str, event: Any) -> str:
    handler = side.handler(Runs(), key=key)
    try:
        assert handler(event) == handler(event) == {"run": 1}
    except NO_KEY:
        return "none"
    return "key"


def test_a_path_is_no_key(shop: Shop) -> None:
    """Powertools hashes a path as its text; here ``key=`` has to make it one."""
    path = PurePosixPath("/invoices/1")
    old = Old(shop).function(as_text)
    assert old(order=path) == old(order=path)
    with pytest.raises(KeyMissing, match="PurePosixPath has no canonical form"):
        New(shop).function(as_text)(order=path)
    work = New(shop).once.function(key=as_text, fingerprint=False)(as_text)
    assert work(path) == work(path) == "/invoices/1"


def test_numbers_that_are_equal(shop: Shop) -> None:
    """1, 1.0 and "1" are three keys of Powertools, and one here, where the fingerprint tells types apart."""
    old, new = Old(shop).handler(Runs()), New(shop).handler(Runs())
    assert [old({"id": id_})["run"] for id_ in (1, 1.0, "1")] == [1, 2, 3]
    assert [new({"id": id_})["run"] for id_ in (1, 1.0, "1")] == [1, 1, 1]
    strict = New(shop).handler(Runs(), key="id", validation="id")
    strict({"id": 2})
    with pytest.raises(KeyReused):
        strict({"id": "2"})


def test_without_a_key(shop: Shop) -> None:
    """Powertools runs unprotected by default; here that has to be asked for."""
    old = Old(shop).handler(Runs(), raises=False)
    with pytest.warns(UserWarning, match="No idempotency key"):
        assert [old({})["run"], old({})["run"]] == [1, 2]
    runs = Runs({"statusCode": 201})

    @New(shop).once.api_gateway(without_key="run")
    def handler(event: Any) -> Any:
        return runs(event)

    @New(shop).once.function(key="event.id")
    def protected(event: Any) -> Any:
        return runs(event)

    def optional(event: Any) -> Any:
        return protected(event) if event.get("id") else protected.__wrapped__(event)  # type: ignore[attr-defined]

    for _ in range(2):
        handler(api_event(body={"a": 1}), CONTEXT)
        optional({})
    assert len(runs.seen) == 4


# ------------------------------------------------------------------------------------------ functions


@pytest.mark.parametrize("order", [0, 1, "text", ["a"], {"id": 1}, 1.5, True])
def test_functions_of_any_argument(side: Side, order: Any) -> None:
    """The named argument is the key, passed by name as Powertools requires."""
    runs = Runs()

    def work(customer: str, *, order: Any) -> Any:
        return runs(customer)

    protected = side.function(work)
    assert protected("bob", order=order) == protected("eve", order=order) == {"run": 1}


def test_other_arguments_are_compared(shop: Shop) -> None:
    """Powertools ignores them; here they are the fingerprint, unless ``fingerprint=False``."""

    @New(shop).once.function(key="order")
    def charge(customer: str, order: int) -> str:
        return customer

    charge("bob", order=1)
    with pytest.raises(KeyReused, match="customer"):
        charge("eve", order=1)


def test_arguments_by_position(shop: Shop) -> None:
    """Powertools refuses them when called; here both ways are one call."""

    def work(order: int) -> int:
        return order

    with pytest.raises(RuntimeError, match="Unable to extract 'order'"):
        Old(shop).function(work)(1)
    new = New(shop).function(work)
    assert new(1) == new(order=1) == 1


# --------------------------------------------------------------------------------------- serialisers


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


# -------------------------------------------------------------------------------- batches, environment


def test_under_batch_processor(shop: Shop) -> None:
    """`once.function` takes the place of ``idempotent_function`` on a record handler."""
    runs = Runs()
    processor = BatchProcessor(event_type=EventType.SQS)
    config = IdempotencyConfig(event_key_jmespath="messageId", lambda_context=CONTEXT)

    def work(record: SQSRecord) -> Any:
        return runs(record.message_id)

    old: Any = idempotent_function(
        work, data_keyword_argument="record", persistence_store=shop.layer(), config=config
    )
    new = New(shop).once.function(key=lambda record: record.message_id, fingerprint=False)(work)
    event = batch(sqs_record("a", id_="m-1"), sqs_record("a", id_="m-2"))
    for handler in (lambda record: old(record=record), new):
        before = len(runs.seen)
        for _ in range(2):
            answer = process_partial_response(
                event=event, record_handler=handler, processor=processor, context=CONTEXT
            )
            assert answer == {"batchItemFailures": []}
        assert len(runs.seen) - before == 2


@pytest.mark.parametrize("word", ["1", "y", "yes", "t", "true", "on", "True"])
@pytest.mark.filterwarnings("ignore:Disabling idempotency")
def test_disabled(side: Side, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """The same words switch either library off, each by its own variable."""
    name = "POWERTOOLS_IDEMPOTENCY_DISABLED" if side.name == "powertools" else "LAMBDA_ONCE_DISABLED"
    monkeypatch.setenv(name, word)
    handler = side.handler(Runs())
    assert [handler({"id": 1})["run"], handler({"id": 1})["run"]] == [1, 2]


# ------------------------------------------------------------------------------------------- failures


LOST = ReadTimeoutError(endpoint_url="http://table")


def test_the_result_cannot_be_stored(shop: Shop) -> None:
    """Powertools raises although the work is done; here the caller gets its result, and an alarm rings."""
    broken = shop.through(Broken(shop.client, "update_item", LOST))
    with pytest.raises(IdempotencyPersistenceLayerError):
        Old(broken).handler(Runs())({"id": 1})
    store = _FinishesNothing(shop.tokens, shop.client)
    work = Once(store=store, service="shop").function(key="n")(lambda n: n)
    assert work(5) == 5


class _FinishesNothing(DynamoDBStore):
    def write(self, writes: Any, _deadline: Any) -> Any:
        return [Misconfigured("no permission")] * len(writes)


def test_the_release_cannot_be_stored(shop: Shop) -> None:
    """Powertools hides the work's own error; here it is raised."""

    def fail(event: Any) -> None:
        raise ValueError("declined")

    with pytest.raises(IdempotencyPersistenceLayerError):
        Old(shop.through(Broken(shop.client, "delete_item", LOST))).handler(fail)({"id": 1})
    store = _FinishesNothing(shop.tokens, shop.client)
    with pytest.raises(ValueError, match="declined"):
        Once(store=store, service="shop").function(key="event.id")(fail)({"id": 1})


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
    once = New(shop).once
    once.function(key="order")(lambda order: seen.append([order, once.current().lease]))(1)
    assert seen[0][1] is not None


# ------------------------------------------------------------------------------------------- the page


def test_the_page_names_tests_that_exist() -> None:
    """Each scenario of docs/from-powertools.md that has a counterpart names its test."""
    page = (Path(__file__).parents[2] / "docs" / "from-powertools.md").read_text(encoding="utf-8")
    tests = "".join(each.read_text(encoding="utf-8") for each in Path(__file__).parent.glob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 20
    assert named <= set(re.findall(r"def (test_\w+)", tests))
