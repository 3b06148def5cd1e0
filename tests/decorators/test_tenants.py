"""
Tenant isolation: the tenant that Lambda names in the context is in every token of the process.

Lambda developer guide, "Tenant isolation": the tenant is Invoke's TenantId, read as ``context.tenant_id``,
and in no event; an execution environment serves one tenant, and is never given to another.
"""

# ruff: noqa: ARG005  (signatures are what is tested here)

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambda_once import MemoryStore, Misconfigured, Once, PowertoolsHistory
from lambda_once.core.canonical import digest
from lambda_once.core.keys import tenant_part
from lambda_once.core.tenant import TENANCY
from lambda_once.testing import kinesis_event, lambda_context, rest_api_event, sqs_event, using
from tests.decorators.rig import Rig, in_memory
from tests.decorators.sources_table import SOURCES, Row

ORDER = {"orderId": 5}
KEYED = {"Idempotency-Key": "r-1"}
SECOND = "names another tenant than the one that this process serves"


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Each test has an execution environment of its own."""
    with TENANCY.fresh():
        yield


def of(tenant: str | None, request_id: str | None = None) -> LambdaContext:
    """Return the context of an invocation for *tenant*."""
    return lambda_context(request_id=request_id, tenant_id=tenant)


def handler_of(
    rig: Rig, name: str, work: Callable[[Any], object] = lambda _event: None, **options: Any
) -> Any:
    """Return a handler of orders that does *work*."""
    return rig.once.event(name=name, key="orderId", **options)(work)


def tokens(rig: Rig) -> list[str]:
    """Return the tokens of all rows."""
    return sorted(row.token for row in rig.rows())


# ------------------------------------------------------------------ the token


@in_memory
def test_the_tenant_counts_without_a_key(rig: Rig) -> None:
    """The hash of two tenants' equal events may not be one token, and the tenant stays readable beside it."""

    @rig.once.event(name="invoice")
    def invoice(event: Any) -> None: ...

    for tenant in ("blue", "green"):
        with TENANCY.fresh():
            invoice({"action": "invoice"}, of(tenant))
    blue, green = tokens(rig)
    assert blue.startswith("shop/invoice/blue/")
    assert green == blue.replace("blue", "green")


@pytest.mark.parametrize("headers", [{}, KEYED], ids=["hash", "Idempotency-Key"])
@in_memory
def test_the_tenant_stands_before_the_scope_of_a_request(rig: Rig, headers: dict[str, str]) -> None:
    """
    Method, path and caller follow it.

    Lambda developer guide, tenant isolation behind API Gateway: the integration sets X-Amz-Tenant-Id, so only
    the context tells who the tenant is.
    """

    @rig.once.api_gateway(name="report")
    def report(event: Any, context: Any) -> Any:
        return {"statusCode": 200, "body": json.dumps(context.tenant_id)}

    event = rest_api_event("POST", "/report", {"month": 11}, headers)
    first, second = (report(event, of("blue")) for _ in range(2))
    assert second["body"] == first["body"] == '"blue"'
    assert second["headers"]["Idempotent-Replayed"] == "true"
    (token,) = tokens(rig)
    assert token.startswith("shop/report/blue/POST:%2Freport")
    assert token.count("/") == 4


@pytest.mark.parametrize("row", SOURCES, ids=lambda row: row.name)
@in_memory
def test_a_record_is_the_tenants(rig: Rig, row: Row) -> None:
    """Of any source: Lambda maps none to such a function, but another one may pass its events on."""
    done: list[object] = []

    def work(record: Any) -> None:
        done.append(record)

    handler = getattr(rig.once, row.decorator)(name="work", scope=lambda _record: "eu")(work)
    event = row.build("a")
    for tenant in ("blue", "green"):
        with TENANCY.fresh():
            handler(event, of(tenant))
            handler(row.redelivered(event), of(tenant))
    assert len(done) == 2
    prefixes = [token.rpartition("/")[0] for token in tokens(rig)]
    assert prefixes == ["shop/work/blue/eu", "shop/work/green/eu"]


@pytest.mark.parametrize(
    ("tenant", "part"),
    [
        ("Acme Corp/eu:1", "Acme%20Corp%2Feu%3A1"),
        ("a=b+c@d_e.f-g", "a%3Db%2Bc%40d_e.f-g"),
        ("ä" * 40, "%C3%A4" * 40),
        ("x" * 255, "x" * 255),
        ("x" * 256, digest("x" * 256)),
        ("/" * 256, digest("/" * 256)),
        (digest("x"), digest(digest("x"))),
        ("..", ".."),
    ],
)
@in_memory
def test_the_tenants_part_is_encoded_like_any_other(rig: Rig, tenant: str, part: str) -> None:
    """Lambda takes up to 256 characters: beyond 255 encoded bytes it's the SHA-256 of the tenant alone."""
    handler_of(rig, "n", scope="orderId")(ORDER, of(tenant))
    assert tenant_part(tenant) == part
    assert tokens(rig) == [f"shop/n/{part}/5/5"]


class Mock:
    """Has every attribute, as MagicMock has; each is another such object, and can be called."""

    def __getattr__(self, name: str) -> Mock:
        if name.startswith("__"):
            raise AttributeError(name)
        return Mock()

    def __call__(self) -> Mock:
        return Mock()


@pytest.mark.parametrize("tenant", [None, "", 5, b"blue", True, SimpleNamespace(), Any, Mock()], ids=type)
@in_memory
def test_what_names_no_tenant_keeps_its_token(rig: Rig, tenant: Any) -> None:
    """Without TenancyConfig ``tenant_id`` is None, or not there; a test's mock has something else."""
    context = lambda_context(tenant_id=tenant)
    invoice = handler_of(rig, "invoice")
    for order, each in enumerate([context, None, SimpleNamespace(aws_request_id="r-1"), Mock()]):
        invoice({"orderId": order}, each)
    rig.once.function(name="charge", key="order_id")(lambda order_id, context: None)(5, Mock())
    assert tokens(rig) == ["shop/charge/5", *(f"shop/invoice/{order}" for order in range(4))]
    assert TENANCY.tenant is None


# ------------------------------------------------------------------ kept for the process


def charge_of(rig: Rig) -> Callable[..., Any]:
    """Return a protected function that gets no context."""

    @rig.once.function(name="charge", key="order_id")
    def charge(order_id: int) -> str:
        return "charged"

    return charge


@in_memory
def test_functions_and_blocks_in_a_tenants_invocation_are_the_tenants(rig: Rig) -> None:
    """Whether or not the developer passes the context on: nothing says that it is needed."""
    charge = charge_of(rig)

    @rig.once.event(name="order", key="orderId")
    def handler(event: Any) -> None:
        charge(5)
        rig.once.run("mail", 5, lambda: "sent")
        with rig.once.begin(5, name="book") as attempt:
            attempt.complete("booked")

    handler(ORDER, of("blue"))
    assert tokens(rig) == [f"shop/{name}/blue/5" for name in ("book", "charge", "mail", "order")]


@in_memory
def test_an_async_handlers_work_is_the_tenants(rig: Rig) -> None:
    """Tasks and threads of the loop, too."""
    charge = charge_of(rig)

    @rig.once.function(name="mail", key="order_id")
    async def mail(order_id: int) -> str:
        return "sent"

    @rig.once.event(name="order", key="orderId")
    async def handler(event: Any) -> None:
        await asyncio.gather(mail(5), mail(6), asyncio.to_thread(charge, 5))
        async with rig.once.begin(5, name="book"):
            pass

    handler(ORDER, of("blue"))
    assert tokens(rig) == [
        *("shop/book/blue/5", "shop/charge/blue/5", "shop/mail/blue/5", "shop/mail/blue/6"),
        "shop/order/blue/5",
    ]


@in_memory
def test_plain_threads_are_the_tenants(rig: Rig) -> None:
    """They inherit no context variables, during the invocation and after it."""
    charge = charge_of(rig)

    @rig.once.event(name="order", key="orderId")
    def handler(event: Any) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(charge, [5, 6]))

    handler(ORDER, of("blue"))
    later = threading.Thread(target=charge, args=[7])
    later.start()
    later.join()
    charge(8)
    assert tokens(rig) == [*(f"shop/charge/blue/{order}" for order in (5, 6, 7, 8)), "shop/order/blue/5"]


class Worker:
    def work(self, order_id: int, context: Any) -> None: ...


async def _work(order_id: int, context: Any) -> None: ...


def _in_block(rig: Rig, context: Any) -> None:
    with rig.once.invocation(context):
        rig.once.run("work", 5, lambda: None)


def _by(work: Callable[..., Any], call: Callable[[Any, Any], Any]) -> Callable[[Rig, Any], Any]:
    return lambda rig, context: call(rig.once.function(name="work", key="order_id")(work), context)


PASSED: dict[str, Callable[[Rig, Any], Any]] = {
    "by position": _by(lambda order_id, aws: None, lambda work, context: work(5, context)),
    "by name": _by(lambda order_id, context=None: None, lambda work, context: work(5, context=context)),
    "by Powertools' name": _by(
        lambda order_id, lambda_context: None, lambda work, context: work(5, lambda_context=context)
    ),
    "among others": _by(lambda order_id, **rest: None, lambda work, context: work(5, aws=context)),
    "in the rest": _by(lambda order_id, *rest: None, lambda work, context: work(5, "eu", context)),
    "to run": lambda rig, context: rig.once.run("work", 5, lambda context: None, context),
    "to a method": _by(Worker.work, lambda work, context: work(Worker(), 5, context)),
    "to async": _by(_work, lambda work, context: asyncio.run(work(5, context))),
    "to an invocation block": _in_block,
}


@pytest.mark.parametrize("call", PASSED.values(), ids=PASSED)
@in_memory
def test_a_context_among_the_arguments_names_the_tenant(rig: Rig, call: Callable[[Rig, Any], None]) -> None:
    """A plain handler hands its context on: whoever gets it is the tenant's, and so is all that follows."""
    call(rig, of("blue"))
    charge_of(rig)(5)
    assert tokens(rig) == ["shop/charge/blue/5", "shop/work/blue/5"]


@in_memory
def test_every_once_of_the_process_is_the_tenants(rig: Rig) -> None:
    """The environment serves the tenant, not one Once."""
    handler_of(rig, "order")(ORDER, of("blue"))
    other = Once(store=MemoryStore(), service="stock")
    with using(other) as store:
        other.run("ship", 5, lambda: None)
        assert [*store.acquisitions] == ["stock/ship/5"]  # `using` is an environment of its own
    kept = MemoryStore()
    Once(store=kept, service="stock").run("ship", 5, lambda: None)
    assert [*kept.records] == ["stock/ship/blue/5"]


# ------------------------------------------------------------------ a second tenant


def _event(rig: Rig, ran: list[str]) -> Callable[[Any], Any]:
    handler = handler_of(rig, "work", lambda _event: ran.append("ran"))
    return lambda context: handler({"orderId": len(ran)}, context)


def _async_event(rig: Rig, ran: list[str]) -> Callable[[Any], Any]:
    @rig.once.event(name="work", key="orderId")
    async def handler(event: Any) -> None:
        ran.append("ran")

    return lambda context: handler({"orderId": len(ran)}, context)


def _sqs(rig: Rig, ran: list[str]) -> Callable[[Any], Any]:
    @rig.once.sqs(raise_on_entire_batch_failure=False)
    def handler(record: Any) -> None:
        ran.append("ran")

    return lambda context: handler(sqs_event({"orderId": len(ran)}), context)


def _kinesis(rig: Rig, ran: list[str]) -> Callable[[Any], Any]:
    def parked(_record: Any, _error: Any) -> None:
        ran.append("parked")

    @rig.once.kinesis(on_give_up=parked, report_failures=True)
    def handler(record: Any) -> None:
        ran.append("ran")

    return lambda context: handler(kinesis_event({"orderId": len(ran)}), context)


def _api(rig: Rig, ran: list[str]) -> Callable[[Any], Any]:
    def respond(_event: Any) -> Any:
        ran.append("ran")
        return {"statusCode": 200}

    handler = rig.once.api_gateway(respond)
    return lambda context: handler(rest_api_event("POST", "/", {"n": len(ran)}), context)


def _route(rig: Rig, ran: list[str]) -> Callable[[Any], Any]:
    app = APIGatewayRestResolver()

    @app.post("/pay", middlewares=[rig.once.route()])
    def pay() -> Any:
        ran.append("ran")
        return {}

    return lambda context: app.resolve(rest_api_event("POST", "/pay", {"n": len(ran)}), context)


def _async_route(rig: Rig, ran: list[str]) -> Callable[[Any], Any]:
    app = APIGatewayRestResolver()

    @app.post("/pay", middlewares=[rig.once.route(async_resolver=True)])
    async def pay() -> Any:
        ran.append("ran")
        return {}

    return lambda context: asyncio.run(
        app.resolve_async(rest_api_event("POST", "/pay", {"n": len(ran)}), context)
    )


def _function(rig: Rig, ran: list[str]) -> Callable[[Any], Any]:
    @rig.once.function(name="work", key="n")
    def function(n: int, context: Any) -> None:
        ran.append("ran")

    return lambda context: function(len(ran), context)


def _async_function(rig: Rig, ran: list[str]) -> Callable[[Any], Any]:
    @rig.once.function(name="work", key="n")
    async def function(n: int, context: Any) -> None:
        ran.append("ran")

    return lambda context: asyncio.run(function(len(ran), context))


def _block(rig: Rig, ran: list[str]) -> Callable[[Any], Any]:
    def enter(context: Any) -> None:
        with rig.once.invocation(context):
            rig.once.run("work", len(ran), lambda: ran.append("ran"))

    return enter


DOORS = (
    *(_event, _async_event, _sqs, _kinesis, _api, _route, _async_route),
    *(_function, _async_function, _block),
)


@pytest.mark.parametrize("door", DOORS, ids=lambda each: each.__name__)
@in_memory
def test_a_second_tenant_in_one_process_is_misconfigured(
    rig: Rig, door: Callable[[Rig, list[str]], Callable[[Any], Any]]
) -> None:
    """
    Something else wrote the context, so no token can be right: nothing runs, nothing is parked or stored.

    It's the function that fails, which its Errors metric shows: no record goes back alone, and no client is
    told that its request was wrong. The first tenant's work goes on.
    """
    ran: list[str] = []
    call = door(rig, ran)
    call(of("blue"))
    before = tokens(rig)
    assert [token.split("/")[2] for token in before] == ["blue"]  # before any scope, as that of a request
    with pytest.raises(Misconfigured, match=SECOND) as raised:
        call(of("green"))
    assert (ran, tokens(rig)) == (["ran"], before)
    assert rig.events()[-1] == "once.misconfigured"
    assert "blue" not in str(raised.value)  # whoever invoked it for green would read it
    call(of("blue"))
    assert ran == ["ran", "ran"]


@in_memory
def test_a_second_tenant_within_an_invocation_is_misconfigured(rig: Rig) -> None:
    """A context that a handler has from elsewhere; its own work is not undone by that."""
    ran: list[str] = []
    function = _function(rig, ran)

    @rig.once.event(name="order", key="orderId")
    def handler(event: Any, context: Any) -> None:
        function(context)
        with pytest.raises(Misconfigured, match=SECOND):
            function(of("green"))

    handler(ORDER, of("blue"))
    assert ran == ["ran"]
    assert tokens(rig) == ["shop/order/blue/5", "shop/work/blue/0"]


@in_memory
def test_threads_that_begin_at_once_agree_on_one_tenant(rig: Rig) -> None:
    """Of many contexts that come at the same time one is the first; all others are refused."""
    invoice = handler_of(rig, "invoice")
    start = threading.Barrier(8)

    def call(n: int) -> bool:
        start.wait()
        try:
            invoice({"orderId": n}, of(f"tenant-{n}"))
        except Misconfigured:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(call, range(8))) == 1
    assert tokens(rig) == [f"shop/invoice/{TENANCY.tenant}/{str(TENANCY.tenant)[-1]}"]


# ------------------------------------------------------------------ LAMBDA_ONCE_DISABLED


@in_memory
def test_disabled_nothing_refuses_and_the_tenant_counts_all_the_same(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No two tenants' work shares a key for the next system, nor does a tenant's change."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    keys: list[str] = []

    @rig.new(history=history()).event(name="order", key="orderId")
    def handler(event: Any) -> None:
        keys.append(rig.once.current().downstream_key("charge"))

    for tenant in ("blue", "green", "green", "blue"):
        handler(ORDER, of(tenant))
    blue, green, again, as_before = keys
    assert (blue, green) == (as_before, again)
    assert blue != green
    assert rig.rows() == []


# ------------------------------------------------------------------ once.outcome


def billed(rig: Rig, tenant: str, result: object = "charged") -> None:
    """Let an environment of *tenant* charge the order 5."""
    with TENANCY.fresh():
        handler_of(rig, "charge", lambda _event: result)(ORDER, of(tenant))


@in_memory
def test_an_outcome_is_of_the_processs_tenant(rig: Rig) -> None:
    """A handler that is asked what became of an order answers its own tenant."""
    billed(rig, "blue")
    rig.once.run("charge", 5, lambda: "nobody's")
    assert rig.once.outcome(5, name="charge").result == "nobody's"

    @rig.once.event(name="ask", key="orderId")
    def ask(event: Any) -> Any:
        found = rig.once.outcome(event["orderId"], name="charge")
        return {"state": found.state, "token": found.token}

    assert ask(ORDER, of("blue")) == {"state": "complete", "token": "shop/charge/blue/5"}
    assert asyncio.run(rig.once.aoutcome(5, name="charge")).result == "charged"
    assert rig.once.outcome(6, name="charge").token == "shop/charge/blue/6"
    assert rig.once.outcome(5, scope="eu", name="charge").token == "shop/charge/blue/eu/5"


@in_memory
def test_an_outcome_of_a_given_tenant(rig: Rig) -> None:
    """A function of the operators, which has no tenant or another, names one."""
    for tenant in ("blue", "green"):
        billed(rig, tenant, f"charged for {tenant}")
    for own in (None, "red"):
        with TENANCY.fresh(), rig.once.invocation(of(own)):
            assert rig.once.outcome(5, name="charge").state == "unknown"
            assert rig.once.outcome(5, tenant="blue", name="charge").result == "charged for blue"
            green = rig.once.aoutcome(5, tenant="green", name="charge")
            assert asyncio.run(green).result == "charged for green"
            scoped = rig.once.outcome(5, tenant="blue", scope=["eu", "1"], name="charge")
            assert scoped.token == "shop/charge/blue/eu:1/5"


@pytest.mark.parametrize("tenant", ["", 5, ["blue"], b"blue"])
@in_memory
def test_a_tenant_that_is_no_text_is_misconfigured(rig: Rig, tenant: Any) -> None:
    """Or an empty one, which would ask about work of no tenant."""
    with pytest.raises(Misconfigured, match="tenant"):
        rig.once.outcome(5, tenant=tenant, name="charge")


ENVIRONMENT = """
import sys
from lambda_once import MemoryStore, Misconfigured, Once
from lambda_once.testing import lambda_context

once = Once(store=MemoryStore(), service="shop")
handler = once.event(lambda event: "done", name="charge", key="orderId")
before = once.outcome(5, name="charge").token
for tenant in sys.argv[1:]:
    try:
        handler({"orderId": 5}, lambda_context(tenant_id=tenant))
    except Misconfigured:
        print("refused", end=" ")
print(before, once.outcome(5, name="charge").token, *once._runtime.engine.store.records)
"""


def test_a_process_begins_without_a_tenant() -> None:
    """A real one."""
    command = [sys.executable, "-c", ENVIRONMENT, "blue", "green"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = ran.stdout.splitlines()[-1]
    assert printed == "refused shop/charge/5 shop/charge/blue/5 shop/charge/blue/5"


# ------------------------------------------------------------------ history=


def history() -> PowertoolsHistory:
    """Return Powertools' records, which nobody may ask here."""
    return PowertoolsHistory(DynamoDBPersistenceLayer("old"), config=IdempotencyConfig("orderId"))


@in_memory
def test_a_history_is_not_asked_for_a_tenant(rig: Rig) -> None:
    """Powertools' records have no tenant: another one's result could be replayed. Nothing runs."""
    ran: list[object] = []
    handler = rig.new(history=history()).event(name="invoice", key="orderId")(ran.append)
    with pytest.raises(Misconfigured, match="history= cannot be asked for a tenant"):
        handler(ORDER, of("blue"))
    assert (ran, rig.rows(), rig.events()) == ([], [], ["once.misconfigured"])


@in_memory
def test_an_outcome_asks_no_history_for_a_tenant(rig: Rig) -> None:
    """Of the process or given; without ``history=`` the token answers."""
    once = rig.new(history=history())
    with pytest.raises(Misconfigured, match="history= cannot be asked for a tenant"):
        once.outcome(5, tenant="blue", name="charge")
    with once.invocation(of("blue")), pytest.raises(Misconfigured, match="history= cannot"):
        once.outcome(5, name="charge")
    assert once.outcome(5, tenant="blue", name="charge", history=None).state == "unknown"
