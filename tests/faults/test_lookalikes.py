"""Work that looks alike and is not: none is taken for a duplicate of the other."""

from __future__ import annotations

import os
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import Misconfigured
from tests.faults.tables import Layers
from tests.sources.samples import batch, rest, sqs_record, tick


def test_two_functions_of_one_name_in_two_lambdas(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Lambda function's name is part of the token; name= shares it on purpose."""
    ran: list[str] = []

    def deployed(function: str, **options: Any) -> None:
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", function)

        @layers.once().event(**options)
        def handler(event: dict[str, int]) -> None:
            ran.append(os.environ["AWS_LAMBDA_FUNCTION_NAME"])

        handler({"order": 5}, layers.context())

    for function in ("billing", "shipping", "billing"):
        deployed(function)
    assert ran == ["billing", "shipping"]
    for function in ("billing", "shipping"):
        deployed(function, name="shared")
    assert ran == ["billing", "shipping", "billing"]


def test_two_functions_of_one_lambda(layers: Layers) -> None:
    """Two functions with equal arguments do not share tokens."""
    once = layers.once()

    @once.function
    def charge(order: int) -> str:
        return "charged"

    @once.function
    def refund(order: int) -> str:
        return "refunded"

    assert [charge(5), refund(5), charge(5)] == ["charged", "refunded", "charged"]


def test_two_equal_ticks(layers: Layers) -> None:
    """Two ticks of a schedule are two; the retry of one is a duplicate."""
    ran: list[str] = []

    @layers.once().event
    def handler(event: dict[str, Any]) -> None:
        ran.append(event["id"])

    for id_ in ("monday", "tuesday", "monday"):
        handler(tick(id_), layers.context())
    assert ran == ["monday", "tuesday"]


def test_two_paths_of_one_route(layers: Layers) -> None:
    """The path as requested counts, not the route: one key pays order 5 and order 6."""
    paid: list[str] = []

    @layers.once().api_gateway
    def handler(event: dict[str, Any]) -> dict[str, int]:
        paid.append(event["path"])
        return {"statusCode": 200}

    for order in (5, 6, 5):
        path, headers = f"/orders/{order}/pay", {"Idempotency-Key": ["k"]}
        handler(rest("{}", headers=headers, path=path), layers.context())
    assert paid == ["/orders/5/pay", "/orders/6/pay"]


def test_an_amended_order_in_the_batch_of_the_new_one(layers: Layers) -> None:
    """The amended order goes back to the queue; it is neither worked as, nor lost in, the new one."""
    seen: list[str] = []

    @layers.once().sqs(key="order")
    def handler(record: SQSRecord) -> None:
        seen.append(record.json_body["what"])

    event = batch(
        sqs_record({"order": 1, "what": "new"}, id_="a"),
        sqs_record({"order": 1, "what": "amended"}, id_="b"),
        sqs_record({"order": 1, "what": "new"}, id_="c"),
    )
    answer = handler(event, layers.context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "b"}]}
    assert seen == ["new"]


def test_two_tenants_self(layers: Layers) -> None:
    """Two objects' methods share tokens only where the decorator was given what distinguishes them."""
    once = layers.once()

    class Tenant:
        def __init__(self, name: str) -> None:
            self.name = name

        @once.function(key="order", scope=lambda self, *_: self.name)
        def charge(self, order: int) -> str:
            return f"{self.name} {order}"

    acme, zenith = Tenant("acme"), Tenant("zenith")
    assert [acme.charge(5), zenith.charge(5), acme.charge(5)] == ["acme 5", "zenith 5", "acme 5"]
    with pytest.raises(Misconfigured):

        class Careless:
            @once.function
            def charge(self, order: int) -> None: ...


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/b", ["a", "b"]),
        ("1", 1.5),
        (1, True),
        (["a", "bc"], ["ab", "c"]),
        ("a%2Fb", "a/b"),
        ("é", "e\u0301"),
    ],
)
def test_keys_that_look_alike(layers: Layers, one: Any, other: Any) -> None:
    """No two different keys make one token; only a whole number is its own digits."""
    once = layers.once()
    for key in (one, other):
        with once.begin(key, name="work") as attempt:
            assert not attempt.replayed


def test_key_and_scope_do_not_run_together(layers: Layers) -> None:
    """A slash in a scope or key cannot make it another scope's key."""
    once = layers.once()
    for scope, key in (("a", "b/c"), ("a/b", "c"), (None, "a/b/c")):
        with once.begin(key, scope=scope, name="work") as attempt:
            assert not attempt.replayed
