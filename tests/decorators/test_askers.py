"""Who asks `once.event`, and for which operation, beside the event's content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.utilities.data_classes import AppSyncResolverEvent
from pydantic import BaseModel, ConfigDict, Field

from lambda_once import CallerMissing, KeyReused, MemoryStore, Misconfigured, Once, OtherCaller, role_of
from lambda_once.testing import eventbridge_event, lambda_context, s3_event, sqs_event

Json = dict[str, Any]
ROLE = "arn:aws:sts::123456789012:assumed-role/shop/"


def appsync(identity: Json | None = None, field: str = "pay", parent: str = "Mutation", **other: Any) -> Json:
    """Return an event of a direct resolver."""
    info = {"fieldName": field, "parentTypeName": parent, "variables": {}, "selectionSetList": ["id"]}
    return {
        "arguments": {"id": "o-1"},
        "identity": identity,
        "source": None,
        "prev": None,
        "stash": {},
        "request": {"headers": {"x-amzn-trace-id": "1"}},
        "info": info,
    } | other


def pool(sub: str) -> Json:
    """Return the identity of a user of a Cognito pool."""
    issuer = "https://cognito-idp.eu-central-1.amazonaws.com/p"
    return {"sub": sub, "issuer": issuer, "claims": {"sub": sub, "iss": issuer, "iat": 1}, "username": sub}


def socket(connection: str, route: str = "pay", **context: Any) -> Json:
    """Return a message of a WebSocket API."""
    given = {"connectionId": connection, "routeKey": route, "eventType": "MESSAGE", "requestId": "r"}
    return {"requestContext": given | context, "body": '{"id":"o-1"}', "isBase64Encoded": False}


def tool(name: str, gateway: str = "gw-1", request: str = "1", **other: Any) -> Any:
    """Return the context of a call by AgentCore's gateway."""
    of_gateway = {
        "bedrockAgentCoreToolName": name,
        "bedrockAgentCoreGatewayId": gateway,
        "bedrockAgentCoreTargetId": "t-1",
        "bedrockAgentCoreAwsRequestId": request,
        "bedrockAgentCoreMcpMessageId": request,
    }
    return lambda_context(client_context=of_gateway | other)


class Work:
    """A handler under `once.event`, and what it has run for."""

    def __init__(self, **options: Any) -> None:
        self.once = Once(store=MemoryStore(), service="shop")
        self.ran: list[Any] = []

        @self.once.event(name="pay", **options)
        def handler(event: Any) -> Any:
            self.ran.append(event)
            return {"n": len(self.ran)}

        self.handler = handler

    def ask(self, event: Any, context: Any = None) -> Any:
        return self.handler(event, context or lambda_context())


DIFFERENT: list[tuple[str, Any, Any]] = [
    ("users of a pool", appsync(pool("alice")), appsync(pool("bob"))),
    ("identities", appsync({"cognitoIdentityId": "a"}), appsync({"cognitoIdentityId": "b"})),
    ("roles", appsync({"userArn": f"{ROLE}s"}), appsync({"userArn": f"{ROLE.replace('shop', 'b')}s"})),
    ("fields", appsync(), appsync(field="refund")),
    ("types", appsync(), appsync(parent="Query")),
    ("batches", [appsync(pool("alice"))], [appsync(pool("bob"))]),
    (
        "principals",
        socket("1", authorizer={"principalId": "alice"}),
        socket("1", authorizer={"principalId": "bob"}),
    ),
    ("routes", socket("1"), socket("1", route="refund")),
]


@pytest.mark.parametrize(
    ("first", "second"), [row[1:] for row in DIFFERENT], ids=[row[0] for row in DIFFERENT]
)
def test_another_caller_or_operation_is_another_work(first: Any, second: Any) -> None:
    """None gets the other's result, under one key, too; each gets its own."""
    work = Work(key=lambda _: "o-1")
    answers = [work.ask(each) for each in (first, second)]
    assert answers == [{"n": 1}, {"n": 2}]
    assert [work.ask(each) for each in (first, second)] == answers


SAME: list[tuple[str, Json, Json]] = [
    ("a token refreshed", appsync(pool("a")), appsync(pool("a") | {"claims": {"sub": "a", "iat": 2}})),
    (
        "a selection",
        appsync(),
        appsync(info=appsync()["info"] | {"selectionSetList": [], "variables": {"a": 1}}),
    ),
    ("a stash", appsync(), appsync(stash={"a": 1}, request={"headers": {}})),
    (
        "a connection of one principal",
        socket("1", authorizer={"principalId": "alice"}),
        socket("2", authorizer={"principalId": "alice"}),
    ),
]


@pytest.mark.parametrize(("first", "second"), [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_what_is_stamped_anew_does_not_count(first: Json, second: Json) -> None:
    """Who asks and what for are the same."""
    work = Work(key=lambda _: "o-1")
    assert [work.ask(first), work.ask(second)] == [{"n": 1}, {"n": 1}]


FRESH: list[tuple[str, Json, Json]] = [
    ("a session", appsync({"userArn": f"{ROLE}1"}), appsync({"userArn": f"{ROLE}2"})),
    ("a context", appsync({"resolverContext": {"u": "1"}}), appsync({"resolverContext": {"u": "2"}})),
    ("a connection", socket("1"), socket("2")),
]


@pytest.mark.parametrize(("first", "second"), [row[1:] for row in FRESH], ids=[row[0] for row in FRESH])
def test_what_is_fresh_is_compared(first: Json, second: Json) -> None:
    """Never another's result, and never a second run of one key."""
    keyed = Work(key=lambda _: "o-1")
    assert keyed.ask(first) == {"n": 1}
    with pytest.raises(OtherCaller):
        keyed.ask(second)
    assert keyed.ask(first) == {"n": 1}
    assert len(keyed.ran) == 1


def test_sessions_of_one_role_share_by_role_of() -> None:
    """It names the role; who has none is refused."""
    work = Work(key=lambda _: "o-1", caller=role_of)
    assert [work.ask(appsync({"userArn": f"{ROLE}{n}"}))["n"] for n in (1, 2)] == [1, 1]
    with pytest.raises(CallerMissing):
        work.ask(appsync())


class Called(BaseModel):
    """A request that a parser made."""

    model_config = ConfigDict(extra="allow")
    arguments: Json
    info: Json
    identity: Json = Field(exclude=True)


@pytest.mark.parametrize(
    "form",
    [lambda event: [event], Called.model_validate, AppSyncResolverEvent],
    ids=["a batch", "a parser's model", "a data class"],
)
def test_role_of_reads_a_request_in_each_of_its_forms(form: Callable[[Json], Any]) -> None:
    """A batch has one caller, who names its first request; whatever holds it, it's who IAM has verified."""
    work = Work(key=lambda _: "o-1", caller=role_of)
    callers = (f"{ROLE}1", f"{ROLE}2", f"{ROLE.replace('shop', 'bank')}1")
    assert [work.ask(form(appsync({"userArn": arn})))["n"] for arn in callers] == [1, 1, 2]


def test_caller_replaces_what_the_source_says() -> None:
    """An expression sees the event; False ignores callers."""
    by_user = Work(key=lambda _: "o-1", caller="identity.resolverContext.u")
    first = appsync({"resolverContext": {"u": "a", "at": 1}})
    assert [by_user.ask(e)["n"] for e in (first, appsync({"resolverContext": {"u": "a", "at": 2}}))] == [1, 1]
    assert by_user.ask(appsync({"resolverContext": {"u": "b"}}))["n"] == 2
    anybody = Work(key=lambda _: "o-1", caller=False)
    assert [anybody.ask(socket(each))["n"] for each in "12"] == [1, 1]


def test_a_request_that_names_nobody_is_refused_where_that_is_asked_for() -> None:
    """By `unscoped="refuse"`; a direct invocation has nobody to name."""
    work = Work(unscoped="refuse", key=lambda event: event.get("orderId", "o-1"))
    with pytest.raises(CallerMissing):
        work.ask(appsync())
    assert work.ask(appsync(pool("alice"))) == {"n": 1}
    assert work.ask({"orderId": 5}) == {"n": 2}  # a direct invocation asks for nobody


def test_a_tool_of_a_gateway_is_an_operation() -> None:
    """`cancel_order` isn't answered with `get_order`'s result; what the gateway stamps doesn't count."""
    work = Work()
    event = {"orderId": 5}
    names = ("orders___get", "orders___cancel", "orders___get")
    assert [work.ask(event, tool(name, request=str(n)))["n"] for n, name in enumerate(names)] == [1, 2, 1]
    assert work.ask(event, tool("orders___get", custom="x"))["n"] == 3
    assert work.ask(event, tool("orders___get", gateway="gw-2"))["n"] == 4


def test_another_gateway_under_one_key_is_key_reused() -> None:
    """Another tool is another work."""
    work = Work(key="orderId")
    work.ask({"orderId": 5}, tool("orders___pay"))
    with pytest.raises(KeyReused, match="origin"):
        work.ask({"orderId": 5}, tool("orders___pay", gateway="gw-2"))
    assert work.ask({"orderId": 5}, tool("orders___cancel")) == {"n": 2}


def test_a_direct_call_counts_by_cognitos_identity() -> None:
    """The mobile SDKs send it in the context."""
    work = Work(key="orderId")
    who = [lambda_context(identity=each) for each in ("a", "b", "a")]
    assert [work.ask({"orderId": 5}, each)["n"] for each in who] == [1, 2, 1]


@pytest.mark.parametrize("through", [lambda event: event, None], ids=["directly", "through a queue"])
def test_another_detail_type_is_another_work_under_one_key(through: Any) -> None:
    """Also where a queue carries the event."""
    once, ran = Once(store=MemoryStore(), service="shop"), list[str]()
    placed, paid = (eventbridge_event({"id": "o-1"}, detail_type=each) for each in ("Placed", "Paid"))
    if through is None:

        @once.sqs(name="pay", key="id")
        def of_queue(_: Any) -> None:
            ran.append(once.current().token)

        for event in (placed, paid, placed):
            of_queue(sqs_event(event), lambda_context())
    else:

        @once.event(name="pay", key="detail.id")
        def of_bus(_: Any) -> None:
            ran.append(once.current().token)

        for event in (placed, paid, placed):
            of_bus(event, lambda_context())
    assert ran == [f"shop/pay/{placed['source']}:{each}/o-1" for each in ("Placed", "Paid")]


def test_an_outcome_is_asked_for_with_the_operation() -> None:
    """Without it the key is another one: an error, never "not done"."""
    once = Once(store=MemoryStore(), service="shop")
    assert once.outcome("o-1", name="pay").state == "unknown"  # nothing of that name has run here

    @once.event(name="pay", key="detail.id")
    def handler(_: Any) -> str:
        return "paid"

    event = eventbridge_event({"id": "o-1"})
    handler(event, lambda_context())
    assert once.outcome("o-1", name="pay", scope=[event["source"], event["detail-type"]]).result == "paid"
    with pytest.raises(Misconfigured, match="scope="):
        once.outcome("o-1", name="pay")


def _handler(once: Once) -> None:
    once.api_gateway(name="pay")(lambda _: {"statusCode": 200})


def _route(once: Once) -> None:
    APIGatewayRestResolver().post("/pay", middlewares=[once.route(name="pay")])(dict)


def _scoped(once: Once) -> None:
    once.sqs(name="pay", key="id", scope="eventSourceARN")(lambda _: None)


@pytest.mark.parametrize("decorate", [_handler, _route, _scoped])
def test_an_outcome_of_work_whose_tokens_have_a_scope_needs_it(decorate: Callable[[Once], object]) -> None:
    """Method and path of a request, or the work's own scope: known before there was any work."""
    once = Once(store=MemoryStore(), service="shop")
    decorate(once)
    with pytest.raises(Misconfigured, match="scope="):
        once.outcome("o-1", name="pay")
    assert once.outcome("o-1", name="pay", scope="other").state == "unknown"


def test_an_outcome_of_a_function_with_a_scope_needs_it() -> None:
    """The token is not without it; a block of the name that has none is asked for without one."""
    once = Once(store=MemoryStore(), service="shop")

    @once.function(name="pay", key="order", scope="shop")
    def pay(order: str, shop: str) -> str:
        return f"paid {order} at {shop}"

    pay("o-1", "a")
    assert once.outcome("o-1", name="pay", scope="a").result == "paid o-1 at a"
    with pytest.raises(Misconfigured, match="what the work's scope= selects"):
        once.outcome("o-1", name="pay")
    with once.begin("o-1", name="pay") as attempt:
        attempt.complete("by hand")
    assert once.outcome("o-1", name="pay").result == "by hand"


def test_an_outcome_of_work_by_caller_is_never_unknown() -> None:
    """No key and scope are those of its token: an error, whatever the scope. Without a caller, an answer."""
    once, other = (Once(store=MemoryStore(), service="shop") for _ in range(2))

    def pay(_: Any) -> str:
        return "paid"

    once.event(name="pay", key="arguments.id")(pay)(appsync(), lambda_context())
    assert once.outcome("o-1", name="pay", scope="Mutation.pay").result == "paid"
    once.event(name="refund", key="id", caller="user")(pay)
    other.event(name="pay", key="arguments.id")(pay)(appsync(pool("alice")), lambda_context())
    for asked, name in ((once, "refund"), (other, "pay")):
        with pytest.raises(Misconfigured, match="contain their caller"):
            asked.outcome("o-1", name=name, scope="Mutation.pay")


def test_who_is_missing_is_reported_and_runs_where_nothing_is_protected(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A line says why nothing ran; under LAMBDA_ONCE_DISABLED everything runs."""
    work = Work(unscoped="refuse", key=lambda _: "o-1")
    with pytest.raises(CallerMissing):
        work.ask(appsync())
    assert [each.message for each in caplog.records].count("once.caller_missing") == 1
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    assert [work.ask(appsync())["n"] for _ in range(2)] == [1, 2]


def test_caller_counts_for_an_event_of_a_bus() -> None:
    """Though EventBridge itself names nobody."""
    work = Work(caller="detail.user")
    asked = [eventbridge_event({"id": "o-1", "user": each}) for each in ("a", "b", "a")]
    assert [work.ask(each)["n"] for each in asked] == [1, 2, 1]
    assert work.ask(asked[0], lambda_context(client_context={"by": "hand"})) == {"n": 1}


@pytest.mark.parametrize("options", [{}, {"key": lambda _: "o-1"}], ids=["hash", "key"])
@pytest.mark.parametrize(
    ("first", "second"), [(appsync(), appsync(field="refund")), (socket("1"), socket("1", route="refund"))]
)
def test_another_operation_counts_in_an_argument_and_a_payload(
    first: Json, second: Json, options: Any
) -> None:
    """Their tokens have no scope, so it's content: no refund is answered with the payment's result."""
    once, ran = Once(store=MemoryStore(), service="shop"), list[Any]()

    @once.function(name="pay", **options)
    def pay(event: Json) -> int:
        ran.append(event)
        return len(ran)

    assert [pay(first), pay(first)] == [1, 1]
    if options:
        with pytest.raises(KeyReused, match=r"event\.(info|requestContext)"):
            pay(second)
    else:
        assert [pay(second), pay(second)] == [2, 2]
    with once.begin("o-1", name="block", payload=first):
        pass
    with pytest.raises(KeyReused), once.begin("o-1", name="block", payload=second):
        pass


def test_caller_counts_for_a_record_of_s3() -> None:
    """Though S3 itself names nobody; who is missing is refused."""
    work = Work(caller=lambda event: event["Records"][0].get("owner"))

    def put(owner: str | None) -> Json:
        event = s3_event("receipt", sequencer="1")
        event["Records"][0]["owner"] = owner
        return event

    assert [work.ask(put(each))["n"] for each in "aba"] == [1, 2, 1]
    two = {"Records": [*put(None)["Records"], *put("c")["Records"]]}
    with pytest.raises(CallerMissing):
        work.ask(two)
    assert len(work.ran) == 3  # the record beside it ran
