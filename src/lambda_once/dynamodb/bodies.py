"""
DynamoDB's JSON, written and read directly by json's code in C.

botocore walks over its model of each attribute value instead, in both directions, and parses a refusal twice.
`fast` avoids that for the clients that are made here, with botocore's events alone: `provide-client-params`
takes the arguments, `before-call` sets the body, and `before-parse` passes on the content of the response.
Errors, exceptions, metadata, signatures and libraries that wrap the client's calls work as before. The tests
compare everything that the store suite writes and reads with botocore's own (tests/kit/equal.py).
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from lambda_once.integrations.private import without_needless_headers

OPERATIONS: Final = (
    "BatchExecuteStatement",
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "UpdateItem",
)
"""Those of the engine and the patterns. Their arguments are ours, so botocore need not validate them."""

ERROR: Final = ("__type", "message", "Message")
"""The members of a refusal's body from which botocore makes the error."""
BOTOCORES: Final = ("Error", "ResponseMetadata")
"""What botocore adds to a response. DynamoDB has neither at the top of a body."""
BODY: Final = "lambda_once_body"
"""The name of the body in a request's context."""
_NAMES: Final = "TableName", "RequestItems"
"""The arguments that botocore's rules for endpoints read."""


def fast(client: Any) -> Any:
    """Return *client*, one of botocore's, which from now on writes the bodies of `OPERATIONS` directly."""
    events = client.meta.events
    without_needless_headers(events)
    for operation in OPERATIONS:
        name = f"dynamodb.{operation}"
        events.register(f"provide-client-params.{name}", _take, unique_id=f"lambda-once-take-{operation}")
        events.register(f"before-call.{name}", _put, unique_id=f"lambda-once-put-{operation}")
    return client


def _take(params: Mapping[str, Any], context: dict[str, Any], **_: object) -> dict[str, Any]:
    context[BODY] = encoded(params)
    names = {name: params[name] for name in _NAMES if name in params}
    if "RequestItems" in names:
        names["RequestItems"] = {table: {} for table in names["RequestItems"]}
    return names


def _put(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    params["body"] = context[BODY]


def handed_on(content: dict[str, Any], body: bytes, response: dict[str, Any], parsed: dict[str, Any]) -> None:
    """
    Pass the *content* of a response's *body* on to botocore, in *parsed*; leave the error to its parser.

    *response* and *parsed* are `response_dict` and `customized_response_dict` of `before-parse`.
    """
    for name in BOTOCORES:
        content.pop(name, None)
    error: dict[str, Any] = {name: content.pop(name) for name in ERROR if name in content}
    response["body"] = encoded(error)
    parsed.update(_without_nulls(content) if b"null" in body else content)


def encoded(arguments: Mapping[str, Any]) -> bytes:
    return _ENCODER.encode(arguments).encode()


def object_in(body: bytes) -> dict[str, Any] | None:
    """Read *body*, with binary values as bytes; None if it is not a JSON object."""
    decoder = _BINARY_DECODER if b'"B' in body else _DECODER
    try:
        content = decoder.decode(body.decode())
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _without_nulls(value: Any) -> Any:
    """Leave out members that are null, as botocore does. DynamoDB itself sends none."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    """Decode an attribute value of type B or BS: nothing else in a response looks like one."""
    if len(value) == 1:
        match value:
            case {"B": str(text)}:
                return {"B": b64decode(text)}
            case {"BS": [*texts]} if all(isinstance(text, str) for text in texts):
                return {"BS": [b64decode(text) for text in texts]}
    return value


def _base64(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    raise TypeError(f"a request to DynamoDB has a {type(value).__name__}; give low-level attribute values")


# Made once: with these options, `json.dumps` and `json.loads` would make one for each request.
_ENCODER: Final = json.JSONEncoder(default=_base64, separators=(",", ":"))
_DECODER: Final = json.JSONDecoder()
_BINARY_DECODER: Final = json.JSONDecoder(object_hook=_with_bytes)
