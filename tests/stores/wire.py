"""A wire to moto on which requests are counted, and requests and answers get lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from moto.core.botocore_stubber import MockRawResponse
from moto.core.models import botocore_stubber

Forward = Callable[[], AWSResponse]
Fate = Callable[[AWSPreparedRequest, Forward], AWSResponse]
"""What happens to one request on its way."""


def arrives(_request: AWSPreparedRequest, forward: Forward) -> AWSResponse:
    """All is well."""
    return forward()


def request_lost(request: AWSPreparedRequest, _forward: Forward) -> AWSResponse:
    """Nothing was written."""
    raise ConnectTimeoutError(endpoint_url=request.url)


def answer_lost(request: AWSPreparedRequest, forward: Forward) -> AWSResponse:
    """It was written, and nobody knows."""
    forward()
    raise ReadTimeoutError(endpoint_url=request.url)


def refused(code: str, status: int = 400, message: str = "as the test wants it") -> Fate:
    """Nothing was written, for DynamoDB answers *code*."""
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message})

    def fate(request: AWSPreparedRequest, _forward: Forward) -> AWSResponse:
        return AWSResponse(request.url, status, {}, MockRawResponse(body))

    return fate


def altered(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Fate:
    """What *change* makes of the request's arguments is done, and what it leaves of them is unprocessed."""

    def fate(request: AWSPreparedRequest, forward: Forward) -> AWSResponse:
        arguments = json.loads(request.body)
        unprocessed = change(arguments)
        request.body = json.dumps(arguments).encode()
        answer = forward()
        body = json.dumps({**json.loads(answer.content), **unprocessed})
        return AWSResponse(request.url, 200, {}, MockRawResponse(body))

    return fate


class Wire:
    """Lets the requests of its client meet their fates, in order; those beyond arrive."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        """The operations, in the order in which they went out."""
        self.bodies: list[dict[str, Any]] = []
        """What they said, in the same order."""
        self.fates: list[Fate] = []
        self.client = boto3.client(
            "dynamodb",
            region_name="eu-central-1",
            config=Config(retries={"total_max_attempts": 1}, parameter_validation=False),
        )
        self.client.meta.events.unregister("before-send", botocore_stubber)
        self.client.meta.events.register("before-send", self._send)

    def _send(self, event_name: str, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        self.sent.append(event_name.rpartition(".")[2])
        self.bodies.append(json.loads(request.body))
        fate = self.fates.pop(0) if self.fates else arrives
        return fate(request, lambda: _answered(request))


def _answered(request: AWSPreparedRequest) -> AWSResponse:
    answer = botocore_stubber("before-send", request)
    assert answer is not None
    return answer
