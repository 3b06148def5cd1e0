"""The example of a store passes the suite of every store; without one of its guards it fails it."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import lambda_once
from examples.sqlite_store import SqliteStore
from lambda_once import Once, StoreUnavailable
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Chunks
from lambda_once.core.writes import Complete, Holder, Write, after_write
from lambda_once.stores.contract import Refused, WriteAnswer, Written
from lambda_once.testing import lambda_context
from tests.docs.pages import ROOT, files
from tests.stores.suite import StoreSuite, SuiteRows
from tests.stores.suite.contents import RIVALS
from tests.stores.suite.world import PAID, World

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _all_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test leaves a database open: Python 3.13 warns of it later, in whatever test runs then."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*args: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    yield
    for database in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            database.execute("SELECT 1")


class TestSqliteStore(StoreSuite):
    @pytest.fixture
    def store(self) -> Iterator[SqliteStore]:
        """A new database in memory."""
        with closing(SqliteStore(":memory:")) as store:
            yield store

    def forget(self, store: SqliteStore, token: str) -> None:
        store.forget(token)


def test_a_once_runs_on_it(tmp_path: Path) -> None:
    """A duplicate that another process has gets the stored result."""
    ran: list[int] = []

    def work(order: int) -> int:
        ran.append(order)
        return len(ran)

    path = str(tmp_path / "tokens.sqlite")
    for _ in range(2):
        with closing(SqliteStore(path)) as store:
            once = Once(store=store, service="shop")
            with once.invocation(lambda_context()):
                assert once.run("work", 5, work, 5) == 1


def test_a_database_that_does_not_answer_is_unavailable(tmp_path: Path) -> None:
    """Whatever is read: the row, the parts of its result, or the list."""
    path = str(tmp_path / "tokens.sqlite")
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as rival:
        world = World(store, SuiteRows(SUITE, store))
        world.won()
        assert world.finish(Complete(Chunks((b"one", b"1")))) == Written.WRITTEN
        row = world.row()
        store._db.execute("PRAGMA busy_timeout = 0")
        rival.execute("BEGIN EXCLUSIVE")
        reads: list[Callable[[], object]] = [
            world.row,
            lambda: world.chunks(row),
            lambda: list(world.store.unfinished(State.HELD, world.deadline)),
        ]
        for read in reads:
            with pytest.raises(StoreUnavailable, match="did not answer"):
                read()


# ------------------------------------------------------------------ negative twins


class NotAtomic(SqliteStore):
    """Between its read of a row and its write, others read it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.rivals = threading.Barrier(RIVALS, timeout=10)
        self.statement = threading.Lock()
        """Held for each: the threads of one connection share what sqlite3 has prepared."""

    @contextmanager
    def _one_step(self) -> Iterator[None]:
        yield

    def _row(self, token: str) -> Record | None:
        with self.statement:
            row = super()._row(token)
        if row is None and token.endswith("-0"):
            self.rivals.wait()
        return row

    def _put(self, row: Record | None) -> None:
        with self.statement:
            super()._put(row)


class Unconditional(SqliteStore):
    """A finish writes whatever attempt has the token."""

    def _finish(self, write: Write) -> WriteAnswer:
        row = self._row(write.token)
        assert row is not None
        self._put(after_write(row, replace(write, by=Holder(row.attempt_id))))
        return Written.WRITTEN


class Forgetful(SqliteStore):
    """It takes its own earlier write for somebody else's."""

    def _finish(self, write: Write) -> WriteAnswer:
        before = self._row(write.token)
        answer = super()._finish(write)
        return answer if self._row(write.token) != before else Refused(before)


class OnePlaceForParts(SqliteStore):
    """The parts of all writes of a token are in one place, and are written before the row."""

    def _finish(self, write: Write) -> WriteAnswer:
        self._db.execute("DELETE FROM parts")
        if isinstance(write.change, Complete):
            super()._put_parts(replace(write, id="-"), write.change)
        return super()._finish(write)

    def _put_parts(self, write: Write, change: Complete) -> None: ...

    def chunks(self, record: Record, deadline: Deadline) -> tuple[bytes, ...] | None:
        return super().chunks(record._replace(write_id="-"), deadline)


class Unsorted(SqliteStore):
    """It lists the latest lease first."""

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None = None
    ) -> Iterator[Record]:
        yield from reversed(list(super().unfinished(state, deadline, before)))


class Eager(SqliteStore):
    """A completion goes before the items of its transaction, which it cannot write."""

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        answer = super().transact(finish, [], deadline)
        super().transact(None, items, deadline)
        return answer


SUITE = TestSqliteStore()
TWINS: dict[type[SqliteStore], Callable[[World], None]] = {
    NotAtomic: lambda world: SUITE.test_of_many_rivals_one_wins_each_token(world, together=False),
    Unconditional: lambda world: SUITE.test_an_attempt_that_was_taken_over_finishes_nothing(
        world, PAID, State.COMPLETE
    ),
    Forgetful: lambda world: SUITE.test_a_finish_sent_again_is_written(world, PAID, State.COMPLETE),
    OnePlaceForParts: SUITE.test_a_second_completion_of_one_attempt_does_not_touch_the_parts_of_the_first,
    Unsorted: SUITE.test_what_is_unfinished_or_held_is_listed_by_its_lease,
    Eager: SUITE.test_a_store_that_writes_no_items_says_so,
}


@pytest.mark.parametrize("twin", TWINS)
def test_twins_without_a_guard_fail_the_suite(twin: type[SqliteStore]) -> None:
    """Each by the test of that guard, which the store with all of them passes."""

    def world(store: SqliteStore) -> World:
        return World(store, SuiteRows(SUITE, store))

    check = TWINS[twin]
    with closing(SqliteStore(":memory:")) as sound:
        check(world(sound))
    with closing(twin(":memory:")) as unguarded, pytest.raises(AssertionError):
        check(world(unguarded))


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty folder with a copy of the suite, where lambda_once is all that there is of this project."""
    monkeypatch.setenv("PYTHONPATH", str(Path(lambda_once.__file__).parents[1]))
    without_bytecode = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tests" / "stores" / "suite", pytester.path / "suite", ignore=without_bytecode)
    return pytester


def run(folder: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run plain pytest, with warnings as errors."""
    return folder.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider", *options)


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["store", "forget"])
def test_what_a_suite_lacks_is_named(folder: pytest.Pytester, missing: str) -> None:
    """A subclass without a store, or without a way to delete a row, fails by the name of what it needs."""
    given = {
        "store": "    @pytest.fixture\n    def store(self):\n        return MemoryStore()\n",
        "forget": "    def forget(self, store, token):\n        store.records.pop(token)\n",
    }
    head = "import pytest\nfrom lambda_once import MemoryStore\n"
    suite = "from suite import StoreSuite\nclass TestMine(StoreSuite):\n"
    folder.makepyfile(head + suite + "".join(text for name, text in given.items() if name != missing))
    ran = run(folder, "-k", "no_decision_without_a_row")
    text = {
        "store": "a StoreSuite needs a fixture `store`",
        "forget": "a StoreSuite needs forget(store, token)",
    }
    ran.stdout.fnmatch_lines([f"*{text[missing]}*"])
    ran.assert_outcomes(errors=int(missing == "store"), failed=int(missing == "forget"))


@pytest.mark.slow
def test_a_copy_of_the_suite_runs_beside_the_example(folder: pytest.Pytester) -> None:
    """The folder, the example and the test that the page has, and nothing else: as the page says."""
    shutil.copy(ROOT / "examples" / "sqlite_store.py", folder.path)
    ((name, text),) = files(ROOT / "docs" / "stores.md").items()
    (folder.path / name).write_text(text, encoding="utf-8")
    outcomes = run(folder).parseoutcomes()
    assert outcomes.pop("passed") > 350
    assert set(outcomes) <= {"seconds"}
