"""
A batch from every source on machines of which two are killed, each between any two of its requests.

What a record does counts as a request, and so does what parks it. Whoever delivers has got no response of the
killed ones, and delivers the same again; the time of what is in progress passes in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from lambda_once import NOT_DONE, Done, GiveUp, Once, OnceError
from lambda_once.engine import turns
from lambda_once.stores.contract import Written
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import (
    FakeClock,
    dynamodb_stream_event,
    kinesis_event,
    lambda_context,
    pipes_event,
    sqs_event,
)
from tests.decorators.sources_table import SOURCES as ROWS
from tests.decorators.sources_table import SUCCESS
from tests.decorators.worker import text_of
from tests.kit import tables
from tests.kit.kills import Killed, Machine, two_deaths
from tests.kit.strict.mounted import mounted

pytestmark = pytest.mark.slow

IDS = ["a", "b", "c"]


class Source(NamedTuple):
    """How records come."""

    decorator: str
    event: Callable[..., Any]
    read: Callable[[Any], str]
    """Returns the id of a record, of those in IDS."""
    in_order: bool
    options: Mapping[str, Any] = MappingProxyType({})


def image(record: Any) -> str:
    """Return the step that a change to an item made."""
    text: str = record.dynamodb.new_image["step"]
    return text


def changes(*ids: str) -> Any:
    """Return changes to one item."""
    return dynamodb_stream_event(*[({"id": 5}, {"id": 5, "step": each}) for each in ids])


OF_ROWS = {row.name: Source(row.decorator, row.build, text_of, row.in_order) for row in ROWS}
STREAMS = {
    "kinesis": OF_ROWS["kinesis"],
    "kinesis that reports": Source("kinesis", kinesis_event, text_of, True, {"report_failures": True}),
    "changes": Source("dynamodb_stream", changes, image, True, {"report_failures": True}),
    "kafka": OF_ROWS["kafka"],
    "pipe of a stream": Source("kinesis", lambda *ids: pipes_event(kinesis_event(*ids)), text_of, True),
}
PIPE = Source("sqs", lambda *ids: pipes_event(sqs_event(*ids)), text_of, False)
SOURCES = OF_ROWS | STREAMS | {"pipe of a queue": PIPE}
OF_EACH = pytest.mark.parametrize(
    ("source", "is_async"),
    [
        *[pytest.param(source, False, id=name) for name, source in SOURCES.items()],
        *[pytest.param(SOURCES[name], True, id=f"{name}, async") for name in ("kinesis", "sqs")],
    ],
)
OF_STREAMS = pytest.mark.parametrize(
    ("source", "is_async"),
    [
        pytest.param(STREAMS[name], is_async, id=f"{name}, {'async' if is_async else 'plain'}")
        for name, is_async in [("kinesis", False), ("kinesis", True), ("pipe of a stream", False)]
    ],
)


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Give a strict engine, without boto3 above it for there are many requests, and its token table."""
    with mounted() as found, tables.fresh(tables.shared()) as name:
        yield found, name


Engine = tuple[Any, str]
"""A client's interface to an engine, and the name of the token table."""


class Full(Exception):
    """There is no room for what is parked."""


def _hold(_batch: Batch) -> str:
    return "hold"


class Batch:
    """One batch, what its records did, and what was parked of it."""

    def __init__(self, engine: Engine, source: Source, *, is_async: bool = False) -> None:
        self.client, self.table = engine
        self.source = source
        self.is_async = is_async
        self.event = source.event(*IDS)
        self.done: list[str] = []
        self.parked: list[str] = []
        self._handled: list[str] = []
        """What was done or parked, in time."""
        self.clock = FakeClock()
        self.options: dict[str, Any] = {"on_lapse": self.by_effects}

    def by_effects(self, _lapsed: Any, record: Any) -> Any:
        """Find out, as a probe, whether a record did its work."""
        return Done(None) if self.source.read(record) in self.done else NOT_DONE

    def deliver(self, machine: Machine) -> Any:
        """Deliver the batch to *machine*; return the response, an exception for one that failed."""
        store = DynamoDBStore(self.table, machine.client(self.client))
        once = Once(store=store, service="shop")
        once._runtime.clock = self.clock
        try:
            return self._handler(once, machine)(self.event, lambda_context(request_id=str(id(machine))))
        except (Killed, Full, OnceError) as error:
            return error
        finally:
            self.clock.advance(60)

    def _handler(self, once: Once, machine: Machine) -> Callable[..., Any]:
        def work(record: Any) -> None:
            machine.step(self._do, self.source.read(record))

        async def awaited(record: Any) -> None:
            work(record)

        decorated = getattr(once, self.source.decorator)(
            name="work", **self.source.options, **self._options(machine)
        )
        return decorated(awaited if self.is_async else work)  # type: ignore[no-any-return]

    def _options(self, machine: Machine) -> dict[str, Any]:
        options = dict(self.options)
        if (park := options.get("on_give_up")) is not None:
            options["on_give_up"] = lambda record, error: machine.step(park, record, error)
        return options

    def _do(self, id_: str) -> None:
        self.done.append(id_)
        self._handled.append(id_)

    def is_in_order(self) -> bool:
        """Whether each record was worked once at most, and worked or parked in the order of the source."""
        first = [*dict.fromkeys(self._handled)]
        return len(set(self.done)) == len(self.done) and first == sorted(first)

    def park(self, record: Any, _error: GiveUp) -> None:
        """Put a record elsewhere."""
        self.parked.append(self.source.read(record))
        self._handled.append(self.parked[-1])

    def clear(self) -> None:
        """Empty the table."""
        for item in self.client.scan(TableName=self.table)["Items"]:
            self.client.delete_item(TableName=self.table, Key={"lockToken": item["lockToken"]})


def deaths(engine: Engine, source: Source, *, is_async: bool, **options: Any) -> Iterator[Batch]:
    """Yield the batch after each pair of deaths; *options* as functions of the batch."""
    for one, other in two_deaths():
        batch = Batch(engine, source, is_async=is_async)
        batch.options |= {name: make(batch) for name, make in options.items()}
        batch.deliver(one)
        batch.deliver(other)
        yield batch
        batch.clear()


@OF_EACH
def test_every_record_is_worked_once(engine: Engine, source: Source, is_async: bool) -> None:
    """With a probe that knows: in the order of the source, whoever dies where, and nothing is lost."""
    for batch in deaths(engine, source, is_async=is_async):
        assert batch.deliver(Machine()) in SUCCESS
        assert batch.done == IDS if source.in_order else sorted(batch.done) == IDS


@OF_STREAMS
def test_what_is_held_is_parked(engine: Engine, source: Source, is_async: bool) -> None:
    """Under hold nothing is worked twice; what may have been worked is parked, and its order goes on."""
    for batch in deaths(engine, source, is_async=is_async, on_lapse=_hold, on_give_up=lambda b: b.park):
        assert batch.deliver(Machine()) in SUCCESS
        assert batch.is_in_order()
        assert {*batch.done, *batch.parked} == {*IDS}


def parking(batch: Batch) -> Callable[[Any, GiveUp], None]:
    """Return what parks the records of *batch*, and raises twice before."""
    refusals = iter([True, True])

    def park(record: Any, error: GiveUp) -> None:
        if next(refusals, False):
            raise Full
        batch.park(record, error)

    return park


@OF_STREAMS
def test_what_cannot_be_parked_comes_again(engine: Engine, source: Source, is_async: bool) -> None:
    """While on_give_up raises, nothing behind its record is worked; the next delivery asks it again."""
    for batch in deaths(engine, source, is_async=is_async, on_lapse=_hold, on_give_up=parking):
        answers = [batch.deliver(Machine()) for _ in range(3)]
        assert answers[-1] in SUCCESS
        assert batch.is_in_order()
        assert {*batch.done, *batch.parked} == {*IDS}


# ---------------------------------------------------------------- negative twins


def went_wrong(engine: Engine, **options: Any) -> bool:
    """Return whether a record of a stream was worked twice or out of its order, in any schedule."""
    found = False
    for batch in deaths(engine, STREAMS["kinesis"], is_async=False, **options):
        for _ in range(3):
            batch.deliver(Machine())
        found = found or not batch.is_in_order()
    return found


def test_twin_that_takes_over(engine: Engine) -> None:
    """Without a probe what was done and not completed is done again."""
    assert went_wrong(engine, on_lapse=lambda _: "take_over")


def test_twin_that_completes_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done lapses then, and is done again by whoever takes it over."""
    monkeypatch.setattr(DynamoDBStore, "write", lambda _, writes, __: [Written.WRITTEN for _ in writes])
    assert went_wrong(engine, on_lapse=lambda _: "take_over")


def test_twin_that_goes_on_behind_a_failure(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind a record that could not be parked is done before it."""
    monkeypatch.setattr(turns, "skip_behind_failure", lambda *_: False)
    assert went_wrong(engine, on_lapse=_hold, on_give_up=parking)
