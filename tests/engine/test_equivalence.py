"""A record that is alone in its batch and one with company are acquired, run and finished alike."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from lambda_once import HOLD, STORE, Once
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Acquire, Write
from lambda_once.engine.engine import Engine
from lambda_once.errors import Misconfigured
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details
from lambda_once.stores.contract import AcquireAnswer, Unanswered, WriteAnswer
from lambda_once.testing import FakeClock, MemoryStore, lambda_context, sqs_event, using
from tests.kit.frail import FrailStore

COMPANY = [(), ("y",), ("y", "z")]


class Case(NamedTuple):
    """How earlier attempts at the record *x* ended, and how this one does."""

    before: tuple[str, ...] = ()
    """Each "done", "fail", "killed" or "other", which is done with another payload; "later" is a minute."""
    now: str = "done"
    """Or "unanswered", "wrong" (the table's answers to the acquisition), "lost" (that to the completion)."""
    options: tuple[tuple[str, Any], ...] = ()


CASES = {
    "new": Case(),
    "new, fails": Case((), "fail"),
    "new, fails and is held": Case((), "fail", (("on_error", HOLD),)),
    "new, fails for good": Case((), "fail", (("on_error", STORE),)),
    "complete": Case(("done",)),
    "complete and remembered": Case(("done", "done"), "done", (("cache", 100),)),
    "expired": Case(("done", "later"), "done", (("keep", timedelta(seconds=20)),)),
    "released": Case(("fail",)),
    "released, to be held": Case(("fail",), "done", (("on_lapse", "hold"),)),
    "a stored error": Case(("fail",), "done", (("on_error", STORE),)),
    "held": Case(("fail",), "done", (("on_error", HOLD),)),
    "in progress": Case(("killed",)),
    "in progress, awaited": Case(("killed",), "done", (("on_in_progress", "wait"),)),
    "lapsed": Case(("killed", "later")),
    "lapsed and held": Case(("killed", "later"), "done", (("on_lapse", "hold"),)),
    "another payload": Case(("other",)),
    "no answer": Case((), "unanswered"),
    "no answer, released": Case(("fail",), "unanswered"),
    "a wrong table": Case((), "wrong"),
    "completion lost": Case((), "lost"),
}


class Table(FrailStore):
    """Gives wrong answers about the record *x*."""

    def __init__(self) -> None:
        self.memory = MemoryStore()
        super().__init__(self.memory)
        self.how = "done"

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        answers = super().acquire(acquisitions, deadline)
        for n, each in enumerate(acquisitions):
            if each.token.endswith("x") and self.how == "unanswered":
                answers[n] = Unanswered("lost")
            elif each.token.endswith("x") and self.how == "wrong":
                answers[n] = Misconfigured("wrong")
        return answers

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        answers = super().write(writes, deadline)
        for n, each in enumerate(writes):
            if each.token.endswith("x") and self.how == "lost":
                answers[n] = Unanswered("lost")
        return answers


class Seen(NamedTuple):
    """What there is to see of the record *x*."""

    failed: list[bool]
    worked: list[str]
    state: str
    events: list[tuple[object, ...]]


def _seen(case: Case, company: Sequence[str]) -> Seen:
    clock, table, events, worked = FakeClock(), Table(), list[Details](), list[str]()
    once = Once(service="shop", hooks=[events.append])
    options = {"lease": timedelta(seconds=30), **dict(case.options)}

    @once.sqs(name="work", key="id", raise_on_entire_batch_failure=False, **options)
    def work(record: Any) -> None:
        if record.json_body["id"] == "x":
            worked.append(table.how)
            if table.how == "fail":
                raise RuntimeError

    failed = []
    with using(once, table, clock=clock):
        for table.how in (*case.before, case.now):
            if table.how == "later":
                clock.advance(60)
                continue
            table.loses_ends = table.how == "killed"
            bodies = [{"id": each, "amount": table.how == "other"} for each in ("x", *company)]
            response = work(sqs_event(*bodies, message_ids=["x", *company]), lambda_context())
            failed.append({"itemIdentifier": "x"} in response["batchItemFailures"])
            company = [f"another {each}" for each in company]
    row = next((row for token, row in table.memory.records.items() if token.endswith("x")), None)
    shown: list[tuple[object, ...]] = [
        (each.event, each.error, each.reason, each.differing, each.fence is None, each.seconds)
        for each in events
        if str(each.token).endswith("x")
    ]
    return Seen(failed, worked, "absent" if row is None else row.state.value, shown)


@pytest.mark.parametrize("company", COMPANY[1:], ids=["of one", "of two"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_company_changes_nothing(case: Case, company: Sequence[str]) -> None:
    """The record fails or not, its work runs or not, its row ends and its events are reported alike."""
    seen = _seen(case, company)
    if "on_in_progress" in dict(case.options):  # with company, it waits once all others have run
        seen.events.remove(next(each for each in seen.events if each[0] is Event.IN_PROGRESS))
    assert seen == _seen(case, ())


def test_cases_differ() -> None:
    """Every case shows something of its own, so that the comparison is of as many ways."""
    seen = [str(_seen(case, ())) for case in CASES.values()]
    assert len(set(seen)) >= len(CASES) - 3


def test_twin_that_reports_no_refusal_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is alone loses the line that says why it was refused."""
    right = Engine._report_refusal

    def refused(acquirer: Engine, call: Any, error: Any) -> None:
        if inspect.stack()[1].function != "acquire":
            right(acquirer, call, error)

    monkeypatch.setattr(Engine, "_report_refusal", refused)
    with pytest.raises(AssertionError):
        test_company_changes_nothing(CASES["a stored error"], ("y",))


@pytest.mark.parametrize("company", COMPANY, ids=["alone", "of two", "of three"])
def test_a_store_that_raises_leaves_nothing_acquired(company: Sequence[str]) -> None:
    """It may have acquired the tokens before: they are released, as nothing has started."""

    class Raising(Table):
        def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
            super().acquire(acquisitions, deadline)
            raise Misconfigured("no such table")

    once, table = Once(service="shop"), Raising()

    @once.sqs(name="work", raise_on_entire_batch_failure=False)
    def work(record: Any) -> None:
        raise AssertionError

    with using(once, table), suppress(Misconfigured):
        work(sqs_event("x", *company), lambda_context())
    assert {row.state for row in table.memory.records.values()} == {State.RELEASED}
