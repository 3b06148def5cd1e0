"""A table without a network: its answers are given to a client in place of a socket's."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSResponse

from benchmarks.answers import headers_of
from lambda_once.dynamodb.answers import ParsedResponse, answer_of
from lambda_once.dynamodb.connection import Response
from lambda_once.dynamodb.lean import LeanClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.answers import Answers
    from lambda_once.core.clock import Deadline


class _Body(io.BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


class _Pool:
    """In place of a lean client's connections."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

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
        client._pool = _Pool(answers)  # type: ignore[assignment]  # noqa: SLF001  (it has no hook)
        return client

    def answer(request: Any, **_: object) -> AWSResponse:
        target = request.headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).partition(".")[2]
        status, body = answers.to(operation, request.body)
        return AWSResponse(request.url, status, headers_of(body), _Body(body))

    client.meta.events.register_first("before-send.dynamodb", answer)
    return client
