"""The catalogue: changes come in any order, twice and late, and the newest remains."""

from __future__ import annotations

from typing import Any

import pytest

from examples.orders import catalogue
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.testing import FakeClock, lambda_context
from tests.kit.recorded import load

from .conftest import NOW, Deployed, Template
from .named import of_type
from .test_permissions import allowed, noted

DESK = {"shop": "north", "productId": "desk-oak"}
EVENTS = ("changed", "changed-late", "removed")


def event(name: str) -> dict[str, Any]:
    """Return one of the events of this function."""
    loaded: dict[str, Any] = load(f"eventbridge-product-{name}")
    return loaded


def sent(name: str) -> str:
    """Hand an event to the function and return what became of it."""
    return catalogue.change(event(name), lambda_context())["outcome"]


@pytest.fixture
def products(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> Ratchet:
    """The deployed table, as the function sees it."""
    ratchet = Ratchet(
        deployed.outputs["CatalogueTableName"],
        deployed.client("dynamodb"),
        key=catalogue.CATALOGUE._table.key,
        stamp=catalogue.CATALOGUE._table.own["ts"],
        clock=FakeClock(NOW),
    )
    monkeypatch.setattr(catalogue, "CATALOGUE", ratchet)
    return ratchet


def test_the_newest_change_remains(products: Ratchet) -> None:
    """The price of 10:11:58 remains, though that of 10:09:29 came after it; a removal stays."""
    assert [sent("changed"), sent("changed-late"), sent("changed")] == ["Applied", "Stale", "Applied"]
    desk = products.get(DESK)
    assert desk is not None
    assert (desk["price"], desk["changedAt"]) == (24_900, 1_768_903_918_250)
    assert [sent("removed"), sent("changed")] == ["Applied", "Stale"]
    assert products.get(DESK) is None


def test_the_function_may_do_what_it_does(
    deployed: Deployed, translated: Template, products: Ratchet
) -> None:
    """To put, for a delete is one; on its table, and nothing else."""
    calls = noted(products._sender._transport._client)
    for name in EVENTS:
        sent(name)
    assert calls == allowed(translated, "CatalogueFunctionRole") - {"sqs:SendMessage"}


def test_the_table_forgets_tombstones_by_the_attribute_of_the_code(translated: Template) -> None:
    """Its TTL is that of the ratchet, and its key is what the function says."""
    properties = of_type(translated, "AWS::DynamoDB::Table")["CatalogueTable"]
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert tuple(each["AttributeName"] for each in properties["KeySchema"]) == catalogue.CATALOGUE._table.key


def test_the_function_gets_the_events_that_it_knows(translated: Template) -> None:
    """The rule names what the files of events/ are."""
    rule = of_type(translated, "AWS::Events::Rule")["CatalogueFunctionProductChanged"]
    assert {event(name)["detail-type"] for name in EVENTS} == set(rule["EventPattern"]["detail-type"])
    assert {event(name)["source"] for name in EVENTS} == set(rule["EventPattern"]["source"])
