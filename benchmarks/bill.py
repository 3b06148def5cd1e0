"""What each case is charged for, on both sides, by the size of its result; taken once and kept in a file."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
)

from benchmarks import deliveries
from benchmarks.counting import Meter
from benchmarks.recording import RECORDS
from benchmarks.sides import LIBRARY, SIDES, THEIRS
from benchmarks.units import stored_bytes
from benchmarks.world import conditions, function_environment, reaching
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.sides import Side

FILE = Path(__file__).with_name("recorded.json")
SIZES = (1_000, 10_000, 100_000, 350_000, 1_000_000, 5_000_000)
"""Bytes of a result. It is base64 of noise, of which compression takes a quarter; JSON gives way to more."""
_TOO_LARGE = (IdempotencyPersistenceLayerError, IdempotencyAlreadyInProgressError)
"""What Powertools raises for a result that no item holds, and for the duplicate of it."""
_CONDITIONS = ("date", "aws-lambda-powertools", "lambda-once")


class Charged(NamedTuple):
    """What one invocation was charged for."""

    requests: int
    write_units: float
    """Those of the index and of refused writes included."""
    index_units: float
    read_units: float
    stored_bytes: int
    """Of the rows that it left, with what DynamoDB adds to each."""
    output_bytes: int
    """Of log lines and metrics on standard output."""


class Bill(NamedTuple):
    """One case on both sides."""

    case: str
    ours: Charged
    theirs: Charged | None
    """None: the table refuses the item, after the work has run."""


class Recorded(NamedTuple):
    """All cases, and when and of what they were taken."""

    conditions: dict[str, str]
    bills: tuple[Bill, ...]


def new_case(size: int) -> str:
    """Return the name of the case of new work whose result has *size* bytes."""
    return f"result of {size // 1000:,} KB, new"


def duplicate_case(size: int) -> str:
    return f"result of {size // 1000:,} KB, duplicate"


def measured(engine: str) -> Recorded:
    """Work every case on *engine*, the endpoint of an empty dynoxide, and read off what it charges."""
    output = io.StringIO()
    with function_environment(), reaching(engine), redirect_stdout(output):
        sides = []
        for side in SIDES:
            side.create_table(_patient())
            sides.append(dict(_charged(side, output)))
        known = {name: told for name, told in conditions().items() if name in _CONDITIONS}
    ours, theirs = sides
    return Recorded(known, tuple(Bill(case, ours[case], theirs.get(case)) for case in ours))


def load(path: Path = FILE) -> Recorded:
    """Return what `save` wrote."""
    told = json.loads(path.read_text(encoding="utf-8"))
    bills = (
        Bill(each["case"], Charged(**each[LIBRARY]), _or_none(each.get(THEIRS.name)))
        for each in told["bills"]
    )
    return Recorded(told["conditions"], tuple(bills))


def save(recorded: Recorded, path: Path = FILE) -> None:
    bills = [
        {"case": bill.case, LIBRARY: bill.ours._asdict()}
        | ({} if bill.theirs is None else {THEIRS.name: bill.theirs._asdict()})
        for bill in recorded.bills
    ]
    told = {"conditions": recorded.conditions, "bills": bills}
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _or_none(told: dict[str, Any] | None) -> Charged | None:
    return None if told is None else Charged(**told)


def _charged(side: Side, output: io.StringIO) -> Iterator[tuple[str, Charged]]:
    client, resolver = _patient(), _patient()
    meter = Meter(client)
    cases = list(_cases(side, client))
    meter.spent()
    there = _stored(side, resolver)
    for case, work in cases:
        output.seek(0)
        output.truncate()
        try:
            work()
        except _TOO_LARGE:
            meter.spent()
            continue
        spent = meter.spent()
        before, there = there, _stored(side, resolver)
        yield (
            case,
            Charged(
                len(spent.calls),
                spent.units,
                spent.index_units,
                spent.read_units,
                there - before,
                len(output.getvalue().encode()),
            ),
        )


def _patient() -> Any:
    """Make a client that waits a minute: a request that is sent again on a busy machine is no cost."""
    return boto3.client("dynamodb")


def _stored(side: Side, client: Any) -> int:
    pages = client.get_paginator("scan").paginate(TableName=side.table, ConsistentRead=True)
    return sum(stored_bytes(item) for page in pages for item in page["Items"])


def _cases(side: Side, client: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    api, queue = side.api(client), side.queue(client)
    api(deliveries.request(), lambda_context())  # what an environment logs once is no cost of a request
    request = deliveries.request()
    yield "API event, new", partial(api, request, lambda_context())
    yield "API event, duplicate", partial(api, request, lambda_context())
    batch = deliveries.batch(RECORDS)
    yield f"{RECORDS} records, new", partial(queue, batch, lambda_context())
    yield f"{RECORDS} records, sent twice", partial(queue, batch, lambda_context())
    yield f"{RECORDS} records, redelivered", partial(queue, deliveries.redelivered(batch), lambda_context())
    for size in SIZES:
        order, function = deliveries.order(), side.function(client, deliveries.result(size))
        yield new_case(size), partial(function, order)
        yield duplicate_case(size), partial(function, order)
