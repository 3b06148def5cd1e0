"""A stored response goes to the caller that it was made for, and to no other."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from lambda_once import Misconfigured, Once, OtherCaller, role_of
from lambda_once.core.identity import Presented
from lambda_once.core.lifecycle import State
from lambda_once.core.results import Inline
from tests.decorators.http_doors import handled, routed
from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import AUTHORIZERS, Json, alb, http, rest
from tests.sources.test_caller import (
    ALICE,
    ARN,
    BOB,
    URL,
    basic,
    jwt,
    oidc,
    rest_by,
    sent,
    with_certificate,
)

KEY = "idempotency-key"
OTHER = "urn:lambda-once:other-credentials"


class Till:
    """A handler that answers each caller by what they sent, as one that checks credentials itself does."""

    def __init__(self, rig: Rig, **options: Any) -> None:
        self.ran: list[str] = []
        self.rig = rig

        @rig.once.api_gateway(**options)
        def handler(event: Json, context: object) -> Json:
            who = event["headers"].get("authorization")
            self.ran.append(str(who))
            if who is None and "cookies" not in event:
                return {"statusCode": 401, "body": "who are you?"}
            return {"statusCode": 201, "body": f"order {len(self.ran)} for {who}"}

        self.handler = handler

    def ask(self, event: Json) -> Any:
        """Send one request, in an invocation of its own."""
        return self.handler(event, self.rig.context(f"request-{len(self.ran)}"))


def keyed(authorization: str | None, key: str = "1", **headers: str) -> Json:
    """A request under an Idempotency-Key."""
    event = sent(authorization, **headers)
    event["headers"][KEY] = key
    return event


def problem(answer: Any) -> Any:
    """The status and type of an answer that is a problem."""
    return answer["statusCode"], json.loads(answer["body"])["type"]


def is_replay(answer: Any) -> bool:
    """Whether *answer* was stored."""
    return "Idempotent-Replayed" in answer.get("headers", {})


FORGED = f"Bearer {jwt(ALICE, {'alg': 'none'}, '')}"
RUNS, REPLAYED, REFUSED = "runs", "replayed", "refused"


def verified(**headers: str) -> Json:
    """A request that an authorizer of JWTs has let pass."""
    return http(headers={KEY: "1", **headers}, authorizer={"jwt": {"claims": ALICE}})


def by_jwt(tenant: str) -> Json:
    """A request of Alice, whose JWT names one of her tenants, to that tenant's domain."""
    claims = {"jwt": {"claims": ALICE | {"org_id": tenant}}}
    return http(headers={KEY: "1", "authorization": "a"}, authorizer=claims, domain=f"{tenant}.example.com")


def by_cognito(tenant: str) -> Json:
    """The same through a REST API with a Cognito authorizer."""
    claims = {"claims": ALICE | {"custom:tenant": tenant}}
    return rest_by(claims, headers={KEY: ["1"], "authorization": ["a"]})


def refreshed(exp: int) -> str:
    """One of Alice's tokens."""
    return f"Bearer {jwt(ALICE | {'exp': exp})}"


def by_rest(authorizer: Json | None = None, **identity: str) -> Json:
    """A request through a REST API under a key."""
    return rest_by(authorizer, headers={KEY: ["1"]}, **identity)


USER = "arn:aws:iam::123456789012:user/"


def by_url(arn: str) -> Json:
    """A request that a Function URL has let pass by IAM."""
    return http(headers={KEY: "1"}, domain=URL, authorizer={"iam": {"userArn": arn}})


def authorized(authorizer: Any = None, **headers: str) -> Json:
    """A request that a Lambda authorizer has let pass."""
    return http(headers={KEY: "1", **headers}, authorizer={"lambda": authorizer})


def balanced(subject: str) -> Json:
    """A request through a load balancer that verifies certificates."""
    name = {"x-amzn-mtls-clientcert-issuer": "CN=ca", "x-amzn-mtls-clientcert-subject": subject}
    event = alb(idempotency_key="1")
    return {**event, "headers": {**event["headers"], **name}}


API = {"principalId": "api-caller"}
"""What an authorizer returns for everybody."""
OPEN = {"store_status": (401,)}
"""The handler's answer is stored, whoever asks."""

SECOND: list[tuple[str, Json, Json, dict[str, Any], str]] = [
    # Without an Idempotency-Key what names the caller is a part of what is hashed.
    ("opaque, no key", sent("Bearer alice"), sent("Bearer bob"), {}, RUNS),
    ("JWT, no key", sent(f"Bearer {jwt(ALICE)}"), sent(f"Bearer {jwt(BOB)}"), {}, RUNS),
    ("Basic", sent(f"Basic {basic('alice', 'a')}"), sent(f"Basic {basic('bob', 'b')}"), {}, RUNS),
    ("API key", sent(x_api_key="alice"), sent(x_api_key="bob"), {"store_status": (401,)}, RUNS),
    ("cookies", http(cookies=["session=alice"]), http(cookies=["session=bob"]), {}, RUNS),
    (
        "scope= does not replace the caller",
        sent("Bearer alice", x_tenant="acme"),
        sent("Bearer bob", x_tenant="acme"),
        {"scope": 'headers."x-tenant"'},
        RUNS,
    ),
    # Under one key, an unverified name chooses the token, and the credential has to be the same.
    ("opaque", keyed("Bearer alice"), keyed("Bearer bob"), {}, REFUSED),
    ("none", keyed("Bearer alice"), keyed(None), {}, REFUSED),
    ("another kind", keyed("Bearer alice"), keyed(FORGED), {}, RUNS),
    ("forged", keyed(f"Bearer {jwt(ALICE)}"), keyed(FORGED), {}, REFUSED),
    ("forged, no key", sent(f"Bearer {jwt(ALICE)}"), sent(FORGED), {}, REFUSED),
    ("refreshed, unverified", keyed(refreshed(1)), keyed(refreshed(2)), {}, REFUSED),
    ("one weak key", keyed(f"Bearer {jwt(ALICE)}"), keyed(f"Bearer {jwt(BOB)}"), {}, RUNS),
    ("cached", keyed("Bearer alice"), keyed("Bearer bob"), {"cache": 10}, REFUSED),
    # A verified caller is the name, whatever the token; an unverified one never is.
    (
        "refreshed, verified",
        verified(authorization=refreshed(1)),
        verified(authorization=refreshed(2)),
        {},
        REPLAYED,
    ),
    # A user who acts for two tenants is one caller, unless scope= tells the tenants apart.
    ("tenants", by_jwt("acme"), by_jwt("initech"), {}, REPLAYED),
    ("tenants of Cognito", by_cognito("acme"), by_cognito("initech"), {}, REPLAYED),
    *(
        ("tenants by scope=", first("acme"), first("initech"), {"scope": scope}, RUNS)
        for first, scope in (
            (by_jwt, "requestContext.authorizer.jwt.claims.org_id"),
            (by_jwt, "requestContext.domainName"),
            (by_cognito, 'requestContext.authorizer.claims."custom:tenant"'),
        )
    ),
    ("one API is open", verified(authorization="a"), keyed(f"Bearer {jwt(ALICE)}"), {}, RUNS),
    ("verified, nobody", verified(), keyed(None), OPEN, RUNS),
    ("Cognito", by_rest({"claims": ALICE}), by_rest({"claims": BOB}), OPEN, RUNS),
    ("Cognito, nobody", by_rest({"claims": ALICE}), by_rest(), OPEN, RUNS),
    ("IAM, another session of the role", by_rest(userArn=ARN), by_rest(userArn=f"{ARN}-2"), OPEN, REFUSED),
    (
        "IAM, role_of",
        by_rest(userArn=ARN),
        by_rest(userArn=f"{ARN}-2"),
        OPEN | {"caller": role_of},
        REPLAYED,
    ),
    ("IAM, users", by_rest(userArn=f"{USER}a"), by_rest(userArn=f"{USER}b"), OPEN, RUNS),
    ("IAM, nobody", by_rest(userArn=ARN), by_rest(), OPEN, RUNS),
    ("Function URL, IAM", by_url(ARN), by_url(f"{ARN}-2"), OPEN, REFUSED),
    ("Function URL, IAM users", by_url(f"{USER}a"), by_url(f"{USER}b"), OPEN, RUNS),
    ("principal", authorized({"principalId": "u-1"}), authorized({"principalId": "u-2"}), OPEN, RUNS),
    ("principal, nobody", authorized({"principalId": "u-1"}), keyed(None), OPEN, RUNS),
    (
        "principal, refreshed opaque token",
        authorized({"principalId": "u-1"}, authorization="Bearer 1"),
        authorized({"principalId": "u-1"}, authorization="Bearer 2"),
        {},
        REFUSED,
    ),
    *(
        (f"constant principal, {name}", authorized(API, **first), authorized(API, **second), OPEN, REFUSED)
        for name, first, second in (
            ("left out", {"authorization": "Bearer 1"}, {}),
            ("left empty", {"authorization": "Bearer 1"}, {"authorization": "Bearer "}),
            ("none at first", {}, {"authorization": "Bearer 1"}),
            ("API key left out", {"x-api-key": "a"}, {}),
            ("another API key", {"x-api-key": "a"}, {"x-api-key": "b"}),
        )
    ),
    ("constant principal, JWT left out", authorized(API, authorization=FORGED), authorized(API), OPEN, RUNS),
    ("constant principal, nothing twice", authorized(API), authorized(API), OPEN, REPLAYED),
    # An application joins, and names no user; a load balancer's headers of certificates are believed.
    (
        "certificate, renewed",
        with_certificate(keyed(None)),
        with_certificate(keyed(None), "2"),
        OPEN,
        REPLAYED,
    ),
    ("certificate, none", with_certificate(keyed(None)), keyed(None), OPEN, RUNS),
    ("load balancer's certificate", balanced("CN=shop"), balanced("CN=shop"), OPEN, REPLAYED),
    ("load balancer's certificate, another", balanced("CN=shop"), balanced("CN=till"), OPEN, RUNS),
    ("load balancer's certificate, none", balanced("CN=shop"), alb(idempotency_key="1"), OPEN, RUNS),
    ("x-api-key", keyed(None, x_api_key="a"), keyed(None, x_api_key="a"), OPEN, REPLAYED),
    ("x-api-key, another", keyed(None, x_api_key="a"), keyed(None, x_api_key="b"), OPEN, REFUSED),
    ("x-api-key, none", keyed(None, x_api_key="a"), keyed(None), OPEN, REFUSED),
    (
        "another password",
        keyed(f"Basic {basic('alice', 'a')}"),
        keyed(f"Basic {basic('alice', 'b')}"),
        {},
        REFUSED,
    ),
    # Under a key cookies count for nothing, and whoever sends nothing is everybody.
    (
        "cookies under a key",
        http(headers={KEY: "1"}, cookies=["session=alice"]),
        http(headers={KEY: "1"}, cookies=["session=bob"]),
        {},
        REPLAYED,
    ),
    ("nothing", keyed(None), keyed(None), OPEN, REPLAYED),
    ("caller=False", keyed("Bearer alice"), keyed("Bearer bob"), {"caller": False}, REPLAYED),
]


@pytest.mark.parametrize(
    ("first", "second", "options", "outcome"), [row[1:] for row in SECOND], ids=[row[0] for row in SECOND]
)
def test_a_second_request_by_its_caller(
    rig: Rig, first: Json, second: Json, options: Any, outcome: str
) -> None:
    """It runs, gets the response of the first, or is refused; the first caller gets its own all the same."""
    till = Till(rig, **options)
    body = till.ask(first)["body"]
    answer = till.ask(second)
    assert len(till.ran) == (2 if outcome is RUNS else 1)
    assert is_replay(answer) is (outcome is REPLAYED)
    if outcome is REFUSED:
        assert problem(answer) == (422, OTHER)
    again = till.ask(first)
    assert (again["body"], is_replay(again)) == (body, True)


# ------------------------------------------------------------------ any mixture of credentials

AUTHORIZATIONS: dict[str, Callable[[str], str | None]] = {
    "none": lambda _: None,
    "JWT": lambda who: f"Bearer {jwt(ALICE | {'sub': who})}",
    "opaque": lambda who: f"Bearer {who}",
    "Basic": lambda who: f"Basic {basic(who, who)}",
}
GATEWAYS: dict[str, Callable[[str], Any]] = {
    "open": lambda _: {},
    "Cognito": lambda who: {"authorizer": {"claims": ALICE | {"sub": who}}},
    "IAM": lambda who: {"userArn": who},
    "principal": lambda who: {"authorizer": {"principalId": who}},
    "constant": lambda _: {"authorizer": {"principalId": "user"}},
}
APPLICATIONS = ("none", "x-api-key", "apiKeyId", "clientCert")


def mixed(who: str, authorization: str, gateway: str, application: str, key: str | None) -> Json:
    """A request of *who*, whose application others have, too."""
    texts = {
        KEY: key,
        "authorization": AUTHORIZATIONS[authorization](who),
        "x-api-key": "k" if application == "x-api-key" else None,
    }
    identity = {"apiKeyId": "k"} if application == "apiKeyId" else {}
    headers = {name: [text] for name, text in texts.items() if text}
    event = rest_by(headers=headers, **GATEWAYS[gateway](who), **identity)
    return with_certificate(event) if application == "clientCert" else event


@in_memory
@pytest.mark.parametrize("with_key", [True, False])
def test_whoever_is_named_shares_nothing(rig: Rig, *, with_key: bool) -> None:
    """Whatever credentials come together: if one is a user's, another user gets no response of theirs."""
    till = Till(rig, store_status=(401,))
    found, expected = {}, {}
    for n, mixture in enumerate(product(AUTHORIZATIONS, GATEWAYS, APPLICATIONS)):
        first, other = (
            {**mixed(who, *mixture, str(n) if with_key else None), "body": f'{{"orderId": {n}}}'}
            for who in ("alice", "bob")
        )
        till.ask(first)
        found[mixture] = is_replay(till.ask(first)), is_replay(till.ask(other))
        authorization, gateway, _ = mixture
        unproven = authorization == "none" and gateway == "constant"
        expected[mixture] = not unproven, authorization == "none" and gateway == "open"
    assert found == expected


@in_memory
@pytest.mark.parametrize("fingerprint", [None, False, "orderId"])
def test_other_credentials_come_before_another_payload(rig: Rig, fingerprint: Any) -> None:
    """They are compared whatever fingerprint= says, and first."""
    till = Till(rig, fingerprint=fingerprint)
    till.ask(keyed("Bearer alice"))
    assert problem(till.ask(keyed("Bearer bob") | {"body": '{"orderId": 6}'})) == (422, OTHER)


def test_in_progress_held_and_lapsed_tokens_are_their_callers_too(rig: Rig) -> None:
    """No state of the row lets another caller in, and its own caller takes over what lapsed."""
    till = Till(rig)
    with rig.crash():
        till.ask(keyed("Bearer alice"))
    assert rig.states() == [State.IN_PROGRESS]
    assert problem(till.ask(keyed("Bearer bob"))) == (422, OTHER)
    rig.clock.advance(60)
    assert problem(till.ask(keyed("Bearer bob"))) == (422, OTHER)
    assert till.ask(keyed("Bearer alice"))["statusCode"] == 201
    assert till.ran == ["Bearer alice", "Bearer alice"]
    assert "once.taken_over" in rig.events()
    assert problem(till.ask(keyed("Bearer bob"))) == (422, OTHER)


def test_what_was_released_is_anybodys(rig: Rig) -> None:
    """Nothing was done under the key: the next request runs, its handler checks, and it is theirs."""
    till = Till(rig)
    assert till.ask(keyed(None))["statusCode"] == 401
    assert till.ask(keyed("Bearer bob"))["statusCode"] == 201
    assert problem(till.ask(keyed("Bearer alice"))) == (422, OTHER)


def test_a_row_without_a_caller_is_not_compared(rig: Rig) -> None:
    """A request that was answered without a credential is for all."""
    Till(rig, caller=False, name="till").ask(keyed("Bearer alice"))
    assert rig.row().caller is None
    assert is_replay(Till(rig, name="till").ask(keyed("Bearer bob")))


@in_memory
def test_a_fenced_attempt_gets_no_other_callers_outcome(rig: Rig) -> None:
    """A late attempt meets its successor: of another caller it learns nothing but that it lost the token."""

    @rig.once.api_gateway(name="till")
    def slow(event: Json) -> Json:
        # Meanwhile its lease runs out, a person gives the token back, and bob's request runs.
        store: Any = rig.store.sound
        seen = store.records[rig.row().token]
        store.records[seen.token] = seen._replace(
            state=State.COMPLETE,
            attempt_id="b",
            caller=Presented("bob").mark("b"),
            stored=Inline('"bob\'s"'),
        )
        return {"statusCode": 201, "body": "alice's"}

    assert problem(slow(keyed("Bearer alice"), rig.context())) == (409, "urn:lambda-once:retry-later")


# ------------------------------------------------------------------ caller=


@in_memory
def test_a_cookie_may_name_the_caller(rig: Rig) -> None:
    """caller= sees cookies by name, of payload 2.0 and of headers; the rest of them may change."""
    till = Till(rig, caller="cookies.session")
    v2 = [http(cookies=[f"session={who}", f"csrf={n}"]) for n, who in enumerate(["a", "a", "b"])]
    v1 = rest(headers={"Cookie": ["csrf=9; session=a"], "authorization": ["x"]})
    for event in (*v2, v1):
        till.ask(event)
    assert len(till.ran) == 2
    assert till.ask(http(cookies=["csrf=1"]))["statusCode"] == 400


@in_memory
@pytest.mark.parametrize(
    "caller",
    ['headers."X-User"', "requestContext.authorizer.lambda.user", lambda event: event["headers"]["x-user"]],
)
def test_caller_replaces_the_reading(rig: Rig, caller: Any) -> None:
    """What it selects joins the token, and nothing else is read or compared."""
    till = Till(rig, caller=caller)

    def by(user: str, authorization: str) -> Json:
        headers = {KEY: "1", "x-user": user, "authorization": authorization}
        return http(headers=headers, authorizer={"lambda": {"principalId": "p", "user": user}})

    till.ask(by("alice", "Bearer 1"))
    assert is_replay(till.ask(by("alice", "Bearer 2")))
    assert not is_replay(till.ask(by("bob", "Bearer 1")))
    assert rig.rows()[0].caller is None
    assert "alice" not in rig.rows()[0].token


INVISIBLE = [
    "",
    " ",
    "\t\n",
    "\u00a0\u2003",
    "\u200b",
    "\ufeff\u200d\u2060",
    "\x00\x1b",
    "\u3164\u115f",
    "\ufe0f",
]
NO_NAMES: list[Any] = [None, False, float("nan"), Decimal("NaN"), b"", b" \x00", [], {}, *INVISIBLE]
NAMES: list[Any] = [
    0,
    0.0,
    True,
    "0",
    "false",
    "\u200balice",
    "é",
    "李",
    "🙂",
    b"\xff",
    Decimal(0),
    float("inf"),
]


@in_memory
@pytest.mark.parametrize("found", NO_NAMES, ids=repr)
def test_what_names_nobody_is_a_missing_caller(rig: Rig, found: Any) -> None:
    """
    Callers whose value is lost on the way would be one; the client gets 400, and nothing runs.

    Each part of a list names somebody; a value of a dict may be missing, as one of a user who has no tenant.
    """
    nobody: list[Any] = [found, [found], {"id": found, "tenant": found}, ("acme", found)]
    for n, caller in enumerate(nobody):
        till = Till(rig, caller=lambda _event, caller=caller: caller, name=f"{n}")
        assert problem(till.ask(keyed("Bearer a"))) == (400, "urn:lambda-once:caller-missing")
        assert till.ran == []
    by_names = Till(rig, caller=lambda _event: {"tenant": "acme", "x": found}, name="n")
    assert by_names.ask(keyed("Bearer a"))["statusCode"] == 201


@in_memory
@pytest.mark.parametrize("found", NAMES, ids=repr)
def test_what_is_somebody_is_a_caller(rig: Rig, found: Any) -> None:
    """0 is a number of a user, and a name may be of any letters, with what is invisible between them."""
    till = Till(rig, caller=lambda _event: found)
    assert till.ask(keyed("Bearer a"))["statusCode"] == 201
    assert is_replay(till.ask(keyed("Bearer a")))


@in_memory
@pytest.mark.parametrize(
    ("selector", "user", "answers"),
    [
        *(("user", user, 400) for user in ("", " ", "\u200b", False, None, [""], [None, " "])),
        *(("user", user, 201) for user in (0, "0", ["a", " "], [0])),
        *(("[tenant, user]", user, 400) for user in ("\u200b", False, None)),
        *(("[tenant, user]", user, 201) for user in (0, "0", ["a", " "])),
        *(("{t: tenant, u: user}", None, 400),),
        *(("{u: user}", user, 400) for user in (None, " ", False)),
    ],
)
def test_an_expression_that_selects_nobody_is_a_missing_caller(
    rig: Rig, selector: str, user: Any, answers: int
) -> None:
    """A part of a multi-select is a part of the name; a list that the gateway wrote is a value."""
    till = Till(rig, caller=f"requestContext.authorizer.lambda.{selector}")
    assert till.ask(authorized({"user": user, "tenant": "acme"}, authorization="a"))["statusCode"] == answers


@in_memory
def test_a_caller_that_fails_is_the_developers(rig: Rig) -> None:
    """A callable that raises is Misconfigured and rings; nothing runs."""
    till = Till(rig, caller=lambda event: event["nothing"])
    with pytest.raises(Misconfigured):
        till.ask(keyed("Bearer a"))
    assert till.ran == []


@pytest.mark.parametrize("caller", [True, 5, "a b", ""])
def test_a_caller_that_cannot_be_meant_is_refused(caller: Any) -> None:
    """When decorated."""
    with pytest.raises(Misconfigured):
        Once(service="shop").api_gateway(caller=caller)


@in_memory
def test_two_credentials_are_a_bad_request(rig: Rig) -> None:
    """Handlers differ in which they read, so none is asked."""
    till = Till(rig)
    answer = till.ask(keyed("Bearer alice, Bearer bob"))
    assert problem(answer) == (400, "urn:lambda-once:bad-request")
    assert "Authorization" in answer["body"]
    assert "alice" not in answer["body"]
    assert till.ran == []


# ------------------------------------------------------------------ where nothing proves the caller


UNPROVEN: list[tuple[str, Json, Json, str]] = [
    (
        "load balancer",
        alb(x_amzn_oidc_data=oidc(), idempotency_key="1"),
        alb(x_amzn_oidc_data=oidc(exp=2), idempotency_key="1"),
        "verifies its signature as caller=: docs/api.md",
    ),
    (
        "HTTP API",
        authorized({"tenant": "s3cret", "userId": "s3cret"}),
        authorized({"tenant": "s3cret", "userId": "other"}),
        'its context has tenant, userId. .*caller="requestContext.authorizer.lambda.userId"',
    ),
    (
        "REST API",
        rest_by({"principalId": "user", "email": "s3cret"}, headers={KEY: ["1"]}),
        rest_by({"principalId": "user", "email": "other"}, headers={KEY: ["1"]}),
        'its context has email. .*caller="requestContext.authorizer.email"',
    ),
]
unproven = pytest.mark.parametrize(
    ("first", "again", "advice"), [row[1:] for row in UNPROVEN], ids=[row[0] for row in UNPROVEN]
)


@unproven
def test_a_first_request_runs_and_a_duplicate_is_refused(
    rig: Rig, capsys: pytest.CaptureFixture[str], first: Json, again: Json, advice: str
) -> None:
    """Closed on replays, never on first requests; what to copy is in the log before the first duplicate."""
    till = Till(rig, cache=10)
    assert till.ask(first)["statusCode"] == 401  # released: the handler saw no caller
    assert till.ran == ["None"]
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "once.unscoped" in each]
    assert re.search(f"a response cannot be replayed: .*{advice}", json.loads(line)["reason"])
    assert "s3cret" not in line
    till = Till(rig, name="open", store_status=(401,))
    assert "who are you?" in till.ask(first)["body"]
    for event in (first, again):
        assert problem(till.ask(event)) == (422, OTHER)
    assert till.ran == ["None"]
    assert "once.unscoped" not in capsys.readouterr().out
    lines = [details for details in rig.reported if details.event.value == "once.refused"]
    assert len(lines) == 2
    for details in lines:
        assert details.error == "OtherCaller"
        assert re.search(f"cannot be replayed: .*{advice}", str(details.reason))
        assert "s3cret" not in str(details)


@unproven
def test_a_retry_after_a_crash_runs(rig: Rig, first: Json, again: Json, advice: str) -> None:
    """A lapsed token has no outcome: the retry runs, and its handler checks the caller."""
    del advice
    till = Till(rig, store_status=(401,))
    with rig.crash():
        till.ask(first)
    assert problem(till.ask(again)) == (409, "urn:lambda-once:in-progress")
    rig.clock.advance(60)
    till.ask(again)
    assert len(till.ran) == 2
    assert problem(till.ask(again)) == (422, OTHER)


@unproven
@in_memory
def test_whoever_adds_a_credential_is_another_caller(rig: Rig, first: Json, again: Json, advice: str) -> None:
    """No one gets the response by sending more than its own caller did."""
    del advice
    till = Till(rig, store_status=(401,))
    till.ask(first)
    for header in ("authorization", "x-api-key", "cookie"):
        event = {**again, "headers": {**again["headers"], header: "a=b"}}
        event |= {"multiValueHeaders": {KEY: ["1"], header: ["a=b"]}} if "resource" in event else {}
        assert problem(till.ask(event)) == (422, OTHER)


@in_memory
def test_caller_says_that_a_principal_is_a_person(rig: Rig) -> None:
    """Then a refreshed opaque token is the same caller's; without it the log has what to write."""

    def by(text: str) -> Json:
        return rest_by({"principalId": "cust_7"}, headers={KEY: ["1"], "authorization": [text]})

    caller = "requestContext.authorizer.principalId"
    refused, declared = Till(rig), Till(rig, caller=caller, name="declared")
    for till in (refused, declared):
        till.ask(by("Bearer 1"))
    assert problem(refused.ask(by("Bearer 2"))) == (422, OTHER)
    assert f'pass caller="{caller}"' in str(rig.reported[-1].reason)
    assert is_replay(declared.ask(by("Bearer 2")))


# ------------------------------------------------------------------ fields that differ


@pytest.mark.parametrize(
    ("event", "options", "named"),
    [
        (sent("Bearer a"), {}, True),
        (sent(f"Bearer {jwt(ALICE)}"), {}, True),
        (http(authorizer={"jwt": {"claims": ALICE}}), {}, True),
        (rest_by({"principalId": "cust_7"}), {}, True),
        (with_certificate(sent("Bearer a")), {}, True),
        (http(), {"caller": "cookies.session", "cookies": ["session=a"]}, True),
        (http(), {}, False),
        (sent(x_api_key="k"), {}, False),
        (http(), {"cookies": ["session=a"]}, False),
        (with_certificate(http()), {}, False),
        (rest_by(apiKeyId="app"), {}, False),
        (sent("Bearer a"), {"caller": False}, False),
        (alb(x_amzn_oidc_data=oidc()), {}, None),
        (rest_by({"principalId": "user"}), {}, None),
    ],
)
@pytest.mark.parametrize("route", [True, False])
@in_memory
def test_fields_are_named_where_callers_are_separated(
    rig: Rig, event: Json, options: Any, *, named: bool | None, route: bool
) -> None:
    """
    Else whoever knows the key could guess the values of another's request, field by field.

    *named* None: nothing proves the caller, who learns nothing of the payload. The fields are known once the
    work is complete: before that, none is named to anybody.
    """
    options = dict(options)
    cookies = options.pop("cookies", None)
    event = {**event, **({} if cookies is None else {"cookies": cookies})}

    def sent_with(pin: str) -> Any:
        body = json.dumps({"orderId": 5, "pin": pin})
        many = {KEY: ["1"]} | event.get("multiValueHeaders", {})
        found = {**event, "body": body, "headers": {KEY: "1", **event["headers"]}}
        return found | ({"multiValueHeaders": many} if "multiValueHeaders" in event else {})

    ask = routed(rig, options) if route else handled(rig, options)
    ask(sent_with("1234"))
    answer = ask(sent_with("4711"))
    kind = "key-reused" if named is not None else "other-credentials"
    assert problem(answer) == (422, f"urn:lambda-once:{kind}")
    assert ("pin" in answer["body"]) is bool(named)
    assert rig.reported[-1].differing == ("pin" if named is not None else None)  # for the operator


@in_memory
def test_no_field_is_named_while_the_work_is_in_progress(rig: Rig) -> None:
    """The row has checksums of them once it is complete; another payload is refused all the same."""
    ask = handled(rig, {})
    first, other = ({**keyed("Bearer a"), "body": json.dumps({"pin": pin})} for pin in ("1", "2"))
    with rig.crash():
        ask(first)
    answer = ask(other)
    assert problem(answer) == (422, "urn:lambda-once:key-reused")
    assert "pin" not in answer["body"]
    assert rig.reported[-1].differing is None


@in_memory
@pytest.mark.parametrize("victim", [{}, {"cookies": ["session=a"]}])
def test_a_credential_beside_shows_no_fields_of_a_row_without_one(rig: Rig, victim: Json) -> None:
    """It was not compared with anything, so it separates its sender from no other."""
    first, second = (
        {**http(json.dumps({"pin": pin}), headers=headers), **victim}
        for pin, headers in (("1234", {KEY: "1"}), ("4711", {KEY: "1", "authorization": "Bearer made-up"}))
    )
    ask = handled(rig, {})
    ask(first)
    answer = ask(second)
    assert problem(answer) == (422, "urn:lambda-once:key-reused")
    assert "pin" not in answer["body"]


# ------------------------------------------------------------------ the warning


@in_memory
@pytest.mark.parametrize(
    ("event", "options", "warned"),
    [
        (keyed(None), {}, True),
        (keyed(None, x_api_key="k"), {}, True),
        (http(headers={KEY: "1"}, cookies=["a=b"]), {}, True),
        (keyed("Bearer a"), {}, False),
        (http(headers={KEY: "1"}, authorizer={"lambda": {"principalId": "user"}}), {}, True),
        (http(headers={KEY: "1"}, authorizer={"lambda": {"principalId": "cust_7"}}), {}, False),
        (keyed("Bearer a"), {"caller": False}, False),
        (with_certificate(keyed(None)), {}, True),
        (rest_by(headers={KEY: ["1"]}, apiKeyId="app"), {}, True),
        (alb(x_amzn_oidc_data=oidc(), idempotency_key="1"), {}, True),
    ],
)
def test_unscoped_is_said_once_an_environment(
    rig: Rig, capsys: pytest.CaptureFixture[str], event: Json, options: Any, *, warned: bool
) -> None:
    """
    Where nothing, or only an application, names the caller, or where nothing proves the name.

    caller=False is deliberate.
    """
    tills = [Till(rig, name=name, **options) for name in ("first", "second")]
    for till in tills:
        till.ask(event)
        till.ask(event)
    assert capsys.readouterr().out.count("once.unscoped") == (1 if warned else 0)


# ------------------------------------------------------------------ nothing shows


@in_memory
def test_credentials_are_in_no_log_problem_or_row(
    rig: Rig, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Many credentials, each refused in every way: what comes out quotes none of them."""
    secrets = [f"s3cret{n}x" for n in range(20)]
    till = Till(rig)
    events = [
        keyed(text)
        for secret in secrets
        for text in (
            f"Bearer {secret}",
            f"Basic {basic(secret, secret)}",
            f"Bearer {jwt({'sub': secret})}",
            secret,
        )
    ]
    events += [http(cookies=[f"session={secret}"]) for secret in secrets]
    events += [sent(x_api_key=secret) for secret in secrets]
    events += [keyed(f"Bearer {secret}, Bearer {secret}2") for secret in secrets]
    with caplog.at_level(logging.DEBUG):
        answers = [till.handler(event, rig.context()) for event in events for _ in range(2)]
    errors = [answer["body"] for answer in answers if answer["statusCode"] >= 400]
    assert any("other-credentials" in text for text in errors)
    out = capsys.readouterr()
    tokens = [repr(row) for row in rig.rows()]
    reported = [str(details) for details in rig.reported]
    heard = "\n".join([*errors, *reported, caplog.text, out.out, out.err, *(row.token for row in rig.rows())])
    encoded = [basic(secret, secret) for secret in secrets] + [jwt({"sub": secret}) for secret in secrets]
    for secret in (*secrets, *encoded):
        assert secret not in heard
    assert tokens


@in_memory
def test_other_caller_names_the_token_and_no_credential(rig: Rig) -> None:
    """The exception, as a route or a hook may see it."""
    till = Till(rig)
    till.ask(keyed("Bearer alice"))
    seen: list[Exception] = []
    outcomes: Any = till.rig.once._runtime.engine.replayer
    original = outcomes.error

    def noted(*args: Any) -> Any:
        seen.append(original(*args))
        return seen[-1]

    outcomes.error = noted
    till.ask(keyed("Bearer bob"))
    (error,) = seen
    assert isinstance(error, OtherCaller)
    assert str(error.token) in str(error)
    assert "alice" not in repr(error)
    assert "bob" not in repr(error)


# ------------------------------------------------------------------ authorizers


@in_memory
@pytest.mark.parametrize("event", AUTHORIZERS.values(), ids=AUTHORIZERS)
@pytest.mark.parametrize("options", [{}, {"key": "type"}], ids=["no key", "a key"])
@pytest.mark.parametrize("face", ["event", "api_gateway"])
def test_authorizers_are_refused(rig: Rig, event: Json, options: Any, face: str) -> None:
    """A replayed answer would let callers pass: no key helps, and nothing runs."""
    ran: list[object] = []

    def authorize(_event: Json) -> Json:
        ran.append(_event)
        return {"isAuthorized": True}

    handler = getattr(rig.once, face)(**options)(authorize)
    with pytest.raises(Misconfigured, match=r"a Lambda authorizer.*once\.run"):
        handler(event, rig.context())
    assert ran == []
