"""
What a client gets for an error: one table of problem documents (RFC 9457), the first match wins.

The texts are fixed, as anybody may read them: what the log says of an error (tokens, names) isn't in them.
Only what a client can retry with the same key has ``Retry-After``; a 5xx would make clients retry by
themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from math import ceil
from typing import Final, NamedTuple

from lambda_once.core.unit import BadRequest, MalformedRequest
from lambda_once.errors import (
    CallerMissing,
    Held,
    InProgress,
    KeyMissing,
    KeyReused,
    Misconfigured,
    OnceError,
    OtherCaller,
    ResultUnavailable,
    RetryLater,
    StoredError,
    StoreUnavailable,
)

_TYPE: Final = "urn:lambda-once:"


@dataclass(frozen=True, slots=True)
class Problem:
    """
    A problem of RFC 9457.

    Its texts are fixed. They repeat nothing of request, token or result except the names of fields that the
    client itself has sent (`KeyReused`).
    """

    status: int
    title: str
    detail: str
    type: str = "about:blank"
    retry_after: int | None = None
    """Whole seconds, at least 1; None if a retry does not help."""
    extra_headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """More headers, such as those of CORS. One of them replaces ours of the same name."""

    def headers(self) -> dict[str, str]:
        """Return the headers of the response."""
        wait = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return {"Content-Type": "application/problem+json", **wait, **self.extra_headers}

    def body(self) -> dict[str, object]:
        """Return the JSON body of the response."""
        return {"type": self.type, "title": self.title, "status": self.status, "detail": self.detail}


class _Row(NamedTuple):
    error: type[OnceError]
    status: HTTPStatus
    name: str
    title: str
    detail: str


# First match wins. 400, 409 and 422 are those of the IETF draft for Idempotency-Key. Held and
# ResultUnavailable are 409 too, without Retry-After: a conflict with the state of the resource (RFC 9110,
# 15.5.10). 410 would mean that the resource is gone, and a 5xx would make clients retry.
_TABLE: Final = (
    _Row(
        StoreUnavailable,
        HTTPStatus.SERVICE_UNAVAILABLE,
        "store-unavailable",
        "The service could not check for an earlier request",
        "Nothing was done. Retry later with the same key.",
    ),
    _Row(
        InProgress,
        HTTPStatus.CONFLICT,
        "in-progress",
        "This request is in progress",
        "An earlier request with the same key is still in progress. Retry later with the same key.",
    ),
    _Row(
        RetryLater,
        HTTPStatus.CONFLICT,
        "retry-later",
        "The outcome of this request is not known yet",
        "Retry later with the same key to get the outcome.",
    ),
    _Row(
        OtherCaller,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "other-credentials",
        "The key was used with other credentials",
        "Nothing was done. If the first request was yours, find out what it did before you use a new key.",
    ),
    _Row(
        KeyReused,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "key-reused",
        "The key was used for another request",
        "Nothing was done. Use a new key for a different request.",
    ),
    _Row(
        MalformedRequest,
        HTTPStatus.BAD_REQUEST,
        "bad-request",
        "The request is malformed",
        "Nothing was done. Correct the request.",
    ),
    _Row(
        KeyMissing,
        HTTPStatus.BAD_REQUEST,
        "key-missing",
        "The request has no usable key",
        "Nothing was done. Send a key that is unique to this request.",
    ),
    _Row(
        CallerMissing,
        HTTPStatus.BAD_REQUEST,
        "caller-missing",
        "The request names no caller",
        "Nothing was done. Send the request with credentials.",
    ),
    _Row(
        Held,
        HTTPStatus.CONFLICT,
        "held",
        "Manual review required",
        "It is not known whether an earlier request with this key took effect. "
        "Do not retry with a different key.",
    ),
    _Row(
        ResultUnavailable,
        HTTPStatus.CONFLICT,
        "result-unavailable",
        "The work is done, but its response was not kept",
        "Do not retry: the request took effect, and every retry gets this answer. Fetch what it created.",
    ),
    _Row(
        StoredError,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "failed",
        "This request failed permanently",
        "An earlier request with the same key failed. A retry gets the same response.",
    ),
    _Row(
        Misconfigured,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "misconfigured",
        "The service is misconfigured",
        "Nothing was done. See the service logs.",
    ),
)
_UNKNOWN: Final = Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "The request failed", "See the service logs.")


def problem_for(error: Exception) -> Problem:
    """
    Return the problem document for *error*.

    For a `BadRequest` it contains the message, for a `KeyMissing` the name of its header, for a
    `KeyReused` the names of the fields that differ unless they are hidden; every other text is fixed. A
    request that may be retried gets `Retry-After`: that of the error, rounded up, or one second.
    """
    row = next((row for row in _TABLE if isinstance(error, row.error)), None)
    if row is None:
        return _UNKNOWN
    detail = f"Nothing was done. {error}" if isinstance(error, BadRequest) else row.detail
    if isinstance(error, KeyMissing) and error.header is not None:
        detail = (
            f"Nothing was done. Send the header {error.header} with a value that is unique to this request."
        )
    if isinstance(error, KeyReused) and error.fields and not error.hidden:
        detail = f"{detail} Fields that differ: {', '.join(error.fields)}."
    wait = max(1, ceil(error.retry_after or 0)) if isinstance(error, RetryLater) else None
    return Problem(row.status.value, row.title, detail, _TYPE + row.name, wait)
