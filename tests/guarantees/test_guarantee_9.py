"""Guarantee 9: a stored response is returned only to the caller it was made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any

import pytest

from lambda_once import MemoryStore, Once
from lambda_once.core import lifecycle
from lambda_once.core.clock import Deadline
from lambda_once.core.identity import Presented
from lambda_once.core.lifecycle import Course, OnLapse, Record, decide
from lambda_once.core.writes import Acquire, Unclaimed
from lambda_once.sources import caller as rules
from lambda_once.sources import http as api
from lambda_once.sources.caller import Caller
from lambda_once.stores import requests
from lambda_once.stores.contract import Refused, Won
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, api_event, lambda_context
from tests.kit import tables
from tests.sources.samples import alb, http, rest
from tests.sources.test_caller import ALICE, jwt, oidc

Json = dict[str, Any]
Ask = Callable[..., Any]


def shop(store: Any, **options: Any) -> Ask:
    """A handler that answers with a secret of the first caller."""
    once = Once(store=store, service="shop")

    @once.api_gateway(name="pay", **options)
    def handler(event: Json, context: object) -> Json:
        return {"statusCode": 200, "body": f"secret of {event['headers'].get('authorization')}"}

    def ask(authorization: str | None, *, key: str | None = "1", principal: str | None = None) -> Any:
        headers = {"Idempotency-Key": key, "Authorization": authorization}
        event = api_event("POST", "/pay", {"sku": 1}, {n: text for n, text in headers.items() if text})
        if principal is not None:
            event["requestContext"]["authorizer"] = {"lambda": {"principalId": principal}}
        return handler(event, lambda_context())["body"]

    return ask


def _keyed(store: Any) -> None:
    ask = shop(store)
    first = ask("Bearer alice")
    assert ask("Bearer alice") == first
    for other in ("Bearer bob", None, "Basic YWxpY2U6YQ=="):
        assert "alice" not in ask(other)


def _hashed(store: Any) -> None:
    ask = shop(store)
    ask("Bearer alice", key=None)
    assert ask("Bearer bob", key=None) == "secret of Bearer bob"
    assert "alice" not in ask(None, key=None)


def _forged(store: Any) -> None:
    ask = shop(store)
    first = ask(f"Bearer {jwt(ALICE)}")
    assert ask(f"Bearer {jwt(ALICE, {'alg': 'none'}, '')}") != first
    assert ask(f"Bearer {jwt(ALICE)}") == first


def _verified(store: Any) -> None:
    ask = shop(store)
    first = ask(None, principal="alice")
    assert ask(None, principal="alice") == first
    assert ask("Bearer two", principal="bob") == "secret of Bearer two"


def _constant(store: Any) -> None:
    """An authorizer with one principal for all, of a name that does not look like a constant."""
    ask = shop(store)
    first = ask("Bearer one", principal="api")
    assert ask("Bearer one", principal="api") == first
    for other in ("Bearer two", "Basic YWxpY2U6YQ==", None, "Bearer"):
        assert "secret of Bearer one" not in ask(other, principal="api")


LEFT_OUT: tuple[tuple[dict[str, str], tuple[dict[str, str], ...]], ...] = (
    ({"authorization": "Bearer one"}, ({}, {"authorization": ""}, {"authorization": "Bearer"})),
    ({"authorization": "Bearer one", "x-api-key": "k"}, ({"x-api-key": "k"}, {})),
    ({"x-api-key": "one"}, ({}, {"x-api-key": ""}, {"x-api-key": "two"})),
    ({}, ({"authorization": "Bearer one"}, {"x-api-key": "one"})),
)
"""What a first request sends beside a constant principal, and what others send in its place."""


def _left_out(store: Any) -> None:
    """Whoever leaves the first caller's credential out, or brings one that the first did not, is another."""
    till = Till(store)
    for key, (first, others), v2 in product((None, "1"), LEFT_OUT, (False, True)):
        path = f"/{key}/{v2}/{'/'.join(first)}"

        def ask(headers: dict[str, str], *, key: Any = key, v2: bool = v2, path: str = path) -> Any:
            several = {name: [text] for name, text in headers.items()}
            event = http(headers=headers, rawPath=path) if v2 else rest(headers=several, path=path)
            principal = {"principalId": "api-caller"}
            event["requestContext"]["authorizer"] = {"lambda": principal} if v2 else principal
            return till.ask(event, key)

        answer = ask(first)
        assert answer == (200, f"secret {till.ran}")
        for other in others:
            status, body = ask(other)
            assert status == 422
            assert "secret" not in body
        assert ask(first) == answer


def _undeclared(store: Any) -> None:
    """A row made for a credential, read by a version that has caller=False since."""
    first = shop(store)("Bearer one")
    assert shop(store, caller=False)(None) != first


def _declared(store: Any) -> None:
    """caller= says that the principal is a person."""
    ask = shop(store, caller="requestContext.authorizer.lambda.principalId")
    first = ask("Bearer one", principal="alice")
    assert ask("Bearer two", principal="alice") == first
    assert ask("Bearer three", principal="bob") == "secret of Bearer three"


class Till:
    """A handler whose answers are numbered: each has a secret of its own caller."""

    def __init__(self, store: Any, **options: Any) -> None:
        self.ran = 0
        once = Once(store=store, service="shop")

        @once.api_gateway(name="pay", **options)
        def handler(_event: Json) -> Json:
            self.ran += 1
            return {"statusCode": 200, "body": f"secret {self.ran}"}

        self._handler = handler

    def ask(self, event: Json, key: str | None = "1") -> Any:
        """Send *event* under *key*, and return the status and the body of the answer."""
        if key is not None:
            event["headers"] = {**event["headers"], "idempotency-key": key}
            if "multiValueHeaders" in event:
                event["multiValueHeaders"]["idempotency-key"] = [key]
        answer: Any = self._handler(event, lambda_context())
        return answer["statusCode"], answer["body"]


def _balanced(store: Any) -> None:
    """A forged user of a load balancer has the name of the real one, and so has the real one's retry."""
    till = Till(store)
    assert till.ask(alb(x_amzn_oidc_data=oidc())) == (200, "secret 1")
    forged = ".".join([*oidc().split(".")[:2], "Zm9yZ2Vk"])
    for data in (forged, oidc(exp=2), oidc()):
        status, body = till.ask(alb(x_amzn_oidc_data=data))
        assert status == 422
        assert "secret" not in body
    assert till.ask(alb()) != (200, "secret 1")
    assert till.ask(alb(x_amzn_oidc_data=oidc("bob"))) == (200, "secret 3")


def _unnamed(store: Any) -> None:
    """An authorizer that reads a header of its own, and names no caller."""
    till = Till(store)
    for principal in ("user", "me", "user|a1b2c3d4"):
        answers = []
        for who in ("alice", "bob", "alice"):
            event = rest(headers={"x-auth-token": [who]}, path=f"/{principal}")
            event["requestContext"]["authorizer"] = {"principalId": principal}
            answers.append(till.ask(event))
        assert [status for status, _ in answers] == [200, 422, 422]
        assert ["secret" in body for _, body in answers] == [True, False, False]


def _keys(store: Any) -> None:
    """Two applications whose API keys API Gateway has checked; the first has rotated its key."""
    till = Till(store)
    answers = []
    for key_id, key in (("app-1", "a"), ("app-1", "b"), ("app-2", "c")):
        event = rest(headers={"x-api-key": [key]})
        event["requestContext"]["identity"]["apiKeyId"] = key_id
        answers.append(till.ask(event))
    assert answers == [(200, "secret 1"), (200, "secret 1"), (200, "secret 2")]


class SignIn:
    """A handler that takes a one-time code, and answers with a session."""

    def __init__(self, store: Any, **headers: str) -> None:
        self.codes = {"4711"}
        self.sessions = 0
        once = Once(store=store, service="shop")

        @once.api_gateway(name="sign in")
        def handler(_event: Json) -> Json:
            if not self.codes:
                return {"statusCode": 401}
            self.codes.clear()
            self.sessions += 1
            return {"statusCode": 200, "cookies": ["session=secret"], "headers": headers, "body": "in"}

        self._handler = handler

    def ask(self, **headers: str) -> Any:
        """Send the code, without a key."""
        return self._handler(api_event("POST", "/codes/verify", {"code": "4711"}, headers), lambda_context())


def _one_time(store: Any) -> None:
    """Two clients who are not named, and an application that both have in common, send one code."""
    for headers in ({}, {"x-api-key": "of the app"}):
        sign_in = SignIn(store, **{"cache-control": "no-store"})
        assert sign_in.ask(**headers)["cookies"] == ["session=secret"]
        assert "secret" not in str(second := sign_in.ask(**headers))
        assert (second["statusCode"], sign_in.sessions) == (409, 1)


def _cookies(store: Any) -> None:
    """A caller's duplicate gets the response without its cookies."""
    sign_in = SignIn(store)
    assert sign_in.ask(authorization="Bearer alice")["cookies"] == ["session=secret"]
    again = sign_in.ask(authorization="Bearer alice")
    assert (again["statusCode"], again["body"], sign_in.sessions) == (200, "in", 1)
    assert "secret" not in str(again)


SCENARIOS = [
    _keyed,
    _hashed,
    _forged,
    _verified,
    _constant,
    _left_out,
    _undeclared,
    _declared,
    _balanced,
    _unnamed,
    _keys,
    _one_time,
    _cookies,
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_response_is_its_callers(scenario: Callable[[Any], None]) -> None:
    """Under a key, by hash, with a forged token and behind an authorizer."""
    scenario(MemoryStore())


def _of_nobody() -> None:
    ran: list[Json] = []
    once = Once(store=MemoryStore(), service="shop", unscoped="refuse")

    @once.api_gateway(name="pay")
    def handler(event: Json) -> Json:
        ran.append(event)
        return {"statusCode": 200}

    for headers in ({}, {"Idempotency-Key": "1"}):
        assert handler(api_event("POST", "/pay", {"sku": 1}, headers), lambda_context())["statusCode"] == 400
    assert ran == []


def test_nobody_is_refused() -> None:
    """Under a key and without one, where the developer has asked for it."""
    _of_nobody()


@pytest.fixture
def engine_table(engine_endpoint: str) -> Iterator[DynamoDBStore]:
    """A store on a real engine."""
    client = tables.client(engine_endpoint)
    with tables.fresh(client) as name:
        yield DynamoDBStore(name, client)
    client.close()


@pytest.mark.engine
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_response_is_its_callers_in_dynamodb(
    engine_table: DynamoDBStore, scenario: Callable[[Any], None]
) -> None:
    """As the row keeps it."""
    scenario(engine_table)


def _lapsed(store: Any, clock: FakeClock) -> None:
    """Alice's attempt lapses under an opaque credential, and bob comes first."""
    bob, alice = Presented("bob"), Presented("alice")
    lease = clock.now() + timedelta(seconds=30)

    def acquisition(attempt: str, who: Presented) -> Acquire:
        take = Unclaimed(take_over=True)
        return Acquire("shop/pay/1", attempt, "f/1", clock.now(), lease, take, None, caller=who.mark(attempt))

    deadline = Deadline(clock, clock.now() + timedelta(hours=1))
    assert isinstance(store.acquire([acquisition("a1", alice)], deadline)[0], Won)
    clock.advance(60)
    (answer,) = store.acquire([acquisition("b1", bob)], deadline)
    assert isinstance(answer, Refused)
    asks = partial(decide, answer.record, clock.now(), "b1", None, OnLapse.TAKE_OVER)
    assert asks(bob) is Course.OTHER_CALLER
    assert asks(alice) is Course.RUN


def test_what_lapsed_is_its_callers_too() -> None:
    """No other caller takes over what may have been done for one."""
    _lapsed(MemoryStore(), FakeClock())


@pytest.mark.engine
def test_what_lapsed_is_its_callers_too_in_dynamodb(engine_table: DynamoDBStore) -> None:
    """The write condition of an acquisition that takes what lapsed passes over rows that have a caller."""
    _lapsed(engine_table, FakeClock())


@pytest.mark.engine
def test_twin_that_takes_over_what_another_caller_began(
    engine_table: DynamoDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that part of the condition bob's first write has the token."""
    part = "AND attribute_not_exists(caller)"
    assert part in requests.LAPSED
    monkeypatch.setattr(requests, "LAPSED", requests.LAPSED.replace(part, ""))
    # at once, as when known
    monkeypatch.setattr(requests, "acquire_new", lambda table, new, _: requests.acquire(table, new))
    with pytest.raises(AssertionError):
        _lapsed(engine_table, FakeClock())


def _compares_nothing(_record: Record, _presented: Presented | None) -> bool:
    return False


def _without_a_caller(*_: Any, **__: Any) -> Caller:
    return Caller((), (), Presented(None))


@pytest.mark.parametrize("scenario", [_keyed, _forged, _constant, _left_out, _undeclared])
def test_twin_that_compares_no_credential(
    monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Any], None]
) -> None:
    """A caller with the key, and a name that anybody can write, gets the response."""
    monkeypatch.setattr(Record, "is_of_another", _compares_nothing)
    with pytest.raises(AssertionError):
        scenario(MemoryStore())


@pytest.mark.parametrize("scenario", [_hashed, _verified, _keys])
def test_twin_whose_token_has_no_caller(
    monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Any], None]
) -> None:
    """Two users who send the same are one."""
    monkeypatch.setattr(api, "caller_of", _without_a_caller)
    with pytest.raises(AssertionError):
        scenario(MemoryStore())


@pytest.mark.parametrize("scenario", [_balanced, _unnamed])
def test_twin_that_returns_an_outcome_without_proof(
    monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Any], None]
) -> None:
    """The mark of a row without proof is that of every request without proof."""
    monkeypatch.setattr(lifecycle, "_is_unproven", lambda *_: False)
    with pytest.raises(AssertionError):
        scenario(MemoryStore())


def test_twin_that_takes_a_constant_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """All users of an authorizer like AWS' samples would be one."""
    monkeypatch.setattr(rules, "CONSTANTS", frozenset())
    with pytest.raises(AssertionError):
        _unnamed(MemoryStore())


def test_twin_that_trusts_a_principal_beside_a_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant that is not on the list would make two users one."""
    right = rules._of_authorizer

    def trusting(*args: Any) -> Any:
        return right(*args)._replace(presented=None)

    monkeypatch.setattr(rules, "_of_authorizer", trusting)
    with pytest.raises(AssertionError):
        _constant(MemoryStore())


@pytest.mark.parametrize("scenario", [_constant, _left_out])
def test_twin_that_compares_only_what_is_brought(
    monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Any], None]
) -> None:
    """Whoever leaves the credential out would get the response."""
    right = rules._of_authorizer

    def lenient(authorizer: Any, beside: Any, credential: Any) -> Any:
        found = right(authorizer, beside, credential)
        return found._replace(presented=None) if credential is None else found

    monkeypatch.setattr(rules, "_of_authorizer", lenient)
    compared = Record.is_of_another
    monkeypatch.setattr(Record, "is_of_another", lambda row, who: who is not None and compared(row, who))
    with pytest.raises(AssertionError):
        scenario(MemoryStore())


def test_twin_that_does_not_compare_what_a_row_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a row has would depend on what the duplicate's rules compare."""
    compared = Record.is_of_another
    monkeypatch.setattr(Record, "is_of_another", lambda row, who: who is not None and compared(row, who))
    with pytest.raises(AssertionError):
        _undeclared(MemoryStore())


def test_twin_that_compares_the_unverified_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forged token with the victim's name would be the victim."""
    right = rules._of_authorization

    def named(scheme: str, text: str) -> Any:
        found = right(scheme, text)
        return found if found.opaque else found._replace(whole=str(found.name.parts))

    monkeypatch.setattr(rules, "_of_authorization", named)
    with pytest.raises(AssertionError):
        _forged(MemoryStore())


@pytest.mark.parametrize("scenario", [_one_time, _cookies])
def test_twin_that_stores_whole_responses(
    monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Any], None]
) -> None:
    """Whoever sends the same within five minutes gets the session."""
    monkeypatch.setattr(api, "stored_of", lambda response, **_: response)
    with pytest.raises(AssertionError):
        scenario(MemoryStore())


def test_twin_that_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everyone would be one caller."""
    monkeypatch.setattr(Caller, "is_nobody", False)
    with pytest.raises(AssertionError):
        _of_nobody()
