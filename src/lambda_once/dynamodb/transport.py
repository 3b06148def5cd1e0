"""
Sends requests to DynamoDB by one client, made at first use, and retries them until a deadline.

botocore is imported at first use, too: a cold start may not need it.
"""

from __future__ import annotations

import logging
import math
import os
import sys
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from lambda_once.core.clock import FINAL
from lambda_once.core.threads import Exclusive, exiting, in_kept_thread
from lambda_once.dynamodb.client import (
    ANSWER,
    CONNECT,
    WORKERS,
    forget_in_child,
    guarded,
    longest_try,
    made_client,
    surroundings,
    unmakeable,
)
from lambda_once.dynamodb.retry import PATIENCE, Tries, as_asked
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from datetime import datetime

    from lambda_once.core.clock import Deadline


@cache
def _errors() -> Any:
    """Import what needs botocore, once: an import statement in a function costs time at each call."""
    return import_module("lambda_once.dynamodb.errors")


_LOG = logging.getLogger(__name__)
W = TypeVar("W")
A = TypeVar("A")


class Transport:
    """
    Sends requests by one client. Safe from several threads; keeps no state of a request.

    *client* is a client of boto3's, the name of one that is made here (`client_named`), or None. One that is
    made here is made at first use, or by `prepare`. Every response must be DynamoDB's (`errors`).
    """

    unreadable: tuple[type[Exception], ...] = ()
    """Exceptions that the client may raise for the response to another request, if all requests are ours."""
    is_patient = False
    """Whether throttled requests are retried for `PATIENCE`, any number of times, as an operator's are."""

    def __init__(
        self,
        client: Any = None,
        heard: Callable[[Any, datetime], object] | None = None,
        declined: Callable[[str], object] | None = None,
    ) -> None:
        """
        *heard* is called with every response, errors included, and the time of its request.

        *declined* is called with the reason if crt's client is asked for and boto3's is used.
        """
        self._heard = heard
        self._declined = declined
        is_made_here = client is None or isinstance(client, str)
        self._is_own = is_made_here
        self._name: str | None = client if is_made_here else None
        self._client = None if is_made_here else guarded(client)
        self._prepared: tuple[object, ...] | None = None
        """The process and settings for which the client was made before its first use."""
        self._pool: ThreadPoolExecutor | None = None
        self._lock = _making()
        # A client yet to be made has no limit: making it reads files, and may fetch credentials.
        self._longest = math.inf if is_made_here else longest_try(client)
        forget_in_child(self)

    def _forget(self) -> None:
        """
        Leave connections and threads to the process that this one was forked from.

        Two processes that read one connection get each other's responses, and threads are not forked. A
        client that was given is its owner's.
        """
        self._lock = _making()  # a thread of the parent may have held it
        self._pool = None
        self._prepared = None
        if self._is_own:
            self._client = None

    def call(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        deadline: Deadline,
        failed: Callable[[Exception], object] | None = None,
    ) -> Any:
        """
        Send one request; retry transient errors with full jitter until the deadline is final.

        A request is not sent again if a try as long as the last one would end after the deadline.

        Raises `RetryLater` while the interpreter exits, and botocore's exception of the last try; *failed* is
        called with the earlier ones.
        """
        if sys.is_finalizing():
            raise exiting()
        errors = _errors()
        send = partial(self._exchange, operation)
        retries: dict[bool, Tries] = {}  # made at the first failure of a kind: nearly all requests have none
        tries = 0
        while True:
            tries += 1
            began = deadline.clock.now()
            try:
                response = self._send(send, arguments, deadline, began)
            except errors.Caught as error:
                self._hear(operation, getattr(error, "response", None), began, tries, error)
                if not errors.is_transient(error):
                    raise
                is_patient = self.is_patient and errors.code_of(error) in errors.THROTTLED
                if is_patient not in retries:
                    patience = deadline.within(PATIENCE)
                    retries[is_patient] = Tries(patience, None) if is_patient else Tries(deadline)
                if not retries[is_patient].again(began):
                    raise
                if failed is not None:
                    failed(error)
            else:
                self._hear(operation, response, began, tries)
                return response

    def _hear(
        self, operation: str, response: Any, began: datetime, tries: int, error: Exception | None = None
    ) -> None:
        """Pass on the response to a try, and log what AWS Support asks for; nothing of its content."""
        if self._heard is not None:
            self._heard(response, began)
        if _LOG.isEnabledFor(logging.DEBUG):
            from lambda_once.dynamodb.errors import code_of

            metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
            status, request_id = metadata.get("HTTPStatusCode", "-"), metadata.get("RequestId", "-")
            code = "-" if error is None else code_of(error)
            line = "%s host=%s status=%s error=%s request_id=%s try=%d"
            _LOG.debug(line, operation, self.host, status, code, request_id, tries)

    def is_answer(self, request: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
        """Whether *response*, which may be a refusal, can be that of *request*, if that can be checked."""
        del request, response
        return True

    def _exchange(self, operation: str, /, **arguments: Any) -> Any:
        """Send one request. Raises CrossedResponse for the response of another one."""
        errors = _errors()
        client = self._connected()
        send = getattr(client, operation)
        try:
            response = send(**arguments)
            if "RequestItems" in arguments:
                response = as_asked(arguments, response)
            if self.is_answer(arguments, response):
                return response
        except errors.ClientError as error:
            if self.is_answer(arguments, error.response):
                raise
        except self.unreadable:  # botocore's parser fails on the response of another operation
            if operation == "transact_write_items":  # or its serialiser fails on a user's item
                raise
        if self._is_own:  # the next response on that connection would be another request's, too
            client.close()
        raise errors.CrossedResponse

    def _send(
        self, send: Callable[..., Any], arguments: Mapping[str, Any], deadline: Deadline, now: datetime
    ) -> Any:
        """
        Send one request and await its response; if the deadline is ever final, until the deadline at most.

        If the client's own time limits are longer than that, the request runs in a kept thread, which goes on
        after the deadline: the write may still happen. If no thread can be started, only the client's limits
        apply, and nothing is sent near the deadline. Past the deadline nothing is sent either.
        """
        if not deadline.final:
            return send(**arguments)
        if self._client is None:
            self._lock.check()
        remaining = (deadline.at - now).total_seconds()
        if remaining >= self._longest:
            return send(**arguments)
        if remaining <= 0:
            raise _no_answer()
        from concurrent.futures import Future  # a client made here needs it only near the end

        response: Future[Any] = Future()

        def exchange() -> Callable[[], object]:
            try:
                return partial(response.set_result, send(**arguments))
            except BaseException as error:  # noqa: BLE001  (it is raised where the response is awaited)
                return partial(response.set_exception, error)

        try:
            in_kept_thread(partial(copy_context().run, exchange))
        except RuntimeError:  # can't start new thread: Lambda allows 1,024 (quotas)
            if remaining <= FINAL:
                raise _no_answer() from None
            return send(**arguments)
        with suppress(TimeoutError):
            response.exception(remaining)
        if not response.done():
            raise _no_answer()
        return response.result()

    def each(self, values: Sequence[W], work: Callable[[W], A]) -> list[A]:
        """Do *work* for each of *values*, concurrently if there are several; return the results in order."""
        if len(values) < 2:  # noqa: PLR2004  (one value needs no thread)
            return [work(value) for value in values]
        return list(self._threads().map(work, values))

    def meanwhile(self, work: Callable[[], A]) -> Callable[[], A]:
        """Start *work* in another thread, and return a function that awaits its result."""
        return self._threads().submit(work).result

    def _threads(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor  # a cold start sends one request at a time

        pool = self._pool
        if pool is not None:
            return pool
        with self._lock.alone():
            self._pool = self._pool or ThreadPoolExecutor(WORKERS, thread_name_prefix="lambda-once-store")
            return self._pool

    @property
    def client(self) -> Any:
        """The client; None if it is made here, and not made yet."""
        return self._client

    @property
    def place(self) -> str:
        """The region and endpoint of the client, for a message."""
        meta: Any = getattr(self._client, "meta", None)
        region, url = getattr(meta, "region_name", None), getattr(meta, "endpoint_url", None)
        return f"region {region} ({url})" if isinstance(region, str) else "this region"

    @property
    def host(self) -> str | None:
        """The host and port of the client's endpoint, for a message; None if there is no client yet."""
        url = getattr(getattr(self._client, "meta", None), "endpoint_url", None)
        return urlsplit(url).netloc.rpartition("@")[2] or None if isinstance(url, str) else None

    @property
    def is_given(self) -> bool:
        """Whether the endpoint isn't one of AWS', with the region as a label and no port of their own."""
        region = getattr(getattr(self._client, "meta", None), "region_name", None)
        if self.host is None:
            return False
        parts = urlsplit(f"//{self.host}")
        return parts.port not in (None, 80, 443) or region not in (parts.hostname or "").split(".")[1:-1]

    @property
    def given_place(self) -> tuple[str | None, str | None]:
        """The region of the client, and its endpoint unless that is AWS'; None: unknown, or AWS'."""
        meta: Any = getattr(self._client, "meta", None)
        region = getattr(meta, "region_name", None)
        return (region if isinstance(region, str) else None), (meta.endpoint_url if self.is_given else None)

    @property
    def limits(self) -> str:
        """When a request waits in a kept thread, for a message."""
        if math.isfinite(self._longest):
            return (
                f"a request of client= takes {self._longest:g} s at most; it waits in a kept thread if less"
                " remains of the invocation"
            )
        return (
            "client= retries by itself or has no timeout, so each request waits in a kept thread; give it"
            f" Config(connect_timeout={CONNECT:g}, read_timeout={ANSWER:g},"
            " retries={'total_max_attempts': 1})"
        )

    def prepare(self) -> None:
        """
        Make the client before its first use, and send nothing.

        It is made again at first use if the process, the endpoint, the region, the credentials or the
        libraries that patch botocore have changed since. Raises whatever making it raises.
        """
        with self._lock.alone():
            if self._client is None:
                self._make()
                self._prepared = surroundings(self._name)

    def _connected(self) -> Any:
        is_current, client = self._prepared is None, self._client  # in this order, as other threads set both
        if is_current and client is not None:
            return client
        with self._lock.alone():
            if self._prepared is not None:
                if self._prepared != surroundings(self._name):
                    self._client = None
                self._prepared = None
            if self._client is None:
                self._make()
            return self._client

    def _make(self) -> None:
        """Make the client. Raises NoClient, which requests raise, too, if the settings are wrong."""
        errors = _errors()
        try:
            self._client = made_client(self._name, self._declined)
        except Misconfigured as error:
            raise errors.NoClient(reason=str(error)) from error
        except ValueError as error:
            if isinstance(error, errors.Caught):
                raise
            raise errors.NoClient(reason=unmakeable(error, os.environ)) from error
        self._longest = longest_try(self._client)


def _making() -> Exclusive:
    return Exclusive("a client for DynamoDB is being made")


def _no_answer() -> Exception:
    from botocore.exceptions import ReadTimeoutError

    error: Exception = ReadTimeoutError(endpoint_url="the token table")
    return error
