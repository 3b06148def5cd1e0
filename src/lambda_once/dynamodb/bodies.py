"""
DynamoDB's JSON, written and read at once, by json's own code in C.

botocore walks over its model of each attribute value instead, there and back, and reads a refusal twice.
`fast` takes that from the clients that are made here, by botocore's events alone: `provide-client-params`
takes the arguments, `before-call` puts the body in their place, and `before-parse` hands on what the answer
has. Errors, exceptions, metadata, signatures and whoever wraps the client's calls are botocore's, as ever.
The tests compare all that the suite of stores writes and reads with botocore's own (tests/kit/equal.py).
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
"""Those of the engine and the patterns, whose arguments are ours: botocore has nothing to say of them."""

ERROR: Final = ("__type", "message", "Message")
"""Of a refusal's body, what botocore makes the error of."""
BOTOCORES: Final = ("Error", "ResponseMetadata")
"""What botocore adds to an answer. DynamoDB has none of it at the top of a body."""
BODY: Final = "lambda_once_body"
"""Where the context of a request has its body."""
_NAMES: Final = "TableName", "RequestItems"
"""What botocore's rules for endpoints read of a request."""


def fast(client: Any) -> Any:
    """Return *client*, of botocore's, which from now on writes the bodies of `OPERATIONS` at once."""
    events = client.meta.events
    without_needless_headers(events)
    for operation in OPERATIONS:
        names = f"dynamodb.{operation}"
        events.register(f"provide-client-params.{names}", _take, unique_id=f"lambda-once-take-{operation}")
        events.register(f"before-call.{names}", _put, unique_id=f"lambda-once-put-{operation}")
    return client


def _take(params: Mapping[str, Any], context: dict[str, Any], **_: object) -> dict[str, Any]:
    context[BODY] = encoded(params)
    left = {name: params[name] for name in _NAMES if name in params}
    if "RequestItems" in left:
        left["RequestItems"] = {table: {} for table in left["RequestItems"]}
    return left


def _put(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    params["body"] = context[BODY]


def handed_on(content: dict[str, Any], body: bytes, response: dict[str, Any], given: dict[str, Any]) -> None:
    """
    Hand the *content* of an answer's *body* on to botocore, in *given*, and leave its parser the error.

    *response* and *given* are the arguments `response_dict` and `customized_response_dict` of `before-parse`.
    """
    for name in BOTOCORES:
        content.pop(name, None)
    error: dict[str, Any] = {name: content.pop(name) for name in ERROR if name in content}
    response["body"] = encoded(error)
    given.update(_without_nulls(content) if b"null" in body else content)


def encoded(arguments: Mapping[str, Any]) -> bytes:
    return _ENCODER.encode(arguments).encode()


def object_in(body: bytes) -> dict[str, Any] | None:
    """Read *body*, with binary values as bytes; None where it is not a JSON object."""
    decoder = _BINARY_DECODER if b'"B' in body else _DECODER
    try:
        content = decoder.decode(body.decode())
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _without_nulls(value: Any) -> Any:
    """Leave out members that are null, as botocore does: DynamoDB writes none."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _with_bytes(found: dict[str, Any]) -> dict[str, Any]:
    """Decode an attribute value of type B or BS: nothing else in an answer looks like one."""
    if len(found) == 1:
        match found:
            case {"B": str(text)}:
                return {"B": b64decode(text)}
            case {"BS": [*texts]} if all(isinstance(text, str) for text in texts):
                return {"BS": [b64decode(text) for text in texts]}
    return found


def _base64(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    raise TypeError(f"a request to DynamoDB has a {type(value).__name__}; give low-level attribute values")


# `json.dumps` and `json.loads` would make one a request.
_ENCODER: Final = json.JSONEncoder(default=_base64, separators=(",", ":"))
_DECODER: Final = json.JSONDecoder()
_BINARY_DECODER: Final = json.JSONDecoder(object_hook=_with_bytes)
