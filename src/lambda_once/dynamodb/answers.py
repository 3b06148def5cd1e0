"""
What a response of DynamoDB means: boto3's values, or an error.

Reads JSON as botocore's parser does, and refuses what is not DynamoDB's, or not whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.dynamodb.bodies import BOTOCORES, object_in
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
    content = object_in(body)
    if content is not None and not isinstance(content.get("__type", ""), str):
        content = None  # botocore's parser fails on it
    check(status, headers, body, is_object=content is not None)
    shown = without_session_token(status, body)
    parsed = (content if shown is body else object_in(shown)) or {}
    for name in BOTOCORES:
        parsed.pop(name, None)
    if status >= REDIRECT:
        kind = str(parsed.pop("__type", status))
        code = kind.partition(":")[0].rpartition("#")[2]
        if content is None:
            from http.client import responses  # for a page of a proxy: no cold start needs it

            text = responses.get(status, "")
        else:
            text = next((parsed[name] for name in _MESSAGES if name in parsed), "")
        parsed["Error"] = {"Message": text, "Code": code}
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": dict(headers), "RetryAttempts": 0}
    if REQUEST_ID in headers:
        metadata["RequestId"] = headers[REQUEST_ID]
    parsed["ResponseMetadata"] = metadata
    return parsed
