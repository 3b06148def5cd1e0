"""The functions without tokens: each may do what it does, and writes the metrics that alarms name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import boto3
import pytest

from examples.orders import catalogue, contracts, loyalty, publishing, receipts
from lambda_once import OnceError
from lambda_once.patterns.observing import EVENTS
from lambda_once.testing import FakeClock, lambda_context, sqs_event
from tests.kit.recorded import load
from tests.kit.strict.mounted import mounted
from tests.patterns.fifo.queues import Fate, Fifo

from .conftest import Template
from .emitted import Emitted, as_function, read
from .named import by_alarms, of_type
from .test_permissions import allowed, noted

TRANSPORTS = {
    "LoyaltyTable": loyalty.POINTS._sender._transport,
    "CatalogueTable": catalogue.CATALOGUE._sender._transport,
    "ReceiptsTable": receipts.RECEIPTS._sender._transport,
    "ContractsTable": contracts.CONTRACTS._table._sender._transport,
}


@pytest.fixture
def calls(
    translated: Template, session: boto3.Session, monkeypatch: pytest.MonkeyPatch
) -> Iterator[set[str]]:
    """The tables of the template, the functions on them, and the IAM actions of what these do."""
    with mounted():
        client: Any = session.client("dynamodb")
        for name, transport in TRANSPORTS.items():
            properties = translated["Resources"][name]["Properties"]
            wanted = {part: properties[part] for part in ("BillingMode", "AttributeDefinitions", "KeySchema")}
            client.create_table(TableName=name.removesuffix("Table").lower(), **wanted)
            monkeypatch.setattr(transport, "_client", client)
        monkeypatch.setenv("RECEIPTS_TOPIC", "arn:aws:sns:eu-central-1:123456789012:orders-receipts.fifo")
        publishing.receipts.cache_clear()
        yield noted(client)
        publishing.receipts.cache_clear()


@pytest.fixture
def client(session: boto3.Session, calls: set[str]) -> Any:
    """A client of the tests' own."""
    assert calls == set()
    return session.client("dynamodb")


def count(client: Any) -> None:
    """Earn points twice, spend too many, and earn some where no id fits any more."""
    loyalty.count(load("sqs-loyalty"), lambda_context())
    loyalty.count(load("sqs-loyalty-redelivery"), lambda_context())
    client.put_item(TableName="loyalty", Item={"customer": {"S": "full"}, "x": {"S": "x" * 409_570}})
    loyalty.count(
        sqs_event({"orderId": "order_5", "customer": "full", "kind": "earned", "points": 10}),
        lambda_context(),
    )


def change(client: Any) -> None:
    """Change a product, then to what is older, remove it, and change it by a clock that is far ahead."""
    del client
    for name, year in (("changed", "2020"), ("changed", "2019"), ("removed", "2021"), ("changed", "2200")):
        event = load(f"eventbridge-product-{name}")
        event["detail"]["changedAt"] = f"{year}-01-01T00:00:00+00:00"
        catalogue.change(event, lambda_context())


def file(client: Any) -> None:
    """File receipts, and the same again."""
    del client
    for name in ("sqs-fifo-receipts", "sqs-fifo-receipts-redelivery", "sqs-fifo-receipt-amended"):
        receipts.file(load(name), lambda_context())


def keep(client: Any) -> None:
    """Write a contract twice, then read one whose newest parts are not there."""
    written = load("direct-contract")
    version = contracts.handler(written, lambda_context())["version"]
    newest = contracts.handler(written | {"expectedVersion": version}, lambda_context())["version"]
    for item in client.scan(TableName="contracts")["Items"]:
        if item["sk"]["S"].startswith(newest):
            client.delete_item(TableName="contracts", Key={name: item[name] for name in ("pk", "sk")})
    contracts.handler(load("direct-contract-read"), lambda_context())
    contracts.handler(written, lambda_context())


def publish(client: Any) -> None:
    """Publish receipts that the topic refuses."""
    del client
    publishing.receipts()._client = Fifo(FakeClock(), lambda _: Fate.NEVER)
    publishing.publish(load("direct-receipts"), lambda_context())


RUNS: dict[str, tuple[Callable[[Any], None], set[str]]] = {
    "LoyaltyFunction": (count, {"applied", "duplicate", "refused", "full"}),
    "CatalogueFunction": (change, {"applied", "stale", "tooFarAhead"}),
    "ReceiptsFunction": (file, {"applied", "duplicate", "keyReused"}),
    "ContractsFunction": (keep, {"applied", "fellBack", "conflict"}),
    "PublishingFunction": (publish, {"unsent"}),
}
ALARMED = {"LedgerFull", "ClocksApart", "VersionsMissing", "Conflicts", "MessagesUnsent"}


@pytest.fixture
def emitted(
    template: Template, client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> set[Emitted]:
    """Every metric that these functions write, by running each of them."""
    found: set[Emitted] = set()
    for name, (run, metrics) in RUNS.items():
        as_function(monkeypatch, template, name)
        capsys.readouterr()
        with suppress(OnceError):
            run(client)
        written = read(capsys.readouterr().out)
        assert {each.metric for each in written} == metrics, name
        assert {dict(each.dimensions)["function"] for each in written} == {name}
        found |= written
    return found


def test_alarms_name_what_these_functions_write(translated: Template, emitted: set[Emitted]) -> None:
    """Namespace, service and metric of each alarm are those of a function that ran."""
    named = [each for each in by_alarms(translated) if each.where in ALARMED]
    assert {each.where for each in named} == ALARMED
    for alarm in named:
        assert alarm.dimensions == {"service", "function"}
        assert any(
            (each.space, each.metric) == (alarm.space, alarm.metric)
            and set(alarm.fixed.items()) <= set(each.dimensions)
            for each in emitted
        ), alarm.where


def test_every_metric_of_the_patterns_is_written(emitted: set[Emitted]) -> None:
    """The sample meets each outcome that there is."""
    metrics = {each.metric for each in EVENTS.values()} | {"keyReused", "fellBack", "unsent"}
    assert {each.metric for each in emitted} == metrics


@pytest.mark.parametrize("name", ["LoyaltyFunction", "CatalogueFunction", "ReceiptsFunction"])
def test_a_function_may_do_what_it_does(
    translated: Template, calls: set[str], client: Any, name: str
) -> None:
    """Its policy allows what it asks of DynamoDB, and no more."""
    with suppress(OnceError):
        RUNS[name][0](client)
    of_dynamodb = {each for each in allowed(translated, f"{name}Role") if each.startswith("dynamodb:")}
    assert calls == of_dynamodb


@pytest.mark.parametrize(("name", "expires"), [("CatalogueTable", True), ("LoyaltyTable", False)])
def test_tombstones_expire_and_balances_stay(translated: Template, name: str, *, expires: bool) -> None:
    """The ratchet's TTL is the table's; a ledger has none."""
    properties = of_type(translated, "AWS::DynamoDB::Table")[name]
    ttl = {"AttributeName": "ttl", "Enabled": True}
    assert properties.get("TimeToLiveSpecification") == (ttl if expires else None)


def test_points_that_were_never_earned_make_no_dead_letter(translated: Template, client: Any) -> None:
    """The function refuses them for good at the delivery that is the queue's last."""
    redrive = of_type(translated, "AWS::SQS::Queue")["LoyaltyQueue"]["RedrivePolicy"]
    assert redrive["maxReceiveCount"] == loyalty.LAST_DELIVERY
    spent = sqs_event({"orderId": "order_6", "customer": "cust_6", "kind": "spent", "points": -10})
    spent["Records"][0]["attributes"]["ApproximateReceiveCount"] = str(loyalty.LAST_DELIVERY)
    assert loyalty.count(spent, lambda_context()) == {"batchItemFailures": []}
    assert client.scan(TableName="loyalty")["Items"] == []


def test_the_catalogue_gets_the_events_that_it_knows(translated: Template) -> None:
    """The rule names what the files of events/ are."""
    rule = of_type(translated, "AWS::Events::Rule")["CatalogueFunctionProductChanged"]
    events = [load(f"eventbridge-product-{name}") for name in ("changed", "changed-late", "removed")]
    for part in ("source", "detail-type"):
        assert {event[part] for event in events} == set(rule["EventPattern"][part])
