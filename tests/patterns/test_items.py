"""Python values and DynamoDB's attributes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lambda_once import Misconfigured
from lambda_once.dynamodb.items import plain_item, typed, typed_item
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


def test_a_number_is_once_in_a_set(ground: Ground) -> None:
    """A float and the Decimal that it prints as differ in Python, and are one number in DynamoDB."""
    name = ground.table()
    ground.client.put_item(TableName=name, Item=typed_item({"pk": "1", "set": {1.1, Decimal("1.1")}}))
    item = ground.client.get_item(TableName=name, Key=typed_item({"pk": "1"}))["Item"]
    assert plain_item(item)["set"] == {Decimal("1.1")}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "NaN"),
        (float("-inf"), "Infinity"),
        (1e200, "38 digits"),
        (set(), "empty set"),
        ({None}, "of one kind"),
        ({"a": {5: 1}}, "dict"),
        (Decimal("1E-131"), "from 1E-130"),
        ({"a": [set()]}, "empty set"),
        ({1, "a"}, "of one kind"),
        (object(), "object"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), "Infinity"),
    ],
    ids=[
        "float NaN",
        "float -inf",
        "too large",
        "empty set",
        "set of None",
        "names that are no text",
        "too small",
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


LONG: list[Any] = [
    10**38,
    -(10**125),
    12345678901234567890123456789012345678 * 10**80,
    Decimal("1E39"),
    Decimal("9.9999999999999999999999999999999999999E+125"),
    Decimal("1E-130"),
    Decimal("1E-39"),
    1e38,
    Decimal("1." + "0" * 60),
]
"""Numbers that DynamoDB takes, of more than 38 digits written out."""


@pytest.mark.parametrize("number", LONG, ids=lambda number: f"{type(number).__name__} {Decimal(number):.1e}")
def test_numbers_of_every_size_come_back(ground: Ground, number: Any) -> None:
    """At every depth and in sets; what was read can be written again, and is what was read."""
    name = ground.table()
    given = {"n": number, "list": [number], "map": {"n": number}, "set": {number, 1}}
    for _ in range(2):
        ground.client.put_item(TableName=name, Item=typed_item({"pk": "1", **given}))
        found = plain_item(ground.client.get_item(TableName=name, Key=typed_item({"pk": "1"}))["Item"])
        exact = Decimal(repr(number)) if isinstance(number, float) else number
        assert found == {"pk": "1", "n": exact, "list": [exact], "map": {"n": exact}, "set": {exact, 1}}
        assert type(found["n"]) is (Decimal if 0 < abs(exact) < 1 else int)
        given = {key: each for key, each in found.items() if key != "pk"}


@pytest.mark.parametrize(
    "text", ["1" * 39, "1." + "1" * 38, "1" + "0" * 125, "0." + "0" * 129 + "1", "-1E+125", "007.50"]
)
def test_whatever_text_a_number_has_it_is_read(text: str) -> None:
    """The service may return more digits than it accepts."""
    assert plain_item({"n": {"N": text}, "s": {"NS": [text]}}) == {"n": Decimal(text), "s": {Decimal(text)}}


@pytest.mark.parametrize("number", [10**38 + 1, -(10**40) - 1, Decimal("1." + "0" * 38 + "1")])
def test_numbers_that_dynamodb_cannot_store_are_refused(number: Any) -> None:
    """More than 38 significant digits: nothing is rounded."""
    with pytest.raises(Misconfigured, match="attribute 'n': a value of type"):
        typed_item({"n": number})


def nested(levels: int) -> Any:
    """Return lists and maps in each other."""
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_as_many_levels_are_stored_as_dynamodb_takes(ground: Ground) -> None:
    """The attribute is one of them. More are refused here, before they end the recursion of a reader."""
    name = ground.table()
    ground.client.put_item(TableName=name, Item=typed_item({"pk": "1", "v": nested(31)}))
    found = plain_item(ground.client.get_item(TableName=name, Key=typed_item({"pk": "1"}))["Item"])
    assert found["v"] == nested(31)
    deeper = {"pk": {"S": "1"}, "v": {"L": [typed(nested(31))]}}
    with pytest.raises(ground.client.exceptions.ClientError, match=r"[Nn]esting"):
        ground.client.put_item(TableName=name, Item=deeper)
    cycle: list[object] = []
    cycle.append(cycle)
    for value in (nested(32), nested(400), nested(10_000), cycle):
        with pytest.raises(Misconfigured, match=r"attribute 'v': .* levels"):
            typed_item({"pk": "1", "v": value})


@pytest.mark.parametrize("name", [5, None, b"a", ("a",)])
def test_the_name_of_an_attribute_is_text(name: Any) -> None:
    """In the item and within it: JSON would write 5 as "5", which may be there, too."""
    for given in ({name: 1}, {"a": {name: 1}}, {"a": [{name: 1}]}):
        with pytest.raises(Misconfigured, match="attribute"):
            typed_item(given)


def test_an_attribute_of_an_unknown_type_is_refused() -> None:
    """DynamoDB has had ten types since 2014."""
    with pytest.raises(TypeError, match="type 'X'"):
        plain_item({"n": {"X": "1"}})
