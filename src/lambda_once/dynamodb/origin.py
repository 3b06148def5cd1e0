"""
Whoever answers must be DynamoDB, or nothing of the answer counts.

DynamoDB grants a new token by an empty answer, and botocore reads an empty answer out of any page: behind a
wrong endpoint work would run unprotected. What DynamoDB's answers carry: developer guide, "DynamoDB low-level
API", response format.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

_JSON = "application/x-amz-json-"
_REQUEST_ID = "x-amzn-requestid"
_REDIRECT = 300
_SERVER_ERROR = 500


class NotDynamoDB(BotoCoreError):  # type: ignore[misc]  # botocore has no types
    """The endpoint answered, and does not speak DynamoDB. Trying again does not help."""

    fmt = "a response with HTTP status {status} is not from DynamoDB"


def only_dynamodb(client: Any) -> Any:
    """
    Let *client* raise `NotDynamoDB` for an answer that is none of DynamoDB's, and return it.

    What did not come by HTTP (a test's double, botocore's Stubber, DAX) is believed. Errors of status 500
    and above are left to botocore: a proxy's are as passing as DynamoDB's own.
    """
    events = getattr(getattr(client, "meta", None), "events", None)
    if events is not None:
        # Before it is parsed, for the parser fails on JSON that is no object; botocore 1.34 lacks that event.
        events.register("before-parse.dynamodb", _unparsed, unique_id="lambda-once-unparsed")
        events.register("after-call.dynamodb", _parsed, unique_id="lambda-once-parsed")
    return client


def _unparsed(response_dict: Mapping[str, Any], **_: object) -> None:
    status, headers = response_dict["status_code"], response_dict["headers"]
    if status < _REDIRECT:
        _check(status, headers)
    elif status < _SERVER_ERROR and not _is_object(response_dict["body"]):
        raise NotDynamoDB(status=status)


def _parsed(parsed: Mapping[str, Any], **_: object) -> None:
    metadata = parsed.get("ResponseMetadata", {})
    if "HTTPHeaders" in metadata and metadata.get("HTTPStatusCode", 0) < _REDIRECT:
        _check(metadata.get("HTTPStatusCode"), metadata["HTTPHeaders"])


def _check(status: object, headers: Mapping[str, str]) -> None:
    if not (headers.get("content-type", "").startswith(_JSON) or _REQUEST_ID in headers):
        raise NotDynamoDB(status=status)


def _is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False
