"""Each service of examples/migrations, unprotected, before and after, gets the same events."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import time_machine
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer

from examples.migrations import outside
from lambda_once import Once, PowertoolsHistory
from lambda_once.core.clock import SystemClock
from lambda_once.testing import (
    api_event,
    crash_at,
    eventbridge_event,
    lambda_context,
    rest_api_event,
    sns_event,
    sqs_event,
)
from tests.kit import tables
from tests.kit.strict.mounted import mounted

Event = dict[str, Any]
SERVICES = ("orders", "payments", "thumbnails", "webhook", "announcements")
VERSIONS = ("before", "after")
SECRET = "s3cret"
TABLES = {
    "IDEMPOTENCY_TABLE": ("migrations-idempotency", "id"),
    "PROCESSED_TABLE": ("migrations-processed", "message_id"),
    "TOKEN_TABLE": ("migrations-tokens", "lockToken"),
}
RAISED = "raised"


def order(*items: str) -> Event:
    """A request of a client."""
    return rest_api_event("POST", "/orders", {"customer": "ann", "items": items}, {"Idempotency-Key": "5f2b"})


def payment(amount: int = 5) -> Event:
    """A message of the payments queue."""
    return sqs_event({"paymentId": "p-1", "amount": amount})


def written(etag: str = "e1") -> Event:
    """A notification that an object was written."""
    detail = {"bucket": {"name": "photos"}, "object": {"key": "a.jpg", "etag": etag, "size": 1}}
    return eventbridge_event(detail, "Object Created", "aws.s3")


def notice(attempt: int = 1) -> Event:
    """An event of the payment provider, signed; *attempt* counts its deliveries."""
    body = json.dumps({"id": "evt_1", "order": 5, "attempt": attempt})
    signature = hmac.new(SECRET.encode(), body.encode(), hashlib.sha256).hexdigest()
    return api_event("POST", "/webhook", body, {"x-signature": signature})


def announcement() -> Event:
    """A notification of the topic; each is a message of its own."""
    return sns_event({"text": "sale"})


class Case(NamedTuple):
    """The events of a service, and what a caller sees of it."""

    event: Event
    other: Event
    """The same key with another payload; where there is no such thing, similar work."""
    runs: int
    """How often the work runs for the two."""
    refused: bool
    """Whether the second is refused."""


CASES = {
    "orders": Case(order("tea"), order("rum"), runs=1, refused=True),
    "payments": Case(payment(), payment(6), runs=1, refused=True),
    "thumbnails": Case(written(), written("e2"), runs=2, refused=False),
    "webhook": Case(notice(), notice(2), runs=1, refused=False),
    "announcements": Case(announcement(), announcement(), runs=2, refused=False),
}

_MESSAGE = CASES["payments"].event["Records"][0]["messageId"]
BUSY: dict[tuple[str, str], object] = {
    ("orders", "before"): 409,
    ("orders", "after"): 409,
    ("payments", "after"): {"batchItemFailures": [{"itemIdentifier": _MESSAGE}]},  # no error of the function
    ("announcements", "before"): None,  # SNS takes it for done
}
"""What a redelivery gets while the first attempt is in progress; others get `RAISED`."""


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three new tables of the strict engine, named as the services expect."""
    outside.calls.clear()
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    for variable, (table, _) in TABLES.items():
        monkeypatch.setenv(variable, table)
    with mounted():
        client = tables.shared()
        for table, key in TABLES.values():
            client.create_table(
                TableName=table,
                KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
        yield


def module(service: str, version: str) -> ModuleType:
    """Return the module of one version, imported when the tables are named."""
    return import_module(f"examples.migrations.{service}.{version}")


def ask(service: str, version: str, event: Event) -> Any:
    """Deliver *event* in an invocation of its own, and return the status, the response or `RAISED`."""
    handler: Callable[[Event, Any], Any] = module(service, version).handler
    try:
        response = handler(event, lambda_context(remaining_ms=10_000))
    except Exception:  # noqa: BLE001  (whatever it is, Lambda reports an error)
        return RAISED
    return response["statusCode"] if isinstance(response, dict) and "statusCode" in response else response


@pytest.mark.parametrize("service", SERVICES)
def test_twin_unprotected_a_duplicate_runs_again(service: str) -> None:
    """The events are duplicates: without protection each delivery does the work."""
    for _ in range(2):
        ask(service, "unprotected", CASES[service].event)
    assert len(outside.calls) == 2


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("service", SERVICES)
def test_a_duplicate_gets_the_first_answer(service: str, version: str) -> None:
    """The work runs once, and both deliveries end alike."""
    event = CASES[service].event
    first, second = (ask(service, version, event) for _ in range(2))
    assert first == second != RAISED
    assert len(outside.calls) == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("service", SERVICES)
def test_another_payload(service: str, version: str) -> None:
    """Under the same key it is refused; what is compared by nobody is a duplicate; the rest is other work."""
    case = CASES[service]
    first, second = ask(service, version, case.event), ask(service, version, case.other)
    assert len(outside.calls) == case.runs
    assert second == ({"orders": 422}.get(service, RAISED) if case.refused else first)


def crash(service: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the environment in a delivery, before the work has had an effect."""
    if version == "after":
        with crash_at("acquire"):
            ask(service, version, CASES[service].event)
        return

    def killed(_: str) -> int:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(module(service, version), "call", killed)
        with pytest.raises(SystemExit):
            ask(service, version, CASES[service].event)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("service", SERVICES)
def test_a_crash(service: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redeliveries fail until the crashed invocation's time is over, then one does the work."""
    event, by_hand = CASES[service].event, (service, version) == ("announcements", "before")
    crash(service, version, monkeypatch)
    assert ask(service, version, event) == BUSY.get((service, version), RAISED)
    assert outside.calls == []
    with time_machine.travel(SystemClock().now() + timedelta(minutes=1)):
        assert ask(service, version, event) != RAISED
    assert len(outside.calls) == (0 if by_hand else 1)  # by hand the message is lost: nothing releases it


@pytest.mark.parametrize("service", SERVICES)
def test_a_switch_without_history(service: str) -> None:
    """What the old version has done, the new one does again: it reads the token table alone."""
    for version in VERSIONS:
        ask(service, version, CASES[service].event)
    assert len(outside.calls) == 2


def history(service: str, function: str, **options: Any) -> PowertoolsHistory:
    """Return the history of *function* in the old version."""
    old = module(service, "before")
    layer = DynamoDBPersistenceLayer(table_name=TABLES["IDEMPOTENCY_TABLE"][0])
    return PowertoolsHistory(layer, config=old.config, function_name=f"{old.__name__}.{function}", **options)


SWITCHED: dict[str, Callable[[Once], Callable[[Event, Any], Any]]] = {
    "orders": lambda once: once.api_gateway(
        name="order", without_key="reject", history=history("orders", "resolve", across_callers=True)
    )(module("orders", "unprotected").handler),  # once.route has no history
    "payments": lambda once: once.sqs(
        name="charge", key="paymentId", fingerprint="amount", history=history("payments", "charge")
    )(module("payments", "after").handler.__wrapped__),
    "thumbnails": lambda once: once.event(
        name="thumbnail",
        key="detail.[bucket.name, object.key, object.etag]",
        fingerprint=False,
        history=history("thumbnails", "handler"),
    )(module("thumbnails", "after").handler.__wrapped__),
    "webhook": lambda once: (
        lambda event, _: once.function(
            name="ship", key="notice.id", fingerprint=False, history=history("webhook", "ship", data="notice")
        )(module("webhook", "after").ship.__wrapped__)(notice=json.loads(event["body"]))
    ),
}


@pytest.mark.parametrize("service", SWITCHED)
def test_a_switch_with_history(service: str) -> None:
    """What the old version has done is replayed."""
    new = SWITCHED[service](Once(table=TABLES["TOKEN_TABLE"][0], service="shop"))
    ask(service, "before", CASES[service].event)
    new(CASES[service].event, lambda_context())
    assert len(outside.calls) == 1


def test_a_route_takes_over_from_the_whole_handler() -> None:
    """Under one name its tokens are the same, and its replays have the headers of the first response."""
    whole = SWITCHED["orders"](Once(table=TABLES["TOKEN_TABLE"][0], service="shop"))
    first, second = (
        whole(order("tea"), lambda_context()),
        module("orders", "after").handler(order("tea"), lambda_context()),
    )
    assert outside.calls == ["order of ann"]
    assert second["body"] == first["body"]
    assert second["multiValueHeaders"] == {**first["multiValueHeaders"], "Idempotent-Replayed": ["true"]}


def test_a_corrected_order() -> None:
    """Before, an order that was refused blocked its key; after, the client corrects it and sends it again."""
    both = order(), order("tea")
    statuses = {version: [ask("orders", version, each) for each in both] for version in VERSIONS}
    assert statuses == {"before": [422, 422], "after": [422, 201]}
    assert outside.calls == ["order of ann"]
