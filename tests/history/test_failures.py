"""The history does not answer, refuses for good, or stops between two writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError
from botocore.exceptions import ClientError, ReadTimeoutError

from lambda_once import (
    HOLD,
    InProgress,
    KeyMissing,
    Misconfigured,
    ResultUnavailable,
    RetryLater,
    StoreUnavailable,
)
from lambda_once.integrations import powertools_history
from lambda_once.integrations.powertools_history import Marks, PowertoolsRecord
from lambda_once.testing import lambda_context
from tests.kit import strangers, tables
from tests.kit.powertools import Shop
from tests.kit.strict.mounted import over_http

EVENT = {"id": "o-1"}
LOST = ReadTimeoutError(endpoint_url="http://powertools")
DENIED = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "PutItem")
THROTTLED = ClientError({"Error": {"Code": "ThrottlingException", "Message": "later"}}, "PutItem")


class Broken:
    """A client whose *operation* raises *error*, before the request is sent or after it was answered."""

    def __init__(self, client: Any, operation: str, error: BaseException, *, sent: bool = False) -> None:
        self._client, self._operation, self._error, self._sent = client, operation, error, sent
        self.requests: list[str] = []

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def request(**arguments: Any) -> Any:
            self.requests.append(operation)
            if operation == self._operation and not self._sent:
                raise self._error
            answer = getattr(self._client, operation)(**arguments)
            if operation == self._operation:
                raise self._error
            return answer

        return request


def broken(shop: Shop, operation: str, error: BaseException, *, sent: bool = False, **options: Any) -> Any:
    """Return a history whose *operation* fails."""
    return shop.through(Broken(shop.client, operation, error, sent=sent)).history(**options)


@dataclass(frozen=True)
class Receipt:
    """A result with a type."""

    id: str


class Work:
    """Counts its runs."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, _event: Any) -> int:
        self.runs += 1
        return self.runs


@pytest.mark.parametrize("error", [LOST, THROTTLED, ConnectionError("redis")])
@pytest.mark.parametrize("options", [{}, {"on_lapse": "hold"}])
def test_an_outage_of_the_history_runs_nothing(shop: Shop, error: Exception, options: Any) -> None:
    """As one of the token table: `StoreUnavailable`, the token released (guarantee 7)."""
    work = Work()
    operation = "get_item" if options else "put_item"
    with pytest.raises(
        StoreUnavailable,
        match=r"was not run, retry later: Powertools' table (did not answer|was throttled) \(\w+\)",
    ):
        shop.new(work, history=broken(shop, operation, error), **options)(EVENT)
    assert work.runs == 0
    assert shop.events() == ["once.acquired", "once.released", "once.store_unavailable"]
    assert shop.new(work)(EVENT) == 1


def test_a_missing_history_table_is_no_outage(shop: Shop) -> None:
    """Nor is a missing permission: both are `Misconfigured`."""
    work = Work()
    for history in (broken(shop, "put_item", DENIED), _of_no_table(shop)):
        with pytest.raises(Misconfigured, match="Powertools' table refused a request with"):
            shop.new(work, history=history)(EVENT)
    assert work.runs == 0
    assert shop.events().count("once.misconfigured") == 2


def _of_no_table(shop: Shop) -> Any:
    return type(shop)(shop.client, shop.tokens, "nowhere").history()


def test_what_is_not_dynamodb_is_no_history(shop: Shop) -> None:
    """A page that answers 200 would seem to take every record: nothing runs."""
    work = Work()
    with strangers.page(200, "text/html", b"<html>a portal</html>") as address:
        elsewhere = tables.client(address)
        with pytest.raises(Misconfigured, match="refused a request with NotDynamoDB"):
            shop.new(work, history=shop.through(elsewhere).history())(EVENT)
    assert work.runs == 0


def repeating(shop: Shop, answers: int) -> Any:
    """Return a history whose client, as Powertools' own, puts again while *answers* are lost."""
    address = str(shop.client.meta.endpoint_url)
    is_strict = address.endswith("amazonaws.com")
    client = over_http(tables.client()) if is_strict else tables.client(address)
    left = iter(range(answers))

    def lose(response: Any, **_: Any) -> int | None:
        if response is None or next(left, None) is None:
            return None
        return 0  # seconds to wait before the same request is sent again

    client.meta.events.register_first("needs-retry.dynamodb.PutItem", lose)
    return shop.through(client).history()


@pytest.mark.parametrize("on_lapse", ["take_over", "hold"])
@pytest.mark.parametrize("answers", [1, 2])
def test_a_repeated_write_is_recognised_as_its_own(shop: Shop, on_lapse: Any, answers: int) -> None:
    """The client repeats the write, which its own record refuses: the first delivery runs (guarantee 3)."""
    work = Work()
    new = shop.new(work, history=repeating(shop, answers), on_lapse=on_lapse)
    assert [new(EVENT), new(EVENT), new(EVENT)] == [1, 1, 1]
    assert shop.old_result(EVENT) == 1


def test_twin_that_recognises_no_record(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: its own record refuses it, and every later delivery, until the record's time is over."""
    monkeypatch.setattr(powertools_history, "_is_of", lambda *_: False)
    work = Work()
    new = shop.new(work, history=repeating(shop, 1))
    for _ in range(3):
        with pytest.raises(InProgress):
            new(EVENT)
    assert work.runs == 0


def test_twin_that_adds_the_marks(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: Decimal's sums round at 28 digits, and cut the attempt's mark off."""
    monkeypatch.setattr(
        Marks, "put_on", lambda marks, time: time + Decimal(f"0.{marks.token}{marks.attempt}")
    )
    with pytest.raises(InProgress):
        shop.new(Work(), history=repeating(shop, 1), on_lapse="hold")(EVENT)


def test_a_client_that_repeats_nothing(shop: Shop) -> None:
    """The write is repeated for it, once."""
    work = Work()
    assert shop.new(work, history=broken(shop, "put_item", LOST, sent=True))(EVENT) == 1


def test_lost_answers_leave_a_record(shop: Shop) -> None:
    """If the answers to both are lost, it may be anyone's: until its time is over both versions refuse."""
    work = Work()
    with pytest.raises(StoreUnavailable):
        shop.new(work, history=shop.through(_Deaf(shop.client)).history())(EVENT)
    with pytest.raises(InProgress):
        shop.new(work)(EVENT)
    shop.lapse()
    assert shop.new(work)(EVENT) == 1


class _Deaf:
    """A client that hears no answer to a put, refusals included."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def put_item(self, **arguments: Any) -> Any:
        with suppress(ClientError):
            self._client.put_item(**arguments)
        raise LOST


def test_nothing_starts_on_a_lease_that_is_over(shop: Shop) -> None:
    """A slow history may use up the lease: nothing runs, and token and record are released."""
    work = Work()
    clocks: list[Any] = []

    class Slow(_Deaf):
        def put_item(self, **arguments: Any) -> Any:
            answer = self._client.put_item(**arguments)
            clocks[0].sleep(8.5)
            return answer

    once = shop.once(history=shop.through(Slow(shop.client)).history(), lease=timedelta(seconds=10))
    clocks.append(once._runtime.clock)
    with pytest.raises(RetryLater, match="was not started"):
        once.event(key="id", name="charge")(work)(EVENT, lambda_context("shop"))
    assert work.runs == 0
    assert shop.record() is None
    assert shop.new(work)(EVENT) == 1


def test_a_result_that_is_not_recorded_is_returned(shop: Shop) -> None:
    """The work is done: its caller and every duplicate get the result, and an alarm rings."""
    work = Work()
    new = shop.new(work, history=broken(shop, "update_item", LOST))
    assert [new(EVENT), new(EVENT)] == [1, 1]
    assert "once.completion_failed" in shop.events()
    assert [each for each in shop.events() if each.endswith("ed")][-2:] == ["once.completed", "once.replayed"]


def test_a_result_of_500_kb_does_not_reach_the_history(shop: Shop) -> None:
    """The token has it in parts; the old version runs again when the record's time is over."""
    work = Work()

    def large(event: Any) -> list[str]:
        work(event)
        return ["x" * 500_000]

    assert shop.new(large)(EVENT) == shop.new(large)(EVENT) == ["x" * 500_000]
    assert (shop.record() or {})["status"] == {"S": "INPROGRESS"}
    with pytest.raises(IdempotencyAlreadyInProgressError):
        shop.old(work)(EVENT)
    shop.lapse()
    assert shop.old(work)(EVENT) == 2


def test_a_release_that_is_not_recorded_lapses(shop: Shop) -> None:
    """The work's own error is raised."""

    def fail(_: Any) -> None:
        raise ValueError("declined")

    with pytest.raises(ValueError, match="declined"):
        shop.new(fail, history=broken(shop, "delete_item", LOST))(EVENT)
    assert shop.record() is not None
    assert "once.released" in shop.events()


def test_a_crash_between_the_two_writes(shop: Shop) -> None:
    """The history is written first: what it has is copied by the next delivery, and never done again."""
    work = Work()
    new = shop.new(work)
    assert new(EVENT) == 1
    for item in shop.client.scan(TableName=shop.tokens)["Items"]:  # as if the completion had not arrived
        lapsed = {
            **item,
            "status": {"S": "inProgress"},
            "expectedCompletion": {"S": "2020-01-01T00:00:00.000Z"},
        }
        for name in ("result", "actualCompletion", "write"):
            lapsed.pop(name, None)
        shop.client.put_item(TableName=shop.tokens, Item=lapsed)
    assert new(EVENT) == 1
    assert work.runs == 1


def test_twin_that_writes_the_token_alone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: without the history's completion the old version does it again, once that lapses."""
    monkeypatch.setattr(PowertoolsRecord, "succeed", lambda *_: None)
    work = Work()
    shop.new(work)(EVENT)
    shop.lapse()
    shop.old(work)(EVENT)
    assert work.runs == 2


def test_an_interruption_reaches_the_caller(shop: Shop) -> None:
    """A KeyboardInterrupt while the result is recorded: the token is completed first."""
    work = Work()
    with pytest.raises(KeyboardInterrupt):
        shop.new(work, history=broken(shop, "update_item", KeyboardInterrupt()))(EVENT)
    assert shop.new(work)(EVENT) == 1
    assert work.runs == 1


def test_an_interruption_after_failed_work(shop: Shop) -> None:
    """A KeyboardInterrupt while the attempt is removed: the token is released first."""

    def fails(_event: Any) -> int:
        raise ValueError

    with pytest.raises(KeyboardInterrupt):
        shop.new(fails, history=broken(shop, "delete_item", KeyboardInterrupt()))(EVENT)
    assert shop.events()[-1] == "once.released"
    assert shop.new(Work(), history=None)(EVENT) == 1


def test_an_interruption_before_the_work(shop: Shop) -> None:
    """Nothing ran, and the token is released."""
    work = Work()
    with pytest.raises(KeyboardInterrupt):
        shop.new(work, history=broken(shop, "put_item", KeyboardInterrupt()))(EVENT)
    assert shop.new(work)(EVENT) == 1


def test_a_cancellation_before_the_work(shop: Shop) -> None:
    """Cancelled while its record is written, the work does not start: token and record are released."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        class Slow(Broken):
            def __getattr__(self, operation: str) -> Any:
                if operation == "put_item":
                    loop.call_soon_threadsafe(task.cancel)
                    asyncio.run_coroutine_threadsafe(asyncio.to_thread(int), loop).result()
                return super().__getattr__(operation)

        slow = shop.through(Slow(shop.client, "none", LOST))

        @shop.once(history=slow.history(data="event")).function(key="event.id")
        async def work(event: Any) -> None:
            raise AssertionError("it ran")

        task = asyncio.ensure_future(work(EVENT))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert shop.record() is None
    assert shop.events() == ["once.acquired", "once.released"]


def test_a_missing_key(shop: Shop) -> None:
    """As in Powertools: refused where its configuration says so, else the history is left out."""
    work = Work()
    config = IdempotencyConfig(event_key_jmespath="other", raise_on_no_idempotency_key=True)
    with pytest.raises(KeyMissing, match="Powertools derives no key from this payload"):
        shop.new(work, history=shop.history(config=config))(EVENT)
    with pytest.warns(UserWarning, match="No idempotency key value found"):
        assert shop.new(work, history=shop.history(key="other"))(EVENT) == 1
    assert shop.record() is None


def test_a_foreign_row(shop: Shop) -> None:
    """A record that is not Powertools' is named, and nothing runs."""
    work = Work()
    shop.begun(EVENT)
    shop.change(status={"S": "paid"})
    with pytest.raises(Misconfigured, match="cannot be read"):
        shop.new(work)(EVENT)
    assert work.runs == 0


def test_a_result_of_another_serialiser(shop: Shop) -> None:
    """What the old version stored does not fit the new one: nothing runs, and ``codec=`` is named."""
    shop.old(lambda _: {"c": "r-1"})(EVENT)

    @shop.once().event(key="id", returns=Receipt)
    def handler(event: Any) -> Any:
        raise AssertionError("it ran")

    with pytest.raises(ResultUnavailable, match="give codec= the functions of the old serialiser"):
        handler(EVENT, lambda_context("shop"))

    @shop.once().event(
        key="id", name="mended", codec=(lambda receipt: {"c": receipt.id}, lambda data: Receipt(data["c"]))
    )
    def mended(event: Any) -> Receipt:
        raise AssertionError("it ran")

    assert mended(EVENT, lambda_context("shop")) == Receipt("r-1")


def test_what_cannot_be_stored_is_done_all_the_same(shop: Shop) -> None:
    """The record is complete without a result: the old version does not repeat the work (guarantee 5)."""
    shop.new(lambda _: object())(EVENT)
    assert shop.old_result(EVENT) is None


@pytest.mark.parametrize(
    ("options", "history", "new", "failed", "copied"),
    [
        ({}, {}, ["put_item", "update_item"], ["put_item", "delete_item"], ["put_item"]),
        (
            {"on_error": HOLD},
            {},
            ["get_item", "put_item", "update_item"],
            ["get_item", "put_item", "delete_item"],
            ["get_item"],
        ),
        ({}, {"writes": False}, ["get_item"], ["get_item"], ["get_item"]),
    ],
)
def test_the_requests_that_it_costs(
    shop: Shop, options: Any, history: Any, new: list[str], failed: list[str], copied: list[str]
) -> None:
    """New work, failed work, and the first duplicate of old work; the next duplicate costs none."""

    def fail(_: Any) -> None:
        raise ValueError

    counted = Broken(shop.client, "none", LOST)
    there = shop.through(counted)

    def requests(work: Callable[[Any], Any], id_: str) -> list[str]:
        counted.requests.clear()
        with suppress(ValueError):
            shop.new(work, history=there.history(**history), **options)({"id": id_})
        return list(counted.requests)

    assert requests(Work(), "new") == new
    assert requests(Work(), "new") == []
    assert requests(fail, "failed") == failed
    shop.old(Work())({"id": "old"})
    assert requests(fail, "old") == copied
    assert requests(fail, "old") == []


def test_an_interruption_while_the_result_is_written_as_json(shop: Shop) -> None:
    """A SystemExit in ``codec=``: both tables show that the work was done, without its result."""

    def exits(_: Any) -> Any:
        raise SystemExit

    work = Work()

    @shop.once().event(key="id", name="charge", codec=(exits, int))
    def handler(event: Any) -> Any:
        return work(event)

    with pytest.raises(SystemExit):
        handler(EVENT, lambda_context("shop"))
    assert shop.old_result(EVENT) is None
    with pytest.raises(ResultUnavailable):
        handler(EVENT, lambda_context("shop"))
    assert work.runs == 1
