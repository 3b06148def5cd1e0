"""The second argument of Lambda handlers."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext


class _Context(LambdaContext):
    """What Lambda passes to a handler. The remaining time is constant."""

    def __init__(
        self,
        function_name: str,
        request_id: str,
        remaining_ms: int,
        tenant_id: str | None = None,
        identity: str | None = None,
        client_context: dict[str, Any] | None = None,
    ) -> None:
        self._function_name = function_name
        self._function_version = "$LATEST"
        self._invoked_function_arn = f"arn:aws:lambda:eu-central-1:123456789012:function:{function_name}"
        self._memory_limit_in_mb = 256
        self._aws_request_id = request_id
        self._log_group_name = f"/aws/lambda/{function_name}"
        self._log_stream_name = "2026/11/20/[$LATEST]5a1e7c0f5a1e7c0f5a1e7c0f5a1e7c0f"
        self._remaining_ms = remaining_ms
        self._tenant_id = tenant_id
        self._identity = None if identity is None else SimpleNamespace(cognito_identity_id=identity)  # type: ignore[assignment]
        self._client_context = None if client_context is None else SimpleNamespace(custom=client_context)  # type: ignore[assignment]

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]  # Powertools' is static and answers 0
        return self._remaining_ms


def lambda_context(
    function_name: str = "orders",
    request_id: str | None = None,
    remaining_ms: int = 30_000,
    tenant_id: str | None = None,
    identity: str | None = None,
    client_context: dict[str, Any] | None = None,
) -> LambdaContext:
    """
    Return a context like the one that Lambda passes to handlers; its attributes are read-only.

    *request_id*: by default a new one, so two contexts are two invocations. Pass the same one for Lambda's
    own retry of an asynchronous event. *remaining_ms*: milliseconds until the time limit. *tenant_id*: the
    tenant of a function with tenant isolation, which the process serves from then on (`using`). *identity*:
    the id of a Cognito identity. *client_context*: what a direct caller put into ``custom``.

        handler(event, lambda_context(remaining_ms=500))
    """
    request_id = request_id or str(uuid.uuid4())
    return _Context(function_name, request_id, remaining_ms, tenant_id, identity, client_context)


class InvocationContext(_Context):
    """
    The fixture ``lambda_context``: the context of one invocation. Calling it returns the context of another.

        handler(event, lambda_context)
        handler(event, lambda_context(remaining_ms=500))
    """

    @classmethod
    def new(cls) -> InvocationContext:
        return cls("orders", str(uuid.uuid4()), 30_000)

    def __call__(
        self,
        function_name: str = "orders",
        request_id: str | None = None,
        remaining_ms: int = 30_000,
        tenant_id: str | None = None,
        identity: str | None = None,
        client_context: dict[str, Any] | None = None,
    ) -> LambdaContext:
        return lambda_context(function_name, request_id, remaining_ms, tenant_id, identity, client_context)
