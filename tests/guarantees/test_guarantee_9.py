"""Guarantee 9: a stored response is returned only to the caller it was made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from lambda_once import MemoryStore, Once
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Decision, OnLapse, Presented, Record, Request, decide
from lambda_once.core.writes import Acquire, Unclaimed
from lambda_once.decorators import http as api
from lambda_once.sources import caller as rules
from lambda_once.sources.caller import Caller
from lambda_once.stores import requests
from lambda_once.stores.contract import Refused, Won
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, api_event, lambda_context
from tests.kit import tables
from tests.sources.test_caller import ALICE, jwt

Json = dict[str, Any]
Ask = Callable[..., Any]


def shop(store: Any, **options: Any) -> Ask:
    """A handler that answers with a secret of whoever asks first."""
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
    first = ask("Bearer one", principal="alice")
    assert ask("Bearer two", principal="alice") == first
    assert ask("Bearer two", principal="bob") == "secret of Bearer two"


SCENARIOS = [_keyed, _hashed, _forged, _verified]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_response_is_its_callers(scenario: Callable[[Any], None]) -> None:
    """Under a key, by hash, with a forged token and behind an authorizer."""
    scenario(MemoryStore())


@pytest.fixture
def engine_table(dynamodb_local: str) -> Iterator[DynamoDBStore]:
    """A store on a real engine."""
    client = tables.client(dynamodb_local)
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
    request = Request("b1", None, OnLapse.TAKE_OVER, bob)
    assert decide(answer.record, request, clock.now()) is Decision.OTHER_CALLER
    assert decide(answer.record, request._replace(presented=alice), clock.now()) is Decision.RUN


def test_what_lapsed_is_its_callers_too() -> None:
    """Nobody else takes over what may have been done for somebody."""
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
    with pytest.raises(AssertionError):
        _lapsed(engine_table, FakeClock())


def _compares_nothing(_record: Record, _presented: Presented | None) -> bool:
    return False


def _names_nobody(*_: Any, **__: Any) -> Caller:
    return Caller((), (), Presented(None))


@pytest.mark.parametrize("scenario", [_keyed, _forged])
def test_twin_that_compares_no_credential(
    monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Any], None]
) -> None:
    """Whoever has the key, and a name that anybody can write, gets the response."""
    monkeypatch.setattr(Record, "is_of_another", _compares_nothing)
    with pytest.raises(AssertionError):
        scenario(MemoryStore())


@pytest.mark.parametrize("scenario", [_hashed, _verified])
def test_twin_whose_token_has_no_caller(
    monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Any], None]
) -> None:
    """Two users who send the same are one."""
    monkeypatch.setattr(api, "caller_of", _names_nobody)
    with pytest.raises(AssertionError):
        scenario(MemoryStore())


def test_twin_that_compares_the_unverified_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forged token with the victim's name would be the victim."""
    right = rules._of_authorization

    def named(scheme: str, text: str) -> Any:
        found = right(scheme, text)
        return found if found.opaque else found._replace(whole=str(found.name.parts))

    monkeypatch.setattr(rules, "_of_authorization", named)
    with pytest.raises(AssertionError):
        _forged(MemoryStore())
