"""The catalogue: changes come in any order, twice and late, and the newest remains."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

import pytest

from examples.orders import catalogue
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.results import TooFarAhead
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
def clock() -> FakeClock:
    """The clock of the function."""
    return FakeClock(NOW)


@pytest.fixture
def products(deployed: Deployed, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Ratchet:
    """The deployed table, as the function sees it."""
    ratchet = Ratchet(
        deployed.outputs["CatalogueTableName"],
        deployed.client("dynamodb"),
        key=catalogue.CATALOGUE._table.key,
        stamp=catalogue.CATALOGUE._table.own["ts"],
        clock=clock,
    )
    monkeypatch.setattr(catalogue, "CATALOGUE", ratchet)
    return ratchet


def test_an_older_change_that_comes_later_changes_nothing(products: Ratchet) -> None:
    """The price of 10:11:58 remains, though that of 10:09:29 came after it; and again after that."""
    assert [sent("changed"), sent("changed-late"), sent("changed")] == ["Applied", "Stale", "Applied"]
    desk = products.get(DESK)
    assert desk is not None
    assert (desk["price"], desk["changedAt"]) == (24_900, 1_768_903_918_250)


def test_a_product_that_was_removed_stays_away(products: Ratchet) -> None:
    """Its older changes come after its removal, and no reader sees it."""
    assert [sent("removed"), sent("changed"), sent("changed-late")] == ["Applied", "Stale", "Stale"]
    assert products.get(DESK) is None
    assert products.query("north").items == []
    assert products.batch_get([DESK]) == [None]


@pytest.mark.parametrize("order", list(permutations(EVENTS)), ids=" ".join)
def test_every_order_of_the_events_ends_alike(products: Ratchet, order: tuple[str, ...]) -> None:
    """Removed at 10:12:04, whatever came first."""
    for name in order:
        sent(name)
    assert products.get(DESK) is None


def test_an_editor_whose_clock_is_wrong_fails(products: Ratchet, clock: FakeClock) -> None:
    """Six minutes ahead: Lambda's retries later it is no longer; an hour ahead it goes where failures go."""
    changed_at = datetime.fromisoformat(event("changed")["detail"]["changedAt"])
    clock.advance((changed_at - clock.now() - timedelta(minutes=6)).total_seconds())
    with pytest.raises(TooFarAhead, match="desk-oak"):
        sent("changed")
    clock.advance(120)
    assert sent("changed") == "Applied"


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


def test_what_was_sent_is_older_than_its_delivery() -> None:
    """The files are as a bus would deliver them, the late one in the order of its own time."""
    for name in EVENTS:
        sent_at = datetime.fromisoformat(event(name)["time"])
        assert datetime.fromisoformat(event(name)["detail"]["changedAt"]) < sent_at
