"""A stored response goes to the caller that it was made for, and to nobody else."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from lambda_once import Misconfigured, Once, OtherCaller
from lambda_once.core.lifecycle import Presented, State
from lambda_once.core.results import Inline
from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import AUTHORIZERS, Json, http, lattice, lattice_v2, rest
from tests.sources.test_caller import ALICE, BOB, basic, jwt, sent

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


@pytest.mark.parametrize(
    ("alice", "bob"),
    [
        (sent("Bearer alice"), sent("Bearer bob")),
        (sent(f"Bearer {jwt(ALICE)}"), sent(f"Bearer {jwt(BOB)}")),
        (sent(f"Basic {basic('alice', 'a')}"), sent(f"Basic {basic('bob', 'b')}")),
        (sent(x_api_key="alice"), sent(x_api_key="bob")),
        (http(cookies=["session=alice"]), http(cookies=["session=bob"])),
    ],
    ids=["opaque", "JWT", "Basic", "API key", "cookies"],
)
def test_two_users_who_send_the_same_content_both_run(rig: Rig, alice: Json, bob: Json) -> None:
    """Without an Idempotency-Key what names the caller is a part of what is hashed."""
    till = Till(rig)
    till.ask(alice)
    assert not is_replay(till.ask(bob))
    assert len(till.ran) == 2
    till.ask(alice)
    till.ask(bob)
    assert len(till.ran) == 2 or "authorization" not in alice["headers"]


@pytest.mark.parametrize(
    "other",
    ["Bearer bob", None, f"Bearer {jwt(ALICE, {'alg': 'none'}, '')}"],
    ids=["another", "none", "another kind"],
)
def test_one_key_with_an_opaque_credential_is_its_callers_alone(rig: Rig, other: str | None) -> None:
    """Who presents another credential, or none, neither gets the response nor runs under that key."""
    till = Till(rig)
    first = till.ask(keyed("Bearer alice"))
    answer = till.ask(keyed(other))
    assert answer["body"] != first["body"]
    assert len(till.ran) == (2 if other and other.count(".") else 1)
    again = till.ask(keyed("Bearer alice"))
    assert (again["body"], is_replay(again)) == (first["body"], True)
    if len(till.ran) == 1:
        assert problem(answer) == (422, OTHER)


def test_a_forged_token_unlocks_nothing(rig: Rig) -> None:
    """An unverified name chooses the token; the response goes to who presents the same credential."""
    till = Till(rig)
    till.ask(keyed(f"Bearer {jwt(ALICE)}"))
    forged = f"Bearer {jwt(ALICE, {'alg': 'none'}, '')}"
    assert problem(till.ask(keyed(forged))) == (422, OTHER)
    till.ask(sent(f"Bearer {jwt(ALICE)}"))
    assert problem(till.ask(sent(forged))) == (422, OTHER)
    assert len(till.ran) == 2


def test_a_refreshed_token_is_told_so(rig: Rig) -> None:
    """It is not verified, so it is neither replayed nor run: what was done is not done twice."""
    till = Till(rig)
    till.ask(keyed(f"Bearer {jwt(ALICE | {'exp': 1})}"))
    assert problem(till.ask(keyed(f"Bearer {jwt(ALICE | {'exp': 2})}"))) == (422, OTHER)
    assert len(till.ran) == 1


def test_two_users_with_one_weak_key_both_run(rig: Rig) -> None:
    """Names keep their keys apart."""
    till = Till(rig)
    answers = [till.ask(keyed(f"Bearer {jwt(who)}")) for who in (ALICE, BOB)]
    assert len(till.ran) == 2
    assert not any(map(is_replay, answers))


@in_memory
def test_a_verified_caller_may_refresh(rig: Rig) -> None:
    """Under an authorizer of JWTs the caller is the name, whatever the token."""
    till = Till(rig)
    for exp in (1, 2):
        headers = {KEY: "1", "authorization": f"Bearer {jwt(ALICE | {'exp': exp})}"}
        till.ask(http(headers=headers, authorizer={"jwt": {"claims": ALICE}}))
    assert len(till.ran) == 1


@in_memory
def test_an_unverified_token_never_meets_a_verified_callers(rig: Rig) -> None:
    """One function behind two APIs: the open one does not hand out what the guarded one stored."""
    till = Till(rig)
    till.ask(http(headers={KEY: "1"}, authorizer={"jwt": {"claims": ALICE}}))
    assert not is_replay(till.ask(keyed(f"Bearer {jwt(ALICE)}")))
    assert len(till.ran) == 2


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
    assert "once.taken_over" in rig.happenings()
    assert problem(till.ask(keyed("Bearer bob"))) == (422, OTHER)


def test_what_was_released_is_anybodys(rig: Rig) -> None:
    """Nothing was done under the key: the next request runs, its handler checks, and it is theirs."""
    till = Till(rig)
    assert till.ask(keyed(None))["statusCode"] == 401
    assert till.ask(keyed("Bearer bob"))["statusCode"] == 201
    assert problem(till.ask(keyed("Bearer alice"))) == (422, OTHER)


def test_a_row_without_a_caller_is_not_compared(rig: Rig) -> None:
    """A request that was answered without a credential stands for all; so does a row of an older version."""
    Till(rig, caller=False, name="till").ask(keyed("Bearer alice"))
    assert rig.row().caller is None
    assert is_replay(Till(rig, name="till").ask(keyed("Bearer bob")))


@in_memory
def test_a_fenced_attempt_gets_no_other_callers_outcome(rig: Rig) -> None:
    """A late attempt meets its successor: of another caller it learns nothing but that it lost the token."""

    @rig.once.api_gateway(name="till")
    def slow(event: Json) -> Json:
        # Meanwhile its lease runs out, a person gives the token back, and bob's request is worked.
        store: Any = rig.store.sound
        seen = store.records[rig.row().token]
        store.records[seen.token] = seen._replace(
            state=State.COMPLETE,
            attempt="b",
            caller=Presented("bob").mark("b"),
            stored=Inline('"bob\'s"'),
        )
        return {"statusCode": 201, "body": "alice's"}

    assert problem(slow(keyed("Bearer alice"), rig.context())) == (409, "urn:lambda-once:retry-later")


@in_memory
def test_the_cache_asks_for_the_credential(rig: Rig) -> None:
    """What an environment remembers is its callers' too."""
    till = Till(rig, cache=10)
    till.ask(keyed("Bearer alice"))
    assert is_replay(till.ask(keyed("Bearer alice")))
    assert problem(till.ask(keyed("Bearer bob"))) == (422, OTHER)


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


@in_memory
def test_scope_never_replaces_the_caller(rig: Rig) -> None:
    """A tenant's users are still told apart."""
    till = Till(rig, scope='headers."x-tenant"')
    till.ask(sent("Bearer alice", x_tenant="acme"))
    till.ask(sent("Bearer bob", x_tenant="acme"))
    assert len(till.ran) == 2


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
    assert answer["statusCode"] == 400
    assert "Authorization" in answer["body"]
    assert "alice" not in answer["body"]
    assert till.ran == []


# ------------------------------------------------------------------ the warning


@in_memory
@pytest.mark.parametrize(
    ("event", "warned"),
    [
        (keyed(None), True),
        (keyed(None, x_api_key="k"), True),
        (http(headers={KEY: "1"}, cookies=["a=b"]), True),
        (keyed("Bearer a"), False),
        (http(headers={KEY: "1"}, authorizer={"lambda": {"principalId": "user"}}), False),
    ],
)
def test_unscoped_is_said_once_an_environment(
    rig: Rig, capsys: pytest.CaptureFixture[str], event: Json, *, warned: bool
) -> None:
    """Where nothing, or only an application, names the caller."""
    tills = [Till(rig), Till(rig)]
    for till in tills:
        till.ask(event)
        till.ask(event)
    assert capsys.readouterr().out.count("once.unscoped") == (1 if warned else 0)


@in_memory
def test_caller_false_is_deliberate(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody is warned of what was asked for."""
    till = Till(rig, caller=False)
    till.ask(keyed("Bearer a"))
    assert is_replay(till.ask(keyed("Bearer b")))
    assert "once.unscoped" not in capsys.readouterr().out


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
    told = [str(details) for details in rig.told]
    heard = "\n".join([*errors, *told, caplog.text, out.out, out.err, *(row.token for row in rig.rows())])
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
    outcomes: Any = till.rig.once._runtime.engine.acquirer._replayer
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


# ------------------------------------------------------------------ VPC Lattice, authorizers


@pytest.mark.parametrize(
    ("event", "other"),
    [
        (lattice(headers={KEY: "k"}), lattice(headers={KEY: "k2"})),
        (lattice_v2(headers={KEY: ["k"]}), lattice_v2(headers={KEY: ["k2"]})),
        (
            lattice_v2(headers={KEY: ["k"]}, type="AWS_IAM", principal="arn:a"),
            lattice_v2(headers={KEY: ["k"]}, type="AWS_IAM", principal="arn:b"),
        ),
    ],
    ids=["v1", "v2", "v2 by principal"],
)
def test_vpc_lattice_is_answered_once(rig: Rig, event: Json, other: Json) -> None:
    """What differs between two tries of one request does not count; the answer is marked as it wants it."""
    runs: list[int] = []

    @rig.once.api_gateway
    def handler(_event: Json) -> Json:
        runs.append(1)
        return {"statusCode": 200, "headers": {"content-type": "text/plain"}, "body": str(len(runs))}

    again = json.loads(json.dumps(event))
    again["headers"]["x-forwarded-for"] = "10.0.0.8"
    if "requestContext" in again:
        again["requestContext"]["timeEpoch"] = "1795169599000000"
    handler(event, rig.context("one"))
    second = handler(again, rig.context("two"))
    assert second["headers"] == {"content-type": "text/plain", "Idempotent-Replayed": "true"}
    assert handler(other, rig.context("three"))["body"] == "2"


@in_memory
@pytest.mark.parametrize("event", AUTHORIZERS.values(), ids=AUTHORIZERS)
@pytest.mark.parametrize("options", [{}, {"key": "type"}], ids=["no key", "a key"])
@pytest.mark.parametrize("face", ["event", "api_gateway"])
def test_authorizers_are_refused(rig: Rig, event: Json, options: Any, face: str) -> None:
    """A replayed verdict would let callers pass: no key helps, and nothing runs."""
    ran: list[object] = []

    def authorize(_event: Json) -> Json:
        ran.append(_event)
        return {"isAuthorized": True}

    handler = getattr(rig.once, face)(**options)(authorize)
    with pytest.raises(Misconfigured, match=r"a Lambda authorizer.*once\.run"):
        handler(event, rig.context())
    assert ran == []
