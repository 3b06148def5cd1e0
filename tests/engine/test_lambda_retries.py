"""Lambda's own retry of an asynchronous invocation: what is one, and how long it waits."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lambda_once import NOT_DONE, Held, InProgress
from lambda_once.core.codec import codec_for
from lambda_once.core.lifecycle import Record, State
from lambda_once.engine import engine as acquiring
from lambda_once.engine.engine import is_retry_of_own
from lambda_once.engine.invocation import NO_REQUEST_ID, Call, FromSource, Redelivery, invocation_of
from lambda_once.observability.reporter import Reporter
from lambda_once.policies import OnLapseOption
from lambda_once.settings import Settings
from lambda_once.testing import FakeClock
from lambda_once.testing.clock import START
from tests.decorators.counted import records
from tests.decorators.rig import Rig, elsewhere
from tests.decorators.test_sqs import failed
from tests.sources.samples import batch, eventbridge, s3_record, sns_event

REQUEST = "request-1"
EARLIER = START - timedelta(minutes=1)


def _is_retry(
    *,
    request: str | None = REQUEST,
    holder: str | None = None,
    created: Any = EARLIER,
    redelivery: Redelivery = Redelivery.SAME_REQUEST,
    on_lapse: OnLapseOption = "take_over",
) -> bool:
    context = SimpleNamespace(function_name="orders", aws_request_id=request)
    invocation = invocation_of(context, FakeClock(), Reporter())
    settings = Settings(on_lapse=on_lapse)
    call = Call(
        "charge",
        "shop/charge/k",
        settings,
        codec_for(Any),
        invocation,
        source=FromSource(redelivery=redelivery),
    )
    locked_by = f"orders/{holder or request or NO_REQUEST_ID}"
    record = Record("shop/charge/k", State.IN_PROGRESS, "a1", 1, locked_by, created, START)
    return is_retry_of_own(call, record)


@pytest.mark.parametrize(
    ("case", "is_retry"),
    [
        ({}, True),
        ({"on_lapse": print}, True),
        ({"created": START - timedelta(milliseconds=1)}, True),
        ({"holder": "request-2"}, False),
        ({"redelivery": Redelivery.ANY}, False),
        ({"created": START}, False),
        ({"created": START + timedelta(seconds=1)}, False),
        ({"request": None}, False),
        ({"request": ""}, False),
        ({"request": NO_REQUEST_ID}, False),
        ({"on_lapse": "hold"}, False),
    ],
    ids=str,
)
def test_what_is_a_retry_of_lambdas_own(case: dict[str, Any], is_retry: bool) -> None:
    """The same request id, Lambda's, of an invocation before this one, by a source that Lambda retries."""
    assert _is_retry(**case) is is_retry


def test_a_sibling_is_no_retry() -> None:
    """Two tasks of one invocation under one key: the second is refused at once."""
    rig = Rig()

    @rig.once.event
    def handler(event: Any, context: Any) -> None:
        with pytest.raises(InProgress):
            elsewhere(handler, event, context)

    handler(eventbridge({"order": 5}), rig.context(seconds=60))
    assert rig.slept == 0


def test_a_polled_source_never_waits_for_itself() -> None:
    """A poller delivers again under a new request id; where the id is the same it is no retry of Lambda's."""
    rig = Rig()
    handler = rig.once.sqs(name="work")(lambda _record: None)
    with rig.crash():
        handler(records("a"), rig.context(REQUEST, seconds=10))
    rig.clock.advance(1)
    assert handler(records("a"), rig.context(REQUEST, seconds=60)) == failed("a")
    assert rig.slept == 0


def _is_told_at_once_under_hold(rig: Rig) -> None:
    handler = rig.once.event(on_lapse="hold", name="work")(lambda event: event)
    with rig.crash():
        handler(eventbridge({"order": 5}), rig.context(REQUEST, seconds=10))
    rig.clock.advance(1)
    with pytest.raises(InProgress):
        handler(eventbridge({"order": 5}), rig.context(REQUEST, seconds=60))
    assert rig.slept == 0


def test_under_hold_it_is_told_at_once() -> None:
    """A lease that ends makes the token held: there is nothing to wait for."""
    _is_told_at_once_under_hold(Rig())


def test_twin_that_waits_under_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule the retry spends its time, and is refused then."""
    monkeypatch.setattr(
        acquiring, "is_retry_of_own", lambda call, _record: call.source.redelivery is Redelivery.SAME_REQUEST
    )
    with pytest.raises(Held):
        _is_told_at_once_under_hold(Rig())


def _sns(*messages: str) -> dict[str, Any]:
    return batch(*(sns_event(message)["Records"][0] for message in messages))


def _s3(*keys: str) -> dict[str, Any]:
    return batch(*(s3_record(key) for key in keys))


def _key_of(event: Any) -> str:
    """Return what a record, or an event of one, is called here."""
    if hasattr(event, "sns"):
        return str(event.sns.message)
    return str(event["Records"][0]["s3"]["object"]["key"])


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("source", ["sns", "s3"])
def test_what_can_run_does_so_before_anybody_waits(source: str, is_async: bool) -> None:
    """Ten records wait for their killed attempts' leases: the eleventh need not have waited for that."""
    rig, worked = Rig(), list[tuple[str, bool]]()
    decorator: Any = rig.once.sns if source == "sns" else rig.once.event
    event = _sns if source == "sns" else _s3

    def work(record: Any) -> None:
        worked.append((_key_of(record), rig.slept > 0))

    async def in_turn(record: Any) -> None:
        work(record)

    handler = decorator(in_turn if is_async else work)
    killed = [f"a{n}" for n in range(10)]
    with rig.crash():
        handler(event(*killed), rig.context(REQUEST, seconds=10))
    rig.clock.advance(1)
    worked.clear()
    handler(event(*killed, "b"), rig.context(REQUEST, seconds=60))
    assert worked[0] == ("b", False)
    assert sorted(worked[1:]) == [(name, True) for name in killed]


@pytest.mark.filterwarnings("error")
def test_a_probe_is_awaited_under_a_running_loop() -> None:
    """A plain protected function that async code calls: its coroutine probe is asked, in a thread."""
    rig, worked = Rig(), list[int]()

    async def probe(*_: object) -> object:
        await asyncio.to_thread(int)
        return NOT_DONE

    @rig.once.function(on_lapse=probe)
    def work(order: int) -> int:
        worked.append(order)
        return order

    with rig.crash():
        work(5)
    rig.clock.advance(1000)

    async def on_the_loop() -> int:
        return work(5)

    assert asyncio.run(on_the_loop()) == 5
    assert worked == [5, 5]
    assert "once.probe_failed" not in rig.events()
