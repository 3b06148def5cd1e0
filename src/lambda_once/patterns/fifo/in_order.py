"""Processes a batch of SQS messages one by one, those of a FIFO group in order; needs no token."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from lambda_once.errors import Misconfigured

LOGGER = logging.getLogger("lambda_once.patterns")

Record = dict[str, Any]
"""A message as Lambda passes it."""


def work_in_order(event: Mapping[str, Any], work: Callable[[Record], object]) -> dict[str, Any]:
    """
    Call *work* with each record of *event*, and return Lambda's partial batch response.

    A record fails if *work* raises: the error is logged and the record returned. On a FIFO queue the rest of
    its message group is returned unprocessed, so that nothing overtakes it (Lambda developer guide, "Handling
    errors for an SQS event source": stop after the first failure); other groups continue. If every record
    would be returned, the first error is raised instead: the function's error metric counts it, and a mapping
    without ReportBatchItemFailures deletes nothing. Raises `Misconfigured` for an event that is not of SQS.
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
    """Log message id and type alone: the text of the error may repeat the payload."""
    delivery, kind = record["messageId"], type(error).__name__
    # In the text too: of a plain logger Lambda prints no fields.
    LOGGER.error("message.failed %s %s", delivery, kind, extra={"delivery": delivery, "error": kind})


def _records(event: object) -> list[Record]:
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list) or any(record.get("eventSource") != "aws:sqs" for record in records):
        raise Misconfigured("the event is not of SQS: map the function to a queue")
    return records


def _group(record: Record) -> str | None:
    """Return the message group; None on a standard queue, where groups have no order."""
    fifo = record["eventSourceARN"].endswith(".fifo")
    return str(record["attributes"]["MessageGroupId"]) if fifo else None
