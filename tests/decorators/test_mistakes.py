"""Mistakes of first use: each is found as early as it can be, by a message that names it and the way out."""

# ruff: noqa: ARG005, D103  (signatures are what is tested here)

from __future__ import annotations

import functools
import hashlib
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import boto3
import pytest
from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from opentelemetry import trace
from pydantic import BaseModel

from lambda_once import KeyMissing, Lapsed, MemoryStore, Misconfigured, Once, ResultUnavailable
from lambda_once.testing import kinesis_event
from tests.decorators.rig import Rig, in_memory
from tests.decorators.sources_table import RECORD_DECORATORS
from tests.sources.samples import batch, sqs_record

once = Once(store=MemoryStore(), service="shop")
HANDLERS = (*RECORD_DECORATORS, "event", "api_gateway")
DECORATORS = (*HANDLERS, "function")


def refused(words: str, mistake: Callable[[], object]) -> None:
    """Check that *mistake* is `Misconfigured`, in *words*."""
    with pytest.raises(Misconfigured) as caught:
        mistake()
    assert words in str(caught.value)


# -- what Once is made of


def table() -> Any:
    return boto3.resource("dynamodb", region_name="eu-central-1").Table("tokens")


PARTS: list[tuple[Callable[[], dict[str, Any]], str]] = [
    (lambda: {"store": MemoryStore}, "store=MemoryStore is a class: pass an instance"),
    (lambda: {"store": {}}, "store= is a dict without acquire, write"),
    (
        lambda: {"client": boto3.resource("dynamodb", region_name="eu-central-1")},
        "client= is a boto3 resource",
    ),
    (lambda: {"client": table()}, "client= is a boto3 resource"),
    (lambda: {"client": table().meta.client}, "client= is the client of a boto3 resource"),
    (lambda: {"client": boto3.client("sqs", region_name="eu-central-1")}, "client= is a SQS, not a DynamoDB"),
    (lambda: {"client": boto3.client}, "client= is a function, not a DynamoDB client"),
    (lambda: {"table": table()}, "table= must be a name, a str, not a dynamodb.Table"),
    (lambda: {"service": 5}, "service= must be a name, a str"),
    (lambda: {"metrics": Metrics}, "metrics=Metrics is a class"),
    (lambda: {"logger": Logger}, "logger=Logger is a class"),
    (lambda: {"tracer": Tracer}, "tracer=Tracer is a class"),
    (lambda: {"tracer": trace}, "tracer= is a module, not a tracer: pass Powertools' Tracer(), or OpenTele"),
    (
        lambda: {"tracer": trace.NoOpTracerProvider()},
        "pass Powertools' Tracer(), or OpenTelemetry's trace.get",
    ),
    (lambda: {"hooks": print}, "hooks= must be a list of functions: hooks=[print]"),
    (lambda: {"hooks": ["print"]}, "which is not a function of one Details"),
    (lambda: {"hooks": [lambda: None]}, "must accept one argument, the Details"),
    (lambda: {"hooks": [asynchronous]}, "hook asynchronous is async"),
    (lambda: {"tabel": "tokens"}, "unknown option tabel (did you mean table?)"),
    (
        lambda: {"tabel": "tokens"},
        (
            "cache, client, history, hooks, keep, lease, listing, logger, metrics, on_error, on_in_progress, "
            "on_lapse, require_key, seal, seal_required, service, store, table, tracer"
        ),
    ),
    (lambda: {"cache": True}, "cache=True: give a whole number"),
    (lambda: {"table": "my tokens"}, "table='my tokens' is not a table name: DynamoDB's have letters"),
    (lambda: {"table": "tokens;"}, "is not a table name"),
    (lambda: {"require_key": "yes"}, "require_key='yes': give True or False"),
    (lambda: {"on_error": lambda: None}, "it must accept one argument, the exception"),
]


async def asynchronous(_: object) -> None: ...


@pytest.mark.parametrize(("options", "words"), PARTS, ids=[words for _, words in PARTS])
def test_parts_of_once(options: Callable[[], dict[str, Any]], words: str) -> None:
    """What cannot be meant is refused when `Once` is made, not by the first request."""
    refused(words, lambda: Once(**options()))


def test_the_table_is_given_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument by position is answered with the way to write it; ARNs are names of tables."""
    by_position: Any = Once
    refused("Once takes its arguments by name, such as Once(table='tokens')", lambda: by_position("tokens"))
    for name in ("tokens", "a.b_c-D9", "arn:aws:dynamodb:eu-central-1:123456789012:table/tokens"):
        Once(table=name)
    monkeypatch.setenv("LAMBDA_ONCE_TABLE", "my tokens")  # is checked when it is used
    handler: Any = Once(service="shop").event(key="id")(decorated)
    refused("LAMBDA_ONCE_TABLE='my tokens' is not a table name", lambda: handler({"id": 5}, None))


def test_a_table_without_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command that installs it."""
    for name in [name for name in sys.modules if name.startswith("lambda_once.stores.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    handler: Any = Once(table="tokens", service="shop").event(key="id")(decorated)
    refused("which is not installed: pip install 'lambda-once[aws]'", lambda: handler({"id": 5}, None))


@pytest.mark.parametrize(
    ("key", "correction"),
    [
        ("order-id", "quote such a name: '\"order-id\"'"),
        ("order.line-id", "quote such a name: 'order.\"line-id\"'"),
        ("2fa", "quote such a name: '\"2fa\"'"),
        ("$id", "quote such a name: '\"$id\"'"),
        ("a b", "; correct it"),
        ("a.[", "; correct it"),
        ("a..b", "; correct it"),
    ],
)
def test_a_name_that_needs_quotes(key: str, correction: str) -> None:
    """The expression is answered with the one that was meant, where it can be seen."""
    refused(correction, lambda: once.event(key=key))


def test_a_route_is_no_handler() -> None:
    """A route function under a decorator of events is refused, and the message names `once.route`."""
    post: Any = lambda: None  # noqa: E731  (without a parameter)

    def put(order_id: str) -> None: ...

    refused("middlewares=[once.route()]", lambda: once.api_gateway(post))
    work: Any = once.api_gateway(put)
    refused("middlewares=[once.route()]", lambda: work(order_id="5"))


@in_memory
def test_an_argument_without_canonical_form(rig: Rig) -> None:
    """The message names the option that helps."""
    work = rig.once.function(of_order)
    with pytest.raises(Misconfigured, match=r"order.*; pass key= with what identifies the work"):
        work(object())  # type: ignore[arg-type]  # what is tested


def test_a_result_that_is_not_json(rig: Rig) -> None:
    """The first caller gets it; a duplicate's error names the log line and both options."""

    @rig.once.event(key="id")
    def handler(event: Any) -> Any:
        return object()

    handler({"id": 1}, rig.context())
    with pytest.raises(ResultUnavailable, match=r"once\.result_unavailable.* or give returns= or codec="):
        handler({"id": 1}, rig.context())


def test_a_mock_is_a_context(rig: Rig) -> None:
    """What it has for an id or a name is none."""

    @rig.once.event(key="id")
    def handler(event: Any) -> int:
        return 5

    mock: Any = type("Mock", (), {"__getattr__": lambda _self, _name: object()})
    assert handler({"id": 1}, mock()) == handler({"id": 1}, mock()) == 5
    assert rig.row().locked_by == "local/-"


@in_memory
def test_an_aggregated_record_is_named(rig: Rig) -> None:
    """Where an expression selects nothing of it, the message has the reason."""
    given_up: list[Exception] = []
    work = rig.once.function(key="record.id", name="work")(decorated)
    message = b"\x0a\x01a"
    data = b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message, usedforsecurity=False).digest()
    record = KinesisStreamRecord(kinesis_event(data)["Records"][0])
    with pytest.raises(
        KeyMissing, match=r"is aggregated by the Kinesis Producer Library.* the key is missing"
    ):
        work(record)
    assert rig.once.function(key=lambda record: record.event_id, name="id")(decorated)(record) is None
    broken = kinesis_event(data[:-1] + b"?")
    with pytest.raises(KeyMissing, match=r"like one of the Kinesis Producer Library.* the key is missing"):
        work(KinesisStreamRecord(broken["Records"][0]))
    rig.once.kinesis(name="stream", key="id", on_give_up=lambda record, error: given_up.append(error))(
        decorated
    )(broken, rig.context())
    assert "like one of the Kinesis Producer Library" in str(given_up[0])


@pytest.mark.parametrize("hook", [print, list[object]().append, lambda *details: None])
def test_a_hook_may_be_anything_callable(hook: Any) -> None:
    """Built-in functions and methods count as functions of one argument."""
    Once(store=MemoryStore(), hooks=[hook])


# -- what is decorated


class Shop:
    def charge(self, record: Any) -> None: ...

    @classmethod
    def refund(cls, record: Any) -> None: ...

    @staticmethod
    def ship(record: Any) -> None: ...


def decorated(record: Any) -> None: ...


def yields(record: Any) -> Iterator[int]:
    yield 1


async def yields_async(record: Any) -> AsyncIterator[int]:
    yield 1


class Yields:
    def __call__(self, record: Any) -> Iterator[Any]:
        yield record


class YieldsAsync:
    async def __call__(self, record: Any) -> AsyncIterator[Any]:
        yield record


OF_ALL: list[tuple[Any, str]] = [
    (Shop.__dict__["refund"], "put @classmethod above @once."),
    (Shop.__dict__["ship"], "put @staticmethod above @once."),
    ("id", "(key='id')"),
    (5, "takes its options by name, such as once."),
    (Shop, "Shop is a class"),
    (yields, "yields is a generator function"),
    (yields_async, "yields_async is a generator function"),
    (functools.partial(yields), "is a generator function"),
    (Yields(), "is a generator function"),
    (YieldsAsync(), "is a generator function"),
    (functools.partial(decorated), "has no name of its own: pass name="),
]
OF_HANDLERS: list[tuple[Any, str]] = [
    (Shop.charge, "Shop.charge is a method, and Lambda passes no self"),
    (lambda: None, "must accept the event or record"),
    (lambda *, record: None, "must accept the event or record"),
    (lambda record, context, table: None, "has a required parameter table, but gets only two arguments"),
    (lambda record, *, table: None, "has a required parameter table, but gets only two arguments"),
    (lambda record, *, context: None, "make context its second positional parameter"),
    (lambda record, table=None, context=None: None, "make context its second positional parameter"),
]


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize(("function", "words"), OF_ALL, ids=[words for _, words in OF_ALL])
def test_what_is_decorated(decorator: str, function: Any, words: str) -> None:
    """What cannot be protected is refused when it is decorated, bare or with options."""
    refused(words, lambda: getattr(once, decorator)(function))
    if callable(function):
        refused(words, lambda: getattr(once, decorator)(cache=0)(function))


# -- what the first parameter says


class Order(BaseModel):
    id: int


def by_text(order: Order) -> None: ...


by_text.__annotations__["order"] = "Order"


def of_nothing(order: Any) -> None: ...


of_nothing.__annotations__["order"] = "NoSuchName"


def of_record(record: SQSRecord, context: Any) -> None: ...
def of_dict(record: dict[str, Any]) -> None: ...
def of_model(event: Order) -> None: ...
def annotated_order(order: Order) -> None: ...
def whole(event: Any, context: Any) -> None: ...
def wholes(events: Any) -> None: ...


def passing_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap *function* as a logger does."""

    @functools.wraps(function)
    def wrapper(event: Any, context: Any, *args: Any, **kwargs: Any) -> Any:
        return function(event, context, *args, **kwargs)

    return wrapper


def converting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap *function*, and give it a model."""

    @functools.wraps(function)
    def wrapper(record: Any) -> Any:
        return function(Order.model_validate_json(record.body))

    return wrapper


@pytest.mark.parametrize("decorator", RECORD_DECORATORS)
def test_a_record_is_no_whole_event(decorator: str) -> None:
    """A parameter that is called as a whole event is refused: a loop over Records would fail every record."""
    protect = getattr(once, decorator)
    logged = Logger(service="stacked").inject_lambda_context(whole)
    words = "calls it with one record at a time: call the parameter record"
    for function in (whole, wholes, lambda event: None, passing_on(whole), logged):
        refused(words, functools.partial(protect, function))
        refused(words, functools.partial(protect(cache=0), function))
    refused(f"but once.{decorator} calls it", lambda: protect(whole))


@pytest.mark.parametrize("decorator", RECORD_DECORATORS)
def test_a_model_is_an_option(decorator: str) -> None:
    """A parameter annotated with a model of pydantic would get the record: ``model=`` is what is meant."""
    for function in (annotated_order, by_text):
        words = "the parameter order is annotated with the model Order, but "
        words += f"once.{decorator} passes the record: give model=Order"
        refused(words, lambda: getattr(once, decorator)(function))  # noqa: B023  (called at once)


@pytest.mark.parametrize("decorator", RECORD_DECORATORS)
def test_what_may_be_decorated_as_a_record(decorator: str) -> None:
    """Other names and annotations, unknown ones, a converting wrapper, and everything with ``model=``."""
    protect = getattr(once, decorator)
    for function in (of_record, of_dict, of_nothing, passing_on(of_record), converting(annotated_order)):
        protect(function)
    for function in (annotated_order, of_model, whole):
        protect(model=Order)(function)


@pytest.mark.parametrize("decorator", ["event", "api_gateway", "function"])
def test_an_event_is_an_event(decorator: str) -> None:
    """Decorators of whole events take parameters of any name, and models that a parser above them made."""
    for function in (whole, wholes, annotated_order):
        getattr(once, decorator)(function)
    refused("above this decorator put", lambda: getattr(once, decorator)(model=Order))


# -- without a key


def test_a_key_can_be_required() -> None:
    """`Once(require_key=True)` refuses every decorator that would take a payload's hash, by its name."""
    strict = Once(store=MemoryStore(), service="shop", require_key=True)
    for decorator in DECORATORS:
        protect = getattr(strict, decorator)
        for make in (protect, protect(cache=1)):
            refused(f"decorated: once.{decorator} has no key=", lambda: make(decorated))  # noqa: B023  (called at once)
        protect(key="record" if decorator == "function" else "id")(decorated)
        protect(key=lambda record: record)(decorated)
    refused('or without_key="reject"', lambda: strict.api_gateway(without_key="hash")(decorated))
    refused("a route: once.route has no key=", strict.route)
    for way in ("reject", "run"):
        strict.api_gateway(without_key=way)(decorated)
        strict.route(without_key=way)
    strict.route(key="id")
    with strict.begin("k", name="work") as attempt:  # these have no other
        assert not attempt.replayed
    assert strict.run("of_order", "r", of_order, 5) == 5


@pytest.mark.parametrize("decorator", HANDLERS)
@pytest.mark.parametrize(("function", "words"), OF_HANDLERS, ids=[words for _, words in OF_HANDLERS])
def test_what_a_handler_takes(decorator: str, function: Any, words: str) -> None:
    """Handlers are functions of one event or record, and perhaps the context."""
    refused(words, lambda: getattr(once, decorator)(function))


@pytest.mark.parametrize("outer", DECORATORS)
@pytest.mark.parametrize("inner", DECORATORS)
def test_decorated_twice(outer: str, inner: str) -> None:
    """Two decorators of one function are refused, whichever they are; a wrapper between hides nothing."""
    protect, handler = getattr(once, outer), getattr(once, inner)(decorated)
    for each in (handler, Logger(service="stacked").inject_lambda_context(handler)):
        refused("is already protected: remove one of its decorators", lambda: protect(each))  # noqa: B023  (at once)
    refused("decorated is already protected", lambda: protect(handler))


@in_memory
def test_run_takes_a_protected_function(rig: Rig) -> None:
    """`run` protects by a key of its own what is protected by another."""

    @rig.once.function(key="order")
    def charge(order: int) -> int:
        return order

    assert rig.once.run("request", "request-1", charge, 5) == 5


# -- the second parameter of a handler


@in_memory
@pytest.mark.parametrize(
    ("handler", "given"),
    [
        (lambda event, context: context, True),
        (lambda event, anything: anything, True),
        (lambda event, context=None: context, True),
        (lambda event, lambda_context=None: lambda_context, True),
        (lambda event, client=None: client, False),
        (lambda event, client=None, *, region=None: client, False),
        (lambda *args: args[1], True),
    ],
)
def test_who_gets_the_context(rig: Rig, handler: Any, given: Any) -> None:
    """A second positional parameter gets the context unless it has a default and another name."""
    seen: list[Any] = []

    def kept(value: Any) -> str:
        seen.append(value)
        return "done"

    @functools.wraps(handler)
    def work(*args: Any) -> str:
        return kept(handler(*args))

    context = rig.context()
    assert rig.once.event(name="work")(work)({"id": 5}, context) == "done"
    assert (seen == [context]) is given


@in_memory
def test_record_handler_of_powertools(rig: Rig) -> None:
    """A handler of once.sqs takes batches: as record_handler it is refused by name, and nothing runs."""
    runs: list[Any] = []

    @rig.once.sqs
    def charge(record: Any) -> None:
        runs.append(record)

    processor = BatchProcessor(event_type=EventType.SQS)
    with pytest.raises(BatchProcessingError, match="charge is decorated as a Lambda handler"):
        process_partial_response(
            batch(sqs_record("x")), record_handler=charge, processor=processor, context=rig.context()
        )
    assert runs == []


# -- callables among the options


def of_order(order: int, lines: int = 1, *, note: str = "") -> int:
    return order


class Cart:
    def buy(self, order: int) -> int:
        return order


OF_ONE: list[tuple[dict[str, Any], str]] = [
    ({"key": lambda event, context, more: 1}, "must accept the"),
    ({"key": lambda: 1}, "must accept the"),
    ({"scope": lambda event, context, more: 1}, "must accept the"),
    ({"key": asynchronous}, "key=asynchronous is async"),
    ({"on_lapse": lambda: None}, "must accept a Lapsed, then the"),
    ({"on_lapse": lambda lapsed: None}, "must accept a Lapsed, then the"),
    ({"on_lapse": lambda lapsed, event, context: None}, "must accept a Lapsed, then the"),
    ({"on_error": lambda error, event: None}, "it must accept one argument, the exception"),
]
OF_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"key": lambda: 1}, "must accept the arguments of of_order"),
    ({"key": lambda order, lines, note, more: 1}, "must accept the arguments of of_order"),
    ({"key": lambda order, lines, *, memo: 1}, "must accept the arguments of of_order"),
    ({"scope": lambda: 1}, "must accept the arguments of of_order"),
    ({"on_lapse": lambda lapsed: None}, "must accept a Lapsed, then the arguments of of_order"),
    ({"key": "ordr"}, "of_order has no argument ordr; its arguments are order, lines, note"),
    ({"key": "[order, memo.id]"}, "of_order has no argument memo; its"),
    ({"scope": "tenant"}, "scope='tenant': of_order has no argument tenant"),
    ({"key": "order", "fingerprint": "memo"}, "fingerprint='memo': of_order has no argument memo"),
    ({"key": "powertools_json(body).id"}, "of_order has no argument body"),
    ({"key": "join('-', [order, memo])"}, "of_order has no argument memo"),
    ({"key": "ordr || order"}, "of_order has no argument ordr"),
]
SOUND_OF_CALLS: list[dict[str, Any]] = [
    {"key": lambda order, **others: order},
    {"key": lambda *args, **kwargs: 1},
    {"key": lambda order: order},
    {"key": lambda order, lines, note="": order},
    {"key": "order || ordr"},
    {"key": "order.ordr || lines[*].ordr"},
    {"key": "join('-', order)"},
    {"key": "[order, note]"},
    {"key": "@"},
    {"on_lapse": lambda lapsed, order, lines: None},
    {"on_lapse": lambda lapsed, *args: None},
]


@pytest.mark.parametrize("decorator", [*HANDLERS, "route"])
@pytest.mark.parametrize(("options", "words"), OF_ONE)
def test_callables_of_handlers(decorator: str, options: dict[str, Any], words: str) -> None:
    """A callable that cannot take the event or record is refused when the handler or route is made."""
    refused(words, lambda: getattr(once, decorator)(**options)(decorated))


@pytest.mark.parametrize(("options", "words"), OF_CALLS)
def test_callables_and_names_of_functions(options: dict[str, Any], words: str) -> None:
    """A callable that cannot take the arguments, and an expression that asks for another, are refused."""
    refused(words, lambda: once.function(**options)(of_order))


@pytest.mark.parametrize("options", SOUND_OF_CALLS)
def test_sound_callables_of_functions(options: dict[str, Any]) -> None:
    """What some call of the function would fit is taken."""
    once.function(**options)(of_order)


def test_the_object_of_a_method_is_no_argument() -> None:
    """Expressions do not see self; callables get it."""
    once.function(key=lambda self, order: order)(Cart.buy)
    once.function(key="order")(Cart.buy)
    refused("its arguments are order", lambda: once.function(key="self.name")(Cart.buy))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_replay": lambda result: result}, "it must accept two arguments"),
        ({"on_replay": asynchronous}, "an async one would not be awaited"),
        ({"problem": lambda: None}, "it must accept one argument, the Problem"),
        ({"caller": lambda event, context, more: 1}, "must accept the event"),
        ({"caller": asynchronous}, "caller=asynchronous is async"),
    ],
)
def test_callables_of_answers(options: dict[str, Any], words: str) -> None:
    """Those that dress what a duplicate gets, and ``caller=`` with the event, are checked alike."""
    for make in (once.route, lambda **options: once.api_gateway(**options)(decorated)):
        refused(words, lambda: make(**options))  # noqa: B023  (called at once)
        make(caller=lambda event: event["tenant"])


def test_an_async_probe_is_taken() -> None:
    """It is awaited."""

    async def probe(lapsed: Lapsed, event: Any) -> object: ...

    once.event(on_lapse=probe)(decorated)


# -- used in another way than it is meant


def test_begin_without_with() -> None:
    """What the attempt has, the context manager has not: it names the statement that is missing."""
    begun = once.begin("k", name="work")
    for name in ("token", "result", "replayed", "complete", "downstream_key"):
        refused("`with once.begin(...) as attempt:`", lambda: getattr(begun, name))  # noqa: B023  (at once)
    assert not hasattr(begun, "tokn")  # as everywhere


# -- the environment


@in_memory
@pytest.mark.parametrize("word", ["ture", "disabled", "2", "None"])
def test_a_word_that_is_neither_yes_nor_no(rig: Rig, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """LAMBDA_ONCE_DISABLED with a typing error runs nothing, protected or not."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", word)
    runs: list[int] = []
    refused("set it to true or false, or unset it", lambda: rig.once.run("n", "k", runs.append, 1))
    assert runs == []


@pytest.mark.parametrize(
    ("argument", "environment", "warnings"),
    [(None, "", 1), ("shop", "", 0), (None, "shop", 0)],
    ids=["missing", "argument", "environment"],
)
def test_a_missing_service_is_logged_once(
    argument: str | None,
    environment: str,
    warnings: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without a service all tokens begin alike: a warning, once for each Once."""
    monkeypatch.delenv("POWERTOOLS_SERVICE_NAME", raising=False)
    if environment:
        monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", environment)
    made = Once(store=MemoryStore(), service=argument, logger=logging.getLogger("made"))
    for key in ("a", "b"):
        made.run("len", key, len, [])
    lines = [line for line in caplog.records if line.message == "once.no_service"]
    assert len(lines) == warnings
    assert all("POWERTOOLS_SERVICE_NAME" in line.__dict__["reason"] for line in lines)
