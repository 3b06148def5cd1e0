"""`once.route` protects the route function: what middlewares and validation behind it do releases nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import (
    ALBResolver,
    APIGatewayHttpResolver,
    APIGatewayRestResolver,
    Response,
    api_gateway,
)
from aws_lambda_powertools.event_handler.exceptions import BadRequestError, InternalServerError, NotFoundError
from aws_lambda_powertools.event_handler.middlewares import async_utils
from pydantic import BaseModel

from lambda_once import HOLD, STORE, Done, ErrorResponse, Misconfigured
from lambda_once.core.lifecycle import State
from lambda_once.integrations import event_handler as face
from lambda_once.integrations import private
from tests.decorators.rig import Rig, in_memory
from tests.decorators.test_api import KEY
from tests.sources.samples import alb, http, rest

pytestmark = in_memory

Json = dict[str, Any]
HTTP = http(headers={KEY.lower(): "k"})
RESOLVERS = [
    pytest.param(APIGatewayHttpResolver, HTTP, id="v2"),
    pytest.param(APIGatewayRestResolver, rest(headers={KEY: ["k"]}), id="v1"),
    pytest.param(ALBResolver, alb(idempotency_key="k"), id="alb"),
]
UNAVAILABLE = "urn:lambda-once:result-unavailable"


class Receipt(BaseModel):
    """What the route promises to return."""

    order: str
    total: int


class Broken(Exception):
    """What a middleware raises."""


class Shop:
    """An Event Handler with one protected route and middlewares behind once.route."""

    def __init__(
        self,
        rig: Rig,
        work: Callable[[], Any],
        *behind: Callable[..., Any],
        resolver: Any = APIGatewayHttpResolver,
        event: Json = HTTP,
        is_async: bool = False,
        validates: bool = False,
        **options: Any,
    ) -> None:
        self.rig = rig
        self.runs = 0
        self.event = event
        self.is_async = is_async
        self.app = resolver(enable_validation=validates)
        middlewares = [rig.once.route(async_resolver=is_async, **options), *behind]

        def pay(order_id: str) -> Receipt:
            self.runs += 1
            found: Receipt = work()
            return found

        async def pay_async(order_id: str) -> Receipt:
            return pay(order_id)

        self.app.post("/orders/<order_id>/pay", middlewares=middlewares)(pay_async if is_async else pay)

    def ask(self) -> Any:
        """Send the request: the status, and the problem's type or the body. What was raised, by its class."""
        context = self.rig.context(f"request-{self.runs}")
        try:
            if self.is_async:
                answer = asyncio.run(self.app.resolve_async(self.event, context))
            else:
                answer = self.app.resolve(self.event, context)
        except BaseException as error:  # noqa: BLE001  (a KeyboardInterrupt, too)
            return type(error)
        body = json.loads(answer["body"])
        return answer["statusCode"], body.get("type", body)


def good() -> Json:
    """What the route promises."""
    return {"order": "5", "total": 1}


def wrong() -> Json:
    """What does not fit the route's annotation: a column was NULL today."""
    return {"order": "5"}


def raises() -> Any:
    """Work that fails."""
    raise ValueError("no answer")


def after(answer: Any) -> Callable[..., Any]:
    """Make a middleware that answers or raises *answer* once the route function is over."""

    def middleware(app: Any, next_middleware: Any) -> Any:
        next_middleware(app)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return middleware


def instead(answer: Any) -> Callable[..., Any]:
    """Make a middleware that answers or raises *answer* before the route function runs."""

    def middleware(_app: Any, _next: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return middleware


def rescues(answer: Any) -> Callable[..., Any]:
    """Make a middleware that turns what is raised into *answer*."""

    def middleware(app: Any, next_middleware: Any) -> Any:
        try:
            return next_middleware(app)
        except Exception as error:
            if isinstance(answer, BaseException):
                raise answer from error
            return answer

    return middleware


def says(status: int) -> Response[Json]:
    """A response of a middleware's."""
    return Response(status, "application/json", {"by": "a middleware"})


BY = {"by": "a middleware"}
both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@both
@pytest.mark.parametrize(
    ("work", "status", "second"),
    [(wrong, 422, (409, UNAVAILABLE)), (good, 200, (200, good()))],
    ids=["invalid", "valid"],
)
@pytest.mark.parametrize(("resolver", "event"), RESOLVERS)
def test_response_validation_releases_nothing(
    rig: Rig, resolver: Any, event: Json, is_async: bool, work: Any, status: int, second: Any
) -> None:
    """The work is done when its response does not fit; what fits is replayed as it was serialised."""
    shop = Shop(rig, work, resolver=resolver, event=event, is_async=is_async, validates=True)
    assert shop.ask()[0] == status
    assert [shop.ask(), shop.ask()] == [second] * 2
    assert (shop.runs, rig.row().state) == (1, State.COMPLETE)


def test_it_is_the_watch_that_keeps_the_token(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: without the rebuilt chain a failed validation releases the token, and it is charged twice."""
    monkeypatch.setattr(face, "watched", lambda chain, _watch: chain)
    shop = Shop(rig, wrong, validates=True)
    assert [shop.ask()[0], shop.ask()[0]] == [422, 422]
    assert shop.runs == 2


@both
@pytest.mark.parametrize(
    "policy", [{}, {"on_error": HOLD}, {"on_error": STORE}], ids=["released", "held", "stored"]
)
@pytest.mark.parametrize("error", [Broken("after"), BadRequestError("after"), KeyboardInterrupt()])
def test_what_a_middleware_raises_afterwards_releases_nothing(
    rig: Rig, error: BaseException, policy: Any, is_async: bool
) -> None:
    """The first client gets it as it is; duplicates learn that the work is done, whatever on_error says."""
    shop = Shop(rig, good, after(error), is_async=is_async, **policy)
    first = shop.ask()
    assert first is type(error) or first[0] == 400
    assert shop.ask() == (409, UNAVAILABLE)
    assert (shop.runs, rig.row().state) == (1, State.COMPLETE)


@both
@pytest.mark.parametrize(
    ("answer", "status"), [(says(200), 200), (says(400), 400), (says(500), 500), ((BY, 202), 202)]
)
def test_what_a_middleware_answers_afterwards_is_stored(
    rig: Rig, answer: Any, status: int, is_async: bool
) -> None:
    """The response that reaches once.route is the outcome, whatever its status, and in any form."""
    shop = Shop(rig, good, after(answer), is_async=is_async, on_error=HOLD)
    assert [shop.ask(), shop.ask()] == [(status, BY)] * 2
    assert (shop.runs, rig.row().state) == (1, State.COMPLETE)


@both
@pytest.mark.parametrize("answer", [Broken("before"), InternalServerError("before"), says(500), says(401)])
def test_what_fails_before_the_function_releases(rig: Rig, answer: Any, is_async: bool) -> None:
    """Nothing was done: the token is given back, even where on_error holds what the work raises."""
    shop = Shop(rig, good, instead(answer), is_async=is_async, on_error=HOLD)
    first = shop.ask()
    assert first is Broken or first[0] in (401, 500)
    assert rig.row().state is State.RELEASED
    assert shop.runs == 0


def test_a_middleware_may_answer_in_place_of_the_function(rig: Rig) -> None:
    """A success of a middleware's is stored, and so is what store_status names."""
    shop = Shop(rig, good, instead(says(402)), store_status={402})
    assert [shop.ask(), shop.ask()] == [(402, BY)] * 2
    assert (shop.runs, rig.row().state) == (0, State.COMPLETE)


def missing() -> Any:
    """Work that is refused."""
    raise NotFoundError("no such order")


ANSWERED, INSTEAD = rescues(says(500)), rescues(Broken("instead"))


@both
@pytest.mark.parametrize(
    ("work", "behind", "policy", "first", "state"),
    [
        (raises, ANSWERED, {}, (500, BY), State.RELEASED),
        (raises, ANSWERED, {ValueError: HOLD}, (500, BY), State.HELD),
        (raises, ANSWERED, {ValueError: STORE}, (500, BY), State.COMPLETE),
        (raises, INSTEAD, {Broken: STORE}, Broken, State.RELEASED),
        (raises, INSTEAD, {Broken: STORE, ValueError: HOLD}, Broken, State.HELD),
        (missing, rescues(says(200)), {}, (200, BY), State.RELEASED),
        (lambda: (good(), 503), after(says(200)), {ErrorResponse: HOLD}, (200, BY), State.HELD),
        (
            lambda: Response(503, "application/json", good()),
            after(says(200)),
            {ErrorResponse: HOLD},
            (200, BY),
            State.HELD,
        ),
    ],
)
def test_the_functions_own_error_decides(
    rig: Rig, work: Any, behind: Any, policy: Any, first: Any, state: State, is_async: bool
) -> None:
    """
    What a middleware makes of it, or raises in its place, is what the client gets, not what it does.

    A returned 5xx is an ErrorResponse to on_error.
    """
    shop = Shop(rig, work, behind, is_async=is_async, on_error=policy)
    assert shop.ask() == first
    assert rig.row().state is state
    assert shop.ask() == ((409, "urn:lambda-once:held") if state is State.HELD else first)
    assert shop.runs == (2 if state is State.RELEASED else 1)


def test_a_function_that_ran_twice(rig: Rig) -> None:
    """A middleware that tries again: what the function has done once stays done."""
    answers = [ValueError("first"), good(), ValueError("third")]

    def work() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def insists(app: Any, next_middleware: Any) -> Any:
        for _ in range(3):
            try:
                next_middleware(app)
            except ValueError:
                continue
        return next_middleware(app)  # fails: there are no more answers

    shop = Shop(rig, work, insists, on_error=HOLD)
    assert shop.ask() is IndexError
    assert shop.ask() == (409, UNAVAILABLE)
    assert rig.row().state is State.COMPLETE


@both
def test_the_chain_that_powertools_keeps_is_not_changed(rig: Rig, is_async: bool) -> None:
    """Every request has a chain of its own: one that is refused or replayed leaves nothing behind."""
    shop = Shop(rig, good, after(says(200)), is_async=is_async, validates=True)
    (route,) = shop.app._dynamic_routes
    function = route.func
    assert [shop.ask(), shop.ask()] == [(200, BY)] * 2
    frame = route._middleware_stack
    while hasattr(frame, "next_middleware"):
        frame = frame.next_middleware
    assert frame is function
    assert route.func is function


@both
def test_the_attempt_is_at_hand_in_the_function(rig: Rig, is_async: bool) -> None:
    """once.current() is the attempt, behind plain middlewares of an async chain as well."""
    keys: list[str] = []

    def work() -> Json:
        keys.append(rig.once.current().downstream_key())
        return good()

    Shop(rig, work, rescues(None), is_async=is_async, validates=True).ask()
    assert [len(key) for key in keys] == [64]


@both
def test_a_route_within_a_route(rig: Rig, is_async: bool) -> None:
    """Two of them in one chain, by names of their own, are two tokens of one run."""
    inner = rig.once.route(name="inner", async_resolver=is_async)
    shop = Shop(rig, good, inner, after(says(201)), is_async=is_async, name="outer")
    assert [shop.ask(), shop.ask()] == [(201, BY)] * 2
    assert (shop.runs, rig.states()) == (1, [State.COMPLETE] * 2)


@pytest.mark.parametrize("fails", [False, True])
def test_a_function_that_is_still_in_progress(rig: Rig, fails: bool) -> None:
    """A middleware that gives up waiting for it in a thread: nobody else may do its work."""
    started, go = threading.Event(), threading.Event()
    threads = []

    def work() -> Json:
        started.set()
        go.wait(10)
        return good()

    def gives_up(app: Any, next_middleware: Any) -> Any:
        threads.append(threading.Thread(target=next_middleware, args=[app]))
        threads[-1].start()
        started.wait(10)
        if fails:
            raise Broken
        return says(504)

    shop = Shop(rig, work, gives_up)
    first = shop.ask()
    go.set()
    threads[0].join()
    assert (first, shop.ask()) == ((Broken, (409, UNAVAILABLE)) if fails else ((504, BY), (504, BY)))
    assert (shop.runs, rig.row().state) == (1, State.COMPLETE)


@pytest.mark.parametrize(
    "done",
    [{"statusCode": 201, "body": json.dumps(BY), "headers": {"X": "1"}}, {"statusCode": 201}, says(201)],
)
def test_a_probe_answers_with_a_response(rig: Rig, done: Any) -> None:
    """As Lambda writes it, as `lambda-once resolve --result` asks for it, or an Event Handler's own."""
    app = APIGatewayHttpResolver()

    @app.post("/orders/<order_id>/pay", middlewares=[rig.once.route(on_lapse=lambda *_: Done(done))])
    def pay(order_id: str) -> Json:
        return good()

    with rig.crash():
        app.resolve(HTTP, rig.context())
    rig.clock.advance(100)
    for _ in range(2):
        answer = app.resolve(HTTP, rig.context("request-2"))
        assert answer["statusCode"] == 201
        assert answer.get("body") in (json.dumps(BY), json.dumps(BY, separators=(",", ":")), None, "")


# -- chains that are not what once.route is for


def resolve(app: Any, context: Any) -> Any:
    """Send the request to plain middlewares."""
    return app.resolve(HTTP, context)


def resolve_async(app: Any, context: Any) -> Any:
    """Send the request to async ones."""
    return asyncio.run(app.resolve_async(HTTP, context))


BARE = r"middlewares=\[once.route\(\)\]"


@pytest.mark.parametrize(
    ("middleware", "ask", "words"),
    [
        (lambda once: once.route(), resolve, r"pay is a coroutine function.*resolve_async"),
        (
            lambda once: once.route(async_resolver=True),
            resolve,
            r"async_resolver=True\) is for app.resolve_async",
        ),
        (lambda once: once.route(), resolve_async, "async_resolver=True"),
        (lambda once: once.route, resolve, BARE),
    ],
    ids=["a coroutine function", "an async route", "a plain route under resolve_async", "a bare route"],
)
def test_a_chain_that_it_is_not_for(rig: Rig, middleware: Any, ask: Any, words: str) -> None:
    """Misconfigured by name before anything runs, nothing is stored, and no coroutine is left over."""
    app = APIGatewayHttpResolver()

    @app.post("/orders/<order_id>/pay", middlewares=[middleware(rig.once)])
    async def pay(order_id: str) -> Json:
        pytest.fail("it ran")

    for _ in range(2):
        with pytest.raises(Misconfigured, match=words):
            ask(app, rig.context())
    assert rig.rows() == []
    if words is not BARE:  # which has no runtime yet
        assert rig.events() == ["once.misconfigured"] * 2


def test_a_function_that_returns_an_awaitable_under_resolve(rig: Rig) -> None:
    """Work that has not begun is not done: Misconfigured, and the token is given back."""

    async def later() -> Json:
        pytest.fail("it ran")

    shop = Shop(rig, later)
    assert shop.ask() is Misconfigured
    assert rig.row().state is State.RELEASED


def test_a_chain_of_unknown_frames(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the function cannot be found nothing is guessed, and nothing runs."""

    class Frame(api_gateway.MiddlewareFrame):
        """A frame of another version."""

    shop = Shop(rig, good)
    monkeypatch.setattr(api_gateway, "MiddlewareFrame", Frame)
    shop.ask()  # Powertools builds and keeps the chain of the other version
    monkeypatch.undo()
    shop.event = http(headers={KEY.lower(): "another"})
    assert shop.ask() is Misconfigured
    assert shop.runs == 1


# -- chains of another Powertools, whose function nobody finds


class OtherFrame:
    """A frame whose attributes have other names."""

    def __init__(self, current_middleware: Any, next_middleware: Any) -> None:
        self.middleware, self.following = current_middleware, next_middleware
        self.__name__ = current_middleware.__name__

    def __call__(self, app: Any) -> Any:
        return self.middleware(app, self.following)


class OtherAsyncFrame(OtherFrame):
    """One of resolve_async."""

    def __call__(self, app: Any) -> Any:
        return async_utils.wrap_middleware_async(self.middleware, self.following)(app)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Expect that the change is noticed, as in a new process."""
    private._changed.cache_clear()
    monkeypatch.setattr(api_gateway, "MiddlewareFrame", OtherFrame)
    monkeypatch.setattr(async_utils, "AsyncMiddlewareFrame", OtherAsyncFrame)
    with pytest.warns(
        RuntimeWarning, match="middleware chain of the installed Powertools.*all that runs behind it"
    ) as said:
        yield
    assert len(said) == 1


@both
@pytest.mark.parametrize(
    ("work", "behind", "first", "second"),
    [
        (good, rescues(None), (200, good()), (200, good())),
        (good, after(says(503)), (503, BY), (503, BY)),
        (good, after(Broken("after")), Broken, (409, UNAVAILABLE)),
        (raises, None, ValueError, (409, UNAVAILABLE)),
    ],
    ids=["an answer", "a status", "a middleware raises", "the function raises"],
)
def test_what_an_unknown_chain_does_releases_nothing(
    rig: Rig, other: None, work: Any, behind: Any, first: Any, second: Any, is_async: bool
) -> None:
    """
    What runs behind once.route is the work, and its response is stored, whatever its status.

    What is raised may come from a middleware, after the work: duplicates learn that it may be done.
    """
    shop = Shop(rig, work, *filter(None, [behind]), is_async=is_async)
    assert [shop.ask(), shop.ask()] == [first, second]
    assert (shop.runs, rig.row().state) == (1, State.COMPLETE)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_middleware_used_as_a_decorator(rig: Rig, is_async: bool) -> None:
    """@once.route() on a function says where it belongs."""

    def pay(order_id: str) -> Json:
        return {}

    with pytest.raises(
        Misconfigured, match=r"no decorator: write @app.post\(.*middlewares=\[once.route\(\)\]"
    ):
        rig.once.route(async_resolver=is_async)(pay)
    with pytest.raises(Misconfigured, match=r"middlewares=\[once.route\(\)\]"):
        rig.once.route(pay)  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("policy", [STORE, HOLD])
def test_service_errors_have_no_policy(rig: Rig, policy: Any) -> None:
    """on_error={BadRequestError: …} would be ignored: refused when decorated, with what to write."""
    with pytest.raises(Misconfigured, match=r"on_error names BadRequestError.*store_status="):
        rig.once.route(on_error={BadRequestError: policy})


# -- stored errors and exception handlers


class OutOfStock(Exception):
    """What the route raises."""


class Sold(OutOfStock):
    """A class with a constructor of its own."""

    def __init__(self, item: str) -> None:
        super().__init__(item)


@both
@pytest.mark.parametrize("named", [OutOfStock, Exception])
def test_an_exception_handler_answers_duplicates_too(rig: Rig, named: Any, is_async: bool) -> None:
    """STORE and app.exception_handler: the first client and every duplicate get the handler's answer."""

    def work() -> Any:
        raise OutOfStock("tea")

    shop = Shop(rig, work, is_async=is_async, on_error={OutOfStock: STORE})

    @shop.app.exception_handler(named)  # type: ignore[untyped-decorator]
    def sold_out(error: Exception) -> Response[Json]:
        return Response(409, "application/json", {"why": f"out of {error}"})

    assert [shop.ask(), shop.ask(), shop.ask()] == [(409, {"why": "out of tea"})] * 3
    assert shop.runs == 1


@pytest.mark.parametrize(
    ("error", "handles", "first"),
    [(OutOfStock("tea"), False, OutOfStock), (Sold("tea"), True, (409, {"why": "tea"}))],
    ids=["no handler", "a constructor of its own"],
)
def test_else_duplicates_get_the_problem(rig: Rig, error: Exception, handles: bool, first: Any) -> None:
    """Where nothing handles the error, and where its handler would read what a stored one does not have."""

    def work() -> Any:
        raise error

    shop = Shop(rig, work, on_error={OutOfStock: STORE})

    def sold_out(error: Exception) -> Response[Json]:
        return Response(409, "application/json", {"why": str(error)})

    if handles:
        shop.app.exception_handler(OutOfStock)(sold_out)
    assert [shop.ask(), shop.ask()] == [first, (500, "urn:lambda-once:failed")]
