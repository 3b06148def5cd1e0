"""Python values and DynamoDB's attributes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lambda_once import Misconfigured
from lambda_once.patterns.items import plain_item, typed_item
from tests.patterns.conftest import Ground

VALUES: dict[str, Any] = {
    "text": "ü",
    "empty": "",
    "whole": 5,
    "large": 10**37,
    "exact": Decimal("0.1"),
    "nothing": None,
    "no": False,
    "bytes": b"\x00\xff",
    "list": [1, "a", [Decimal("1.5")]],
    "map": {"inside": {"deeper": 0}},
    "names": {"a", "b"},
    "numbers": {1, 2},
    "digests": {b"1", b"2"},
}


def test_values_come_back_as_they_were(ground: Ground) -> None:
    """Whole numbers as int, binary as bytes, falsy ones too."""
    name = ground.table()
    ground.client.put_item(TableName=name, Item=typed_item({"pk": "1", **VALUES}))
    item = ground.client.get_item(TableName=name, Key=typed_item({"pk": "1"}))["Item"]
    found = plain_item(item)
    assert found == {"pk": "1", **VALUES}
    assert {key: type(value) for key, value in found.items()} == {
        "pk": str,
        **{key: type(value) for key, value in VALUES.items()},
    }


def test_a_float_is_the_decimal_that_it_prints_as(ground: Ground) -> None:
    """At every depth; it comes back as that, whole ones as int."""
    name = ground.table()
    given = {"price": 249.5, "whole": 2.0, "list": [0.1, {"deep": (1e-7,)}], "set": {1.5, 2.5}}
    ground.client.put_item(TableName=name, Item=typed_item({"pk": "1", **given}))
    assert plain_item(ground.client.get_item(TableName=name, Key=typed_item({"pk": "1"}))["Item"]) == {
        "pk": "1",
        "price": Decimal("249.5"),
        "whole": 2,
        "list": [Decimal("0.1"), {"deep": [Decimal("1e-7")]}],
        "set": {Decimal("1.5"), Decimal("2.5")},
    }


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "NaN"),
        (float("-inf"), "Infinity"),
        (1e200, "Overflow"),
        (set(), "empty set"),
        ({"a": [set()]}, "empty set"),
        ({1, "a"}, "set"),
        (object(), "object"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), "Infinity"),
    ],
    ids=[
        "float NaN",
        "float -inf",
        "too large",
        "empty set",
        "nested empty set",
        "mixed set",
        "object",
        "NaN",
        "-Infinity",
    ],
)
def test_what_cannot_be_stored_is_named(value: object, why: str) -> None:
    """The error says which attribute, and what is wrong with it."""
    with pytest.raises(Misconfigured, match=f"attribute 'amount'.*{why}"):
        typed_item({"id": "5", "amount": value})
