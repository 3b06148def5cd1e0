"""A table without a network: its answers are given to a client in place of a socket's."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSResponse

from benchmarks.answers import headers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.answers import Answers


class _Body(io.BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


def answered(client: Any, answers: Answers) -> Any:
    """
    Return *client*, of botocore's, with *answers* for a network.

    It writes, signs and reads everything as ever; what the answers themselves take counts on all sides.
    """

    def answer(request: Any, **_: object) -> AWSResponse:
        target = request.headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).partition(".")[2]
        status, body = answers.to(operation, request.body)
        return AWSResponse(request.url, status, headers_of(body), _Body(body))

    client.meta.events.register_first("before-send.dynamodb", answer)
    return client
