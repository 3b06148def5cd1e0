"""Each row of docs/from-powertools.md, "Powertools' options and ours": same events, same answers."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import boto3
import jmespath
import pytest
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyPersistenceLayerError,
)
from aws_lambda_powertools.utilities.idempotency.serialization.custom_dict import CustomDictSerializer
from aws_lambda_powertools.utilities.idempotency.serialization.dataclass import DataclassSerializer
from aws_lambda_powertools.utilities.idempotency.serialization.pydantic import PydanticSerializer
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError
from pydantic import BaseModel

from lambda_once import Once, PowertoolsHistory, StoreUnavailable
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context
from tests.docs.pages import ROOT
from tests.history.test_failures import Broken
from tests.kit.powertools import ALIKE, Shop

PAGE = ROOT / "docs" / "from-powertools.md"
CONTEXT = lambda_context("shop")
LOST = ReadTimeoutError(endpoint_url="http://table")
SAME: dict[type[BaseException], str] = ALIKE | {
    IdempotencyPersistenceLayerError: "no table",
    StoreUnavailable: "no table",
}
"""What takes the place of an exception."""


class Sides(NamedTuple):
    """Work under either library, which counts its runs by itself."""

    old: Callable[..., Any]
    new: Callable[..., Any]


class Two:
    """Both libraries, each on a table of its own."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.once: Once = shop.once(history=None)

    def handlers(self, new: Callable[[Any], Any], **config: Any) -> Sides:
        """Return a handler under ``@idempotent`` with *config*, and the one that *new* makes of the work."""

        @idempotent(persistence_store=self.shop.layer(), config=IdempotencyConfig(**config))
        def handler(event: Any, context: Any) -> Any:
            return work(event)

        work, made = Counted(), new(_taking_one(Counted()))
        return Sides(lambda event: handler(event, CONTEXT), lambda event: made(event, CONTEXT))

    def functions(
        self, new: Callable[[Any], Any], work: Callable[[], Callable[..., Any]], **options: Any
    ) -> Sides:
        """Return what *work* makes under ``@idempotent_function``, and under *new*."""
        serializer = options.pop("serializer", None)
        config = IdempotencyConfig(lambda_context=CONTEXT, **options)
        old = idempotent_function(
            work(),
            data_keyword_argument="order",
            persistence_store=self.shop.layer(),
            config=config,
            output_serializer=serializer,
        )
        return Sides(old, new(work()))


class Counted:
    """Work that returns how often it has run."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, _event: Any) -> Any:
        self.runs += 1
        return {"statusCode": 200, "body": f"run {self.runs}"}


def _taking_one(work: Counted) -> Callable[[Any], Any]:
    def handler(event: Any) -> Any:
        return work(event)

    return handler


def answers(side: Callable[..., Any], calls: Iterable[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
    """Return what each of *calls* gets; what takes the place of one exception is one word."""
    found = []
    for args, kwargs in calls:
        try:
            answer = side(*args, **kwargs)
        except tuple(SAME) as error:
            answer = SAME[type(error)]
        found.append(answer["body"] if isinstance(answer, dict) and "body" in answer else answer)
    return found


def alike(sides: Sides, *events: Any) -> list[Any]:
    """Return what *events* get, which is the same on both sides."""
    calls: list[Any] = [((event,), {}) for event in events]
    old, new = answers(sides.old, calls), answers(sides.new, calls)
    assert new == old
    return old


def alike_by_name(sides: Sides, *calls: dict[str, Any]) -> list[Any]:
    """Return what *calls* get, which is the same on both sides."""
    named: list[Any] = [((), call) for call in calls]
    old, new = answers(sides.old, named), answers(sides.new, named)
    assert new == old
    return old


Row = Callable[[Two], None]
ROWS: dict[str, Row] = {}


def row(first_cell: str) -> Callable[[Row], Row]:
    """Let a function show the row of *first_cell*."""

    def add(show: Row) -> Row:
        ROWS[first_cell] = show
        return show

    return add


# ------------------------------------------------------------------------------------------------- keys


@row("`jmespath_options` with functions of your own")
def _(two: Two) -> None:
    class Own(jmespath.functions.Functions):  # type: ignore[misc]  # jmespath has no types
        @jmespath.functions.signature({"types": ["string"]})  # type: ignore[untyped-decorator]
        def _func_lower(self, text: str) -> str:
            return text.lower()

    new = two.once.event(key=lambda event: event["id"].lower(), fingerprint=False)
    sides = two.handlers(new, event_key_jmespath="lower(id)", jmespath_options={"custom_functions": Own()})
    assert alike(sides, {"id": "A"}, {"id": "a"}, {"id": "b"}) == ["run 1", "run 1", "run 2"]


@row(
    "`sort_key_attr`, `static_pk_value`, `hash_function`; [Redis, Valkey](stores.md#why-not-redis-or-valkey)"
)
def _(two: Two) -> None:
    for name in ("md5", "sha256"):
        sides = two.handlers(two.once.event(key="id", name=name), event_key_jmespath="id", hash_function=name)
        assert alike(sides, {"id": "x" * 5_000}, {"id": "x" * 5_000}) == ["run 1", "run 1"]
    _composite(two)
    assert not hasattr(two.once, "cache")


def _composite(two: Two) -> None:
    """Leave a table with a sort key, whose partition is one constant."""
    client, name = two.shop.client, f"composite-{uuid.uuid4()}"
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk")],
        BillingMode="PAY_PER_REQUEST",
    )

    def layer() -> DynamoDBPersistenceLayer:
        named = {"key_attr": "pk", "sort_key_attr": "sk", "static_pk_value": "shop"}
        return DynamoDBPersistenceLayer(table_name=name, boto3_client=client, **named)

    config, old_work, new_work = IdempotencyConfig("id"), Counted(), Counted()

    @idempotent(persistence_store=layer(), config=config, key_prefix="composite")
    def old(event: Any, context: Any) -> Any:
        return old_work(event)

    history = PowertoolsHistory(layer(), config=config, key_prefix="composite")
    new = two.shop.once(history=history).event(key="id", name="composite")(_taking_one(new_work))
    old({"id": 1}, CONTEXT)
    new({"id": 2}, CONTEXT)
    for order in (1, 2):
        assert old({"id": order}, CONTEXT) == new({"id": order}, CONTEXT)
    assert (old_work.runs, new_work.runs) == (1, 1)
    client.delete_table(TableName=name)


@row("`boto_config`, `boto3_session`, `boto3_client`")
def _(two: Two) -> None:
    session, config = boto3.Session(region_name="eu-central-1"), Config(read_timeout=2)
    client = session.client("dynamodb", config=config)
    once = Once(table="tokens", client=client, service="shop")
    layer = DynamoDBPersistenceLayer(table_name="t", boto3_session=session, boto_config=config)
    transport: Any = once._runtime._new_store().transport
    assert transport._client is client
    assert layer.client.meta.config.read_timeout == client.meta.config.read_timeout == 2


@row("`key_prefix`")
def _(two: Two) -> None:
    for prefix in ("a", "b"):
        old = _prefixed(two, prefix)
        new = two.once.event(key="id", name=prefix)(_taking_one(Counted()))
        sides = Sides(old, lambda event, new=new: new(event, CONTEXT))
        assert alike(sides, {"id": 1}, {"id": 1}) == ["run 1", "run 1"]  # b does not replay what a did


def _prefixed(two: Two, prefix: str) -> Callable[[Any], Any]:
    work = Counted()

    @idempotent(persistence_store=two.shop.layer(), config=IdempotencyConfig("id"), key_prefix=prefix)
    def handler(event: Any, context: Any) -> Any:
        return work(event)

    return lambda event: handler(event, CONTEXT)


# ------------------------------------------------------------------------------------------------- time


@row("`register_lambda_context`")
def _(two: Two) -> None:
    leases: list[float] = []

    @two.once.function(key="order")
    def charge(order: int) -> None:
        leases.append(two.once.current().lease.timestamp())

    with two.once.invocation(lambda_context("shop", remaining_ms=20_000)):
        charge(1)
    config = IdempotencyConfig(lambda_context=lambda_context("shop", remaining_ms=20_000))

    def old(order: int) -> None:
        record = two.shop.record() or {}
        leases.append(int(record["in_progress_expiration"]["N"]) / 1000)

    layer = two.shop.layer()
    idempotent_function(old, data_keyword_argument="order", persistence_store=layer, config=config)(order=1)
    assert leases[0] - leases[1] == pytest.approx(2, abs=1)  # the lease is two seconds longer


@row("`expires_after_seconds=3600`")
def _(two: Two) -> None:
    new = two.once.event(key="id", keep=timedelta(hours=1))
    alike(two.handlers(new, event_key_jmespath="id", expires_after_seconds=3600), {"id": 1})
    (record,), (token,) = two.shop.items(two.shop.records), two.shop.items(two.shop.tokens)
    assert int(token["ttl"]["N"]) == pytest.approx(int(record["expiration"]["N"]), abs=2)


@row("in progress for the remaining time")
def _(two: Two) -> None:
    assert _nested(two, {"id": 1}, {"id": 1}, event_key_jmespath="id") == ["in progress"] * 2
    two.shop.begun({"id": 2})
    with pytest.raises(SystemExit):
        two.once.event(key="id", name="charge")(_exit)({"id": 2}, CONTEXT)
    two.shop.lapse_all()
    sides = Sides(two.shop.old(Counted()), two.shop.new(Counted(), history=None))
    assert alike(sides, {"id": 2}) == ["run 1"]


def _exit(event: Any) -> None:
    raise SystemExit


def _nested(two: Two, first: Any, second: Any, **config: Any) -> list[Any]:
    """Return what *second* gets of either side while *first* is in progress."""
    found: list[Any] = []

    def during(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def work(event: Any) -> None:
            found.extend(answers(handler, [((second,), {})]))

        return work

    @idempotent(persistence_store=two.shop.layer(), config=IdempotencyConfig(**config))
    def old(event: Any, context: Any) -> None:
        during(lambda given: old(given, CONTEXT))(event)

    @two.once.event(key="id", fingerprint=config.get("payload_validation_jmespath", False), name="nested")
    def new(event: Any) -> None:
        during(lambda given: new(given, CONTEXT))(event)

    old(first, CONTEXT)
    new(first, CONTEXT)
    return found


@row("`use_local_cache`, `local_cache_max_items`")
def _(two: Two) -> None:
    config = {"event_key_jmespath": "id", "use_local_cache": True, "local_cache_max_items": 256}
    sides = two.handlers(two.once.event(key="id", cache=256), **config)
    alike(sides, {"id": 1})
    for table, key in ((two.shop.records, "id"), (two.shop.tokens, "lockToken")):
        for item in two.shop.items(table):
            two.shop.client.delete_item(TableName=table, Key={key: item[key]})
    assert alike(sides, {"id": 1}) == ["run 1"]


@row("`response_hook(response, record)`")
def _(two: Two) -> None:
    new = two.once.event(key="id", on_replay=lambda result, replayed: [result["body"], replayed.replayed])
    sides = two.handlers(
        new, event_key_jmespath="id", response_hook=lambda result, record: [result["body"], bool(record)]
    )
    assert alike(sides, {"id": 1}, {"id": 1}) == ["run 1", ["run 1", True]]


# ---------------------------------------------------------------------------------------------- results


@dataclass
class Receipt:
    """A dataclass that is returned."""

    id: int


class Bill(BaseModel):
    """A pydantic model that is returned."""

    id: int


@row("`DataclassSerializer`, `PydanticSerializer`")
def _(two: Two) -> None:
    kinds: Any = ((Receipt, DataclassSerializer), (Bill, PydanticSerializer))
    for kind, serializer in kinds:
        sides = two.functions(
            two.once.function(key="order", returns=kind, name=kind.__name__),
            partial(_returning, kind),
            serializer=serializer(model=kind),
        )
        assert alike_by_name(sides, {"order": 1}, {"order": 1}) == [kind(id=1)] * 2


def _returning(kind: Any) -> Callable[..., Any]:
    runs: list[int] = []

    def work(order: int) -> Any:
        runs.append(order)
        return kind(id=len(runs))

    return work


@row("`CustomDictSerializer(to_dict, from_dict)`")
def _(two: Two) -> None:
    pair: Any = (lambda receipt: {"i": receipt.id}, lambda data: Receipt(data["i"]))
    sides = two.functions(
        two.once.function(key="order", codec=pair),
        lambda: _returning(Receipt),
        serializer=CustomDictSerializer(*pair),
    )
    assert alike_by_name(sides, {"order": 1}, {"order": 1}) == [Receipt(1)] * 2


@row("`DynamoDBPersistenceLayer(table_name=…, key_attr=…)`")
def _(two: Two) -> None:
    shop = two.shop
    layer = DynamoDBPersistenceLayer(table_name=shop.records, key_attr="id", boto3_client=shop.client)
    once, work = Once(table=shop.tokens, client=shop.client, service="shop"), Counted()

    @idempotent(persistence_store=layer, config=IdempotencyConfig("id"))
    def old(event: Any, context: Any) -> Any:
        return work(event)

    new = once.event(key="id")(_taking_one(Counted()))
    sides = Sides(lambda event: old(event, CONTEXT), lambda event: new(event, CONTEXT))
    assert alike(sides, {"id": 1}, {"id": 1}) == ["run 1", "run 1"]


@row("`POWERTOOLS_IDEMPOTENCY_DISABLED`")
def _(two: Two) -> None:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for word in ("true", "on", "Y"):
            patch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", word)
            patch.setenv("LAMBDA_ONCE_DISABLED", word)
            assert alike(
                two.handlers(two.once.event(key="id"), event_key_jmespath="id"), *[{"id": 1}] * 2
            ) == [
                "run 1",
                "run 2",
            ]


# --------------------------------------------------------------------------------------------- exceptions


@row("`IdempotencyAlreadyInProgressError`, `…ValidationError`, `…KeyError`")
def _(two: Two) -> None:
    assert _nested(two, {"id": 1}, {"id": 1}, event_key_jmespath="id") == ["in progress"] * 2
    config = {"event_key_jmespath": "id", "payload_validation_jmespath": "total"}
    sides = two.handlers(two.once.event(key="id", fingerprint="total", name="validated"), **config)
    assert alike(sides, {"id": 7, "total": 5}, {"id": 7, "total": 6})[1] == "another payload"
    required: dict[str, Any] = {"event_key_jmespath": "id", "raise_on_no_idempotency_key": True}
    assert alike(two.handlers(two.once.event(key="id", name="keyed"), **required), {"other": 1}) == ["no key"]


@row("`IdempotencyPersistenceLayerError`")
def _(two: Two) -> None:
    _before_the_work(two)
    _after_the_work(two)


def _before_the_work(two: Two) -> None:
    shop = two.shop
    work = Counted()
    old = shop.through(Broken(shop.client, "put_item", LOST)).old(work)
    store = DynamoDBStore(shop.tokens, Broken(shop.client, "update_item", LOST))
    new = Once(store=store, service="shop").event(key="id")(_taking_one(work))
    sides = Sides(old, lambda event: new(event, lambda_context("shop", remaining_ms=400)))
    assert alike(sides, {"id": 1}) == ["no table"]
    assert work.runs == 0


def _after_the_work(two: Two) -> None:
    shop = two.shop
    old = shop.through(Broken(shop.client, "update_item", LOST)).old(Counted())
    assert answers(old, [(({"id": 1},), {})]) == ["no table"]  # although the work is done

    class Forgetful(DynamoDBStore):
        def write(self, writes: Any, deadline: Any) -> Any:
            return DynamoDBStore("nowhere", shop.client).write(writes, deadline)

    store = Forgetful(shop.tokens, shop.client)
    new = Once(store=store, service="shop").event(key="id")(_taking_one(Counted()))
    assert new({"id": 1}, CONTEXT)["body"] == "run 1"


# ----------------------------------------------------------------------------------------------- the page


def cells() -> list[str]:
    """Return the first cell of each row of the page's table."""
    text = (
        PAGE.read_text(encoding="utf-8").partition("## Powertools' options and ours")[2].partition("\n## ")[0]
    )
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line.split(" | ")[0].removeprefix("| ") for line in lines[1:]]


@pytest.mark.parametrize("cell", cells())
def test_a_row_is_true(shop: Shop, cell: str) -> None:
    """Both libraries give the same events the same answers, by the options of the row."""
    ROWS[cell](Two(shop))


def test_every_row_is_on_the_page() -> None:
    """A row that is changed or gone leaves no test behind."""
    assert set(cells()) == set(ROWS)
