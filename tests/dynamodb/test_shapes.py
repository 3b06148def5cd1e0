"""What a user puts into a transaction is checked before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once.dynamodb import shapes
from lambda_once.dynamodb.shapes import mistake_in
from lambda_once.integrations.private import Mistake

SECRET = "4111111111111111"


def _put(**more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": "orders", "Item": {"id": {"S": "1"}}} | more}


def _value(value: Any) -> dict[str, Any]:
    return _put(Item={"id": {"S": "1"}, "of": value})


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"S": "x"}
    for _ in range(levels):
        value = {"L": [value]}
    return value


WRONG: dict[str, tuple[Any, str]] = {
    "a condition of None": (
        [_put(ConditionExpression=None)],
        "TransactItems[0].Put.ConditionExpression: give a str, not a NoneType",
    ),
    "the second item": ([_put(), _put(TableName=1)], "TransactItems[1].Put.TableName: give a str, not a int"),
    "a set of letters": ([_value({"SS": SECRET})], "Put.Item.of.SS: give a list or tuple, not a str"),
    "a number in a set": ([_value({"SS": ["a", 1]})], "Put.Item.of.SS[1]: give a str, not a int"),
    "false that is true": ([_value({"BOOL": "false"})], "Put.Item.of.BOOL: give a bool, not a str"),
    "0 that is false": ([_value({"BOOL": 0})], "Put.Item.of.BOOL: give a bool, not a int"),
    "a number": ([_value({"N": 41})], "Put.Item.of.N: give a str, not a int"),
    "a plain value": ([_value(SECRET)], "Put.Item.of: give a dict, not a str"),
    "deep within": (
        [_value({"M": {"a": {"L": [{"SS": SECRET}]}}})],
        "Put.Item.of.M.a.L[0].SS: give a list or tuple, not a str",
    ),
    "an unknown type": ([_value({"T": SECRET})], "Put.Item.of: 'T' is unknown; use S, N, B,"),
    "an unknown operation": (
        [{"Putt": _put()["Put"]}],
        "TransactItems[0]: 'Putt' is unknown; use ConditionCheck, Put, Delete, Update",
    ),
    "an unknown parameter": (
        [_put(Condition="x")],
        "TransactItems[0].Put: 'Condition' is unknown; use Item,",
    ),
    "no table": ([{"Put": {"Item": {}}}], "TransactItems[0].Put: TableName is missing"),
    "an empty name": ([_put(TableName="")], "TransactItems[0].Put.TableName: invalid length"),
    "a name that is no text": (
        [_put(ExpressionAttributeNames={1: "a"})],
        "ExpressionAttributeNames (key: 1)",
    ),
    "one item alone": (_put(), "TransactItems: give a list or tuple, not a dict"),
    "none at all": (None, "TransactItems: give a list or tuple, not a NoneType"),
    "a generator": ((_put() for _ in "a"), "TransactItems: give a list or tuple, not a generator"),
    "an item of None": ([_put(), None], "TransactItems[1]: give a dict, not a NoneType"),
    "too many": ([_put()] * 100, "TransactItems: 100 items; at most 99 fit beside the token's own"),
    "endless": ([_value(_nested(3_000))], "TransactItems is nested too deeply"),
}
RIGHT: dict[str, Any] = {
    "none": [],
    "a tuple": (_put(),),
    "as many as fit": [_put()] * 99,
    "a condition": [_put(ConditionExpression="attribute_not_exists(id)")],
    "each type": [
        _put(
            Item={
                "s": {"S": ""},
                "n": {"N": "1.50"},
                "b": {"B": b"\x00"},
                "a": {"B": bytearray(b"\x00")},
                "t": {"SS": ["x"]},
                "u": {"NS": ("1",)},
                "v": {"BS": [b"x"]},
                "m": {"M": {"l": {"L": []}}},
                "z": {"NULL": True},
                "f": {"BOOL": False},
            }
        )
    ],
    "other operations": [
        {"Update": {"TableName": "t", "Key": {"id": {"S": "1"}}, "UpdateExpression": "SET a = :a"}},
        {"Delete": {"TableName": "t", "Key": {"id": {"S": "2"}}}},
        {"ConditionCheck": {"TableName": "t", "Key": {"id": {"S": "3"}}, "ConditionExpression": "a = :a"}},
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_found(name: str) -> None:
    """Its path, and what to give, and no value."""
    items, said = WRONG[name]
    mistake = mistake_in(items)
    assert said in str(mistake)
    assert SECRET not in str(mistake)


@pytest.mark.parametrize("name", RIGHT)
def test_what_dynamodb_takes_passes(name: str) -> None:
    """As it passes botocore's own validation."""
    assert mistake_in(RIGHT[name]) is None


def test_a_few_mistakes_are_named() -> None:
    """Not hundreds."""
    assert str(mistake_in([{"Putt": 1}] * 50)).count("Putt") == 3


def test_mistakes_that_botocore_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its private list of them items are refused all the same, in general words."""
    monkeypatch.setattr(shapes, "mistakes", lambda _: None)
    for items, _ in WRONG.values():
        assert str(mistake_in(items)).startswith("TransactItems")
        assert SECRET not in str(mistake_in(items))
    assert [each for each in RIGHT.values() if mistake_in(each) is not None] == []


def test_mistakes_whose_details_have_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason and the place are left."""
    monkeypatch.setattr(shapes, "mistakes", lambda _: [Mistake("invalid type", ".TransactItems[0]", {})])
    assert mistake_in([{"Putt": 1}]) == "TransactItems[0]: invalid type"
