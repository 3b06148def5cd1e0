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
    from lambda_once.dynamodb.connection import Response

REDIRECT, _SERVER_ERROR = 300, 500
EXPIRED: Final = frozenset({"ExpiredTokenException", "UnrecognizedClientException"})
"""Errors after which the credentials are read once more."""
_MESSAGES: Final[tuple[str, ...]] = ("message", "Message")
_CHECKSUM, _REQUEST_ID = "x-amz-crc32", "x-amzn-requestid"


class ParsedResponse(NamedTuple):
    """A response, and what botocore's parser makes of it; that of an error has a status from REDIRECT on."""

    response: Response
    parsed: dict[str, Any]


def answer_of(response: Response, *, checked: bool = False) -> ParsedResponse:
    """
    Read *response* as botocore's parser does.

    *checked*: the response must have a checksum. Raises `NotDynamoDB` for somebody else's page, and
    ResponseStreamingError for a body that is not what was sent: an empty one would be a grant.
    """
    status, headers, body, _ = response
    checksum = headers.get(_CHECKSUM)
    if checksum is not None and checksum != str(crc32(body)):
        raise ResponseStreamingError(error="the checksum of the body is wrong")
    if checksum is None and checked and status < _SERVER_ERROR:
        raise ResponseStreamingError(error="the response has no checksum")
    if status < REDIRECT:
        if not is_from_dynamodb(headers):
            raise NotDynamoDB(status=status)
        if not body:
            raise ResponseStreamingError(error="the response is empty")
    content = _object(body)
    if content is None and status < _SERVER_ERROR:
        raise NotDynamoDB(status=status)
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": dict(headers), "RetryAttempts": 0}
    if _REQUEST_ID in headers:
        metadata["RequestId"] = headers[_REQUEST_ID]
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
    parsed["ResponseMetadata"] = metadata
    return ParsedResponse(response, parsed)


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
