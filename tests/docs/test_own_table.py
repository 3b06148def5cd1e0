"""docs/from-a-table-of-your-own.md: what its blocks do not show by themselves."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from lambda_once import MemoryStore
from lambda_once.testing import FakeClock, using
from tests.docs.pages import ROOT, blocks
from tests.kit.frail import FrailStore

PAGE = ROOT / "docs" / "from-a-table-of-your-own.md"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page, run."""
    module = ModuleType("own_table")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(PAGE):
        if block.language == "python":
            exec(block.text, module.__dict__)
    return module


def test_the_work_runs_while_the_table_is_down(page: Any) -> None:
    """Each time; and once where it is not."""
    store = FrailStore(MemoryStore())
    with using(page.once, store=store, clock=FakeClock()):
        store.out = True
        for _ in range(2):
            page.notified("o-1")
        store.out = False
        for _ in range(2):
            page.notified("o-1")
    assert page.mails == ["o-1"] * 3
