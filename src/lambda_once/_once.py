"""`Once` and its decorators: the public face of the package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from inspect import currentframe
from typing import TYPE_CHECKING, Any, Final, Literal, Never, overload

from lambda_once.core.checks import checked_flag
from lambda_once.core.identity import NOTHING, Scoping
from lambda_once.core.keys import KeyOfRun
from lambda_once.core.signatures import frame_that_called, title
from lambda_once.core.variables import sound_listing
from lambda_once.decorators.names import check_shared, token_name
from lambda_once.decorators.runtime import Runtime
from lambda_once.decorators.validation import (
    check_concurrency,
    check_decorated,
    check_key,
    check_parts,
    sound_hooks,
)
from lambda_once.engine.attempt import Attempt, current_attempt
from lambda_once.errors import Misconfigured
from lambda_once.observability.reporter import Reporter, load
from lambda_once.policies import RELEASE, OnError, OnLapseOption
from lambda_once.settings import (
    AS_ONCE,
    Pair,
    Seal,
    Settings,
    Where,
    given_in,
    settings_of,
    signature_of_options,
)

if TYPE_CHECKING:
    from aws_durable_execution_sdk_python.types import DurableContext
    from aws_lambda_powertools.utilities.data_classes.active_mq_event import ActiveMQMessage
    from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
    from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
    from aws_lambda_powertools.utilities.data_classes.rabbit_mq_event import RabbitMessage
    from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    from lambda_once._signatures import (
        ApiDecorator,
        Coro,
        EventDecorator,
        FunctionDecorator,
        KafkaDecorator,
        MessageDecorator,
        OfEvent,
        P,
        QueueDecorator,
        R,
        StreamDecorator,
    )
    from lambda_once.core.clock import Clock
    from lambda_once.engine.history import HistorySource
    from lambda_once.engine.outcome import Outcome
    from lambda_once.engine.replay import Replayed
    from lambda_once.integrations.durable import Execution
    from lambda_once.observability.reporter import AnyLogger, Hook, Namespaced
    from lambda_once.observability.traces import AnyTracer
    from lambda_once.sources.block import Begun
    from lambda_once.sources.outcome import Question
    from lambda_once.sources.problems import Problem
    from lambda_once.stores.contract import Store


_OF_ONCE: Final = (
    *("table", "client", "store", "service", "listing", "metrics", "logger", "tracer", "hooks"),
    "require_key",
)
"""Arguments of `Once` that decorators do not accept."""


def _of_work(arguments: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """Return the options among *arguments*; without a payload there is nothing to compare."""
    compared = {} if arguments["payload"] is not NOTHING else {"fingerprint": False}
    return given_in(arguments, where) | compared


class Once:
    """
    Makes handlers and functions take effect once, with one token table and one set of defaults.

    A duplicate gets the stored result or raises an error from `lambda_once.errors`; batch and HTTP handlers
    turn it into their response.

    No request is sent before first use; in Lambda the client is created at INIT. *table* defaults to
    LAMBDA_ONCE_TABLE. *client* is a low-level DynamoDB client of boto3's, or "crt" for one that sends
    through AWS' Common Runtime (docs/deploying.md). *store* replaces the table with any implementation of
    the store contract. *service* is the first part of every token and defaults to
    POWERTOOLS_SERVICE_NAME. *listing* is "stream" if the watchdog lists lost work from the table's stream;
    by default it is LAMBDA_ONCE_LISTING, else "at_once". *metrics*, *logger* and *tracer* are your Powertools
    objects; *tracer* may also be OpenTelemetry's. Every function in *hooks* is called with every event and
    cannot change the outcome. With *require_key*, a decorator that would use a hash of the payload as the key
    raises `Misconfigured`.

    The *policies* apply to all decorators; a decorator may override each of them (docs/reference.md).

    Raises `Misconfigured` for an invalid option.
    """

    def __init__(
        self,
        *misplaced: Never,
        table: str | None = None,
        client: Any = None,
        store: Store | None = None,
        service: str | None = None,
        listing: Literal["stream", "at_once"] | None = None,
        metrics: Namespaced | None = None,
        logger: AnyLogger | None = None,
        tracer: AnyTracer | None = None,
        hooks: tuple[Hook, ...] | list[Hook] = (),
        require_key: bool = False,
        keep: timedelta | None = None,
        lease: timedelta | None = None,
        on_error: OnError = RELEASE,
        on_lapse: OnLapseOption = None,
        on_in_progress: Literal["conflict", "wait"] | timedelta = "conflict",
        cache: int = 0,
        history: HistorySource | None = None,
        seal: Seal | None = None,
        seal_required: bool = False,
        unscoped: Literal["warn", "refuse"] = "warn",
        **unknown: Never,
    ) -> None:
        if misplaced:
            raise Misconfigured(f"Once takes its arguments by name, such as Once(table={misplaced[0]!r})")
        self._defaults = settings_of(Settings(), given_in(locals(), Where.ONCE), Where.ONCE, besides=_OF_ONCE)
        check_parts(
            table=table,
            client=client,
            store=store,
            service=service,
            metrics=metrics,
            logger=logger,
            tracer=tracer,
        )
        self._require_key = checked_flag("require_key", require_key)
        reporter = Reporter(service, metrics=metrics, logger=logger, tracer=tracer, hooks=sound_hooks(hooks))
        mode = None if listing is None else sound_listing("listing", listing)
        self._runtime = Runtime(table, client, store, service, mode, reporter)
        self._runtime.prepare()

    @property
    def sqs(self) -> QueueDecorator[SQSRecord]:
        """
        Turn a function of one record into a handler of SQS batches, standard or FIFO.

        The handler returns ``{"batchItemFailures": […]}``; the event source mapping needs
        ReportBatchItemFailures. If every record fails, it raises Powertools' ``BatchProcessingError``, unless
        ``raise_on_entire_batch_failure=False``. With ``model=`` the function gets the payload as that type.
        """
        from lambda_once.sources.sqs import sqs_handler

        return self._decorator("sqs", sqs_handler, Where.QUEUE)

    @property
    def sns(self) -> MessageDecorator[SNSEventRecord]:
        """Turn a function of one notification into a handler of SNS events; it raises the first error."""
        from lambda_once.sources.sns import sns_handler

        return self._decorator("sns", sns_handler, Where.MESSAGES)

    @property
    def kinesis(self) -> StreamDecorator[KinesisStreamRecord]:
        """
        Turn a function of one record into a handler of Kinesis batches that keeps the order of the shard.

        The handler raises the first error and starts no later record. With ``report_failures=True``, for a
        mapping with ReportBatchItemFailures, it returns the first failed sequence number instead.
        ``on_give_up`` is called with a record that can never succeed and its error; if it returns, the shard
        continues.
        """
        from lambda_once.sources.kinesis import kinesis_handler

        return self._decorator("kinesis", kinesis_handler, Where.STREAM)

    @property
    def dynamodb_stream(self) -> StreamDecorator[DynamoDBRecord]:
        """Turn a function of one change into a handler of DynamoDB Streams, as `kinesis` does."""
        from lambda_once.sources.dynamodb_stream import dynamodb_stream_handler

        return self._decorator("dynamodb_stream", dynamodb_stream_handler, Where.STREAM)

    @property
    def kafka(self) -> KafkaDecorator:
        """
        Turn a function of one record into a handler of Kafka batches, as `kinesis` does, for each partition.

        A failure stops only its partition. ``schema`` is Powertools' ``SchemaConfig``, for values in Avro,
        Protobuf or JSON with a schema; the function then gets Powertools' ``ConsumerRecordRecords``.
        """
        from lambda_once.sources.kafka import kafka_handler

        return self._decorator("kafka", kafka_handler, Where.STREAM, "schema")

    @property
    def mq(self) -> MessageDecorator[ActiveMQMessage | RabbitMessage]:
        """Turn a function of one message into a handler of Amazon MQ batches; it raises the first error."""
        from lambda_once.sources.mq import mq_handler

        return self._decorator("mq", mq_handler, Where.MESSAGES)

    @property
    def event(self) -> EventDecorator:
        """Make a handler of EventBridge, S3, Step Functions or direct events take effect once per event."""
        from lambda_once.sources.event import event_handler

        return self._decorator("event", event_handler, Where.EVENT)

    @property
    def api_gateway(self) -> ApiDecorator:
        """
        Make a handler of HTTP requests take effect once per request, and replay its response.

        For API Gateway (v1, v2), Function URLs and load balancers. The key is the header
        ``Idempotency-Key``, scoped to method, path and caller.

        * ``without_key``: for a request without that header, "hash" it, "reject" it or "run" it unprotected.
        * ``caller``: an expression or callable that identifies the caller, or False to ignore callers.
        * ``unscoped``: for a request whose caller is unknown, "warn" in the log, or "refuse" it with 400.
        * ``methods``: the protected methods. Default: all but GET, HEAD and OPTIONS.
        * ``store_status``: statuses of 400 and above that are stored like a success.
        * ``problem``: a function from `Problem` to `Problem` that changes texts, or adds headers.
        """
        from lambda_once.sources.http import api_handler

        return self._decorator("api_gateway", api_handler, Where.API)

    def route(
        self,
        *misplaced: Never,
        async_resolver: bool = False,
        name: str | Callable[..., Any] | None = None,
        key: str | OfEvent | None = None,
        scope: str | Callable[..., object] | None = None,
        fingerprint: str | Literal[False] | None = None,
        ignore: Sequence[str] = (),
        keep: timedelta | None = AS_ONCE,
        lease: timedelta | None = AS_ONCE,
        on_error: OnError = AS_ONCE,
        on_lapse: OnLapseOption = AS_ONCE,
        on_in_progress: Literal["conflict", "wait"] | timedelta = AS_ONCE,
        cache: int = AS_ONCE,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        on_replay: Callable[[Any, Replayed], Any] | None = None,
        methods: Collection[str] | None = None,
        without_key: Literal["hash", "reject", "run"] | None = None,
        unscoped: Literal["warn", "refuse"] = AS_ONCE,
        store_status: Collection[int] = frozenset(),
        problem: Callable[[Problem], Problem] | None = None,
        caller: str | OfEvent | Literal[False] | None = None,
        **unknown: Never,
    ) -> Callable[..., Any]:
        """
        Return a middleware that protects one route of a Powertools Event Handler.

        ``@app.post("/pay", middlewares=[once.route()])``. It takes the options of `api_gateway`. Pass
        ``async_resolver=True`` for ``app.resolve_async``, which needs an async middleware.
        """
        from lambda_once.integrations.event_handler import Route, middleware_of

        arguments = locals()
        checked_flag("async_resolver", async_resolver)
        if misplaced:
            raise Misconfigured(
                "once.route returns a middleware and takes only options: "
                'write @app.post("/pay", middlewares=[once.route()])'
            )
        settings = self._settings(given_in(arguments, Where.API), Where.API)
        if self._require_key:
            check_key("once.route", "a route", settings, Where.API)
        load()
        self._declare(settings, Where.API)
        return middleware_of(Route(self._runtime, settings), async_resolver=async_resolver)

    @property
    def function(self) -> FunctionDecorator:
        """Make a function or method, plain or async, take effect once per key of its arguments."""
        from lambda_once.sources.function import protected_function

        return self._decorator("function", protected_function, Where.CALL)

    def begin(
        self,
        key: object,
        *,
        scope: object = None,
        payload: object = NOTHING,
        name: str | Callable[..., Any],
        fingerprint: str | Literal[False] | None = None,
        ignore: Sequence[str] = (),
        keep: timedelta | None = AS_ONCE,
        lease: timedelta | None = AS_ONCE,
        on_error: OnError = AS_ONCE,
        on_lapse: OnLapseOption = AS_ONCE,
        on_in_progress: Literal["conflict", "wait"] | timedelta = AS_ONCE,
        cache: int = AS_ONCE,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        returns: Any = None,
        codec: Pair | None = None,
        **unknown: Never,
    ) -> Begun:
        """
        Return a context manager, plain or async, for a block of work with one *key*.

        Entering it returns an `Attempt`, or a `Replayed` if the work is already done. Leaving it completes
        the token with None unless ``complete`` was called; for an exception ``on_error`` decides. *key* and
        *scope* are values. With *payload*, the same key with another payload raises `KeyReused`. ``name`` is
        required: two blocks of one name and key are one piece of work, wherever they are.
        """
        from lambda_once.sources.block import begun

        settings = self._settings(_of_work(locals(), Where.BLOCK), Where.BLOCK)
        caller = frame_that_called(currentframe())
        return begun(self._runtime, settings, caller, key, scope, payload)

    def execution(
        self,
        context: DurableContext,
        *,
        key: object,
        scope: object = None,
        payload: object = NOTHING,
        name: str | Callable[..., Any],
        fingerprint: str | Literal[False] | None = None,
        ignore: Sequence[str] = (),
        keep: timedelta | None = AS_ONCE,
        lease: timedelta,
        on_error: OnError = AS_ONCE,
        on_lapse: OnLapseOption = AS_ONCE,
        returns: Any = None,
        codec: Pair | None = None,
        **unknown: Never,
    ) -> Execution:
        """
        Return a context manager for a durable execution with one *key*; *context* is its DurableContext.

        The token is acquired and finished in durable steps, and kept while the execution is suspended.
        *lease* is the timeout of the execution. *key*, *scope*, *payload* and ``name`` are as for `begin`.
        """
        from lambda_once.integrations.durable import execution

        settings = self._settings(_of_work(locals(), Where.EXECUTION), Where.EXECUTION)
        caller = frame_that_called(currentframe())
        return execution(self._runtime, settings, caller, context, key, scope, payload)

    def run(
        self, name: str, key: object, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """
        Call *function* with the arguments, unless it was called under *name* with *key* before.

        *function* is any callable, plain or async, such as a lambda or a client's method. Returns its result
        or the stored one. *name* is the second part of the token. Raises `Misconfigured` if it is no text,
        and for arguments in another order.
        """
        from lambda_once.sources.function import protected_function

        if not (isinstance(name, str) and name and callable(function)) or callable(key):  # type: ignore[redundant-expr]
            kinds = ", ".join(type(each).__name__ for each in (name, key, function))
            raise Misconfigured(
                "once.run takes a non-empty name, a key and a function, then the function's arguments, as in "
                f'once.run("charge", order_id, charge, card); it got: {kinds}'
            )
        settings = settings_of(self._defaults, {"key": KeyOfRun(key), "name": name}, Where.CALL)
        once: Callable[P, R] = protected_function(self._runtime, function, settings)
        return once(*args, **kwargs)

    @overload
    def outcome(
        self,
        key: object,
        *,
        scope: object = None,
        tenant: str | None = None,
        name: str,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        returns: type[R],
        codec: Pair | None = None,
        **unknown: Never,
    ) -> Outcome[R]: ...
    @overload
    def outcome(
        self,
        key: object,
        *,
        scope: object = None,
        tenant: str | None = None,
        name: str,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        returns: Any = None,
        codec: Pair | None = None,
        **unknown: Never,
    ) -> Outcome[Any]: ...
    def outcome(
        self,
        key: object,
        *,
        scope: object = None,
        tenant: str | None = None,
        name: str | None = None,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        returns: Any = None,
        codec: Pair | None = None,
        **unknown: Never,
    ) -> Outcome[Any]:
        """
        Return the outcome of *key*, without running anything.

        The work must have a ``name=``. Not for `api_gateway` and `route`, whose tokens include method, path
        and caller. *key* and *scope* are the values that the work's have, *tenant* is by default that of this
        process. The row is read consistently; the result is read on access to `Outcome.result`. Pass the
        ``returns``, ``codec``, ``seal`` and ``history`` of the work.

        Raises `StoreUnavailable` if the table does not respond, `KeyMissing`, and `Misconfigured`.
        """
        return self._question(key, scope, tenant, given_in(locals(), Where.OUTCOME)).answer()

    @overload
    def aoutcome(
        self,
        key: object,
        *,
        scope: object = None,
        tenant: str | None = None,
        name: str,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        returns: type[R],
        codec: Pair | None = None,
        **unknown: Never,
    ) -> Coro[Outcome[R]]: ...
    @overload
    def aoutcome(
        self,
        key: object,
        *,
        scope: object = None,
        tenant: str | None = None,
        name: str,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        returns: Any = None,
        codec: Pair | None = None,
        **unknown: Never,
    ) -> Coro[Outcome[Any]]: ...
    def aoutcome(
        self,
        key: object,
        *,
        scope: object = None,
        tenant: str | None = None,
        name: str | None = None,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        returns: Any = None,
        codec: Pair | None = None,
        **unknown: Never,
    ) -> Coro[Outcome[Any]]:
        """Do what `outcome` does, off the event loop. The result is read at once."""
        from lambda_once.engine.waiting import off_loop

        question = self._question(key, scope, tenant, given_in(locals(), Where.OUTCOME))
        return off_loop(partial(question.answer, at_once=True))

    def invocation(self, context: object) -> AbstractContextManager[object]:
        """Return a context manager in which protected work takes its remaining time from *context*."""
        return self._runtime.invocation(context)

    def current(self) -> Attempt:
        """Return the attempt of the protected work that is running. Raises `Misconfigured` outside of it."""
        return current_attempt()

    def _using(self, store: Store | None, clock: Clock | None) -> AbstractContextManager[None]:
        return self._runtime.using(store, clock)

    def _question(
        self, key: object, scope: object, tenant: str | None, options: Mapping[str, Any]
    ) -> Question:
        from lambda_once.sources.outcome import Question

        settings = settings_of(self._defaults, options, Where.OUTCOME)
        caller = frame_that_called(frame_that_called(currentframe()))
        return Question(self._runtime, settings, caller, key, scope, tenant)

    def _settings(self, given: Mapping[str, Any], where: Where, others: tuple[str, ...] = ()) -> Settings:
        settings = settings_of(self._defaults, given, where, besides=others)
        check_shared(settings.name, self._runtime)
        return settings

    def _declare(self, settings: Settings, where: Where) -> None:
        """Note what `outcome` has to know: what the tokens of a decorator's name have at least."""
        if settings.name is not None:
            name = settings.name if isinstance(settings.name, str) else token_name(settings.name)
            has_scope = where is Where.API or settings.scope is not None
            self._runtime.declare(name, Scoping.CALLER if settings.caller else Scoping(has_scope))

    def _decorator(
        self, name: str, make: Callable[..., Any], where: Where, *others: str
    ) -> Callable[..., Any]:
        """Return the decorator ``once.name``. *others*, not among the options, are what *make* takes."""

        def decorator(f: Any = None, /, **options: Any) -> Any:
            maker = make(*(options.pop(other, None) for other in others)) if others else make
            settings = self._settings(options, where, others)

            def decorate(function: Any) -> Any:
                check_decorated(f"once.{name}", function)
                check_concurrency(function, options.get("concurrency"))
                if self._require_key:
                    check_key(f"once.{name}", title(function), settings, where)
                load()
                decorated = maker(self._runtime, function, settings)
                self._runtime.names.add(decorated, settings.name)
                self._declare(settings, where)
                return decorated

            return decorate if f is None else decorate(f)

        decorator.__name__ = name
        decorator.__qualname__ = f"once.{name}"
        decorator.__doc__ = getattr(type(self), name).__doc__
        decorator.__signature__ = signature_of_options(where, *others)  # type: ignore[attr-defined]
        return decorator
