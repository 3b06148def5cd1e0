"""examples/patterns/attribute.py: one attribute with a timestamp of its own, set on an engine."""

from __future__ import annotations

from importlib import import_module
from itertools import permutations
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from tests.patterns.conftest import Ground

CHANGES = (("price", 249, 5), ("price", 259, 5), ("price", 9, 4), ("stock", 7, 3))


def test_every_order_of_updates_ends_in_one_item(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two values of one time, an older one, another attribute, and a repetition."""
    example, table, client = (
        import_module("examples.patterns.attribute"),
        ground.table("offer"),
        ground.client,
    )
    on_table = SimpleNamespace(
        exceptions=client.exceptions,
        update_item=lambda **request: client.update_item(**request | {"TableName": table}),
    )
    monkeypatch.setattr(example, "client", on_table)
    for n, order in enumerate(permutations(CHANGES)):
        for change in (*order, order[0]):
            example.set_newest(f"offer {n}", *change)
    items = client.scan(TableName=table, ConsistentRead=True)["Items"]
    values = [{name: each["N"] for name, each in item.items() if name != "offer"} for item in items]
    assert values == [{"price": "259", "priceAt": "5", "stock": "7", "stockAt": "3"}] * 24
