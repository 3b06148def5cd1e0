"""The requests of a ratchet, as values."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lambda_once.dynamodb.items import typed_item
from lambda_once.errors import Misconfigured
from lambda_once.patterns.ratchet.requests import (
    ANYTHING,
    DELETE_IS_NEWER,
    IS_LIVE,
    NOTHING_READ,
    OWN,
    PUT_IS_NEWER,
    put,
    query,
    rank_of,
    ratchet_table,
    tombstone,
)

SHAPE = ratchet_table("products", ("pk", "sk"), "ts")
KEY = {"pk": "p", "sk": "s"}


def test_a_put_replaces_the_whole_item_under_one_condition() -> None:
    """Content, stamp and rank in one PutItem, which returns the item where it is refused."""
    write = put(SHAPE, {**KEY, "price": 5}, 1_000, ANYTHING)
    rank = rank_of(typed_item({**KEY, "price": 5}))
    assert write.request("") == {
        "TableName": "products",
        "Item": {
            "pk": {"S": "p"},
            "sk": {"S": "s"},
            "price": {"N": "5"},
            "ts": {"N": "1000"},
            "_rank": {"S": rank},
        },
        "ConditionExpression": f"attribute_not_exists(#ts) OR ({PUT_IS_NEWER})",
        "ExpressionAttributeNames": {"#ts": "ts", "#deleted": "deleted", "#rank": "_rank"},
        "ExpressionAttributeValues": {":ts": {"N": "1000"}, ":rank": {"S": rank}, ":deleted": {"BOOL": True}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def test_a_tombstone_keeps_key_stamp_mark_and_ttl_only() -> None:
    """It is one PutItem too, and nothing of the item's content is left."""
    request = tombstone(SHAPE, KEY, 1_000, ANYTHING, 99).request("")
    assert request["Item"] == {
        "pk": {"S": "p"},
        "sk": {"S": "s"},
        "ts": {"N": "1000"},
        "deleted": {"BOOL": True},
        "ttl": {"N": "99"},
    }
    assert request["ConditionExpression"] == f"attribute_not_exists(#ts) OR ({DELETE_IS_NEWER})"
    assert request["ExpressionAttributeNames"] == {"#ts": "ts"}
    assert request["ExpressionAttributeValues"] == {":ts": {"N": "1000"}}


def test_text_is_compared_with_text_of_its_length_only() -> None:
    """The condition of a text asks for the width of the stored one."""
    request = put(SHAPE, KEY, "0007", ANYTHING).request("")
    assert "(size(#ts) = :width AND (" in request["ConditionExpression"]
    assert request["ExpressionAttributeValues"][":width"] == {"N": "4"}


def test_an_expectation_is_a_further_condition() -> None:
    """What is newer is asked first; then what was read must stand, or this very write, known by its id."""
    request = put(SHAPE, KEY, 7, None).request("id of the revision")
    newer = f"attribute_not_exists(#ts) OR ({PUT_IS_NEWER})"
    assert request["ConditionExpression"] == f"({newer}) AND ({NOTHING_READ} OR {OWN})"
    assert request["Item"]["_write"] == request["ExpressionAttributeValues"][":write"]
    assert request["ExpressionAttributeNames"]["#pk"] == "pk"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n": Decimal("1.00")}, {"n": 1}),
        ({"n": (1, 2)}, {"n": [1, 2]}),
        ({"n": {"b", "a"}}, {"n": {"a", "b"}}),
    ],
)
def test_what_is_stored_as_the_same_has_one_rank(one: dict[str, object], other: dict[str, object]) -> None:
    """However a number, a list or a set was written by its caller."""
    assert rank_of(typed_item(one)) == rank_of(typed_item(other))


@pytest.mark.parametrize(
    "other", [{"n": "1"}, {"n": {1}}, {"n": [1]}, {"m": 1}, {"n": b"1"}, {"n": True}, {}]
)
def test_other_contents_have_other_ranks(other: dict[str, object]) -> None:
    """Types count, and names do."""
    assert rank_of(typed_item(other)) != rank_of(typed_item({"n": 1}))


@pytest.mark.parametrize("name", ["deleted", "_rank", "_write"])
def test_an_item_may_not_use_the_names_of_the_ratchet(name: str) -> None:
    """An item of its own ``deleted`` would be taken for a tombstone."""
    with pytest.raises(Misconfigured, match=name):
        put(SHAPE, {**KEY, name: True}, 1, ANYTHING)


@pytest.mark.parametrize("bad", [float("inf"), object(), float])
def test_what_dynamodb_cannot_keep_is_refused_by_name(bad: object) -> None:
    """The error says which attribute."""
    with pytest.raises(Misconfigured, match="price"):
        put(SHAPE, {**KEY, "price": bad}, 1, ANYTHING)


def test_a_query_leaves_tombstones_out_on_the_server() -> None:
    """They are filtered before they travel."""
    request = query(SHAPE, SHAPE.key, "p", "a", None)
    assert request == {
        "TableName": "products",
        "KeyConditionExpression": "#pk = :pk AND begins_with(#sk, :sk)",
        "FilterExpression": IS_LIVE,
        "ExpressionAttributeNames": {"#pk": "pk", "#deleted": "deleted", "#sk": "sk"},
        "ExpressionAttributeValues": {":pk": {"S": "p"}, ":sk": {"S": "a"}, ":deleted": {"BOOL": True}},
    }
