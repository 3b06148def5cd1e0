"""Guarantee 11: a handler answers before Lambda kills it, whatever the table does."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from lambda_once import Once, OnceError
from lambda_once.core.clock import Deadline
from lambda_once.core.threads import run_coroutine
from lambda_once.dynamodb.transport import Transport
from lambda_once.engine import invocation, lanes
from lambda_once.engine.finish import Finisher
from lambda_once.engine.turns import Turns
from lambda_once.observability.events import Event
from lambda_once.testing import (
    api_event,
    dynamodb_stream_event,
    kafka_event,
    kinesis_event,
    rabbitmq_event,
    sns_event,
    sqs_event,
)
from tests.guarantees.endings import Ending, Handler, Table
from tests.simulation import determined

BODIES = [{"order": str(n)} for n in range(12)]
KEYS = [body["order"] for body in BODIES]
LAST_WORK, FIRST_ANSWER = 500, 100
"""Milliseconds before the kill: work that returned by the first is answered by the second."""

RESPONSE = {"statusCode": 200, "body": "done"}
EVENTS: dict[str, Any] = {
    "sqs": sqs_event(*BODIES),
    "fifo": sqs_event(*BODIES, fifo_groups=[f"g{n % 3}" for n in range(12)]),
    "sns": sns_event(*BODIES),
    "kinesis": kinesis_event(*BODIES, partition_keys=KEYS),
    "dynamodb_stream": dynamodb_stream_event(*((None, {"id": key}) for key in KEYS)),
    "kafka": kafka_event(*BODIES, partitions=[n % 2 for n in range(12)]),
    "mq": rabbitmq_event(*BODIES, message_ids=KEYS),
    "api_gateway": api_event(body=BODIES[0], headers={"Idempotency-Key": "k" * 32}),
    "event": BODIES[0],
    "function": BODIES,
    "begin": KEYS,
}


def _each(once: Once, call: Callable[[Any], Any]) -> Handler:
    """A handler of many units, which goes on behind those that are refused."""

    def handler(event: Any, context: Any) -> None:
        with once.invocation(context):
            for unit in event:
                try:
                    answer = call(unit)
                    if inspect.iscoroutine(answer):
                        run_coroutine(answer)
                except OnceError:
                    continue

    return handler


def _works(ending: Ending, last: int, apart: int) -> tuple[Callable[..., Any], Any]:
    """Return work, plain and async, that ends *apart* ms after the one before it, the fifth at *last*."""
    ends = itertools.count(last - 4 * apart, apart) if apart else itertools.repeat(last)

    def work(*_: Any) -> dict[str, Any]:
        ending.work(ending.until(next(ends)))
        return RESPONSE

    async def awaited(*_: Any) -> dict[str, Any]:
        await ending.work_async(ending.until(next(ends)))
        return RESPONSE

    return work, awaited


def _blocks(once: Once, work: Any, *, is_async: bool, **options: Any) -> Handler:
    def block(key: str) -> None:
        with once.begin(key, **options):
            work()

    async def block_async(key: str) -> None:
        async with once.begin(key, **options):
            await work()

    return _each(once, block_async if is_async else block)


def _handler(once: Once, source: str, work: Any, *, is_async: bool, on_lapse: str) -> Handler:
    options: dict[str, Any] = {"name": "charge", "on_lapse": on_lapse}
    if source == "begin":
        return _blocks(once, work, is_async=is_async, **options)

    def unit(unit: Any) -> Any:
        return work()

    async def unit_async(unit: Any) -> Any:
        return await work()

    if source in ("event", "function"):
        options["key"] = "order" if source == "event" else "unit.order"
    decorate: Any = getattr(once, "sqs" if source == "fifo" else source)
    decorated: Any = decorate(**options)(unit_async if is_async else unit)
    return _each(once, decorated) if source == "function" else decorated


def _ended(
    source: str,
    table: Table,
    *,
    is_async: bool,
    turns: int,
    on_lapse: str = "take_over",
    last: int = LAST_WORK,
) -> Ending:
    """Have an invocation of three seconds end, whose last work ends *last* milliseconds before the kill."""
    ending = Ending(table, turns=turns)
    together = source in ("event", "api_gateway") or is_async
    works = _works(ending, ending.remaining - last, 0 if together else 100)

    def handler_of(once: Once) -> Handler:
        return _handler(once, source, works[is_async], is_async=is_async, on_lapse=on_lapse)

    ending.run(handler_of, EVENTS[source])
    return ending


def _answers(source: str, table: Table, **how: Any) -> Ending:
    ending = _ended(source, table, **how)
    covered = all(ended <= ending.remaining - LAST_WORK for ended in ending.worked)
    assert covered, f"work overran: {ending.worked}"
    assert ending.spare >= FIRST_ANSWER, f"answered {ending.spare} ms before the kill"
    return ending


TURNS = {"from the start": 0, "at the end": 2_450, "as the work returns": 2_500}


@pytest.mark.parametrize("turns", TURNS.values(), ids=TURNS)
@pytest.mark.parametrize("table", Table)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("source", EVENTS)
def test_a_handler_answers_in_time(source: str, is_async: bool, table: Table, turns: int) -> None:
    """Work that returned half a second before the kill is answered a tenth before it."""
    ending = _answers(source, table, is_async=is_async, turns=turns)
    if turns or table is Table.HEALTHY:
        assert ending.worked


@pytest.mark.parametrize("on_lapse", ["hold", "take_over"])
@pytest.mark.parametrize("table", Table)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("source", ["sqs", "kinesis", "event"])
def test_under_hold_too(source: str, is_async: bool, table: Table, on_lapse: str) -> None:
    """Where each token is acquired just before its work, at any time before the end."""
    for turns in (1_500, 2_050, 2_390, 2_499):
        _answers(source, table, is_async=is_async, turns=turns, on_lapse=on_lapse)


@pytest.mark.parametrize("last", [500, 250])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_silent_table_keeps_no_completion_waiting(is_async: bool, last: int) -> None:
    """Nor of work that returned later: 0.15 s before the kill its caller is answered, the token lapses."""
    ending = _ended("event", Table.SILENT, is_async=is_async, turns=2_400, last=last)
    assert ending.worked == [ending.remaining - last]
    assert (ending.outcome, ending.spare) == (RESPONSE, 150)
    assert ending.rows() == {"inProgress": 1}


@pytest.mark.parametrize("latency", [1, 5, 40])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(("many", "remaining"), [(400, 3_000), (200, 1_500), (1_000, 3_000)])
def test_a_large_batch_gives_back_the_rest_in_time(
    monkeypatch: pytest.MonkeyPatch, is_async: bool, many: int, remaining: int, latency: int
) -> None:
    """The unstarted fail together, and at most a hundred tokens are released, in parallel requests."""
    monkeypatch.setitem(_latencies(), Table.HEALTHY, latency)
    ending = _large(many, remaining, Table.HEALTHY, is_async=is_async)
    assert ending.spare >= FIRST_ANSWER
    released = [when for when, kind in _writes(ending) if kind == "release"]
    assert len(released) <= 4
    done, failed = len(ending.worked), len(ending.outcome["batchItemFailures"])
    assert done + failed == many
    assert failed > 0
    assert ending.rows()["complete"] == done
    assert "inProgress" not in ending.rows()


@pytest.mark.parametrize("table", [Table.SLOW, Table.THROTTLED, Table.SILENT])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_large_batch_ends_in_time_whatever_the_table(is_async: bool, table: Table) -> None:
    """What cannot be released in time keeps its lease."""
    ending = _large(400, 3_000, table, is_async=is_async, turns=1_800)
    assert ending.spare >= FIRST_ANSWER
    assert ending.outcome["batchItemFailures"]


def test_completions_come_before_releases() -> None:
    """What was done is written first, and one log line names what was released."""
    ending = _large(400, 3_000, Table.HEALTHY, is_async=False)
    kinds = [kind for when, kind in _writes(ending) if when >= 2_400]
    assert kinds == sorted(kinds), kinds
    lines = [details for details in ending.reported if details.event is Event.RELEASED]
    assert len(lines) == 1
    assert "were not started" in str(lines[0].reason)


def test_without_a_thread_nothing_is_sent_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes in time all the same; the token keeps its lease."""

    def refused(_work: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(determined, "in_thread", refused)
    ending = _answers("event", Table.SILENT, is_async=False, turns=2_400)
    assert [when for when, *_ in ending.sent if when > 2_400] == []


# ------------------------------------------------------------------ twins


def _twin_awaits_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def sent(_transport: Transport, send: Any, arguments: Any, _deadline: Deadline, _now: Any) -> Any:
        return send(**arguments)

    monkeypatch.setattr(Transport, "_send", sent)


def _twin_sends_past_the_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "LAST_ANSWER", 0.0)
    monkeypatch.setattr(invocation, "FINAL", 0.5)


def _twin_starts_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "_withdrawn_if_late", lambda _turns, _job: False)


def _twin_releases_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Finisher.give_back

    def give_back(finisher: Finisher, *unstarted: Any, **_: bool) -> None:
        for each in unstarted:
            right(finisher, each)

    monkeypatch.setattr(Finisher, "give_back", give_back)


@pytest.mark.parametrize("twin", [_twin_awaits_the_client, _twin_sends_past_the_last_answer])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("source", ["event", "sqs", "kinesis"])
def test_twin_without_the_limit(
    monkeypatch: pytest.MonkeyPatch, source: str, is_async: bool, twin: Callable[[Any], None]
) -> None:
    """On a silent table the handler is killed before it answers."""
    twin(monkeypatch)
    with pytest.raises(AssertionError, match="before the kill"):
        _answers(source, Table.SILENT, is_async=is_async, turns=2_450)


@pytest.mark.parametrize("twin", [_twin_starts_until_the_end, _twin_releases_one_by_one])
def test_twin_without_one_owner(monkeypatch: pytest.MonkeyPatch, twin: Callable[[Any], None]) -> None:
    """Each record that did not start costs a request: hundreds of them, and some tokens stay leased."""
    twin(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_large_batch_gives_back_the_rest_in_time(
            monkeypatch, is_async=False, many=400, remaining=3_000, latency=5
        )


def test_twin_that_acquires_ahead_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty requests are not sent in the last half second of a slow table."""
    monkeypatch.setattr(lanes, "MOST_AHEAD", 10_000)
    with pytest.raises(AssertionError):
        test_a_large_batch_gives_back_the_rest_in_time(
            monkeypatch, is_async=False, many=1_000, remaining=3_000, latency=40
        )


# ------------------------------------------------------------------ parts of these


def _latencies() -> dict[Table, int]:
    from tests.guarantees.endings import LATENCY

    return LATENCY


def _large(many: int, remaining: int, table: Table, *, is_async: bool, turns: int = 0) -> Ending:
    ending = Ending(table, remaining=remaining, turns=turns)

    def handler_of(once: Once) -> Handler:
        @once.sqs(name="charge", raise_on_entire_batch_failure=False)
        def plain(_record: Any) -> None:
            ending.work(20)

        @once.sqs(name=plain, raise_on_entire_batch_failure=False, concurrency=2)
        async def awaited(_record: Any) -> None:
            await ending.work_async(20)

        chosen: Handler = awaited if is_async else plain
        return chosen

    ending.run(handler_of, sqs_event(*({"order": n} for n in range(many))))
    assert not isinstance(ending.outcome, ReadTimeoutError)
    return ending


def _writes(ending: Ending) -> list[tuple[int, str]]:
    """When each write of a finish was sent, and whether it completed or released."""
    found = []
    for when, operation, arguments in ending.sent:
        text = str(arguments)
        if operation not in ("batch_execute_statement", "update_item") or "INSERT" in text:
            continue
        if "actualCompletion" in text:
            found.append((when, "completion"))
        elif "REMOVE" in text:
            found.append((when, "release"))
    return found
