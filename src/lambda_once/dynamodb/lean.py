"""
A client for DynamoDB without botocore's: JSON, Signature Version 4, and a pool of kept connections.

It has the methods of boto3's client that this package calls, takes and returns the same values, and raises
botocore's exceptions. One call is one request: `Transport` retries. Of botocore only the exceptions are
imported: the rest is most of a cold start and of a request (benchmarks/README.md).
"""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from lambda_once.core.clock import Clock, Deadline, SystemClock
from lambda_once.dynamodb.answers import EXPIRED, REDIRECT, redacted
from lambda_once.dynamodb.connection import message
from lambda_once.dynamodb.pool import Endpoint, Pool
from lambda_once.dynamodb.sigv4 import Credentials, Signer
from lambda_once.dynamodb.tls import Certificates, bundle_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OPERATIONS: Final = {
    "batch_execute_statement": "BatchExecuteStatement",
    "batch_get_item": "BatchGetItem",
    "batch_write_item": "BatchWriteItem",
    "delete_item": "DeleteItem",
    "describe_table": "DescribeTable",
    "describe_time_to_live": "DescribeTimeToLive",
    "get_item": "GetItem",
    "put_item": "PutItem",
    "query": "Query",
    "scan": "Scan",
    "transact_get_items": "TransactGetItems",
    "transact_write_items": "TransactWriteItems",
    "update_item": "UpdateItem",
}
"""The methods, and DynamoDB's name of each operation (API reference)."""

_UNSIGNED: Final = {"user-agent": "lambda-once", "accept-encoding": "identity"}
"""Identity: the checksum is over the bytes as they come."""


class LeanClient:
    """
    Sends requests to DynamoDB, and keeps up to *connections* connections. Safe from several threads.

    *connect* and *answer* are seconds. *environ* is read again when the credentials have expired; without new
    ones there, the error is raised.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        environ: Mapping[str, str],
        *,
        connect: float,
        answer: float,
        connections: int,
        clock: Clock | None = None,
    ) -> None:
        credentials = Credentials.of(environ)
        if credentials is None:
            raise ValueError("the lean client needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        self._endpoint = endpoint
        self._environ = environ
        self._clock = clock or SystemClock()
        self._signer = Signer(credentials, endpoint.region, endpoint.host)
        self._pool = Pool(endpoint, Certificates(bundle_of(environ)), connect, connections)
        self._answer = timedelta(seconds=answer)

    def __repr__(self) -> str:
        return f"LeanClient({self._endpoint.url})"

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        """Return the method for one of OPERATIONS."""
        if method not in OPERATIONS:
            raise AttributeError(f"the lean client has no {method}")
        return partial(self._call, OPERATIONS[method])

    @property
    def endpoint(self) -> Endpoint:
        """Where requests are sent."""
        return self._endpoint

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.close()

    def _call(self, operation: str, /, **arguments: Any) -> dict[str, Any]:
        """Send one request. Raises ClientError for a refusal, a BotoCoreError without a whole answer."""
        body = _ENCODER.encode(arguments).encode()
        signer = self._signer
        try:
            return self._sent(operation, body, signer)
        except ClientError as error:
            fresh = self._fresh(error, signer)
            if fresh is None:
                raise
        self._signer = fresh
        return self._sent(operation, body, fresh)

    def _sent(self, operation: str, body: bytes, signer: Signer) -> dict[str, Any]:
        now = self._clock.now()
        headers = signer.headers(operation, body, now) | _UNSIGNED
        response, parsed = self._pool.post(message(headers, body), Deadline(self._clock, now + self._answer))
        if response.status >= REDIRECT:
            raise ClientError(redacted(signer.credentials.token, parsed), operation)
        return parsed

    def _fresh(self, error: ClientError, signer: Signer) -> Signer | None:
        """Return a signer with new credentials where *error* asks for them and the environment has them."""
        if error.response["Error"]["Code"] not in EXPIRED:
            return None
        credentials = Credentials.of(self._environ)
        if credentials is None or credentials == signer.credentials:
            return None
        return Signer(credentials, self._endpoint.region, self._endpoint.host)


def _base64(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    raise TypeError(f"a request to DynamoDB has a {type(value).__name__}; give low-level attribute values")


# `json.dumps` and `json.loads` would make one a request.
_ENCODER: Final = json.JSONEncoder(default=_base64, separators=(",", ":"))
