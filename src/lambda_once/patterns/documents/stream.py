"""
A function for the table's stream that removes superseded versions of documents.

Each record only triggers a fresh read of the document, so records may arrive in any order, and twice.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.variables import given, whole
from lambda_once.errors import Misconfigured, RetryLater
from lambda_once.patterns.documents import Documents
from lambda_once.patterns.documents.parts import HEAD, DocumentId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lambda_once.patterns.documents.requests import DocumentPlace

    Handler = Callable[..., dict[str, Any]]

GRACE: Final = timedelta(seconds=10)
"""How long a read may take: 5 MB take one to two seconds."""
LONGEST_GRACE: Final = timedelta(minutes=10)
CLEANING_SECONDS: Final = 5.0
"""No document is begun in the last seconds of the invocation: a request may take that long."""


def cleaner(documents: Documents, *, grace: timedelta = GRACE) -> Handler:
    """
    Return a Lambda handler for the stream of the table of *documents*.

    It cleans each document whose head was written, once per batch, and returns ``batchItemFailures``: the
    records of documents that could not be cleaned in time. *grace*, 0 to 10 minutes: how long superseded
    versions stay for reads in progress; the handler waits for it, once per batch. Raises `Misconfigured`.
    """
    if not timedelta(0) <= grace <= LONGEST_GRACE:
        raise Misconfigured(f"grace is {grace}: give 0 to {LONGEST_GRACE}")
    needed = grace.total_seconds() + CLEANING_SECONDS

    def handler(event: Mapping[str, Any], context: Any = None) -> dict[str, Any]:
        failed: list[dict[str, str]] = []
        for entity_id, numbers in _heads(event, documents.place).items():
            with suppress(RetryLater):
                if context is None or context.get_remaining_time_in_millis() > needed * 1000:
                    documents.clean(entity_id, grace=grace)
                    continue
            failed += [{"itemIdentifier": number} for number in numbers]
        return {"batchItemFailures": failed}

    return handler


def _heads(event: Mapping[str, Any], place: DocumentPlace) -> dict[DocumentId, list[str]]:
    """Return the sequence numbers of the heads written in *event*, by document."""
    found: dict[DocumentId, list[str]] = {}
    for record in event.get("Records", ()):
        if record.get("eventSource") != "aws:dynamodb":
            raise Misconfigured("the event is not of a DynamoDB stream: map the function to one")
        change = record["dynamodb"]
        entity_id, sort = place.within(change["Keys"])
        if sort == HEAD and record["eventName"] != "REMOVE":
            found.setdefault(entity_id, []).append(change["SequenceNumber"])
    return found


def handler(event: Mapping[str, Any], context: Any = None) -> dict[str, Any]:
    """
    Clean as `cleaner` does, configured by environment variables. Raises `Misconfigured`.

    LAMBDA_ONCE_DOCUMENTS_TABLE, _KEY, _SORT, _PREFIX, _NAMES (JSON) and _GRACE (whole seconds).
    """
    return _by_environment()(event, context)


@cache
def _by_environment() -> Handler:
    table = os.environ.get("LAMBDA_ONCE_DOCUMENTS_TABLE", "")
    if table == "":
        raise Misconfigured("LAMBDA_ONCE_DOCUMENTS_TABLE is not set: name the table of the documents")
    grace = whole("LAMBDA_ONCE_DOCUMENTS_GRACE", given("LAMBDA_ONCE_DOCUMENTS_GRACE"))
    usual = {"KEY": "pk", "SORT": "sk", "PREFIX": "", "NAMES": "{}"}
    key, sort, prefix, names = (
        os.environ.get(f"LAMBDA_ONCE_DOCUMENTS_{name}") or each for name, each in usual.items()
    )
    try:
        documents = Documents(table, key=key, sort=sort, prefix=prefix, names=json.loads(names))
    except ValueError:
        raise Misconfigured(f"LAMBDA_ONCE_DOCUMENTS_NAMES is {names!r}: give a JSON object") from None
    return cleaner(documents, grace=GRACE if grace is None else timedelta(seconds=grace))
