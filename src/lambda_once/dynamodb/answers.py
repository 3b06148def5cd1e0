"""
What a response of DynamoDB means: boto3's values, or an error.

Reads JSON as botocore's parser does, and refuses what is not DynamoDB's, or not whole.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from botocore.exceptions import ResponseStreamingError

from lambda_once.dynamodb.errors import NotDynamoDB, is_from_dynamodb

if TYPE_CHECKING:
    from collections.abc import Mapping

REDIRECT, _SERVER_ERROR = 300, 500
EXPIRED: Final = frozenset({"ExpiredTokenException", "UnrecognizedClientException"})
"""Errors after which the credentials are read once more."""
_MESSAGES: Final[tuple[str, ...]] = ("message", "Message")
REQUEST_ID: Final = "x-amzn-requestid"


class Response(NamedTuple):
    """A whole HTTP response. Names of *headers* are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def answer_of(response: Response) -> dict[str, Any]:
    """
    Read *response* as botocore's parser does; that of an error has a status from REDIRECT on.

    Raises `NotDynamoDB` for somebody else's page, and ResponseStreamingError, which is transient, for a body
    that is not what was sent: an empty one would be a grant.
    """
    status, headers, body = response
    checksum = headers.get("x-amz-crc32")
    if checksum is not None and checksum != str(crc32(body)):
        raise ResponseStreamingError(error="the checksum of the body is wrong")
    if not body and (status < REDIRECT or ("content-length" not in headers and status < _SERVER_ERROR)):
        raise ResponseStreamingError(error="the body is empty")
    content = _object(body)
    if status < _SERVER_ERROR:
        is_ours = is_from_dynamodb(headers)
        if not (is_ours or (content is not None and status >= REDIRECT)):
            raise NotDynamoDB(status=status)
        if content is None:
            raise ResponseStreamingError(error="the body is not a JSON object")
    parsed = content or {}
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


def redacted(token: str | None, parsed: dict[str, Any]) -> dict[str, Any]:
    """Return an error without the session *token*, which DynamoDB quotes where a signature is wrong."""
    if token is None or token not in str(parsed["Error"]["Message"]):
        return parsed
    shown: dict[str, Any] = {
        name: str(parsed[name]).replace(token, "…") for name in _MESSAGES if name in parsed
    }
    message = str(parsed["Error"]["Message"]).replace(token, "…")
    return {**parsed, **shown, "Error": {**parsed["Error"], "Message": message}}


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
        content = decoder.decode(body.decode()) if body else {}
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
