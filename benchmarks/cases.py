"""The cases that all sides are measured by, and the rows that an engine stores of their duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import boto3

from benchmarks import events
from benchmarks.sides import SIDES
from benchmarks.world import function_environment, reaching
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from benchmarks.answers import Row
    from benchmarks.sides import Side

RECORDS: Final = 10
API_NEW, API_DUPLICATE = "API event, new", "API event, duplicate"
NEW, DUPLICATES = f"{RECORDS} records, new", f"{RECORDS} records, sent twice"


class Case(NamedTuple):
    """An event, and the method of a side that makes its handler."""

    face: str
    event: dict[str, Any]


def prepared(engine: str) -> tuple[dict[str, Case], list[Row]]:
    """
    Return the cases by name, and what the tables of both libraries hold of the duplicates among them.

    Makes the tables on *engine*, an endpoint, and works the duplicates there.
    """
    cases = {
        API_NEW: Case("api", events.request()),
        API_DUPLICATE: Case("api", events.request()),
        NEW: Case("queue", events.batch(RECORDS)),
        DUPLICATES: Case("queue", events.batch(RECORDS)),
    }
    with function_environment(), reaching(engine):
        for side in SIDES:
            side.create_table(boto3.client("dynamodb"))  # its minute: an engine's first answer takes seconds
            client = side.client()
            for case in (cases[API_DUPLICATE], cases[DUPLICATES]):
                getattr(side, case.face)(client)(case.event, lambda_context())
        return cases, [row for side in SIDES for row in _rows_of(side)]


def _rows_of(side: Side) -> list[Row]:
    pages = side.client().get_paginator("scan").paginate(TableName=side.table, ConsistentRead=True)
    return [row for page in pages for row in page["Items"]]
