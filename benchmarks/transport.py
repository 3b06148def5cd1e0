"""A table without a network: its answers are given to a client in place of a socket's."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSResponse

from benchmarks.answers import headers_of
from lambda_once.dynamodb.answers import ParsedResponse, answer_of
from lambda_once.dynamodb.connection import Response
from lambda_once.dynamodb.direct import Direct
from lambda_once.dynamodb.lean import LeanClient
from lambda_once.dynamodb.pool import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.answers import Answers
    from lambda_once.core.clock import Deadline


class _Body(io.BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


class _Pool:
    """In place of the connections of a client of ours, which has no hook so late."""

    def __init__(self, answers: Answers, endpoint: Endpoint) -> None:
        self._answers = answers
        self.endpoint = endpoint

    def post(self, request: bytes, _deadline: Deadline) -> ParsedResponse:
        head, _, body = request.partition(b"\r\n\r\n")
        operation = head.partition(b"x-amz-target: ")[2].partition(b"\r\n")[0].decode().partition(".")[2]
        status, answer = self._answers.to(operation, body)
        return answer_of(Response(status, headers_of(answer), answer))

    def close(self) -> None:
        pass


def answered(client: Any, answers: Answers) -> Any:
    """
    Return *client* with *answers* for a network.

    It writes, signs and reads everything as ever; what the answers themselves take counts on all sides.
    """
    if isinstance(client, LeanClient):
        client._pool = _Pool(answers, client._pool.endpoint)  # type: ignore[assignment]  # noqa: SLF001
        return client
    direct = _direct(client)
    if direct is not None:
        pool = _Pool(answers, Endpoint(client.meta.endpoint_url, client.meta.region_name))
        direct._pool = lambda _url: pool  # type: ignore[assignment,method-assign,return-value]  # noqa: SLF001
        return client

    def answer(request: Any, **_: object) -> AWSResponse:
        target = request.headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).partition(".")[2]
        status, body = answers.to(operation, request.body)
        return AWSResponse(request.url, status, headers_of(body), _Body(body))

    client.meta.events.register_first("before-send.dynamodb", answer)
    return client


def _direct(client: Any) -> Direct | None:
    """Return what sends the requests of *client* in botocore's stead, if anything does."""
    handlers = client.meta.events._emitter._handlers.prefix_search("before-call.dynamodb")  # noqa: SLF001
    owners = (getattr(handler, "__self__", None) for handler in handlers)
    return next((owner for owner in owners if isinstance(owner, Direct)), None)
