"""
The strict engine below boto3: while it is mounted, clients of this process talk to it, and see no difference.

A botocore event answers for DynamoDB's own address, past serialisation, signatures and the network; `http`
answers whole requests, for tests that read or change those.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from botocore import handlers, xform_name
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ClientError

from lambda_once.dynamodb.bodies import BODY
from lambda_once.stores import batches
from tests.kit.strict.engine import StrictEngine

ADDRESS = ".amazonaws.com/"
HEADERS = {"content-type": "application/x-amz-json-1.0", "x-amzn-requestid": "strict"}
ARGUMENTS = "arguments of the strict engine"

_mounted: list[StrictEngine] = []


@contextmanager
def mounted() -> Iterator[StrictEngine]:
    """Mount a new engine without tables, in which batches are sent as to the real one."""
    engine = StrictEngine()
    _mounted.append(engine)
    try:
        with batches_sent():
            yield engine
    finally:
        _mounted.remove(engine)


@contextmanager
def batches_sent() -> Iterator[None]:
    """Let stores send PartiQL, although moto, whose PartiQL is wrong, may be loaded in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "partiql_is_reliable", lambda: True)
        yield


@contextmanager
def single_writes() -> Iterator[None]:
    """Let stores send no PartiQL, as where moto is loaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "partiql_is_reliable", lambda: False)
        yield


def index_behind() -> AbstractContextManager[None]:
    """Let the indexes of the mounted engine lag behind their tables, in a block."""
    return _mounted[-1].index_behind()


def http(request: AWSPreparedRequest) -> AWSResponse:
    """Answer *request* as DynamoDB does, by the engine that is mounted."""
    return response(request.url, *executed(request.headers["X-Amz-Target"].decode(), request.body))


def executed(target: str, body: bytes) -> tuple[int, bytes]:
    """Return status and body of the answer to the request *body*, by the engine that is mounted."""
    status, answer = _answer(xform_name(target.rpartition(".")[2]), _decoded(json.loads(body)))
    del answer["ResponseMetadata"]
    if "Error" in answer:
        error = answer.pop("Error")
        answer |= error_body(error["Code"], error["Message"])
    return status, json.dumps(answer, default=_encoded).encode()


def error_body(code: str, message: str) -> dict[str, str]:
    """Return the body of DynamoDB's error *code*."""
    return {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}


def response(url: str, status: int, body: bytes) -> AWSResponse:
    """Return an answer of DynamoDB's, as it comes from the network."""
    return AWSResponse(url, status, dict(HEADERS), _Raw(body))


class _Raw:
    """The body of an answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._body


def over_http(client: Any) -> Any:
    """Let the requests of *client* be signed and sent as usual: `http` answers them where botocore sends."""
    client.meta.events.unregister("before-call.dynamodb", answered)
    client.meta.events.register("before-send.dynamodb", _sent)
    return client


def _sent(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
    return http(request)


def answered(
    model: Any, params: Mapping[str, Any], context: Mapping[str, Any], **_: Any
) -> tuple[AWSResponse, dict[str, Any]] | None:
    """Answer a request to DynamoDB's own address; botocore raises what is an error."""
    if not _mounted or ADDRESS not in params["url"]:
        return None
    body = context.get(BODY)
    arguments = context[ARGUMENTS] if body is None else _decoded(json.loads(body))
    status, answer = _answer(xform_name(model.name), arguments)
    return AWSResponse(params["url"], status, HEADERS, None), answer


def _remember(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    if _mounted:
        context[ARGUMENTS] = params


def _answer(operation: str, arguments: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    execute: Callable[..., dict[str, Any]] = getattr(_mounted[-1], operation)
    try:
        status, answer = 200, execute(**arguments)
    except ClientError as error:
        answer = dict(error.response)
        status = 400
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": dict(HEADERS), "RetryAttempts": 0}
    return status, {**answer, "ResponseMetadata": {"RequestId": "strict", **metadata}}


def _decoded(value: Any) -> Any:
    """Return bytes for the base64 in which JSON carries them."""
    match value:
        case {"B": str(text)} if len(value) == 1:
            return {"B": base64.b64decode(text)}
        case {"BS": [*texts]} if len(value) == 1:
            return {"BS": [base64.b64decode(text) for text in texts]}
        case dict():
            return {name: _decoded(part) for name, part in value.items()}
        case list():
            return [_decoded(part) for part in value]
        case _:
            return value


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


# Every session that is made from now on has these; they do nothing unless an engine is mounted.
handlers.BUILTIN_HANDLERS += [
    ("before-parameter-build.dynamodb", _remember),
    ("before-call.dynamodb", answered, handlers.REGISTER_LAST),
]
