"""What `difference` finds where values are compared in short: equal ones of plain types, and cached types."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from lambda_once.core.differences import Difference, difference

BERLIN = ZoneInfo("Europe/Berlin")


@dataclass
class Paid:
    at: datetime
    amount: float | str


@dataclass
class Unresolved:
    paid: Later  # type: ignore[name-defined]  # noqa: F821


def paid(fold: int, amount: Any = 1.0) -> Paid:
    """Return a payment in the hour that summer time repeats."""
    return Paid(datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=BERLIN), amount)


def found(returned: Any, loaded: Any) -> str | None:
    """Return the path at which *loaded* differs."""
    different = difference(type(returned), returned, loaded)
    assert different is None or isinstance(different, Difference)
    return different and different.path


@pytest.mark.parametrize(
    ("returned", "loaded", "path"),
    [
        (paid(0), paid(0), None),
        (paid(0), paid(1), "at"),
        (paid(0, float("nan")), paid(0, float("nan")), None),
        (paid(0, 1), paid(0, 1.0), None),
        (paid(0, "1"), paid(0, 1.0), "amount"),
        (Unresolved(1), Unresolved(1), None),
        (Unresolved(1), Unresolved(2), "paid"),
    ],
    ids=["equal", "fold", "NaN", "int for float", "another arm", "unresolved", "unresolved, another value"],
)
def test_a_difference_is_found_each_time(returned: Any, loaded: Any, path: str | None) -> None:
    """The second comparison of a class, whose annotations are known by then, finds the same."""
    assert [found(returned, loaded), found(returned, loaded)] == [path, path]


def test_an_annotation_that_is_resolved_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a name could not be resolved is not remembered."""
    assert found(Unresolved(paid(0)), Unresolved(paid(1))) == "paid.at"
    monkeypatch.setitem(globals(), "Later", Any)
    assert difference(Unresolved, Unresolved(1), Unresolved("1")) is None
    changed = difference(Unresolved, Unresolved(1), Unresolved("1"), untyped=True)
    assert changed == Difference("paid", "int", "str")
