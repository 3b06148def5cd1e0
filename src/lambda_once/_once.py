"""`Once` and its decorators: the public face of the package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Never, Unpack, overload

from lambda_once.core.checks import checked_flag
from lambda_once.core.signatures import title
from lambda_once.core.unit import NOTHING
from lambda_once.decorators.names import check_shared
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
from lambda_once.settings import Settings, Where, settings_of

if TYPE_CHECKING:
    from types import UnionType

    from aws_durable_execution_sdk_python.types import DurableContext
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
    from aws_lambda_powertools.utilities.data_classes.active_mq_event import ActiveMQMessage
    from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
    from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
    from aws_lambda_powertools.utilities.data_classes.rabbit_mq_event import RabbitMessage
    from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from lambda_once._signatures import (
        ApiOptions,
        BlockOptions,
        C,
        Coro,
        E,
        Event,
        ExecutionOptions,
        Handler,
        KafkaDecorator,
        M,
        MessageDecorator,
        OfEvents,
        OfFunctions,
        OfRecords,
        OnceOptions,
        OutcomeOptions,
        P,
        QueueOptions,
        R,
        ResultOptions,
        StreamDecorator,
        TypeForm,
    )
    from lambda_once.core.clock import Clock
    from lambda_once.engine.outcome import Outcome
    from lambda_once.integrations.durable import Execution
    from lambda_once.observability.reporter import AnyLogger, Hook, Namespaced
    from lambda_once.observability.traces import AnyTracer
    from lambda_once.sources.block import Begun
    from lambda_once.sources.outcome import Question
    from lambda_once.stores.contract import Store


_OF_ONCE: Final = (
    *("table", "client", "store", "service", "metrics", "logger", "tracer", "hooks"),
    "require_key",
)
"""Arguments of `Once` that decorators do not accept."""


class Once:
    """
    Makes handlers and functions take effect once, with one token table and one set of defaults.

    A duplicate gets the stored result or raises an error from `lambda_once.errors`; batch and HTTP handlers
    turn it into their response.

    No request is sent before first use; in Lambda the client is created at INIT. *table* defaults to
    LAMBDA_ONCE_TABLE. *client* is a low-level DynamoDB client of boto3's, or "crt" for one that sends
    through AWS' Common Runtime (docs/deploying.md). *store* replaces the table with any implementation of
    the store contract. *service* is the first part of every token and defaults to
    POWERTOOLS_SERVICE_NAME. *metrics*, *logger* and *tracer* are your Powertools objects; *tracer* may also
    be OpenTelemetry's. Every function in *hooks* is called with every event and cannot change the outcome.
    With *require_key*, a decorator that would use a hash of the payload as the key raises `Misconfigured`.

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
        metrics: Namespaced | None = None,
        logger: AnyLogger | None = None,
        tracer: AnyTracer | None = None,
        hooks: tuple[Hook, ...] | list[Hook] = (),
        require_key: bool = False,
        **policies: Unpack[OnceOptions],
    ) -> None:
        if misplaced:
            raise Misconfigured(f"Once takes its arguments by name, such as Once(table={misplaced[0]!r})")
        self._defaults = settings_of(Settings(), policies, Where.ONCE, besides=_OF_ONCE)
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
        self._runtime = Runtime(table, client, store, service, reporter)
        self._runtime.prepare()

    @overload
    def sqs(
        self, f: Callable[[SQSRecord, C], object], /
    ) -> Handler[Event, C, PartialItemFailureResponse]: ...
    @overload
    def sqs(
        self, f: Callable[[SQSRecord], object], /
    ) -> Handler[Event, LambdaContext, PartialItemFailureResponse]: ...
    @overload
    def sqs(
        self,
        f: None = None,
        /,
        *,
        model: TypeForm,
        key: str | Callable[[Any], object] = ...,
        **options: Unpack[QueueOptions],
    ) -> OfRecords[Any, PartialItemFailureResponse]: ...
    @overload
    def sqs(
        self,
        f: None = None,
        /,
        *,
        model: type[M] | UnionType,
        key: str | Callable[[M], object] = ...,
        **options: Unpack[QueueOptions],
    ) -> OfRecords[M, PartialItemFailureResponse]: ...
    @overload
    def sqs(
        self,
        f: None = None,
        /,
        *,
        model: object,
        key: str | Callable[[M], object] = ...,
        **options: Unpack[QueueOptions],
    ) -> OfRecords[Any, PartialItemFailureResponse]: ...
    @overload
    def sqs(
        self,
        f: None = None,
        /,
        *,
        key: str | Callable[[SQSRecord], object] = ...,
        **options: Unpack[QueueOptions],
    ) -> OfRecords[SQSRecord, PartialItemFailureResponse]: ...
    def sqs(self, f: Any = None, /, **options: Any) -> Any:
        """
        Turn a function of one record into a handler of SQS batches, standard or FIFO.

        The handler returns ``{"batchItemFailures": […]}``; the event source mapping needs
        ReportBatchItemFailures. If every record fails, it raises Powertools' ``BatchProcessingError``, unless
        ``raise_on_entire_batch_failure=False``. With ``model=`` the function gets the payload as that type.
        """
        from lambda_once.sources.sqs import sqs_handler

        return self._decorator("once.sqs", sqs_handler, Where.QUEUE, f, options)

    @property
    def sns(self) -> MessageDecorator[SNSEventRecord]:
        """Turn a function of one notification into a handler of SNS events; it raises the first error."""
        from lambda_once.sources.sns import sns_handler

        return self._messages("once.sns", sns_handler)

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

        return self._stream("once.kinesis", kinesis_handler)

    @property
    def dynamodb_stream(self) -> StreamDecorator[DynamoDBRecord]:
        """Turn a function of one change into a handler of DynamoDB Streams, as `kinesis` does."""
        from lambda_once.sources.dynamodb_stream import dynamodb_stream_handler

        return self._stream("once.dynamodb_stream", dynamodb_stream_handler)

    @property
    def kafka(self) -> KafkaDecorator:
        """
        Turn a function of one record into a handler of Kafka batches, as `kinesis` does, for each partition.

        A failure stops only its partition. ``schema`` is Powertools' ``SchemaConfig``, for values in Avro,
        Protobuf or JSON with a schema; the function then gets Powertools' ``ConsumerRecordRecords``.
        """
        from lambda_once.sources.kafka import kafka_handler

        def decorator(f: Any = None, /, *, schema: Any = None, **options: Any) -> Any:
            return self._stream("once.kafka", kafka_handler(schema))(f, **options)

        return decorator

    @property
    def mq(self) -> MessageDecorator[ActiveMQMessage | RabbitMessage]:
        """Turn a function of one message into a handler of Amazon MQ batches; it raises the first error."""
        from lambda_once.sources.mq import mq_handler

        return self._messages("once.mq", mq_handler)

    @overload
    def event(self, f: Callable[[E, C], Coro[R]], /) -> Handler[E, C, R]: ...
    @overload
    def event(self, f: Callable[[E, C], R], /) -> Handler[E, C, R]: ...
    @overload
    def event(self, f: Callable[[E], Coro[R]], /) -> Handler[E, LambdaContext, R]: ...
    @overload
    def event(self, f: Callable[[E], R], /) -> Handler[E, LambdaContext, R]: ...
    @overload
    def event(
        self,
        f: None = None,
        /,
        *,
        key: str | Callable[..., object] = ...,
        **options: Unpack[ResultOptions],
    ) -> OfEvents: ...
    def event(self, f: Any = None, /, **options: Any) -> Any:
        """Make a handler of EventBridge, S3, Step Functions or direct events take effect once per event."""
        from lambda_once.sources.event import event_handler

        return self._decorator("once.event", event_handler, Where.CALL, f, options)

    @overload
    def api_gateway(self, f: Callable[[E, C], Coro[R]], /) -> Handler[E, C, R]: ...
    @overload
    def api_gateway(self, f: Callable[[E, C], R], /) -> Handler[E, C, R]: ...
    @overload
    def api_gateway(self, f: Callable[[E], Coro[R]], /) -> Handler[E, LambdaContext, R]: ...
    @overload
    def api_gateway(self, f: Callable[[E], R], /) -> Handler[E, LambdaContext, R]: ...
    @overload
    def api_gateway(
        self,
        f: None = None,
        /,
        *,
        key: str | Callable[[Any], object] = ...,
        **options: Unpack[ApiOptions],
    ) -> OfEvents: ...
    def api_gateway(self, f: Any = None, /, **options: Any) -> Any:
        """
        Make a handler of HTTP requests take effect once per request, and replay its response.

        For API Gateway (v1, v2), Function URLs, load balancers and VPC Lattice. The key is the header
        ``Idempotency-Key``, scoped to method, path and caller.

        * ``without_key``: for a request without that header, "hash" it, "reject" it or "run" it unprotected.
        * ``caller``: an expression or callable that identifies the caller, or False to ignore callers.
        * ``unscoped``: for a request whose caller is unknown, "warn" in the log, or "refuse" it with 400.
        * ``methods``: the protected methods. Default: all but GET, HEAD and OPTIONS.
        * ``store_status``: statuses of 400 and above that are stored like a success.
        * ``problem``: a function from `Problem` to `Problem` that changes the text of errors.
        """
        from lambda_once.sources.http import api_handler

        return self._decorator("once.api_gateway", api_handler, Where.API, f, options)

    def route(
        self,
        *misplaced: Never,
        key: str | Callable[[Any], object] | None = None,
        async_resolver: bool = False,
        **options: Unpack[ApiOptions],
    ) -> Callable[..., Any]:
        """
        Return a middleware that protects one route of a Powertools Event Handler.

        ``@app.post("/pay", middlewares=[once.route()])``. It takes the options of `api_gateway`. Pass
        ``async_resolver=True`` for ``app.resolve_async``, which needs an async middleware.
        """
        from lambda_once.integrations.event_handler import Route, middleware_of

        checked_flag("async_resolver", async_resolver)
        if misplaced:
            raise Misconfigured(
                "once.route returns a middleware and takes only options: "
                'write @app.post("/pay", middlewares=[once.route()])'
            )
        given = dict(options) if key is None else {**options, "key": key}
        settings = self._settings(given, Where.API)
        if self._require_key:
            check_key("once.route", "a route", settings, Where.API)
        load()
        return middleware_of(Route(self._runtime, settings), async_resolver=async_resolver)

    @overload
    def function(self, f: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def function(
        self,
        f: None = None,
        /,
        *,
        key: str | Callable[..., object] = ...,
        **options: Unpack[ResultOptions],
    ) -> OfFunctions: ...
    def function(self, f: Any = None, /, **options: Any) -> Any:
        """Make a function or method, plain or async, take effect once per key of its arguments."""
        from lambda_once.sources.function import protected_function

        return self._decorator("once.function", protected_function, Where.CALL, f, options)

    def begin(
        self, key: object, *, scope: object = None, payload: object = NOTHING, **options: Unpack[BlockOptions]
    ) -> Begun:
        """
        Return a context manager, plain or async, for a block of work with one *key*.

        Entering it returns an `Attempt`, or a `Replayed` if the work is already done. Leaving it completes
        the token with None unless ``complete`` was called; for an exception ``on_error`` decides. *key* and
        *scope* are values. With *payload*, the same key with another payload raises `KeyReused`. ``name`` is
        required: two blocks of one name and key are one piece of work, wherever they are.
        """
        from lambda_once.sources.block import begun

        given = dict(options) | ({"fingerprint": False} if payload is NOTHING else {})
        settings = self._settings(given, Where.BLOCK)
        caller = sys._getframe(1)  # noqa: SLF001  (text in returns= is evaluated there)
        return begun(self._runtime, settings, caller, key, scope, payload)

    def execution(
        self,
        context: DurableContext,
        *,
        key: object,
        lease: timedelta,
        scope: object = None,
        payload: object = NOTHING,
        **options: Unpack[ExecutionOptions],
    ) -> Execution:
        """
        Return a context manager for a durable execution with one *key*; *context* is its DurableContext.

        The token is acquired and finished in durable steps, and kept while the execution is suspended.
        *lease* is the timeout of the execution. *key*, *scope*, *payload* and ``name`` are as for `begin`.
        """
        from lambda_once.integrations.durable import execution

        given = {**options, "lease": lease} | ({"fingerprint": False} if payload is NOTHING else {})
        settings = self._settings(given, Where.EXECUTION)
        caller = sys._getframe(1)  # noqa: SLF001  (text in returns= is evaluated there)
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
        settings = settings_of(self._defaults, {"key": lambda *_, **__: key, "name": name}, Where.CALL)
        once: Callable[P, R] = protected_function(self._runtime, function, settings)
        return once(*args, **kwargs)

    @overload
    def outcome(
        self,
        key: object,
        *,
        name: str,
        scope: object = None,
        returns: type[R],
        **options: Unpack[OutcomeOptions],
    ) -> Outcome[R]: ...
    @overload
    def outcome(
        self,
        key: object,
        *,
        name: str,
        scope: object = None,
        returns: Any = None,
        **options: Unpack[OutcomeOptions],
    ) -> Outcome[Any]: ...
    def outcome(self, key: object, *, scope: object = None, **options: Any) -> Outcome[Any]:
        """
        Return the outcome of *key*, without running anything.

        The work must have a ``name=``. Not for `api_gateway` and `route`, whose tokens include method, path
        and caller. *key* and *scope* are the values that the work's have. The row is read consistently; the
        result is read on access to `Outcome.result`. Pass the ``returns``, ``codec``, ``seal`` and
        ``history`` of the work.

        Raises `StoreUnavailable` if the table does not respond, `KeyMissing`, and `Misconfigured`.
        """
        return self._question(key, scope, options).answer()

    @overload
    def aoutcome(
        self,
        key: object,
        *,
        name: str,
        scope: object = None,
        returns: type[R],
        **options: Unpack[OutcomeOptions],
    ) -> Coro[Outcome[R]]: ...
    @overload
    def aoutcome(
        self,
        key: object,
        *,
        name: str,
        scope: object = None,
        returns: Any = None,
        **options: Unpack[OutcomeOptions],
    ) -> Coro[Outcome[Any]]: ...
    def aoutcome(self, key: object, *, scope: object = None, **options: Any) -> Coro[Outcome[Any]]:
        """Do what `outcome` does, off the event loop. The result is read at once."""
        from lambda_once.engine.waiting import off_loop

        return off_loop(partial(self._question(key, scope, options).answer, at_once=True))

    def invocation(self, context: object) -> AbstractContextManager[object]:
        """Return a context manager in which protected work takes its remaining time from *context*."""
        return self._runtime.invocation(context)

    def current(self) -> Attempt:
        """Return the attempt of the protected work that is running. Raises `Misconfigured` outside of it."""
        return current_attempt()

    def _using(self, store: Store | None, clock: Clock | None) -> AbstractContextManager[None]:
        return self._runtime.using(store, clock)

    def _question(self, key: object, scope: object, options: Mapping[str, Any]) -> Question:
        from lambda_once.sources.outcome import Question

        settings = settings_of(self._defaults, options, Where.OUTCOME)
        caller = sys._getframe(2)  # noqa: SLF001  (text in returns= is evaluated there)
        return Question(self._runtime, settings, caller, key, scope)

    def _settings(self, given: Mapping[str, Any], where: Where) -> Settings:
        settings = settings_of(self._defaults, given, where)
        check_shared(settings.name, self._runtime)
        return settings

    def _messages(self, name: str, make: Callable[..., Any]) -> MessageDecorator[Any]:
        return lambda f=None, /, **options: self._decorator(name, make, Where.MESSAGES, f, options)

    def _stream(self, name: str, make: Callable[..., Any]) -> StreamDecorator[Any]:
        return lambda f=None, /, **options: self._decorator(name, make, Where.STREAM, f, options)

    def _decorator(
        self,
        name: str,
        make: Callable[..., Any],
        where: Where,
        function: Any,
        options: Mapping[str, Any],
    ) -> Any:
        settings = self._settings(options, where)

        def decorate(f: Any) -> Any:
            check_decorated(name, f)
            check_concurrency(f, options.get("concurrency"))
            if self._require_key:
                check_key(name, title(f), settings, where)
            load()
            decorated = make(self._runtime, f, settings)
            self._runtime.names.add(decorated, settings.name)
            return decorated

        return decorate if function is None else decorate(function)
