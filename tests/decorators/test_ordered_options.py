"""Every option of the four ordered sources, for `def` and for `async def`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from pydantic import BaseModel

from lambda_once import STORE, GiveUp, Misconfigured, OnceError
from lambda_once.core.lifecycle import State
from lambda_once.observability.events import Event
from lambda_once.settings import Where, options_of
from lambda_once.testing import dynamodb_stream_event, kafka_event, kinesis_event, sqs_event
from tests.decorators.rig import Rig, elsewhere

Body = dict[str, Any]
A, B = {"order": "a", "tenant": "x", "note": 1}, {"order": "b", "tenant": "x", "note": 1}


def _kinesis(*bodies: Body) -> Any:
    return kinesis_event(*bodies, partition_keys=[body["order"] for body in bodies])


def _table(*bodies: Body) -> Any:
    return dynamodb_stream_event(*((None, body) for body in bodies), key="order")


def _kafka(*bodies: Body) -> Any:
    return kafka_event(*bodies, partitions=[ord(body["order"]) for body in bodies])


def _fifo(*bodies: Body) -> Any:
    return sqs_event(*bodies, fifo_groups=[body["order"] for body in bodies])


@dataclass(frozen=True)
class Source:
    """An ordered source."""

    decorator: str
    event: Callable[..., Any]
    body: Callable[[Any], Body]
    place: str = ""
    """Where its payload has the body, before the name of a field."""


SOURCES = {
    "kinesis": Source("kinesis", _kinesis, lambda record: record.kinesis.data_as_json()),
    "dynamodb_stream": Source(
        "dynamodb_stream", _table, lambda record: record.dynamodb.new_image, place="NewImage."
    ),
    "kafka": Source("kafka", _kafka, lambda record: record.json_value),
    "fifo": Source("sqs", _fifo, lambda record: record.json_body),
}


@dataclass
class Ordered:
    """A function of the records of *source*, and what it has seen."""

    source: Source
    is_async: bool
    rig: Rig = field(default_factory=Rig)
    seen: list[Any] = field(default_factory=list)
    work: Callable[[Any], object] = lambda _record: None
    requests: int = 0

    def handler(self, *fields: str, **options: Any) -> Callable[..., Any]:
        """Decorate the function. *fields*: options whose value names a field of the body."""

        def plain(record: Any) -> object:
            self.seen.append(record)
            return self.work(record)

        async def awaited(record: Any) -> object:
            self.seen.append(record)
            result = self.work(record)
            return await result if asyncio.iscoroutine(result) else result

        for name in fields:
            options[name] = self.source.place + options[name]
        decorate = getattr(self.rig.once, self.source.decorator)
        handle = decorate(**options)(awaited if self.is_async else plain)

        def delivered(*bodies: Body) -> Any:
            self.requests += 1
            return handle(self.source.event(*bodies), self.rig.context(f"request-{self.requests}"))

        return delivered

    def fails(self, record: Any) -> None:
        """Do work that fails for order a."""
        if self.source.body(record)["order"] == "a":
            raise ValueError("a")

    def has_failed(self, handler: Callable[..., Any]) -> bool:
        """Whether order a fails, as its source reports that."""
        try:
            answer = handler(A)
        except (OnceError, BatchProcessingError):
            return True
        return len(answer["batchItemFailures"]) == 1


def _name(of: Ordered) -> None:
    of.handler(name="charge")(A)
    assert "/charge/" in of.rig.row().token


def _key(of: Ordered) -> None:
    of.handler("key", key="order")(A, A, B)
    assert len(of.seen) == 2


def _scope(of: Ordered) -> None:
    handler = of.handler("key", key="order", scope=lambda record: of.source.body(record)["tenant"])
    handler(A, {**A, "tenant": "y"}, A)
    assert len(of.seen) == 2


def _fingerprint(of: Ordered) -> None:
    of.handler("key", "fingerprint", key="order", fingerprint="tenant")(A, {**A, "note": 2})
    assert len(of.seen) == 1


def _ignore(of: Ordered) -> None:
    places = [of.source.place + "note", "Keys", "eventName"]
    of.handler("key", key="order", ignore=places if of.source.place else ["note"])(A, {**A, "note": 2})
    assert len(of.seen) == 1


def _keep(of: Ordered) -> None:
    handler = of.handler("key", key="order", keep=timedelta(seconds=60))
    for seconds, seen in ((0, 1), (30, 1), (60, 2)):
        of.rig.clock.advance(seconds)
        handler(A)
        assert len(of.seen) == seen


def _lease(of: Ordered) -> None:
    leases: list[timedelta] = []
    of.work = lambda _: leases.append(of.rig.once.current().lease - of.rig.clock.now())
    of.handler(lease=timedelta(seconds=20))(A, B)
    assert leases == [timedelta(seconds=20)] * 2


def _on_error(of: Ordered) -> None:
    of.work = of.fails
    handler = of.handler("key", key="order", on_error=STORE)
    assert handler(A, B) in (None, {"batchItemFailures": []})
    assert handler(A, B) in (None, {"batchItemFailures": []})
    assert len(of.seen) == 2


def _on_lapse(of: Ordered) -> None:
    handler = of.handler("key", key="order", on_lapse="hold")
    with of.rig.crash():
        handler(A)
    of.rig.clock.advance(60)
    assert of.has_failed(handler)
    assert len(of.seen) == 1


def _on_in_progress(of: Ordered) -> None:
    handler = of.handler("key", name="n", key="order", on_in_progress=timedelta(seconds=2))
    held = of.rig.once.begin("a", name="n", lease=timedelta(minutes=5))
    elsewhere(held.__enter__)
    assert of.has_failed(handler)
    assert of.seen == []
    assert of.rig.slept <= 30


def _cache(of: Ordered) -> None:
    handler = of.handler("key", key="order", cache=10)
    handler(A, B)
    asked = of.rig.store.acquisitions
    handler(A, B)
    assert (len(of.seen), of.rig.store.acquisitions) == (2, asked)


def _seal(of: Ordered) -> None:
    sealed: list[str] = []

    def seal(text: bytes, token: str) -> bytes:
        sealed.append(token)
        return text[::-1]

    handler = of.handler("key", key="order", seal=(seal, lambda text, _token: text[::-1]), on_error=STORE)
    of.work = of.fails
    handler(A, B)
    handler(A, B)
    assert len(of.seen) == 2
    assert sealed


def _seal_required(of: Ordered) -> None:
    """What an earlier handler stored without a seal is refused, and the work is not repeated."""
    named = {"key": "order", "name": "charge"}
    of.handler("key", **named)(A)
    seal = (lambda text, _: text[::-1], lambda text, _: text[::-1])
    of.handler("key", **named, seal=seal, seal_required=True)(A)
    assert len(of.seen) == 1
    assert Event.RESULT_UNAVAILABLE.value in of.rig.events()


class Order(BaseModel):
    """What is read of a body."""

    order: str


class Change(BaseModel):
    """What is read of a change of a table."""

    NewImage: Order


def _model(of: Ordered) -> None:
    of.handler(model=Change if of.source.place else Order)(A, B)
    orders = [each.NewImage if isinstance(each, Change) else each for each in of.seen]
    assert sorted(order.order for order in orders) == ["a", "b"]


def _concurrency(of: Ordered) -> None:
    if not of.is_async:
        with pytest.raises(Misconfigured, match=r"=2 .*plain is a plain def.* await asyncio\.to_thread"):
            of.handler(concurrency=2)
        of.handler(concurrency=1)
        return
    met = asyncio.Barrier(2)
    of.work = lambda _record: asyncio.wait_for(met.wait(), 30)
    of.handler(concurrency=2)(A, B)
    assert of.rig.states() == [State.COMPLETE] * 2


def _report_failures(of: Ordered) -> None:
    of.work = of.fails
    answer = of.handler("key", key="order", report_failures=True)(A, B)
    assert len(answer["batchItemFailures"]) == 1


def _raise_on_entire_batch_failure(of: Ordered) -> None:
    of.work = of.fails
    answer = of.handler("key", key="order", raise_on_entire_batch_failure=False)(A)
    assert len(answer["batchItemFailures"]) == 1


def _on_give_up(of: Ordered) -> None:
    parked: list[GiveUp] = []

    def gives_up(record: Any) -> None:
        if of.source.body(record)["order"] == "a":
            raise GiveUp("never")

    of.work = gives_up
    concurrency = 2 if of.is_async else 1
    handler = of.handler(on_give_up=lambda _record, error: parked.append(error), concurrency=concurrency)
    assert handler(A, B) is None
    assert (len(of.seen), len(parked)) == (2, 1)


def _without_key(of: Ordered) -> None:
    handler = of.handler("key", key="id", without_key="run")
    keyed = {**A, "id": 1}
    for _ in range(2):
        assert handler(A, keyed, B) == {"batchItemFailures": []}
    assert [of.source.body(record)["order"] for record in of.seen if "id" not in of.source.body(record)] == [
        *("a", "b", "a", "b")
    ]
    assert len(of.seen) == 5
    of.work = of.fails
    assert len(handler(A, {**A, "id": 2}, B)["batchItemFailures"]) == 2


OPTIONS: dict[str, Callable[[Ordered], None]] = {
    "name": _name,
    "key": _key,
    "scope": _scope,
    "fingerprint": _fingerprint,
    "ignore": _ignore,
    "keep": _keep,
    "lease": _lease,
    "on_error": _on_error,
    "on_lapse": _on_lapse,
    "on_in_progress": _on_in_progress,
    "cache": _cache,
    "seal": _seal,
    "seal_required": _seal_required,
    "model": _model,
    "concurrency": _concurrency,
    "report_failures": _report_failures,
    "raise_on_entire_batch_failure": _raise_on_entire_batch_failure,
    "on_give_up": _on_give_up,
    "without_key": _without_key,
}


def _allowed(source: str) -> frozenset[str]:
    """Return the options of *source*; ``history=`` has a folder of tests."""
    return options_of(Where.QUEUE if source == "fifo" else Where.STREAM) - {"history"}


@pytest.mark.parametrize("source", SOURCES)
def test_each_option_has_a_row(source: str) -> None:
    """A new option needs one in OPTIONS."""
    assert _allowed(source) - OPTIONS.keys() == set()


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("source", "option"),
    [(source, option) for source in SOURCES for option in OPTIONS if option in _allowed(source)],
)
def test_the_option_holds(source: str, option: str, is_async: bool) -> None:
    """Each does what it does elsewhere, in order, for plain and for async work."""
    OPTIONS[option](Ordered(SOURCES[source], is_async))
