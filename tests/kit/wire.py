"""A wire to an engine on which requests are counted, and requests and answers get lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from tests.kit import tables
from tests.kit.strict import mounted

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
    """It was written, and the answer is lost."""
    forward()
    raise ReadTimeoutError(endpoint_url=request.url)


def refused(code: str, status: int = 400, message: str = "as the test wants it") -> Fate:
    """Nothing was written, for DynamoDB answers *code*."""

    def fate(request: AWSPreparedRequest, _forward: Forward) -> AWSResponse:
        return _answering(request, mounted.error_body(code, message), status)

    return fate


def altered(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Fate:
    """What *change* makes of the request's arguments is done, and what it leaves of them is unprocessed."""

    def fate(request: AWSPreparedRequest, forward: Forward) -> AWSResponse:
        arguments = json.loads(request.body)
        unprocessed = change(arguments)
        answer = _forwarded(arguments, request, forward)
        return _answering(request, {**answer, **unprocessed})

    return fate


def failing(*codes: str | None) -> Fate:
    """
    Of the statements of a batch those that have a code here fail with it, nothing written; the others arrive.

    A None, or no entry, is no code. As DynamoDB does, the call itself succeeds.
    """

    def fate(request: AWSPreparedRequest, forward: Forward) -> AWSResponse:
        arguments = json.loads(request.body)
        statements = arguments["Statements"]
        planned = [*codes, *[None] * len(statements)][: len(statements)]
        arguments["Statements"] = [s for s, code in zip(statements, planned, strict=True) if code is None]
        sound = iter(_forwarded(arguments, request, forward)["Responses"] if None in planned else [])
        responses = [
            next(sound) if code is None else {"Error": {"Code": code, "Message": "as the test wants it"}}
            for code in planned
        ]
        return _answering(request, {"Responses": responses})

    return fate


def muddled(code: str) -> Fate:
    """Every statement of a batch is done, and for each the answer is that it failed with *code*."""

    def fate(request: AWSPreparedRequest, forward: Forward) -> AWSResponse:
        answer = _forwarded(json.loads(request.body), request, forward)
        failed = {"Error": {"Code": code, "Message": "as the test wants it"}}
        return _answering(request, {"Responses": [failed for _ in answer["Responses"]]})

    return fate


def before(happening: Callable[[], object]) -> Fate:
    """Something happens just before the request arrives."""

    def fate(_request: AWSPreparedRequest, forward: Forward) -> AWSResponse:
        happening()
        return forward()

    return fate


def after(happening: Callable[[], object]) -> Fate:
    """Something happens just after the request was answered."""

    def fate(_request: AWSPreparedRequest, forward: Forward) -> AWSResponse:
        answer = forward()
        happening()
        return answer

    return fate


def _forwarded(arguments: dict[str, Any], request: AWSPreparedRequest, forward: Forward) -> dict[str, Any]:
    request.body = json.dumps(arguments).encode()
    request.headers["Content-Length"] = str(len(request.body))
    answer: dict[str, Any] = json.loads(forward().content)
    return answer


def _answering(request: AWSPreparedRequest, body: Mapping[str, Any], status: int = 200) -> AWSResponse:
    return mounted.response(request.url, status, json.dumps(body).encode())


class Wire:
    """
    Lets the requests of its client meet their fates, in order; those beyond arrive.

    They arrive at *endpoint*, else at the strict engine that is mounted.
    """

    def __init__(self, endpoint: str | None = None) -> None:
        self.sent: list[str] = []
        """The operations, in the order in which they went out."""
        self.bodies: list[dict[str, Any]] = []
        """What they said, in the same order."""
        self.fates: list[Fate] = []
        self.fates_of: dict[str, list[Fate]] = {}
        """By operation; these go before the others."""
        self.client = tables.client(endpoint, parameter_validation=False)
        self.client.meta.events.unregister("before-call.dynamodb", mounted.answered)
        self.client.meta.events.register("before-send", self._send)
        self._answered = mounted.http if endpoint is None else self.client._endpoint.http_session.send

    def of(self, call: Callable[[], object]) -> list[str]:
        """Return the operations that *call* sends."""
        before = len(self.sent)
        call()
        return self.sent[before:]

    def _send(self, event_name: str, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        operation = event_name.rpartition(".")[2]
        self.sent.append(operation)
        self.bodies.append(json.loads(request.body))
        fates = self.fates_of.get(operation) or self.fates
        fate = fates.pop(0) if fates else arrives
        return fate(request, lambda: self._answered(request))
