"""`change` and `update` that are called again after a lost response: with an id they write once."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from lambda_once import Once
from lambda_once.dynamodb.items import Values
from lambda_once.errors import StoreUnavailable
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.results import Applied, Conflict, Duplicate
from lambda_once.testing import FakeClock, lambda_context, sqs_event
from tests.decorators.rig import Rig
from tests.kit.faulty import Fate, FaultyClient
from tests.patterns.conftest import Ground

WARNING = "once.no_id"


class Line:
    """A ledger whose line is cut, after `cut`, once the next write is done and before it is answered."""

    def __init__(self, ground: Ground, **options: Any) -> None:
        self.cuts = False
        self._lost: Iterator[Fate] = itertools.repeat(Fate.SOUND)
        self.table = ground.table()
        client = FaultyClient(ground.client, lambda: next(self._lost))
        self.ledger = Ledger(self.table, client, window=timedelta(days=14), clock=FakeClock(), **options)
        self._sound = Ledger(self.table, ground.client, window=timedelta(days=14), clock=FakeClock())

    def cut(self, reads: int) -> None:
        """Let *reads* requests pass, lose the answer of the next, and let none arrive after that."""
        self._lost = itertools.chain([Fate.SOUND] * reads, [Fate.ANSWER_LOST], [Fate.REQUEST_LOST] * 5)
        self._lost = itertools.chain(self._lost, itertools.repeat(Fate.SOUND))

    @property
    def item(self) -> Values | None:
        return self._sound.get("c")


def counted(values: Values) -> Values:
    """Return one visit more."""
    return {"visits": values.get("visits", 0) + 1}


UNKNOWN = (
    r"UpdateItem on table .* \(.*\): .*; tried 6 times\. The write to item .* of ledger .* may have taken "
    r"effect, and without id= a repeated call is another write: read the item first, or give id="
)


def test_a_repeated_change_without_an_id_may_count_twice(strict: Ground) -> None:
    """The error says so; with an id the repetition is a duplicate."""
    line = Line(strict)
    line.cut(reads=1)
    with pytest.raises(StoreUnavailable) as unknown:
        line.ledger.change("c", counted)
    assert re.search(UNKNOWN, str(unknown.value))
    assert line.ledger.change("c", counted).values == {"visits": 2}
    line.cut(reads=1)
    with pytest.raises(StoreUnavailable) as named:
        line.ledger.change("c", counted, id="m1")
    assert "may have taken effect" not in str(named.value)
    assert line.ledger.change("c", counted, id="m1") == Duplicate({"visits": 3})
    assert line.item == {"visits": 3}


def test_a_repeated_update_without_an_id_conflicts_with_its_own_write(strict: Ground) -> None:
    """The error says that it may have been written; with an id the repetition is a duplicate."""
    line = Line(strict)
    line.cut(reads=0)
    with pytest.raises(StoreUnavailable, match=UNKNOWN):
        line.ledger.update("c", {"version": 1}, expected={"version": None})
    with pytest.raises(Conflict):
        line.ledger.update("c", {"version": 1}, expected={"version": None})
    line.cut(reads=0)
    with pytest.raises(StoreUnavailable):
        line.ledger.update("c", {"version": 2}, expected={"version": 1}, id="m1")
    assert isinstance(line.ledger.update("c", {"version": 2}, expected={"version": 1}, id="m1"), Duplicate)
    assert line.item == {"version": 2}


def test_a_read_without_an_answer_wrote_nothing(strict: Ground) -> None:
    """So the error does not say that it may have."""
    line = Line(strict)
    line.cut(reads=0)
    with pytest.raises(StoreUnavailable, match="GetItem on table") as unread:
        line.ledger.change("c", counted)
    assert "may have" not in str(unread.value)
    assert line.item is None


def delivered(once: Once, line: Line, write: Callable[[Ledger], object], *, reads: int) -> list[int]:
    """Deliver one message twice to a handler that calls *write*, at first cut off; return the failures."""

    @once.sqs(key="order")
    def handler(_: object) -> None:
        write(line.ledger)

    line.cut(reads)
    event = sqs_event({"order": 5})
    return [len(handler(event, lambda_context())["batchItemFailures"]) for _ in range(2)]


def test_protected_work_without_an_id_is_warned(strict: Ground, caplog: pytest.LogCaptureFixture) -> None:
    """A redelivery after a lost answer counts twice; one line names the id that prevents it."""
    once = Rig().once
    line = Line(strict, logger=logging.getLogger("seen"))
    with caplog.at_level(logging.WARNING, "seen"):
        assert delivered(once, line, lambda points: points.change("c", counted), reads=1) == [1, 0]
    assert line.item == {"visits": 2}
    (warning,) = [each for each in caplog.records if each.message == WARNING]
    fields = warning.__dict__
    assert 'id=attempt.downstream_key("visits")' in fields["reason"]
    assert (fields["pattern"], fields["resource"], fields["key"]) == ("Ledger", line.table, "c")


def test_without_a_logger_it_is_warned_too(strict: Ground, caplog: pytest.LogCaptureFixture) -> None:
    """It is a mistake, not an outcome: the line does not depend on `logger=`."""
    once = Rig().once
    line = Line(strict)
    delivered(once, line, lambda points: points.change("c", counted), reads=1)
    assert caplog.messages.count(WARNING) == 1


def test_update_in_protected_work_without_an_id_is_warned(
    strict: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """As of `change`: the redelivery conflicts with its own write."""
    once = Rig().once
    line = Line(strict)

    def write(points: Ledger) -> None:
        points.update("c", {"version": 1}, expected={"version": None})

    assert delivered(once, line, write, reads=0) == [1, 1]
    assert line.item == {"version": 1}
    assert caplog.messages.count(WARNING) == 1


def test_protected_work_with_a_downstream_key_writes_once(
    strict: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """The id that the warning names is the same at a redelivery."""
    once = Rig().once
    line = Line(strict)

    def write(points: Ledger) -> None:
        points.change("c", counted, id=once.current().downstream_key("visits"))

    assert delivered(once, line, write, reads=1) == [1, 0]
    assert line.item == {"visits": 1}
    assert WARNING not in caplog.messages


def test_outside_of_protected_work_nothing_is_warned(
    strict: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """Inside an invocation, too: without a token there is no redelivery that counts as the same work."""
    once = Rig().once
    line = Line(strict)
    assert line.ledger.change("c", counted) == Applied({"visits": 1})
    with once.invocation(lambda_context()):
        assert line.ledger.change("c", counted) == Applied({"visits": 2})
    assert WARNING not in caplog.messages
