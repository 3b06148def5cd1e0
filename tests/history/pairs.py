"""
The rows of docs/from-powertools.md, "Your decorator, and ours", as values that run.

A row is a Powertools decorator with an expression, and the line to write in its place. Both are evaluated
from the text that the page shows, put around the same work, and given the same events: `Side.deliver`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent, idempotent_function

from lambda_once import PowertoolsHistory
from lambda_once.testing import api_event, lambda_context
from tests.kit.powertools import ALIKE, PREFIX, Shop
from tests.sources.samples import batch, eventbridge, sqs_record

Json = dict[str, Any]

WORDS: Final[dict[type[BaseException], str]] = ALIKE | {
    ValueError: "failed",
    SystemExit: "died",
    BatchProcessingError: "retried",
}
"""What takes the place of an exception."""
STATUS: Final = {400: "no key", 409: "in progress", 422: "another payload"}
_requests = itertools.count()


class Work:
    """Work that returns which run it is, or fails, or is killed."""

    def __init__(self) -> None:
        self.runs = 0
        self.ends: BaseException | None = None
        """How the next run ends."""
        self.status = 200

    def __call__(self, _given: object = None) -> Json:
        self.runs += 1
        if self.ends is not None:
            ends, self.ends = self.ends, None
            raise ends
        return {"statusCode": self.status, "body": f"run {self.runs}"}


@dataclass
class Side:
    """Work under either library."""

    work: Work
    handle: Callable[[Any, Any], Any]
    """A Lambda handler, or what calls a function."""

    def deliver(self, event: Any, ends: BaseException | None = None) -> str:
        """Return what *event* gets: ``run 1``, or what takes the place of an exception or a status."""
        before, self.work.ends = self.work.runs, ends
        try:
            answer = self.handle(event, lambda_context("shop", f"request-{next(_requests)}"))
        except tuple(WORDS) as error:
            return next(word for kind, word in WORDS.items() if isinstance(error, kind))
        finally:
            self.work.ends = None
        if answer.get("batchItemFailures"):
            return "retried"
        if "batchItemFailures" in answer:
            return f"run {self.work.runs}" if self.work.runs > before else "nothing"
        return str(STATUS.get(answer["statusCode"], answer["body"]))


class Door(NamedTuple):
    """What is decorated, and how."""

    name: str
    """As the page calls it."""
    old: Callable[[Shop, Work, IdempotencyConfig], Callable[[Any, Any], Any]]
    new: Callable[[Callable[[str], Any], str, Work], Callable[[Any, Any], Any]]
    """From what evaluates a line, the line and the work to a handler."""
    has_history: bool = True
    of_requests: bool = False


# ------------------------------------------------------------------ the old side


def _old_handler(shop: Shop, work: Work, config: IdempotencyConfig) -> Callable[[Any, Any], Any]:
    @idempotent(persistence_store=shop.layer(), config=config, key_prefix=PREFIX)
    def handler(event: Any, context: Any) -> Any:
        return work(event)

    return handler


def _old_resolver(shop: Shop, work: Work, config: IdempotencyConfig) -> Callable[[Any, Any], Any]:
    app = APIGatewayHttpResolver()

    @app.post("/orders")
    def order() -> Any:
        return work()["body"]

    @idempotent(persistence_store=shop.layer(), config=config, key_prefix=PREFIX)
    def handler(event: Any, context: Any) -> Any:
        return app.resolve(event, context)

    return lambda event, context: _unquoted(handler(event, context))


def _unquoted(response: Json) -> Json:
    """Return *response*, of a resolver, whose body is JSON of the text that its route returned."""
    is_text = str(response["body"]).startswith('"')
    return {**response, "body": json.loads(response["body"])} if is_text else response


def _old_function(name: str) -> Callable[[Shop, Work, IdempotencyConfig], Callable[[Any, Any], Any]]:
    def made(shop: Shop, work: Work, config: IdempotencyConfig) -> Callable[[Any, Any], Any]:
        def charge(**given: Any) -> Any:
            return work(given[name])

        layer = shop.layer()
        protected = idempotent_function(
            charge, data_keyword_argument=name, persistence_store=layer, config=config, key_prefix=PREFIX
        )

        def call(order: Any, context: Any) -> Any:
            config.register_lambda_context(context)
            return protected(**{name: order})

        return call

    return made


def _processed(handle: Callable[[Any, Any], Any], model: Any = None) -> Callable[[Any, Any], Any]:
    """Return a handler that hands each record to *handle* by Powertools' processor."""

    def handler(event: Any, context: Any) -> Any:
        processor = BatchProcessor(EventType.SQS, model=model)
        return process_partial_response(event, lambda record: handle(record, context), processor, context)

    return handler


def _old_records(shop: Shop, work: Work, config: IdempotencyConfig) -> Callable[[Any, Any], Any]:
    return _processed(_old_function("record")(shop, work, config))


def _old_dicts(shop: Shop, work: Work, config: IdempotencyConfig) -> Callable[[Any, Any], Any]:
    call = _old_function("record")(shop, work, config)
    return _processed(lambda record, context: call(record.raw_event, context))


# ------------------------------------------------------------------ the new side


def _new_handler(evaluated: Callable[..., Any], line: str, work: Work) -> Callable[[Any, Any], Any]:
    def handler(event: Any, context: Any) -> Any:
        return work(event)

    made: Callable[[Any, Any], Any] = evaluated(line)(handler)
    return made


def _new_route(evaluated: Callable[..., Any], line: str, work: Work) -> Callable[[Any, Any], Any]:
    app = APIGatewayHttpResolver()

    @evaluated(line, app=app)  # type: ignore[untyped-decorator]
    def order() -> Any:
        return work()["body"]

    return lambda event, context: _unquoted(app.resolve(event, context))


def _new_records(evaluated: Callable[..., Any], line: str, work: Work) -> Callable[[Any, Any], Any]:
    def handler(record: Any) -> Any:
        work(record)

    made: Callable[[Any, Any], Any] = evaluated(line)(handler)
    return made


def _new_function(evaluated: Callable[..., Any], line: str, work: Work) -> Callable[[Any, Any], Any]:
    def charge(order: Any) -> Any:
        return work(order)

    protected = evaluated(line)(charge)

    def call(order: Any, context: Any) -> Any:
        with evaluated("once.invocation")(context):
            return protected(order)

    return call


def _new_record_handler(*, of_dicts: bool) -> Callable[..., Callable[[Any, Any], Any]]:
    def made(evaluated: Callable[..., Any], line: str, work: Work) -> Callable[[Any, Any], Any]:
        def record_handler(record: Any) -> Any:
            return work(record)

        protected = evaluated(line)(record_handler)

        def call(record: SQSRecord, context: Any) -> Any:
            with evaluated("once.invocation")(context):
                return protected(record.raw_event if of_dicts else record)

        return _processed(call)

    return made


HTTP = Door("an HTTP handler", _old_handler, _new_handler, of_requests=True)
RESOLVER = Door("a handler around `app.resolve`", _old_resolver, _new_route, has_history=False)
FUNCTION = Door('a function, `data_keyword_argument="order"`', _old_function("order"), _new_function)
RECORDS = Door("a record handler", _old_records, _new_records)
KEPT = Door("one that a `BatchProcessor` calls", _old_records, _new_record_handler(of_dicts=False))
DICTS = Door("one called with dicts", _old_dicts, _new_record_handler(of_dicts=True))
EVENT = Door("any other handler", _old_handler, _new_handler)


# ------------------------------------------------------------------ the rows


class Pair(NamedTuple):
    """A row of the page."""

    door: Door
    key: str
    """``event_key_jmespath``; nothing for none."""
    new: str
    """The line to write."""
    first: Any
    changed: Any
    """An event with its key, and another payload; None: that is another key."""
    second: Any
    """An event with another key."""
    keyless: Any = None
    """An event without a key; None: there always is one."""

    def old_side(self, shop: Shop, **config: Any) -> Side:
        """Return work under Powertools."""
        work = Work()
        settings = IdempotencyConfig(event_key_jmespath=self.key, **config)
        return Side(work, self.door.old(shop, work, settings))

    def new_side(self, shop: Shop, *, keyless: bool = False, history: bool = False) -> Side:
        """Return work under the line; *keyless*: it runs without a key, as Powertools' does by default."""
        work, once = Work(), shop.once(history=self._history(shop) if history else None)
        line = _with_keyless_runs(self.new) if keyless else self.new

        def evaluated(text: str, **names: Any) -> Any:
            return eval(text.removeprefix("@"), {"once": once, "json": json, **names})

        return Side(work, self.door.new(evaluated, line, work))

    def _history(self, shop: Shop) -> PowertoolsHistory:
        config = IdempotencyConfig(event_key_jmespath=self.key)
        return PowertoolsHistory(
            shop.layer(), config=config, key_prefix=PREFIX, across_callers=self.door.of_requests
        )


def _with_keyless_runs(line: str) -> str:
    if "without_key" in line:
        return line.replace('without_key="reject"', 'without_key="run"')
    return re.sub(r"fingerprint=False\)", 'fingerprint=False, without_key="run")', line, count=1)


def _posted(body: Json | None, method: str = "POST", **headers: str) -> Json:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api_event(method, "/orders", body, named)


def _recorded(body: Json, id_: str = "m-1") -> Json:
    return batch(sqs_record(body, id_=id_))


_BODIES: Final = (
    _posted({"id": 1, "user": "ann"}),
    _posted({"id": 1, "user": "ann", "note": 2}),
    _posted({"id": 2, "user": "ann"}),
    _posted({"note": 3}),
)
_HEADERS: Final = (
    _posted({"a": 1}, idempotency_key="k-1"),
    _posted({"a": 2}, idempotency_key="k-1"),
    _posted({"a": 1}, idempotency_key="k-2"),
    _posted({"a": 1}),
)
_GETS: Final = tuple(
    _posted(None, "GET", **({"idempotency_key": key} if key else {})) for key in ("k-1", "k-1", "k-2", "")
)
_ORDERS: Final = ({"id": 1}, {"id": 1, "note": 2}, {"id": 2}, {"note": 3})
_BY_BODY: Final = (_recorded({"id": 1}), _recorded({"id": 1, "note": 2}, "m-2"), _recorded({"id": 2}, "m-3"))
_BY_ID: Final = (_recorded({"id": 1}), None, _recorded({"id": 1}, "m-2"))
_BY_HEADER: Final = 'headers."idempotency-key"'

PAIRS: Final = (
    Pair(
        HTTP,
        "body",
        '@once.api_gateway(key="@", fingerprint=False)',
        _BODIES[0],
        None,
        _BODIES[1],
        _posted(None),
    ),
    Pair(
        HTTP,
        "powertools_json(body)",
        '@once.api_gateway(key="@", fingerprint=False)',
        _BODIES[0],
        None,
        _BODIES[1],
    ),
    Pair(HTTP, "powertools_json(body).id", '@once.api_gateway(key="id", fingerprint=False)', *_BODIES),
    Pair(
        HTTP,
        "powertools_json(body).[user, id]",
        '@once.api_gateway(key="[user, id]", fingerprint=False)',
        *_BODIES[:3],
    ),
    Pair(HTTP, _BY_HEADER, '@once.api_gateway(without_key="reject", fingerprint=False)', *_HEADERS),
    Pair(
        HTTP._replace(name="a GET handler"),
        _BY_HEADER,
        '@once.api_gateway(methods={"GET"}, without_key="reject", fingerprint=False)',
        _GETS[0],
        None,
        *_GETS[2:],
    ),
    Pair(
        RESOLVER,
        "powertools_json(body).id",
        '@app.post("/orders", middlewares=[once.route(key="id", fingerprint=False)])',
        *_BODIES,
    ),
    Pair(FUNCTION, "id", '@once.function(key="order.id", fingerprint=False)', *_ORDERS),
    Pair(
        FUNCTION,
        "powertools_json(body).id",
        '@once.function(key="powertools_json(order.body).id", fingerprint=False)',
        *_BODIES,
    ),
    Pair(
        FUNCTION,
        "[id, version]",
        '@once.function(key=lambda order: json.dumps([order["id"], order.get("version")]), fingerprint=False)',  # noqa: E501
        *_ORDERS[:3],
    ),
    Pair(FUNCTION, "", '@once.function(key="order", fingerprint=False)', {"id": 1}, None, {"id": 2}),
    Pair(
        RECORDS,
        "messageId",
        "@once.sqs(key=lambda record: record.message_id)",
        *_BY_ID,
    ),
    Pair(
        RECORDS,
        "powertools_json(body).id",
        '@once.sqs(key="id", fingerprint=False)',
        *_BY_BODY,
        _recorded({}, "m-4"),
    ),
    Pair(
        KEPT, "messageId", "@once.function(key=lambda record: record.message_id, fingerprint=False)", *_BY_ID
    ),
    Pair(
        KEPT,
        "powertools_json(body).id",
        '@once.function(key="record.id", fingerprint=False)',
        *_BY_BODY,
        _recorded({}, "m-4"),
    ),
    Pair(DICTS, "messageId", '@once.function(key="record.messageId", fingerprint=False)', *_BY_ID),
    Pair(EVENT, "", "@once.event", {"id": 1}, None, {"id": 2}),
    Pair(
        EVENT,
        "detail.id",
        '@once.event(key="detail.id", fingerprint=False)',
        *(eventbridge(order, id=f"e-{n}") for n, order in enumerate(_ORDERS)),
    ),
    Pair(
        EVENT, "'nightly'", """@once.event(key="'nightly'", fingerprint=False)""", {"id": 1}, {"id": 2}, None
    ),
)


def rows() -> list[str]:
    """Return the rows of the page: pairs of one line share a row, and a door is named once."""
    found: list[str] = []
    named = ""
    for (door, line), pairs in itertools.groupby(PAIRS, lambda pair: (pair.door.name, pair.new)):
        keys = ", ".join(f"`{pair.key}`" if pair.key else "–" for pair in pairs)
        found.append(f"| {'' if door == named else f'{door} '}| {keys} | `{line}` |")
        named = door
    return found
