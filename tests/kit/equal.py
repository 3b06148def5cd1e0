"""What botocore itself would have written and read, beside what a client of ours does."""

from __future__ import annotations

import copy
import json
from typing import Any

from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from lambda_once.dynamodb.bodies import OPERATIONS
from lambda_once.dynamodb.errors import without_session_token

_SERVER_ERROR = 500


def compared(client: Any) -> Any:
    """Return *client*, of botocore's, which from now on fails where a body or an answer is not botocore's."""
    events = client.meta.events
    events.register_first("provide-client-params.dynamodb", _given)
    events.register_last("before-call.dynamodb", _written)
    events.register_first("before-parse.dynamodb", _came)
    events.register_last("after-call.dynamodb", _read)
    return client


def _given(params: Any, context: dict[str, Any], **_: object) -> None:
    context["tests_given"] = copy.deepcopy(params)


def _written(model: Any, params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    """Compare a request's body with botocore's."""
    given = context.pop("tests_given", None)
    if model.name in OPERATIONS:  # the others are botocore's own
        theirs = create_serializer("json", include_validation=False).serialize_to_request(given, model)
        assert json.loads(params["body"]) == json.loads(theirs["body"]), model.name
        assert params["headers"].items() >= theirs["headers"].items(), model.name


def _came(response_dict: dict[str, Any], operation_model: Any, **more: Any) -> None:
    """Read an answer as botocore does, for `_read`."""
    response = {**response_dict, "context": dict(response_dict.get("context", {}))}
    status, body = response["status_code"], response["body"]
    try:
        is_object = isinstance(json.loads(body), dict)
    except ValueError:
        is_object = False
    is_page = status >= _SERVER_ERROR and not is_object
    response["body"] = b"" if is_page else without_session_token(status, body)
    if is_object or is_page:
        more["customized_response_dict"]["tests_reference"] = _parsed(response, operation_model)


def _parsed(response: dict[str, Any], model: Any) -> dict[str, Any]:
    parser = create_parser("json")
    parsed: dict[str, Any] = parser.parse(response, model.output_shape)
    code = parsed.get("Error", {}).get("Code")
    shape = None if code is None else model.service_model.shape_for_error_code(code)
    return parsed if shape is None else parsed | parser.parse(response, shape)


def _read(parsed: dict[str, Any], model: Any, **_: object) -> None:
    """Compare an answer with botocore's."""
    reference = parsed.pop("tests_reference", None)
    if reference is not None:
        theirs = {**reference, "ResponseMetadata": parsed["ResponseMetadata"]}
        ours = {name: each for name, each in parsed.items() if name in theirs or name in _modelled(model)}
        assert ours == theirs, model.name
        assert repr(_sorted(ours)) == repr(_sorted(theirs)), model.name  # 1, 1.0 and True are equal


def _modelled(model: Any) -> set[str]:
    """Return the members that this botocore knows of the operation's answers and errors; others it drops."""
    shapes = [model.output_shape, *model.error_shapes]
    return {name for shape in shapes if shape is not None for name in shape.members}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
