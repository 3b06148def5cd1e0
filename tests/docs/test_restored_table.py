"""What docs/operations.md says of a restored table, tried out with the program that it names."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from examples import restored_table
from examples.restored_table import main, remember
from lambda_once import HOLD, STORE
from lambda_once.core.lifecycle import Record, State
from lambda_once.engine.attempt import current_attempt
from lambda_once.operations.table import TokenTable
from lambda_once.testing import create_table
from tests.docs.pages import ROOT
from tests.docs.shell import calls, indented_blocks, play, shell_blocks
from tests.docs.test_operations_page import PAGE
from tests.docs.test_runbook import GatewayTimeout, Killed, Night, night
from tests.kit import tables
from tests.kit.strict.mounted import mounted

TOKEN = "orders/charge/12345"
LINE: dict[str, Any] = {
    "message": "once.returned",
    "token": TOKEN,
    "attempt": "a" * 32,
    "fence": 1795193761845,
    "locked_by": "charge/5f1c",
    "acquired": "2026-11-20T10:12:00.000Z",
    "expected_completion": "2026-11-20T10:12:32.000Z",
}


class Restored(NamedTuple):
    """A table as a restore leaves it."""

    client: Any
    table: str

    def leave(self, state: str, **texts: str) -> None:
        """Leave the row as it was at T, its lease over by now, with *texts* as further attributes."""
        row = {
            "lockToken": TOKEN,
            "attempt": "a" * 32,
            "lockedBy": "charge/5f1c",
            "created": "2026-11-20T10:12:00.000Z",
            "expectedCompletion": "2020-11-20T10:12:32.000Z",
            **texts,
        }
        row |= {"in progress": {"status": "inProgress"}, "held": {"status": "error"}}.get(state, {})
        row |= {"actualCompletion": "2020-11-20T10:12:30.000Z"} if state in ("held", "complete") else {}
        row |= {"result": '"ch_0"'} if state == "complete" else {}
        item: dict[str, dict[str, str]] = {name: {"S": value} for name, value in row.items()}
        numbers = {"fence": "7"} | ({"ttl": "1900000000"} if state in ("released", "complete") else {})
        item |= {name: {"N": number} for name, number in numbers.items()}
        self.client.put_item(TableName=self.table, Item=item)

    def row(self) -> Record:
        record = TokenTable(self.table, self.client).read(TOKEN)
        assert record is not None
        return record


__all__ = ["night"]


@pytest.fixture
def restored() -> Iterator[Restored]:
    """A table of the strict engine."""
    with mounted():
        client = tables.client()
        create_table(client, "restored")
        yield Restored(client, "restored")


STATES = ("in progress", "held", "released", "complete")


@pytest.mark.parametrize("message", ["once.returned", "once.held"])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("above", [-1, 0, 1])
def test_fences_alone_decide(restored: Restored, state: str, above: int, message: str) -> None:
    """A line above its row is written whatever the state, one below never, an equal one if it adds to it."""
    restored.leave(state, fingerprint="f" * 16)
    before = restored.row()
    line = LINE | {"fence": before.fence + above, "message": message}
    target = "complete" if message == "once.returned" else "held"
    found = remember(restored.client, restored.table, line)
    if above < 0:
        left = "left: " if target == "complete" else ""
        assert found == f"{left}{state}, with the later fence {before.fence}"
    elif above == 0 and state in ("complete", target):
        assert found == f"{state} already"
    else:
        assert found == target
        after = restored.row()
        assert (after.state, after.fence, after.stored) == (State[target.upper()], line["fence"], None)
        assert after.fingerprint == (None if above else before.fingerprint)
        assert (after.ttl is None) is (target == "held")
        return
    assert restored.row() == before


def test_a_row_that_changes_meanwhile_is_left(restored: Restored, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that was not stopped: the write is refused."""
    restored.leave("held")
    stale = restored.row()
    assert remember(restored.client, restored.table, LINE | {"fence": stale.fence + 1}) == "complete"
    monkeypatch.setattr(TokenTable, "read", lambda *_: stale)
    found = remember(restored.client, restored.table, LINE | {"fence": stale.fence + 2})
    assert found == "left: it has just changed; stop the sources first"


# ---------------------------------------------------------------- the page, with two books


class Restore:
    """
    A night on which the table is restored to a time T, order by order.

    Two books: what the provider has really charged, and the table. An order is charged before T or after it.
    """

    def __init__(self, night: Night) -> None:
        self.night = night
        self.charged: Counter[str] = Counter()
        self.backup: list[dict[str, Any]] = []

    def charge(self, order: str) -> str:
        self.charged[order] += 1
        return f"ch_{order}"

    def is_t(self, order: str) -> None:
        """Back up the row of *order*, which changes afterwards."""
        key = {"lockToken": {"S": f"orders/charge/{order}"}}
        row = self.night.client.get_item(TableName=self.night.table, Key=key, ConsistentRead=True).get("Item")
        self.backup += [] if row is None else [row]

    def deliver(self, order: str, work: Callable[[str], Any] | None = None, **given: Any) -> Any:
        self.night.provider = work or self.charge
        return self.night.deliver(order, **given)

    def raising(self, error: BaseException, *, charges: bool = False) -> Callable[[str], Any]:
        def work(order: str) -> Any:
            if charges:
                self.charge(order)
            raise error

        return work

    def is_killed(self, order: str, *, charges: bool = False) -> None:
        """Let the function die with *order*, and let its lease expire."""
        if charges:
            self.charge(order)
        self.night.lapses(order)

    def resolves(self, order: str, how: str, table: str | None = None) -> None:
        line = f"resolve orders/charge/{order} {how} --because 'looked it up' --yes"
        self.night.types_by_hand(line if table is None else f"{line} --table {table}")

    # what became of an order before T and after it

    def absent(self, order: str) -> None:
        self.is_t(order)
        self.deliver(order)

    def in_progress(self, order: str) -> None:
        def work(order: str) -> str:
            self.is_t(order)
            return self.charge(order)

        self.deliver(order, work)

    def lapsed(self, order: str) -> None:
        self.is_killed(order)
        self.is_t(order)
        self.deliver(order)

    def lapsed_but_alive(self, order: str) -> None:
        def work(order: str) -> str:
            self.night.clock.advance(60)
            self.is_t(order)
            return self.charge(order)

        self.deliver(order, work)

    def held(self, order: str) -> None:
        self.deliver(order, self.raising(GatewayTimeout()), on_error=HOLD)
        self.is_t(order)
        self.resolves(order, "--not-done")
        self.deliver(order)

    def released_by_an_exception(self, order: str) -> None:
        self.deliver(order, self.raising(GatewayTimeout()))
        self.is_t(order)
        self.deliver(order)

    def released_by_a_decision(self, order: str) -> None:
        self.is_killed(order)
        self.resolves(order, "--not-done")
        self.is_t(order)
        self.deliver(order)

    def complete(self, order: str) -> None:
        self.deliver(order)
        self.is_t(order)
        self.deliver(order)

    def expired_and_used_again(self, order: str) -> None:
        """Two orders of one number, with different payloads: each is charged."""
        self.deliver(order, keep=timedelta(days=1))
        self.night.clock.advance(2 * 86_400)
        self.is_t(order)
        self.deliver(order)

    def declined_later(self, order: str) -> None:
        self.is_t(order)
        self.deliver(order, self.raising(ValueError("no funds")), on_error=STORE)

    def killed_after_completing(self, order: str) -> None:
        """What `attempt.complete` or `attempt.transact` has completed did not return."""

        def work(order: str) -> Any:
            self.charge(order)
            current_attempt().complete("done")
            raise Killed

        self.is_t(order)
        self.deliver(order, work)

    # charged, and nobody knows

    def held_later(self, order: str) -> None:
        self.is_t(order)
        self.deliver(order, self.raising(GatewayTimeout(), charges=True), on_error=HOLD)

    def held_later_and_decided(self, order: str) -> None:
        self.held_later(order)
        self.resolves(order, "--done")

    def killed_later(self, order: str) -> None:
        self.is_t(order)
        self.is_killed(order, charges=True)
        self.night.watches()

    # the line is of an earlier attempt than the row

    def released_under_a_living_attempt(self, order: str) -> None:
        def work(order: str) -> str:
            self.night.clock.advance(60)
            self.resolves(order, "--not-done")
            self.is_t(order)
            return self.charge(order)

        self.deliver(order, work)


DONE_AFTER_T = (
    "absent",
    "in_progress",
    "lapsed",
    "lapsed_but_alive",
    "held",
    "released_by_an_exception",
    "released_by_a_decision",
    "complete",
    "killed_after_completing",
    "expired_and_used_again",
)
UNKNOWN = ("held_later", "held_later_and_decided", "killed_later")
LEFT = "released_under_a_living_attempt"
DECLINED = "declined_later"
RESTORED = "tokens-restored"
SECTION = PAGE[PAGE.index("## The table was restored") : PAGE.index("## The table is lost")]
(WRITE,) = indented_blocks(restored_table.__doc__ or "")


@pytest.fixture
def restore(night: Night) -> Iterator[Restore]:
    """All orders, each charged by the time of the restore."""
    found = Restore(night)
    create_table(night.client, RESTORED)
    try:
        for order in ("expired_and_used_again", *DONE_AFTER_T[:-1], *UNKNOWN, LEFT, DECLINED):
            getattr(found, order)(order)
        for row in found.backup:
            night.client.put_item(TableName=RESTORED, Item=row)
        yield found
    finally:
        night.client.delete_table(TableName=RESTORED)


def messages_since(night: Night) -> str:
    """Return what `filter-log-events` finds."""
    wanted = re.findall(r'message = "([^"]+)"', WRITE)
    lines = night.log.getvalue().splitlines()
    return json.dumps([line for line in lines if json.loads(line)["message"] in wanted])


@pytest.mark.engine
def test_nothing_is_charged_twice(restore: Restore) -> None:
    """The page's own commands, and the program's, then every message again: neither book changes."""
    night, before = restore.night, restore.charged.copy()
    shutil.copy(ROOT / "examples" / "restored_table.py", night.folder)
    (night.folder / "log.json").write_text(messages_since(night), encoding="utf-8")
    stop, restored, completed, decide, start = shell_blocks(SECTION)
    cli = '[[ "$*" == "logs filter-log-events "* ]] && cat log.json; exit 0'
    variables = {name: name for name in ("PaymentsFunctionName", "PaymentsMapping", "LogGroupName")}
    for block in (stop, restored, completed):
        assert play(block, night.folder, cli, **variables).stderr == ""
    written = play(WRITE, night.folder, cli, **variables)
    assert written.returncode == 1, written.stderr
    became = dict(line.removeprefix("orders/charge/").split(" ", 1) for line in written.stdout.splitlines())
    assert became.pop(LEFT).startswith("left: released, with the later fence ")
    assert became == (
        dict.fromkeys(DONE_AFTER_T, "complete")
        | dict.fromkeys(UNKNOWN, "held")
        | {DECLINED: "complete"}
        | {"in_progress": "complete", "complete": "complete already"}
    )
    # What is left, and what is listed, is looked up at the provider.
    restore.resolves(LEFT, "--done --force", RESTORED)
    listed = night.types(decide.splitlines()[0], 1).output
    assert {order for order in restore.charged if f"/{order} " in f"{listed} "} == {*UNKNOWN}
    for order in UNKNOWN:
        restore.resolves(order, "--done", RESTORED)
    night.types(decide.splitlines()[0])
    calls(night.folder)
    assert play(start, night.folder, cli, **variables).stderr == ""
    assert calls(night.folder) == [
        "lambda delete-function-concurrency --function-name PaymentsFunctionName",
        "lambda update-event-source-mapping --uuid PaymentsMapping --enabled",
    ]
    for order in before:
        assert not isinstance(restore.deliver(order, table=RESTORED), BaseException), order
        assert night.row(order, RESTORED).state is State.COMPLETE
    assert str(restore.deliver(DECLINED, table=RESTORED)) == "once.stored in the log"
    assert restore.charged == before
    assert before == dict.fromkeys((*DONE_AFTER_T, *UNKNOWN, LEFT), 1) | {"expired_and_used_again": 2}


@pytest.mark.engine
def test_a_rule_of_attempts_charges_twice(restore: Restore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: a row of another attempt is left whatever its fence."""

    def by_attempt(row: Record | None, fence: int, state: State) -> str:
        same = row is None or (row.fence == fence and row.state is State.IN_PROGRESS)
        return state.name.lower() if same else "left"

    monkeypatch.setattr(restored_table, "verdict", by_attempt)
    night, before = restore.night, restore.charged.copy()
    (night.folder / "since.json").write_text(messages_since(night), encoding="utf-8")
    assert not main(night.client, RESTORED, str(night.folder / "since.json"))
    for order in DONE_AFTER_T:
        restore.deliver(order, table=RESTORED)
    assert {*(restore.charged - before)} == {
        "lapsed",
        "released_by_an_exception",
        "released_by_a_decision",
        "expired_and_used_again",
    }
