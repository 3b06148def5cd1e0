"""Both versions of a function at once: what one has begun or done, the other one does not do again."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError

from lambda_once import (
    HOLD,
    NOT_DONE,
    Done,
    Held,
    InProgress,
    KeyReused,
    Lapsed,
    ResultUnavailable,
    RetryLater,
)
from lambda_once.core.clock import SystemClock
from lambda_once.core.lifecycle import Resolve
from lambda_once.core.writes import Complete
from lambda_once.engine.history import Busy, Earlier, Vacant
from lambda_once.integrations import history as guarding
from lambda_once.integrations import powertools_history
from lambda_once.integrations.powertools_history import SOONER, TOKEN_DIGITS, PowertoolsRecord
from lambda_once.testing import lambda_context
from tests.kit.kills import Killed, Machine
from tests.kit.powertools import Shop

EVENT = {"id": "o-1", "total": 4990}


class Till:
    """Counts what is charged."""

    def __init__(self) -> None:
        self.charged: list[Any] = []

    def charge(self, event: Any) -> dict[str, Any]:
        self.charged.append(event["id"])
        return {"charge": len(self.charged), "of": event["id"]}

    def fail(self, event: Any) -> None:
        self.charged.append(event["id"])
        raise ValueError("declined")


# ---------------------------------------------------------------------------------------- what is done


def test_new_after_old_replays(shop: Shop) -> None:
    """The old result is replayed, and copied: the history is not asked a second time."""
    till = Till()
    answer = shop.old(till.charge)(EVENT)
    new = shop.new(till.charge)
    assert new(EVENT) == answer == {"charge": 1, "of": "o-1"}
    shop.client.delete_item(TableName=shop.records, Key={"id": shop.record()["id"]})  # type: ignore[index]
    assert new(EVENT) == answer
    assert till.charged == ["o-1"]
    assert shop.events()[:3] == ["once.acquired", "once.completed", "once.replayed"]


@dataclass
class Paid:
    id: str
    cents: int


@dataclass
class Refunded:
    id: str
    cents: int


def test_what_comes_back_under_a_history(shop: Shop) -> None:
    """The object to the first caller, an equal one to duplicates, also of the history's record alone."""

    @shop.once(history=shop.history(data="order")).function(key="order.id", name="charge")
    def charge(order: dict[str, str]) -> Paid:
        return paid

    paid = Paid("o-1", 5)
    assert charge({"id": "o-1"}) is paid
    assert charge({"id": "o-1"}) == paid
    (token,) = shop.items(shop.tokens)
    shop.client.delete_item(TableName=shop.tokens, Key={"lockToken": token["lockToken"]})
    assert charge({"id": "o-1"}) == paid


def test_what_would_come_back_different_under_a_history(shop: Shop) -> None:
    """The first caller gets it, duplicates an error."""

    @shop.once(history=shop.history(data="order")).function(key="order.id", name="charge")
    def charge(order: dict[str, str]) -> Paid | Refunded:
        return Refunded(order["id"], 5)

    assert charge({"id": "o-1"}) == Refunded("o-1", 5)
    with pytest.raises(ResultUnavailable):
        charge({"id": "o-1"})


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_results_that_are_no_finite_number_are_those_of_both(shop: Shop, score: float) -> None:
    """The record of the new version has NaN, and not null: the old version replays it, and the new one."""
    ran: list[str] = []

    def rate(event: Any) -> dict[str, Any]:
        ran.append(event["id"])
        return {"score": score}

    new, old = shop.new(rate), shop.old(rate)
    answers = [new(EVENT), new(EVENT), old(EVENT), old(EVENT | {"id": "o-2"}), new(EVENT | {"id": "o-2"})]
    assert [repr(each) for each in answers] == [repr({"score": score})] * 5
    assert ran == ["o-1", "o-2"]


def test_a_copy_lives_as_long_as_its_record(shop: Shop) -> None:
    """Its ttl is the record's expiry, and so both versions begin anew at the same time (guarantee 4)."""
    till = Till()
    shop.old(till.charge, expires_after_seconds=120)(EVENT)
    assert shop.new(till.charge)(EVENT) == {"charge": 1, "of": "o-1"}
    assert _copy(shop)["ttl"] == (shop.record() or {})["expiration"]


def test_a_copy_lives_no_longer_than_keep(shop: Shop) -> None:
    """A record may outlive it: the history is asked again then."""
    till = Till()
    shop.old(till.charge, expires_after_seconds=7_200)(EVENT)
    shop.new(till.charge, keep=timedelta(hours=1))(EVENT)
    assert int(_copy(shop)["ttl"]["N"]) < int((shop.record() or {})["expiration"]["N"]) - 3_500


def test_twin_whose_copy_outlives_its_record(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: what Powertools would forget in two minutes is replayed for two weeks."""
    monkeypatch.setattr(guarding, "Complete", lambda result, **_: Complete(result))
    till = Till()
    shop.old(till.charge, expires_after_seconds=120)(EVENT)
    shop.new(till.charge)(EVENT)
    kept = int(_copy(shop)["ttl"]["N"]) - int((shop.record() or {})["expiration"]["N"])
    assert kept > timedelta(days=13).total_seconds()


def _copy(shop: Shop) -> dict[str, Any]:
    (row,) = shop.items(shop.tokens)
    return row


def test_a_copy_is_sealed(shop: Shop) -> None:
    """What was copied is opened for the next duplicate, and not to be read in the token table."""
    till = Till()
    answer = shop.old(till.charge)(EVENT)
    seal = (lambda data, _: data[::-1], lambda sealed, _: sealed[::-1])
    new = shop.new(till.charge, seal=seal, seal_required=True)
    assert new(EVENT) == new(EVENT) == answer
    (row,) = [item for item in shop.client.scan(TableName=shop.tokens)["Items"] if "attempt" in item]
    assert row["result"]["B"].startswith(b"sealed:")
    assert till.charged == ["o-1"]


def test_old_after_new_replays(shop: Shop) -> None:
    """The old version finds the record that it would have written itself."""
    till = Till()
    answer = shop.new(till.charge)(EVENT)
    assert shop.old(till.charge)(EVENT) == answer
    assert till.charged == ["o-1"]
    record = shop.record()
    assert record is not None
    assert record["status"] == {"S": "COMPLETED"}
    assert json.loads(record["data"]["S"]) == answer


def test_work_that_changes_its_event(shop: Shop) -> None:
    """The record is that of the event before the work changed it."""

    def work(event: Any) -> str:
        event["id"] = "changed"
        return "charged"

    shop.new(work)({**EVENT})
    assert shop.old_result({**EVENT}) == "charged"


def test_twin_without_history_both_charge(shop: Shop) -> None:
    """Negative twin: without it neither knows of the other."""
    till = Till()
    shop.old(till.charge)(EVENT)
    shop.new(till.charge, history=None)({**EVENT})
    assert till.charged == ["o-1"] * 2


@pytest.mark.parametrize("result", [None, {}, [], 0, False, ""])
def test_falsy_results_are_results(shop: Shop, result: Any) -> None:
    """Powertools stores them all; none of them means that nothing was done."""
    runs: list[Any] = []

    def work(event: Any) -> Any:
        runs.append(event)
        return result

    shop.old(work)(EVENT)
    assert shop.new(work)(EVENT) == result
    assert len(runs) == 1


# -------------------------------------------------------------------------------- what is in progress


def test_old_refuses_what_new_has_begun(shop: Shop) -> None:
    """While the new version works, the old one is in progress, and the other way round."""
    till = Till()

    def meanwhile(event: Any) -> Any:
        with pytest.raises(IdempotencyAlreadyInProgressError):
            shop.old(till.charge)(event)
        return till.charge(event)

    shop.new(meanwhile)(EVENT)
    assert till.charged == ["o-1"]


def test_new_refuses_what_old_has_begun(shop: Shop) -> None:
    """`InProgress`, and the token is released: the next delivery tries again."""
    till = Till()

    def meanwhile(event: Any) -> Any:
        with pytest.raises(InProgress) as refused:
            shop.new(till.charge)(event)
        assert 1 <= (refused.value.retry_after or 0) <= 5
        assert refused.value.expected_completion is not None
        return till.charge(event)

    answer = shop.old(meanwhile)(EVENT)
    assert shop.events() == ["once.acquired", "once.released", "once.in_progress"]
    assert shop.new(till.charge)(EVENT) == answer
    assert till.charged == ["o-1"]


def test_the_time_in_progress_is_within_the_lease(shop: Shop) -> None:
    """It outlasts the invocation, and ends before the lease: who takes over the token finds it over, too."""
    ends: list[tuple[float, float, float]] = []
    once = shop.once()
    context = lambda_context("shop", remaining_ms=30_000)

    @once.event(key="id")
    def handler(event: Any) -> None:
        record = shop.record()
        assert record is not None
        lease = once.current().lease.timestamp()
        ends.append((lease - 2, float(record["in_progress_expiration"]["N"]) / 1000, lease))

    handler(EVENT, context)
    ((invocation, ours, lease),) = ends
    assert invocation < ours < lease


def test_what_has_no_time_is_in_progress(shop: Shop) -> None:
    """A record without in-progress time, of a function that registered no context, does not lapse."""
    till = Till()
    shop.begun(EVENT)
    record = shop.record()
    assert record is not None
    del record["in_progress_expiration"]
    shop.client.put_item(TableName=shop.records, Item=record)
    with pytest.raises(InProgress):
        shop.new(till.charge)(EVENT)
    assert till.charged == []


# -------------------------------------------------------------------------------------- what has lapsed


def test_lapsed_work_is_taken_over(shop: Shop) -> None:
    """Under take_over it runs, as it would in the old version."""
    till = Till()
    shop.begun(EVENT)
    shop.lapse()
    assert shop.new(till.charge)(EVENT) == {"charge": 1, "of": "o-1"}


def test_lapsed_work_is_held(shop: Shop) -> None:
    """Under hold it waits for an operator, whose decision stands; nothing runs before it."""
    till = Till()
    shop.begun(EVENT)
    shop.lapse()
    new = shop.new(till.charge, on_error=HOLD)
    for _ in range(2):
        with pytest.raises(Held, match="held for manual review"):
            new(EVENT)
    assert till.charged == []
    assert shop.record() is None  # the token holds it from now on


def test_what_was_forgotten_is_held_all_the_same(shop: Shop) -> None:
    """Who erases the message of a released token has not asked what became of the old version's attempt."""
    till = Till()

    def unreachable(_: Any) -> None:
        raise RetryLater("the bank of Ann Private does not answer")

    with pytest.raises(RetryLater):
        shop.new(unreachable, on_error=HOLD)(EVENT)
    shop.begun(EVENT)
    shop.lapse()
    shop.decide(Resolve.FORGET)
    with pytest.raises(Held, match="held for manual review"):
        shop.new(till.charge, on_error=HOLD)(EVENT)
    assert till.charged == []
    shop.resolve(done=False)
    assert shop.new(till.charge, on_error=HOLD)(EVENT) == {"charge": 1, "of": "o-1"}


def test_twin_that_does_not_look_first(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: Powertools' own write takes over what has lapsed, and the work runs without review."""
    begin = PowertoolsRecord.begin
    monkeypatch.setattr(
        PowertoolsRecord, "begin", lambda *args, **given: begin(*args, **given | {"takes_over": True})
    )
    till = Till()
    shop.begun(EVENT)
    shop.lapse()
    assert shop.new(till.charge, on_error=HOLD)(EVENT) == {"charge": 1, "of": "o-1"}


@pytest.mark.parametrize(("answer", "charged"), [(NOT_DONE, 1), (Done({"charge": 7}), 0)])
def test_the_probe_is_asked(shop: Shop, answer: Any, charged: int) -> None:
    """It gets what is known of the old attempt, and decides; both versions go by its answer."""
    till = Till()
    asked: list[Lapsed] = []

    def probe(lapsed: Lapsed, event: Any) -> Any:
        asked.append(lapsed)
        assert event == EVENT
        return answer

    shop.begun(EVENT)
    shop.lapse()
    first = shop.new(till.charge, on_lapse=probe)(EVENT)
    assert len(till.charged) == charged
    assert (
        shop.old(till.charge)(EVENT)
        == first
        == ({"charge": 7} if not charged else {"charge": 1, "of": "o-1"})
    )
    assert len(asked) == 1
    assert asked[0].expected_completion.timestamp() == 1


def by_downstream_key(lapsed: Lapsed, _event: Any) -> Any:
    """Ask a provider that has no charge under the key of the lapsed attempt."""
    return Done({}) if lapsed.downstream_key() == "charged" else NOT_DONE


def test_a_death_before_the_probe_answers(shop: Shop) -> None:
    """The next attempt asks about the old one all the same, whose record the killed one has overwritten."""
    till = Till()

    def killed(_lapsed: Lapsed, _event: Any) -> Any:
        raise Killed

    shop.begun(EVENT)
    shop.lapse()
    with pytest.raises(Killed):
        shop.new(till.charge, on_lapse=killed)(EVENT)
    shop.lapse_all()
    with pytest.raises(Held):
        shop.new(till.charge, on_lapse=by_downstream_key)(EVENT)
    assert till.charged == []


def test_a_death_while_the_handler_runs(shop: Shop) -> None:
    """No old attempt was killed before: that the new one did not charge is known by its own key."""
    till, machine = Till(), Machine(3)  # it acquires, asks the history, and is recorded there

    def charge(event: Any) -> Any:
        return machine.step(till.charge, event)

    with pytest.raises(Killed):
        shop.through(machine.client(shop.client)).new(charge, on_lapse=by_downstream_key)(EVENT)
    shop.lapse_all()
    assert shop.new(till.charge, on_lapse=by_downstream_key)(EVENT) == {"charge": 1, "of": "o-1"}


def _second_message(shop: Shop) -> Till:
    """Kill a running version with a finer key, lapse, and deliver a second message of the same order."""
    till = Till()

    def version(machine: Machine) -> Any:
        once = shop.through(machine.client(shop.client)).once(on_lapse=by_downstream_key)
        return once.event(key="message", name="charge")(lambda event: machine.step(till.charge, event))

    for message, machine in (("m-1", Machine(4)), ("m-2", Machine())):
        with suppress(Killed, Held):
            version(machine)(EVENT | {"message": message}, lambda_context("shop"))
        shop.lapse_all()
    return till


def test_the_record_of_another_token_is_judged(shop: Shop) -> None:
    """The second message has a token of its own, which knows nothing of the attempt that was killed."""
    assert _second_message(shop).charged == ["o-1"]


def test_twin_whose_tokens_share_a_mark(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: the record of another token is taken for its own, and the order is charged twice."""
    digits = powertools_history._digits
    monkeypatch.setattr(
        powertools_history, "_digits", lambda text, n: digits("same" if n == TOKEN_DIGITS else text, n)
    )
    assert _second_message(shop).charged == ["o-1"] * 2


def test_what_a_probe_finds_is_recorded(shop: Shop) -> None:
    """The old version replays it, and does not take over the record of the killed attempt."""
    till, machine = Till(), Machine(4)  # it acquires, asks the history, is recorded there, and charges

    def charge(event: Any) -> Any:
        return machine.step(till.charge, event)

    with pytest.raises(Killed):
        shop.through(machine.client(shop.client)).new(charge, on_lapse=by_downstream_key)(EVENT)
    shop.lapse_all()
    assert shop.new(till.charge, on_lapse=lambda *_: Done({"charge": 1}))(EVENT) == {"charge": 1}
    assert shop.old(till.charge)(EVENT) == {"charge": 1}
    assert till.charged == ["o-1"]


def test_a_probe_that_asks_for_a_key_of_ours_holds(shop: Shop) -> None:
    """The old attempt passed no downstream key on: looking for it would find nothing, and charge again."""
    till = Till()

    def probe(lapsed: Lapsed, _: Any) -> Any:
        return Done({}) if lapsed.downstream_key() == "known" else NOT_DONE

    shop.begun(EVENT)
    shop.lapse()
    with pytest.raises(Held):
        shop.new(till.charge, on_lapse=probe)(EVENT)
    assert till.charged == []


# ------------------------------------------------------------------------------------- the other states


def test_an_expired_record_is_absent(shop: Shop) -> None:
    """After ``expires_after_seconds`` the work is new, in either version."""
    till = Till()
    shop.old(till.charge)(EVENT)
    shop.change(expiration={"N": "1000"})
    assert shop.new(till.charge)(EVENT) == {"charge": 2, "of": "o-1"}


def test_a_released_attempt_leaves_no_record(shop: Shop) -> None:
    """After an exception both versions may run."""
    till = Till()
    with pytest.raises(ValueError, match="declined"):
        shop.new(till.fail)(EVENT)
    assert shop.record() is None
    assert shop.old(till.charge)(EVENT) == {"charge": 2, "of": "o-1"}


def _begun(shop: Shop, seconds: float) -> tuple[PowertoolsRecord, datetime]:
    """Begin an attempt whose lease lasts *seconds*; return its record and the time."""
    record, now = shop.history().of(EVENT, "charge", is_call=False), SystemClock().now()
    assert (
        record.begin(now + timedelta(seconds=seconds), now, takes_over=True, attempt_id="a-1", token="t")
        == Vacant()
    )
    return record, now


def test_only_our_own_record_is_deleted(shop: Shop) -> None:
    """Once its time is over the record may be another attempt's, which is in progress."""
    record, now = _begun(shop, 30)
    record.undo(now + timedelta(seconds=30) - SOONER)
    assert shop.record() is not None
    again, now = shop.history().of(EVENT, "charge", is_call=False), SystemClock().now()
    assert isinstance(
        again.begin(now + timedelta(seconds=30), now, takes_over=True, attempt_id="a-2", token="t"), Busy
    )
    again.undo(now)
    assert shop.record() is not None  # it is not the other one's, either


def test_twin_in_time(shop: Shop) -> None:
    """Negative twin: a moment earlier it is deleted."""
    record, now = _begun(shop, 30)
    record.undo(now + timedelta(seconds=29) - SOONER)
    assert shop.record() is None


def test_a_completed_record_of_our_own_is_an_outcome(shop: Shop) -> None:
    """An attempt of the old version that outlived its time may have completed it: nothing runs again."""
    _begun(shop, 30)
    shop.change(status={"S": "COMPLETED"}, data={"S": "5"})
    again, now = shop.history().of(EVENT, "charge", is_call=False), SystemClock().now()
    found = again.begin(now + timedelta(seconds=30), now, takes_over=True, attempt_id="a-1", token="t")
    assert isinstance(found, Earlier)
    assert found.text == "5"


def test_another_payload_is_refused(shop: Shop) -> None:
    """``payload_validation_jmespath`` of the old version, and the new one's fingerprint."""
    till = Till()
    config = {"event_key_jmespath": "id", "payload_validation_jmespath": "total"}
    shop.old(till.charge, **config)(EVENT)
    history = shop.history(config=IdempotencyConfig(**config))  # type: ignore[arg-type]
    with pytest.raises(KeyReused, match="payload_validation_jmespath"):
        shop.new(till.charge, history=history)({**EVENT, "total": 1})
    assert till.charged == ["o-1"]


def test_a_token_that_was_deleted_comes_back(shop: Shop) -> None:
    """The record of the history stays, result included: who erases a person's data deletes it there, too."""
    till = Till()
    new = shop.new(till.charge)
    assert new(EVENT) == {"charge": 1, "of": "o-1"}
    (token,) = shop.items(shop.tokens)
    shop.client.delete_item(TableName=shop.tokens, Key={"lockToken": token["lockToken"]})
    assert new(EVENT) == {"charge": 1, "of": "o-1"}
    assert till.charged == ["o-1"]
    assert len(shop.items(shop.tokens)) == 1


def test_reading_only(shop: Shop) -> None:
    """``writes=False`` replays what the old version did, and writes nothing."""
    till = Till()
    shop.old(till.charge)(EVENT)
    new = shop.new(till.charge, history=shop.history(writes=False))
    assert new(EVENT) == {"charge": 1, "of": "o-1"}
    before = shop.record()
    assert new({"id": "o-2"}) == {"charge": 2, "of": "o-2"}
    assert shop.record() == before


def test_reading_only_holds_until_it_is_decided(shop: Shop) -> None:
    """What has lapsed stays in the history then; an operator's later decision stands."""
    till = Till()
    shop.begun(EVENT)
    shop.lapse()
    new = shop.new(till.charge, history=shop.history(writes=False), on_error=HOLD)
    for _ in range(2):
        with pytest.raises(Held):
            new(EVENT)
    shop.resolve(done=False)
    assert new(EVENT) == {"charge": 1, "of": "o-1"}
