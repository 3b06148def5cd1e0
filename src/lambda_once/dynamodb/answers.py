"""
What a response of DynamoDB means: boto3's values, or an error.

Reads JSON as botocore's parser does, and refuses what is not DynamoDB's, or not whole.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.dynamodb.errors import REDIRECT, REQUEST_ID, check, without_session_token

if TYPE_CHECKING:
    from collections.abc import Mapping

_MESSAGES: Final[tuple[str, ...]] = ("message", "Message")


class Response(NamedTuple):
    """A whole HTTP response. Names of *headers* are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def answer_of(response: Response) -> dict[str, Any]:
    """
    Read *response* as botocore's parser does; that of an error has a status from REDIRECT on.

    Raises as `check`.
    """
    status, headers, body = response
    content = _object(body)
    check(status, headers, body, is_object=content is not None)
    shown = without_session_token(status, body)
    parsed = (content if shown is body else _object(shown)) or {}
    if status >= REDIRECT:
        kind = str(parsed.pop("__type", status))
        code = kind.partition(":")[0].rpartition("#")[2]
        text = (
            _phrase(status)
            if content is None
            else next((parsed[name] for name in _MESSAGES if name in parsed), "")
        )
        parsed["Error"] = {"Message": text, "Code": code}
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": dict(headers), "RetryAttempts": 0}
    if REQUEST_ID in headers:
        metadata["RequestId"] = headers[REQUEST_ID]
    parsed["ResponseMetadata"] = metadata
    return parsed


def _phrase(status: int) -> str:
    from http import HTTPStatus  # for a page of a proxy: no cold start needs it

    try:
        return HTTPStatus(status).phrase
    except ValueError:  # no known status
        return ""


def _object(body: bytes) -> dict[str, Any] | None:
    """Read *body*, with binary values as bytes; None where it is not a JSON object."""
    decoder = _BINARY_DECODER if b'"B' in body else _DECODER
    try:
        content = decoder.decode(body.decode())
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _with_bytes(found: dict[str, Any]) -> dict[str, Any]:
    """Decode an attribute value of type B or BS: nothing else in an answer looks like one."""
    if len(found) == 1:
        match found:
            case {"B": str(text)}:
                return {"B": b64decode(text)}
            case {"BS": [*texts]} if all(isinstance(text, str) for text in texts):
                return {"BS": [b64decode(text) for text in texts]}
    return found


# `json.loads` would make one a response.
_DECODER: Final = json.JSONDecoder()
_BINARY_DECODER: Final = json.JSONDecoder(object_hook=_with_bytes)
