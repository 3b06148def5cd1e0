"""What the page says that documents cost, compared with what a real engine charges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lambda_once.patterns.documents import Documents
from lambda_once.patterns.results import Conflict
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground
from tests.patterns.documents.shelf import ID

PAGE = Path(__file__).parents[3] / "docs" / "documents.md"
MEGABYTE = bytes(1_000_000)

Units = tuple[float, float]


class Charged:
    """Counts what *client* is charged from now on: write units and read units."""

    WRITES = ("PutItem", "BatchWriteItem")
    READS = ("GetItem", "Query")

    def __init__(self, client: Any) -> None:
        self.written = self.read = 0.0
        for operation in (*self.WRITES, *self.READS):
            client.meta.events.register(f"provide-client-params.dynamodb.{operation}", self._ask)
            client.meta.events.register(f"after-call.dynamodb.{operation}", self._count)

    def _ask(self, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {**params, "ReturnConsumedCapacity": "TOTAL"}

    def _count(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity", [])
        units = sum(
            each["CapacityUnits"] for each in (consumed if isinstance(consumed, list) else [consumed])
        )
        if model.name in self.WRITES:
            self.written += units
        else:
            self.read += units

    @contextmanager
    def only(self) -> Iterator[None]:
        """Count this block alone."""
        self.written = self.read = 0.0
        yield


def conflict(documents: Documents) -> None:
    """Expect a version that is not current."""
    with pytest.raises(Conflict):
        documents.write(ID, MEGABYTE, expected_version="0" * 26)


OPERATIONS: dict[str, Callable[[Documents], object]] = {
    "`write`, 1 MB, the first": lambda documents: documents.write(ID, MEGABYTE),
    "`write`, 1 MB, over another": lambda documents: documents.write(ID, MEGABYTE),
    "`write` of 1 KB": lambda documents: documents.write("small", "x" * 800),
    "`write` with an `expected_version` that is not current": conflict,
    "`read`, 1 MB, before the old version is removed": lambda documents: documents.read(ID),
    "`clean`, 1 MB superseded": lambda documents: documents.clean(ID),
    "`read`, 1 MB": lambda documents: documents.read(ID),
    "`read`, 1 MB, `consistent=True`": lambda documents: documents.read(ID, consistent=True),
    "`read` of 1 KB": lambda documents: documents.read("small"),
    "`delete`, 1 MB": lambda documents: documents.delete(ID),
}


@pytest.fixture
def measured(engine: Ground) -> dict[str, Units]:
    """Every operation of the table, one after another, with its units."""
    documents = Documents(engine.table("pk", "sk"), engine.client, clock=FakeClock())
    charged = Charged(engine.client)
    found: dict[str, Units] = {}
    for name, operation in OPERATIONS.items():
        with charged.only():
            operation(documents)
            found[name] = (charged.written, charged.read)
    return found


@pytest.mark.engine
def test_the_page_says_what_is_charged(measured: dict[str, Units]) -> None:
    """Row by row; written units are whole, of read ones there are halves."""
    table = (
        PAGE.read_text(encoding="utf-8").split("<!-- measured: begin -->")[1].split("<!-- measured: end")[0]
    )
    rows = re.findall(r"^\| (.+?) \| ([\d,.]+) \| ([\d,.]+) \|$", table, re.MULTILINE)
    said = {name: (float(w.replace(",", "")), float(r.replace(",", ""))) for name, w, r in rows}
    assert said == measured
