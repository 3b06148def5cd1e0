"""Requests on their way to DynamoDB: sent, tried again where that can help, told apart by how they fail."""

from __future__ import annotations

import math
import os
import platform
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any, TypeVar

import botocore
import botocore.session
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError
from botocore.loaders import Loader

from lambda_once.dynamodb.errors import Caught, code_of, is_transient, misconfigured
from lambda_once.dynamodb.origin import only_dynamodb
from lambda_once.errors import StoreUnavailable
from lambda_once.stores.contract import Rejected, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline

W = TypeVar("W")
A = TypeVar("A")

TRIES = 6
"""How often one request is sent at most; the pauses between add up to three seconds or less."""
CONNECT, ANSWER = 1.0, 3.0
"""Seconds that the client made here waits for a connection, and for an answer."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
WORKERS = 10
"""Requests of one batch that are under way at once; botocore's connection pool has as many places."""


class Wire:
    """
    One table and a client for it. Safe from several threads; holds nothing of any request.

    Without *client* one is made at first use.
    """

    def __init__(
        self, table: str, client: Any = None, heard: Callable[[Any, datetime], object] | None = None
    ) -> None:
        """*heard* gets every answer, those of refusals too, and when it was asked for."""
        self.table = table
        self._heard = heard
        self._client = only_dynamodb(client)
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._longest = longest_try(client)

    def call(self, operation: str, arguments: Mapping[str, Any], deadline: Deadline) -> Any:
        """
        Send one request, again where that can help: with full jitter, and not past the deadline.

        Once, where the deadline is that of `one_try`. Raises what botocore raised at the last try.
        """
        send = getattr(self._connected(), operation)
        if deadline.one_try:
            return self._sent_once(send, arguments, deadline)
        for tries in range(1, TRIES + 1):
            asked = None if self._heard is None else deadline.clock.now()
            try:
                answer = send(**arguments)
            except Caught as error:
                self._hear(getattr(error, "response", None), asked)
                if tries == TRIES or not is_transient(error) or deadline.passed():
                    raise
                back_off(deadline, tries)
            else:
                self._hear(answer, asked)
                return answer
        raise AssertionError  # pragma: no cover  (the last try returns or raises)

    def _hear(self, answer: Any, asked: datetime | None) -> None:
        if self._heard is not None and asked is not None:
            self._heard(answer, asked)

    def _sent_once(self, send: Callable[..., Any], arguments: Mapping[str, Any], deadline: Deadline) -> Any:
        """
        Send one request, and return or raise what came of it until the deadline.

        Where the client's own time limits end later, another thread waits for the answer, and goes on
        waiting within them when nobody listens any more: the request may still be written. Past the deadline,
        and where no thread can be started, the client's limits are the only ones.
        """
        remaining = deadline.remaining()
        if remaining == 0 or remaining >= self._longest:
            return send(**arguments)
        try:
            answer = Answer(lambda: send(**arguments))
        except RuntimeError:  # can't start new thread: Lambda allows 1,024 (quotas)
            return send(**arguments)
        return answer.within(remaining)

    def asked(
        self, operation: str, arguments: Mapping[str, Any], deadline: Deadline, token: str | None
    ) -> Any:
        """Return a read's answer. Raises `StoreUnavailable` without one, `Misconfigured` for a refusal."""
        try:
            return self.call(operation, arguments, deadline)
        except Caught as error:
            failed = self.failed(error, operation.title().replace("_", ""), token)
            if isinstance(failed, Rejected):
                raise failed.error from error
            raise unavailable(token, failed.reason) from error

    def items(
        self, keys: Sequence[Any], deadline: Deadline, token: str | None, only: str | None = None
    ) -> dict[str, Any]:
        """
        Return the rows of *keys* by their lock tokens, read consistently. Raises as `asked`.

        *only* names the attributes that are wanted of each, the key among them; None: all.
        """
        found: dict[str, Any] = {}
        wanted = list(keys)
        projection = {} if only is None else {"ProjectionExpression": only}
        while wanted:
            request = {self.table: {"Keys": wanted, "ConsistentRead": True, **projection}}
            answer = self.asked("batch_get_item", {"RequestItems": request}, deadline, token)
            found |= {item["lockToken"]["S"]: item for item in answer["Responses"].get(self.table, [])}
            wanted = answer.get("UnprocessedKeys", {}).get(self.table, {}).get("Keys", [])
            if wanted:
                if deadline.one_try or deadline.passed():
                    raise unavailable(token, "the rows did not all arrive in time")
                back_off(deadline)
        return found

    def failed(self, error: Exception, operation: str, token: str | None) -> Unanswered | Rejected:
        """Return what *error* means for one token."""
        if is_transient(error):
            return Unanswered(code_of(error))
        return Rejected(misconfigured(error, self.table, operation, token))

    def each(self, values: Sequence[W], work: Callable[[W], A]) -> list[A]:
        """Do *work* for each of *values*, at once where there are several; the results are in order."""
        if len(values) < 2:  # noqa: PLR2004  (one needs no second thread)
            return [work(value) for value in values]
        return list(self._threads().map(work, values))

    def meanwhile(self, work: Callable[[], A]) -> Callable[[], A]:
        """Begin *work* in another thread, and return what waits for its result."""
        return self._threads().submit(work).result

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(WORKERS, thread_name_prefix="lambda-once-store")
            return self._pool

    def _connected(self) -> Any:
        if self._client is None:
            with self._lock:
                if self._client is None:
                    self._client = only_dynamodb(new_client())
        return self._client


class Answer:
    """What comes of *ask*, which another thread has begun."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._changed = threading.Condition()
        self._came: list[Callable[[], Any]] = []

        def wait() -> None:
            came = outcome_of(ask)
            with self._changed:
                self._came.append(came)
                self._changed.notify_all()

        threading.Thread(target=copy_context().run, args=(wait,), daemon=True).start()

    def within(self, seconds: float) -> Any:
        """Return or raise what came within *seconds*. Raises botocore's ReadTimeoutError for nothing."""
        with self._changed:
            self._changed.wait_for(lambda: self._came, seconds)
            came = self._came[0] if self._came else None
        if came is None:
            raise ReadTimeoutError(endpoint_url="the token table")
        return came()


def outcome_of(ask: Callable[[], Any]) -> Callable[[], Any]:
    """Call *ask*, and return what returns or raises as it did."""
    try:
        answer = ask()
    except BaseException as error:  # noqa: BLE001  (it is raised where somebody waits for it)
        raised = error

        def again() -> Any:
            raise raised

        return again
    return lambda: answer


def longest_try(client: Any) -> float:
    """
    Return how many seconds a request of *client* may take by its own limits; None: it is made here.

    A client that sends again by itself, as botocore's do by default, pauses for longer than one can rely on.
    """
    config = getattr(getattr(client, "meta", None), "config", None)
    if config is None:
        return CONNECT + ANSWER
    retries = getattr(config, "retries", None) or {}
    if retries.get("total_max_attempts") != 1:
        return math.inf
    limits = (config.connect_timeout, config.read_timeout)
    return sum(math.inf if limit is None else float(limit) for limit in limits)  # None: it waits for ever


def back_off(deadline: Deadline, tries: int = 2) -> None:
    """Wait before the next try, with full jitter (DynamoDB asks for it after unprocessed items, too)."""
    deadline.pause(SystemRandom().uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2**tries)))


def unavailable(token: str | None, reason: str) -> StoreUnavailable:
    message = f"the token table did not answer in time ({reason}); nothing was run, deliver it again later"
    return StoreUnavailable(message, token=token)


def new_client() -> Any:
    """
    Make a low-level client whose time limits suit an invocation: 1 s to connect, 3 s to answer.

    botocore's own are a minute. Raises botocore's NoRegionError where no region is set.
    """
    config = Config(
        connect_timeout=CONNECT,
        read_timeout=ANSWER,
        retries={"total_max_attempts": 1},  # `Wire.call` retries: it knows the deadline
        parameter_validation=False,
        tcp_keepalive=True,
        max_pool_connections=WORKERS,
        # A constant: botocore would put its own together twice a request, a quarter of a request's CPU.
        user_agent=f"lambda-once Botocore/{botocore.__version__} Python/{platform.python_version()}",
    )
    session = botocore.session.get_session()
    session.register_component("data_loader", _OneService(session.get_config_variable("data_path")))
    return session.create_client("dynamodb", config=config)


class _OneService(Loader):  # type: ignore[misc]  # botocore ships no types
    """
    Botocore's loader of service descriptions, without its look into hundreds of folders.

    It lists them all to learn that DynamoDB is among them: a third of the time that a client takes to make.
    """

    def __init__(self, data_path: str | None) -> None:
        paths = data_path.split(os.pathsep) if data_path else []
        super().__init__([str(Path(os.path.expandvars(path)).expanduser()) for path in paths])

    def list_available_services(self, type_name: str) -> list[str]:
        del type_name
        return ["dynamodb"]
