"""
Log events and metrics as functions write them: scenarios that meet each, and what came to standard output.

What `lines` makes of that is committed in tests/golden/surface.txt. A new event, or a field that an event has
only in other cases, needs a scenario here.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from datetime import timedelta
from functools import cache
from typing import Any, Final, NoReturn

import pytest
from aws_lambda_powertools.metrics import EphemeralMetrics
from botocore.exceptions import ClientError

from lambda_once import HOLD, STORE, Once, OnceError
from lambda_once.observability.reporter import standard_logger
from lambda_once.operations import stream
from lambda_once.operations.listing import MOST_PAGES
from lambda_once.operations.times import CorrectedClock
from lambda_once.operations.watchdog import watchdog as watchdog_of
from lambda_once.patterns import Documents, Ledger, Publisher, Ratchet, Unique
from lambda_once.testing import (
    FakeClock,
    api_event,
    create_table,
    kafka_event,
    kinesis_event,
    lambda_context,
    sqs_event,
)
from tests.decorators.rig import Rig, elsewhere
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.operations.streamed import Streamed
from tests.operations.watch import CHARGE, Post
from tests.patterns.conftest import Ground
from tests.patterns.fifo.queues import TOPIC, Fate, Fifo

SERVICE: Final = "emissions"
OF_POWERTOOLS: Final = {
    *("level", "location", "message", "timestamp", "service", "xray_trace_id", "sampling_rate"),
    *("exception", "exception_name", "stack_trace"),
}
"""What its Logger adds to each line."""
READ_BY_CODE: Final = ("AWS_", "LAMBDA_ONCE_", "POWERTOOLS_", "LOG_LEVEL")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@cache
def every_line() -> frozenset[str]:
    """Return what all scenarios write."""
    return frozenset(lines(*SCENARIOS))


def lines(*scenarios: Callable[[], None]) -> Iterator[str]:
    """Yield what alarms, dashboards and queries select: events, their levels and fields, metrics, units."""
    for each in written(scenarios):
        if "_aws" in each:
            yield from _of_document(each)
        else:
            event = f"log event {each['message']}"
            yield f"{event} {each['level']}"
            fields = each.keys() - OF_POWERTOOLS
            yield from (f"{event} has {field} ({_kind(each[field])})" for field in fields)


def written(scenarios: Iterable[Callable[[], None]]) -> list[dict[str, Any]]:
    """Run *scenarios*; return the log lines and metrics documents that came to standard output."""
    output = io.StringIO()
    with _environment(), redirect_stdout(output):
        for scenario in scenarios:
            with mounted():
                scenario()
    return [json.loads(line) for line in output.getvalue().splitlines()]


def _of_document(document: dict[str, Any]) -> Iterator[str]:
    for directive in document["_aws"]["CloudWatchMetrics"]:
        for dimensions in directive["Dimensions"]:
            for metric in directive["Metrics"]:
                yield f"metric {metric['Name']} in {metric['Unit']} by {', '.join(dimensions)}"


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "time" if _TIME.fullmatch(value) else "text"
    return "number" if isinstance(value, int | float) else type(value).__name__


@contextmanager
def _environment() -> Iterator[None]:
    """A function's variables, and every line logged."""
    with pytest.MonkeyPatch.context() as environment:
        for name in list(os.environ):
            if name.startswith(READ_BY_CODE):
                environment.delenv(name)
        for name, value in {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": tables.REGION,
            "AWS_LAMBDA_FUNCTION_NAME": "orders",
            "POWERTOOLS_LOG_LEVEL": "DEBUG",
        }.items():
            environment.setenv(name, value)
        yield


# ------------------------------------------------------------------ tokens


class Shop:
    """Handlers of one queue, on a store and a clock in hand."""

    def __init__(self, **options: Any) -> None:
        self.rig = Rig()
        self.once = Once(store=self.rig.store, service=SERVICE, logger=_logger(), **options)
        self.once._runtime.clock = self.rig.clock

    def deliver(self, handler: Callable[..., Any], *messages: str, **body: object) -> None:
        """Hand *body* to *handler* as each of *messages*, in another environment; what it raises is SQS's."""
        for message in messages or ("m1",):
            event = sqs_event({"id": 1} | body, message_ids=[message])
            with suppress(Exception):
                elsewhere(handler, event, self.rig.context())


def _logger() -> Any:
    return standard_logger(None, SERVICE)


def _works(*_: object) -> None:
    pass


def _object(event: object) -> object:
    return object()


def _fails(*_: object) -> NoReturn:
    raise ValueError


def _sets_a_cookie(_: object) -> dict[str, object]:
    return {"statusCode": 200, "cookies": ["session=a"]}


def _pair() -> Any:
    return 1, 2


def _large() -> str:
    return os.urandom(5_000).hex()


def outcomes() -> None:
    """Work that returns, is delivered again, equal content, another payload, work that completes itself."""
    shop = Shop()
    shop.once.run("given", "given", lambda: shop.once.current().complete(1))
    shop.deliver(shop.once.sqs(name="keyed", key="id")(_works), "m1", "m1")
    shop.deliver(shop.once.sqs(name="hashed")(_works), "m1", "m2")
    handler = shop.once.sqs(name="amended", key="id")(_works)
    shop.deliver(handler, "m1", cents=1)
    shop.deliver(handler, "m2", cents=2)


def failures() -> None:
    """Work that raises, under each policy and one that raises itself, and the duplicate afterwards."""
    shop = Shop()
    policies: dict[str, Any] = {"store": STORE, "hold": HOLD, "release": {}, "broken": _fails}
    for name, policy in policies.items():
        handler = shop.once.sqs(name=name, key="id", on_error=policy)(_fails)
        shop.deliver(handler, "m1", "m1")


def lapses() -> None:
    """An attempt that is overtaken while it works, a duplicate of one in progress, and a broken probe."""
    shop = Shop()

    @shop.once.sqs(name="overtaken", key="id")
    def overtaken(record: object) -> None:
        if not shop.rig.clock.slept:
            shop.deliver(overtaken)
            shop.rig.clock.sleep(33)
            shop.deliver(overtaken)

    shop.deliver(overtaken)
    asked = shop.once.sqs(name="asked", key="id", on_lapse=_fails)(_works)
    with shop.rig.crash():
        shop.deliver(asked)
    shop.rig.clock.advance(33)
    shop.deliver(asked)


def outages() -> None:
    """A table that does not answer, before the work and after it."""
    shop = Shop()

    @shop.once.sqs(name="cut off", key="id")
    def work(record: object) -> None:
        shop.rig.store.out = True

    shop.deliver(work)
    shop.deliver(work)


def endings() -> None:
    """A batch whose invocation ends before its last records start."""
    shop = Shop()

    @shop.once.sqs(name="ending", key="id")
    def ending(_: object) -> None:
        shop.rig.clock.sleep(29)

    elsewhere(ending, sqs_event({"id": 1}, {"id": 2}, {"id": 3}), shop.rig.context())


def mistakes() -> None:
    """No key, a key function that raises, results that JSON changes or cannot write, a frame, a hook."""
    shop = Shop(hooks=[_fails])
    shop.deliver(shop.once.sqs(name="keyless", key="orderId")(_works))
    shop.deliver(shop.once.sqs(name="broken key", key=_fails)(_works))
    shop.deliver(shop.once.sqs(name="unprotected", key="orderId", without_key="run")(_works))
    keyless = shop.once.api_gateway(name="keyless request", key="orderId")(_works)
    keyless(api_event("POST", "/orders", {"id": 1}), shop.rig.context())
    with suppress(OnceError):
        shop.once.event(name="unstorable", key="id")(_object)({"id": 1}, shop.rig.context())
    shop.once.run("pair", "changed", _pair)
    shop.once.run("works", "compared in part", _works, object())
    shop.deliver(shop.once.sqs(name="unread", key="id")(lambda _: object()))
    shop.deliver(shop.once.sqs(name="lazy", key="id")(lambda _: iter(())))
    record = kinesis_event("a", "b")
    record["Records"][0]["kinesis"]["data"] = "%"
    shop.once.kinesis(name="parked", on_give_up=_works)(_works)(record, shop.rig.context())
    shop.once.kafka(name="framed")(_works)(kafka_event(b"\0\0\0\0\5{}"), shop.rig.context())


def environments() -> None:
    """What is said once: no service, no context, no caller, switches, a denied batch, a declined client."""
    shop = Shop()
    handler = shop.once.sqs(name="contextless", key="id")(_works)
    handler(sqs_event({"id": 1}), None)
    api = shop.once.api_gateway(name="open")(_works)
    api(api_event("POST", "/orders", {"id": 1}, {"Idempotency-Key": "1"}), shop.rig.context())
    strict = shop.once.api_gateway(name="strict", unscoped="refuse")(_works)
    strict(api_event("POST", "/orders", {"id": 1}), shop.rig.context())
    api(api_event("GET", "/orders", None, {"Idempotency-Key": "1"}), shop.rig.context())
    sign_in = shop.once.api_gateway(name="sign in")(_sets_a_cookie)
    sign_in(api_event("POST", "/sessions", {"code": 1}), shop.rig.context())
    nameless = Once(store=shop.rig.store, logger=_logger())
    nameless.run("len", "k", len, [])
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", "1")
        shop = Shop()
        shop.deliver(shop.once.sqs(name="theirs", key="id")(_works))
        environment.setenv("LAMBDA_ONCE_DISABLED", "1")
        shop.deliver(shop.once.sqs(name="ours", key="id")(_works))


def names() -> None:
    """A method of two classes."""
    shop = Shop()

    class Base:
        @shop.once.function(key="order")
        def notify(self, order: int) -> None:
            pass

    class Mail(Base): ...

    for kind in (Base, Mail):
        kind().notify(1)


def clients() -> None:
    """A client of ours, a role without PartiQL and part rows, and crt's client where it will not do."""
    client = tables.client()
    post = Post(client, "tokens")
    create_table(client, "tokens")
    once = Once(table="tokens", client=client, service=SERVICE, logger=_logger())
    denied = ClientError({"Error": {"Code": "AccessDeniedException"}}, "BatchExecuteStatement")
    with post.failing("BatchExecuteStatement", denied):
        once.sqs(name="batch", key="id")(_works)(sqs_event({"id": 1}, {"id": 2}), lambda_context())
    with post.failing("BatchWriteItem", denied):
        once.run("large", "large", _large)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_USE_FIPS_ENDPOINT", "true")
        crt = Once(table="tokens", client="crt", service=SERVICE, logger=_logger())
        crt.run("len", "k", len, [])


# ------------------------------------------------------------------ patterns, the watchdog


@contextmanager
def _ground() -> Iterator[tuple[Ground, dict[str, Any]]]:
    with ExitStack() as stack:
        seen = {"logger": _logger(), "metrics": EphemeralMetrics(namespace=SERVICE, service=SERVICE)}
        yield Ground(tables.client(), stack), seen


def patterns() -> None:
    """Each outcome of a pattern that is counted."""
    with _ground() as (ground, seen):
        clock = FakeClock()
        points = Ledger(ground.table(), ground.client, window=timedelta(days=1), **seen)
        for _ in range(2):
            points.add("c", {"balance": 1}, id="m1")
        points.add("c", {"balance": -9}, id="m2", floor={"balance": 0})
        with suppress(OnceError):
            points.update("c", {"note": "a"}, expected={"balance": 99})
        _change_without_an_id(points)
        with suppress(OnceError):
            points.add("c", {"balance": 1}, id="m3", set={"filling": "x" * 409_600})
        prices = Ratchet(ground.table(), ground.client, key="pk", clock=clock, **seen)
        for hours in (0, -1, 1):
            with suppress(OnceError):
                prices.put({"pk": "p"}, clock.now() + timedelta(hours=hours))
        receipts = Unique(ground.table(), ground.client, key={"pk": "id"}, **seen)
        for cents in (1, 2):
            receipts.put({"id": "r", "cents": cents})
        documents = Documents(table := ground.table("pk", "sk"), ground.client, clock=clock, **seen)
        version = documents.write("d", {"n": 1})
        newest = documents.write("d", {"n": 2}, expected_version=version)
        for item in ground.client.scan(TableName=table)["Items"]:
            if item["sk"]["S"].startswith(newest):
                ground.client.delete_item(TableName=table, Key={name: item[name] for name in ("pk", "sk")})
        documents.read("d")
        fifo = Fifo(clock, lambda _: Fate.NEVER)
        publisher = Publisher(TOPIC, fifo, key="id", group="id", service=SERVICE, clock=clock, **seen)
        publisher.publish_all([{"id": 1}])


def _change_without_an_id(points: Ledger) -> None:
    shop = Shop()

    @shop.once.sqs
    def handler(_: object) -> None:
        points.change("c", lambda _: {"note": "b"})

    shop.deliver(handler)


def watchdog() -> None:
    """A run over lapsed tokens, one of them malformed, with a probe that raises."""
    with _ground() as (ground, seen):
        create_table(ground.client, "tokens")
        post = Post(ground.client, "tokens")
        post.lapse(*range(4))
        post.hold(CHARGE.format("held"))
        key = {"lockToken": {"S": CHARGE.format(3)}}
        ground.client.update_item(TableName="tokens", Key=key, UpdateExpression="REMOVE fence")
        actions = {"orders/charge": _fails}
        with suppress(OnceError):
            post.run(lambda_context(), actions=actions, **seen)


def clocks() -> None:
    """A watchdog whose clock is ten minutes fast."""
    with _ground() as (ground, seen):
        create_table(ground.client, "tokens")
        post = Post(ground.client, "tokens")
        dated = {"HTTPHeaders": {"date": "Fri, 20 Nov 2026 10:12:00 GMT"}}
        ground.client.meta.events.register(
            "after-call.dynamodb", lambda parsed, **_: parsed["ResponseMetadata"].update(dated)
        )
        post.lapse(1)
        post.clock = CorrectedClock(FakeClock(post.clock.now() + timedelta(minutes=10)))  # type: ignore[assignment]
        post.run(lambda_context(), actions={"orders/charge": "release"}, **seen)


def crowd() -> None:
    """A watchdog at more tokens in progress than it counts."""
    with _ground() as (ground, seen):
        create_table(ground.client, "tokens")
        post = Post(ground.client, "tokens")
        post.page_by(1)
        for key in range(MOST_PAGES + 1):
            post.acquire(CHARGE.format(key))
        post.run(lambda_context(), **seen)


def gaps() -> None:
    """A watchdog that has not read the table's stream for a day."""
    with _ground() as (_, seen), pytest.MonkeyPatch.context() as patch:
        world = Streamed()
        patch.setattr(stream, "streams_client", lambda _table: world.streams)
        handler = watchdog_of("tokens", world.client, world.clock, listing="stream", sweep=False, **seen)
        for _ in range(2):
            handler({}, lambda_context())
            world.clock.advance(24 * 3600)


SCENARIOS: Final = (
    outcomes,
    failures,
    lapses,
    outages,
    endings,
    mistakes,
    environments,
    names,
    clients,
    patterns,
    watchdog,
    clocks,
    crowd,
    gaps,
)
