"""Guarantee 9: a stored response is returned only to the caller it was made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_once import MemoryStore, Once
from lambda_once.core.record import Presented, Record
from lambda_once.events import caller as rules
from lambda_once.events.caller import Caller
from lambda_once.faces import api
from lambda_once.stores.dynamodb import DynamoDBStore
from lambda_once.testing import api_event, lambda_context
from tests.engine import tables
from tests.events.test_caller import ALICE, jwt

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
