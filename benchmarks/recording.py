"""The events of a run, and the rows that they leave: the stand-in answers duplicates with these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyPersistenceLayerError

from benchmarks import deliveries
from benchmarks.sides import SIDES
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.answers import Row
    from benchmarks.sides import Side

RECORDS = 10


@dataclass(frozen=True, slots=True)
class Events:
    """Events in pairs: one that is new to the stand-in, and one that it has rows of (*seen*)."""

    batch: dict[str, Any]
    seen_batch: dict[str, Any]
    mixed: dict[str, Any]
    request: dict[str, Any]
    seen_request: dict[str, Any]
    results: dict[int, tuple[dict[str, Any], dict[str, Any]]]
    """By the size of what the function returns: an order that is new and one that was seen."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What working the seen events left on an engine."""

    rows: tuple[Row, ...]
    """Of both sides."""
    too_large: dict[str, frozenset[int]]
    """By side: the sizes of results that the engine did not take."""


def new_events(sizes: Sequence[int]) -> Events:
    """Make the events of a run; its function returns *sizes* bytes."""
    half = RECORDS // 2
    seen, new = deliveries.batch(RECORDS), deliveries.batch(RECORDS)
    return Events(
        batch=new,
        seen_batch=seen,
        mixed=deliveries.mixed({"Records": seen["Records"][:half]}, {"Records": new["Records"][:half]}),
        request=deliveries.request(),
        seen_request=deliveries.request(),
        results={size: (deliveries.order(), deliveries.order()) for size in sizes},
    )


def recorded(events: Events) -> Recording:
    """Have each side work the seen events on the engine that the environment names."""
    too_large = {side.name: _worked(side, events) for side in SIDES}
    return Recording(tuple(row for side in SIDES for row in rows_of(side)), too_large)


def _worked(side: Side, events: Events) -> frozenset[int]:
    """Work everything that is seen; return the sizes of results that could not be stored."""
    client = side.client()
    side.queue(client)(events.seen_batch, lambda_context())
    side.api(client)(events.seen_request, lambda_context())
    return frozenset(size for size, (_, seen) in events.results.items() if not _keeps(side, size, seen))


def _keeps(side: Side, size: int, order: dict[str, Any]) -> bool:
    try:
        side.function(side.client(), deliveries.result(size))(order)
    except IdempotencyPersistenceLayerError:
        return False
    return True


def rows_of(side: Side) -> Iterable[Row]:
    """Return what the table of *side* has."""
    pages = side.client().get_paginator("scan").paginate(TableName=side.table, ConsistentRead=True)
    return [row for page in pages for row in page["Items"]]
