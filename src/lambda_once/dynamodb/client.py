"""
Sends requests to DynamoDB by one client, made at first use, and retries them until a deadline.

botocore is imported at first use, too: a cold start may not need it.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import WeakSet

from lambda_once.core.clock import FINAL
from lambda_once.dynamodb.choice import declined, endpoint_url, of_modules, wants_lean
from lambda_once.dynamodb.retry import TRIES, back_off
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from datetime import datetime

    from lambda_once.core.clock import Deadline

W = TypeVar("W")
A = TypeVar("A")

CONNECT, ANSWER = 1.0, 3.0
"""Seconds that our own client waits for a connection, and for a response."""
WORKERS = 10
"""Concurrent requests of one batch; botocore's connection pool has as many connections."""

_CONVERTS: Final = "dynamodb-attr-value-input"
"""boto3's handler that converts attributes in a resource's client (boto3.dynamodb.transform)."""

_MATTER: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_PROFILE",
)
"""Variables that a client is made from."""


class Forgets(Protocol):
    """Has connections or threads, which a forked process must not use: they are its parent's."""

    def _forget(self) -> None:
        """Begin anew in a forked process; close nothing, and wait for no lock."""
        ...


_OF_THIS_PROCESS: WeakSet[Forgets] = WeakSet()


def forget_in_child(owner: Forgets) -> None:
    """Have *owner* forget in each process that is forked while it lives."""
    _OF_THIS_PROCESS.add(owner)


def _forget_all() -> None:
    for owner in list(_OF_THIS_PROCESS):
        owner._forget()  # noqa: SLF001  (no method for users)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_forget_all)


class Transport:
    """
    Sends requests by one client. Safe from several threads; keeps no state of a request.

    *client* is a client of boto3's, the name of one that is made here (`choice`), or None. One that is made
    here is made at first use, or by `prepare`. Every response must be DynamoDB's (`errors`).
    """

    unreadable: tuple[type[Exception], ...] = ()
    """What the client may raise for the response to another request, where every request is our own."""

    def __init__(
        self,
        client: Any = None,
        heard: Callable[[Any, datetime], object] | None = None,
        declined: Callable[[str], object] | None = None,
    ) -> None:
        """
        *heard* is called with every response, errors included, and the time of its request.

        *declined* is called with the reason if the lean client is asked for and botocore's is used.
        """
        self._heard = heard
        self._declined = declined
        is_made_here = client is None or isinstance(client, str)
        self._is_own = is_made_here
        self._name: str | None = client if is_made_here else None
        self._client = None if is_made_here else _guarded(client)
        self._prepared: tuple[object, ...] | None = None
        """The surroundings for which the client was made before its first use."""
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._longest = longest_try(client)
        forget_in_child(self)

    def _forget(self) -> None:
        """
        Leave connections and threads to the process that this one was forked from.

        Two processes that read one connection get each other's responses, and threads are not forked. A
        client that was given is its owner's.
        """
        self._lock = threading.Lock()  # a thread of the parent may have held it
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

        Raises botocore's exception of the last try; *failed* is called with the earlier ones.
        """
        from lambda_once.dynamodb.errors import Caught, is_transient

        send = partial(self._exchanged, operation)
        for tries in range(1, TRIES + 1):
            asked = deadline.clock.now()
            try:
                answer = self._sent(send, arguments, deadline, asked)
            except Caught as error:
                if self._heard is not None:
                    self._heard(getattr(error, "response", None), asked)
                if tries == TRIES or not is_transient(error):
                    raise
                if deadline.is_final() or not deadline.has_time_for_another(asked):
                    raise
                if failed is not None:
                    failed(error)
                back_off(deadline, tries)
            else:
                if self._heard is not None:
                    self._heard(answer, asked)
                return answer
        raise AssertionError  # pragma: no cover  (the last try returns or raises)

    def is_answer(self, request: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
        """Whether *response*, a refusal too, can be that of *request*: for what bears something to check."""
        del request, response
        return True

    def _exchanged(self, operation: str, /, **arguments: Any) -> Any:
        """Send one request. Raises CrossedResponse for the response of another one."""
        from botocore.exceptions import ClientError

        from lambda_once.dynamodb.errors import CrossedResponse

        client = self._connected()
        send = getattr(client, operation)
        try:
            answer = send(**arguments)
            if self.is_answer(arguments, answer):
                return answer
        except ClientError as error:
            if self.is_answer(arguments, error.response):
                raise
        except self.unreadable:  # botocore's parser fails on the body of another operation
            if operation == "transact_write_items":  # or its serialiser does, on a user's item
                raise
        if self._is_own:  # the next response on that connection would be another request's, too
            client.close()
        raise CrossedResponse

    def _sent(
        self, send: Callable[..., Any], arguments: Mapping[str, Any], deadline: Deadline, now: datetime
    ) -> Any:
        """
        Send one request, and await its response, where the deadline is ever final, until the deadline.

        If the client's own time limits are longer, another thread awaits the response, and goes on after the
        deadline: the request may still be written. Past the deadline nothing is sent, nor where it is final
        and no thread can be started; before that, only the client's limits apply then.
        """
        if not deadline.final:
            return send(**arguments)
        remaining = (deadline.at - now).total_seconds()
        if remaining >= self._longest:
            return send(**arguments)
        if remaining <= 0:
            raise _no_answer()
        try:
            answer = PendingResponse(lambda: send(**arguments))
        except RuntimeError:  # can't start new thread: Lambda allows 1,024 (quotas)
            if remaining <= FINAL:
                raise _no_answer() from None
            return send(**arguments)
        return answer.within(remaining)

    def each(self, values: Sequence[W], work: Callable[[W], A]) -> list[A]:
        """Do *work* for each of *values*, at once where there are several; the results are in order."""
        if len(values) < 2:  # noqa: PLR2004  (one value needs no thread)
            return [work(value) for value in values]
        return list(self._threads().map(work, values))

    def meanwhile(self, work: Callable[[], A]) -> Callable[[], A]:
        """Start *work* in another thread, and return a function that awaits its result."""
        return self._threads().submit(work).result

    def _threads(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor  # a cold start sends one request at a time

        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(WORKERS, thread_name_prefix="lambda-once-store")
            return self._pool

    @property
    def place(self) -> str:
        """The region and endpoint of the client, for a message."""
        meta: Any = getattr(self._client, "meta", None)
        lean: Any = getattr(self._client, "endpoint", None)
        if isinstance(getattr(lean, "url", None), str):
            return f"region {lean.region} ({lean.url})"
        region, url = getattr(meta, "region_name", None), getattr(meta, "endpoint_url", None)
        return f"region {region} ({url})" if isinstance(region, str) else "this region"

    def prepare(self) -> None:
        """
        Make the client before its first use, and send nothing.

        It is made again at first use where the process, the endpoint, the region, the credentials or the
        libraries that patch botocore have changed since. Raises what making it raises.
        """
        with self._lock:
            if self._client is None:
                self._client = self._made()
                self._prepared = self._surroundings()

    def _connected(self) -> Any:
        with self._lock:
            if self._prepared is not None:
                if self._prepared != self._surroundings():
                    self._client = None
                self._prepared = None
            if self._client is None:
                self._client = self._made()
            return self._client

    def _surroundings(self) -> tuple[object, ...]:
        """Return what the client is made for; of the secrets only a hash, which is never shown."""
        variables = hash(tuple(os.environ.get(name) for name in _MATTER))
        # A library that patches botocore patches the classes, and so a client of botocore's that there is.
        patched = of_modules(sys.modules) if wants_lean(self._name, os.environ) else None
        return os.getpid(), variables, patched

    def _made(self) -> Any:
        if not wants_lean(self._name, os.environ):
            return _guarded(new_client())
        reason = declined(os.environ, sys.modules)
        if reason is None:
            return lean_client()
        if self._declined is not None:
            self._declined(f"botocore's client is used instead of the lean one: {reason}")
        return _guarded(new_client())


class PendingResponse:
    """The outcome of *ask*, which runs in another thread."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._changed = threading.Condition()
        self._came: list[Callable[[], Any]] = []

        def wait() -> None:
            came = _outcome_of(ask)
            with self._changed:
                self._came.append(came)
                self._changed.notify_all()

        threading.Thread(target=copy_context().run, args=(wait,), daemon=True).start()

    def within(self, seconds: float) -> Any:
        """Return or raise the outcome. Raises botocore's ReadTimeoutError if there is none in *seconds*."""
        with self._changed:
            self._changed.wait_for(lambda: self._came, seconds)
            came = self._came[0] if self._came else None
        if came is None:
            raise _no_answer()
        return came()


def _no_answer() -> Exception:
    from botocore.exceptions import ReadTimeoutError

    error: Exception = ReadTimeoutError(endpoint_url="the token table")
    return error


def _outcome_of(ask: Callable[[], Any]) -> Callable[[], Any]:
    """Call *ask*, and return a function that returns or raises as it did."""
    try:
        answer = ask()
    except BaseException as error:  # noqa: BLE001  (it is raised where the outcome is awaited)
        raised = error

        def again() -> Any:
            raise raised

        return again
    return lambda: answer


def longest_try(client: Any) -> float:
    """
    Return how many seconds a request of *client* may take by its own limits; None is our own client.

    For a client that retries by itself, as botocore's do by default, there is no limit.
    """
    config = getattr(getattr(client, "meta", None), "config", None)
    if config is None:
        return CONNECT + ANSWER
    retries = getattr(config, "retries", None) or {}
    if retries.get("total_max_attempts") != 1:
        return math.inf
    limits = (config.connect_timeout, config.read_timeout)
    return sum(math.inf if limit is None else float(limit) for limit in limits)  # None: no limit


def _guarded(client: Any) -> Any:
    from lambda_once.dynamodb.errors import only_dynamodb

    return only_dynamodb(client)


def low_level(client: Any) -> Any:
    """Return *client*. Raises `Misconfigured` for a boto3 resource or Table, and the client of either."""
    resources = sys.modules.get("boto3.resources.base")  # loaded if there is one
    if resources is not None and isinstance(client, resources.ServiceResource):
        raise Misconfigured(
            f"client= is a boto3 resource ({type(client).__name__}): give a low-level client, boto3.client(…)"
        )
    events = getattr(getattr(client, "meta", None), "events", None)
    handlers = getattr(getattr(events, "_emitter", None), "_unique_id_handlers", {})
    if _CONVERTS in handlers:  # it takes the attributes {"S": "x"} for maps
        raise Misconfigured(
            "client= is the client of a boto3 resource, which converts attributes itself: give a client of"
            " its own, boto3.client('dynamodb')"
        )
    return client


def lean_client() -> Any:
    """Make a lean client for the environment, with the time limits of `new_client`."""
    from lambda_once.dynamodb.lean import Endpoint, LeanClient

    endpoint = Endpoint(endpoint_url(os.environ), os.environ["AWS_DEFAULT_REGION"])
    return LeanClient(endpoint, os.environ, connect=CONNECT, answer=ANSWER, connections=WORKERS)


def new_client() -> Any:
    """
    Return a low-level client with time limits for an invocation, instead of botocore's minute.

    Raises botocore's NoRegionError if no region is set.
    """
    import platform

    import botocore
    import botocore.session
    from botocore.config import Config
    from botocore.loaders import Loader

    config = Config(
        connect_timeout=CONNECT,
        read_timeout=ANSWER,
        retries={"total_max_attempts": 1},  # `Transport.call` retries: it knows the deadline
        parameter_validation=False,
        tcp_keepalive=True,
        max_pool_connections=WORKERS,
        # A constant: botocore would build its own twice a request, a quarter of a request's CPU.
        user_agent=f"lambda-once Botocore/{botocore.__version__} Python/{platform.python_version()}",
    )
    session = botocore.session.get_session()
    paths = (session.get_config_variable("data_path") or "").split(os.pathsep)
    loader = Loader([str(Path(os.path.expandvars(path)).expanduser()) for path in paths if path])
    # botocore would list hundreds of folders to find DynamoDB: a third of the cost of a client.
    loader.list_available_services = lambda _type: ["dynamodb"]
    session.register_component("data_loader", loader)
    return session.create_client("dynamodb", config=config)
