"""What docs/operations.md says of a restored table, tried out with the program that it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from examples.restored_table import main, remember
from lambda_once import Held, Once
from lambda_once.core.lifecycle import State
from lambda_once.operations.table import TokenTable
from lambda_once.testing import create_table, lambda_context
from tests.kit import tables
from tests.kit.strict.mounted import mounted

TOKEN = "orders/charge/12345"
LINE = {
    "message": "once.returned",
    "token": TOKEN,
    "attempt": "a" * 32,
    "fence": 1795193761845,
    "locked_by": "charge/5f1c",
    "acquired": "2026-11-20T10:12:00.000Z",
    "expected_completion": "2026-11-20T10:12:32.000Z",
}


class Restored(NamedTuple):
    """A table as a restore leaves it, and what was worked since."""

    client: Any
    table: str
    worked: list[str]

    def charge(self, **options: Any) -> object:
        """Deliver order 12345 (again)."""
        once = Once(table=self.table, client=self.client, service="orders")

        @once.event(key="orderId", name="charge", **options)
        def charge(event: dict[str, Any]) -> str:
            self.worked.append(event["orderId"])
            return "ch_1"

        return charge({"orderId": "12345"}, lambda_context())

    def leave_in_progress(self, attempt: str = "a" * 32) -> None:
        """Leave the row as it was at T, in progress by *attempt*, its lease over by now."""
        row = {
            "lockToken": TOKEN,
            "status": "inProgress",
            "attempt": attempt,
            "lockedBy": "charge/5f1c",
            "created": "2026-11-20T10:12:00.000Z",
            "expectedCompletion": "2020-11-20T10:12:32.000Z",
        }
        item: dict[str, dict[str, str]] = {name: {"S": value} for name, value in row.items()}
        self.client.put_item(TableName=self.table, Item=item | {"fence": {"N": "1"}})

    def state(self) -> State | None:
        record = TokenTable(self.table, self.client, shards=1).read(TOKEN)
        return None if record is None else record.state


@pytest.fixture
def on_strict() -> Iterator[Restored]:
    """A table of the strict engine."""
    with mounted():
        client = tables.client()
        create_table(client, "restored")
        yield Restored(client, "restored", [])


@pytest.fixture
def on_engine(dynamodb_local: str) -> Iterator[Restored]:
    """A table of a real engine."""
    client = tables.client(dynamodb_local)
    with tables.fresh(client) as name:
        yield Restored(client, name, [])
    client.close()


@pytest.fixture(params=["on_strict", pytest.param("on_engine", marks=pytest.mark.engine)])
def restored(request: pytest.FixtureRequest) -> Restored:
    """Either."""
    found: Restored = request.getfixturevalue(request.param)
    return found


def test_what_was_acquired_and_completed_later_runs_again(restored: Restored) -> None:
    """Its row is absent: the delivery that comes again is new."""
    assert restored.charge() == "ch_1"
    assert restored.worked == ["12345"]


def test_what_was_completed_later_runs_again_under_take_over_only(restored: Restored) -> None:
    """Its row is in progress and overdue: held under hold, taken over otherwise."""
    restored.leave_in_progress()
    with pytest.raises(Held):
        restored.charge(on_lapse="hold")
    assert restored.worked == []
    assert restored.charge() == "ch_1"
    assert restored.worked == ["12345"]


def test_what_is_remembered_does_not_run(restored: Restored) -> None:
    """An absent row becomes a complete one: the delivery gets None, and nothing is worked."""
    assert remember(restored.client, restored.table, LINE)
    assert restored.state() is State.COMPLETE
    assert restored.charge() is None
    assert restored.worked == []


def test_the_rows_of_a_file_are_written(
    restored: Restored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `filter-log-events` prints them: a list of lines; those that are complete are named."""
    (tmp_path / "done.json").write_text(json.dumps([json.dumps(LINE)] * 2), encoding="utf-8")
    main(restored.client, restored.table, str(tmp_path / "done.json"))
    assert restored.state() is State.COMPLETE
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{TOKEN} completed"
    assert second == f"{TOKEN} left: complete, or another attempt's"


def test_a_row_in_progress_is_completed(restored: Restored) -> None:
    """The row of the same attempt leaves the index and replays."""
    restored.leave_in_progress()
    assert remember(restored.client, restored.table, LINE)
    assert restored.state() is State.COMPLETE
    assert restored.charge() is None
    assert restored.worked == []


def test_another_attempt_is_left_alone(restored: Restored) -> None:
    """A row that names somebody else, or that is complete, is refused and stays."""
    restored.leave_in_progress("b" * 32)
    assert not remember(restored.client, restored.table, LINE)
    assert restored.state() is State.IN_PROGRESS
    assert restored.charge() == "ch_1"
    assert not remember(restored.client, restored.table, LINE)
    assert restored.charge() == "ch_1"
