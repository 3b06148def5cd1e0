"""
A batch of SQS messages, each worked by itself, those of one FIFO group in their order.

For functions that need nothing else of this package, because their data is idempotent by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from lambda_once.errors import Misconfigured

LOGGER = logging.getLogger("lambda_once.patterns")

Record = dict[str, Any]
"""A message as Lambda hands it over."""


def work_in_order(event: Mapping[str, Any], work: Callable[[Record], object]) -> dict[str, Any]:
    """
    Call *work* with each record of *event*, and return Lambda's partial batch response.

    A record fails where *work* raises: it is logged and returned. On a FIFO queue the rest of its message
    group is returned unworked, for nothing may overtake it (Lambda developer guide, "Handling errors for an
    SQS event source": stop after the first failure); other groups go on. Where every record is to be
    returned, the first error is raised instead: the function's error metric then counts it, and a mapping
    without ReportBatchItemFailures deletes nothing. Raises `Misconfigured`, before anything is worked, for an
    event that is not of SQS.
    """
    failures: list[dict[str, str]] = []
    stopped = set[str]()
    first: Exception | None = None
    records = _records(event)
    for record in records:
        group = _group(record)
        if group in stopped:
            failures.append({"itemIdentifier": record["messageId"]})
            continue
        try:
            work(record)
        except Exception as error:  # noqa: BLE001  # the caller's work: whatever it raises fails its record alone
            _log(record, error)
            first = error if first is None else first
            failures.append({"itemIdentifier": record["messageId"]})
            if group is not None:
                stopped.add(group)
    if first is not None and len(failures) == len(records):
        raise first
    return {"batchItemFailures": failures}


def _log(record: Record, error: Exception) -> None:
    """Name message and type alone: what the error says may repeat the payload."""
    delivery, kind = record["messageId"], type(error).__name__
    # In the text too: of a plain logger Lambda prints no fields.
    LOGGER.error("message.failed %s %s", delivery, kind, extra={"delivery": delivery, "error": kind})


def _records(event: object) -> list[Record]:
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list) or any(record.get("eventSource") != "aws:sqs" for record in records):
        raise Misconfigured("this event is no batch of SQS: map the function to a queue")
    return records


def _group(record: Record) -> str | None:
    """Return the message group that is in order; None on a standard queue, whose groups are not."""
    if not record["eventSourceARN"].endswith(".fifo"):
        return None
    group: str = record["attributes"]["MessageGroupId"]
    return group
