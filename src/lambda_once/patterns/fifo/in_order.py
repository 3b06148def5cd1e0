"""Processes a batch of SQS messages one by one, in order within a FIFO group; needs no token."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from typing import Any

from lambda_once.core.threads import run_coroutine
from lambda_once.errors import Misconfigured

LOGGER = logging.getLogger("lambda_once.patterns")

Record = dict[str, Any]
"""A message as Lambda passes it."""


def work_in_order(event: Mapping[str, Any], work: Callable[[Record], object]) -> dict[str, Any]:
    """
    Call *work* with each record of *event*, and return Lambda's partial batch response.

    A record fails if *work* raises: the error is logged and the record is returned as failed. On a FIFO queue
    the rest of its message group is returned unprocessed, so that no later message overtakes it (Lambda
    developer guide, "Handling errors for an SQS event source": stop after the first failure); other groups
    continue. If every record would be returned, the first error is raised instead, so that the function's
    error metric counts it, and a mapping without ReportBatchItemFailures deletes nothing.

    If *work* returns an awaitable, as an ``async def`` does, it is awaited before the next record begins, on
    an event loop of this thread that is kept between batches. Raises `Misconfigured`, with nothing processed,
    if the event is not from SQS, if *work* is a generator function, and if *work* is an ``async def`` while
    another event loop runs in this thread: there, call the handler with ``await asyncio.to_thread(handler,
    event, context)``.
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
            _finish(work(record))
        except Exception as error:  # noqa: BLE001  # the caller's work: whatever it raises fails its record alone
            _log(record, error)
            first = error if first is None else first
            failures.append({"itemIdentifier": record["messageId"]})
            if group is not None:
                stopped.add(group)
    if first is not None and len(failures) == len(records):
        raise first
    return {"batchItemFailures": failures}


def _finish(given: object) -> None:
    """Await *given*, the return value of the work. Raises what it raises; `Misconfigured` for a generator."""
    result = given
    if inspect.isawaitable(given):
        try:
            result = run_coroutine(_awaited(given))
        finally:
            if inspect.iscoroutine(given):
                given.close()  # it was not begun where another loop runs
    if isinstance(result, Generator | AsyncGenerator):
        raise Misconfigured(
            "the work returned a generator, and nothing iterates it: the record was not processed. Pass a "
            "function that does the work of one record"
        )


async def _awaited(result: Awaitable[object]) -> object:
    from asyncio import CancelledError

    found: object = result
    try:
        while inspect.isawaitable(found):
            found = await found
    except CancelledError as error:  # no Exception: it would fail every record of the batch
        raise RuntimeError("the work was cancelled") from error
    return found


def _log(record: Record, error: Exception) -> None:
    """Log only the message id and the error's type: the text of the error may contain payload."""
    delivery, kind = record["messageId"], type(error).__name__
    # Also in the text: Lambda does not print the fields of a plain logger.
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
