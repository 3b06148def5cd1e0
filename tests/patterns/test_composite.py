"""Keys made of several fields: readable, and no two lists of fields have one."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.errors import KeyMissing, Misconfigured
from lambda_once.patterns.unique import KeySpec, key_fields, key_of

PARTS = st.lists(st.text(min_size=1, max_size=40) | st.integers(), min_size=1, max_size=4)


def joined(values: Sequence[object]) -> str:
    """Return the text of a key that is made of *values*."""
    fields = {f"field {n}": value for n, value in enumerate(values)}
    return str(key_of({"pk": tuple(fields)}, fields)["pk"])


def keyed(key: KeySpec, **item: object) -> dict[str, object]:
    """Return the key attributes of *item*."""
    return key_of(key_fields(key), item)


@given(PARTS, PARTS)
def test_two_lists_of_fields_have_two_keys(first: list[object], second: list[object]) -> None:
    """Separators, percent signs, digits and anything else in a field stay within it."""
    assert (joined(first) == joined(second)) is (first == second)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (["order_5", "paid"], "order_5#paid"),
        (["a#b", "c"], "a%23b#c"),
        (["a", "b#c"], "a#b%23c"),
        (["5", 5], "5#=5"),
        (["=5", "100%"], "%3D5#100%25"),
        ([-7], "=-7"),
        (["Österreich"], "%C3%96sterreich"),
        ([Decimal(5), Decimal("5.00"), Decimal("5E0"), 5.0], "=5#=5#=5#=5"),
        ([Decimal("-0"), -0.0, Decimal("0E+99")], "=0#=0#=0"),
        ([Decimal("1E+9"), Decimal("-20.0")], "=1000000000#=-20"),
    ],
)
def test_keys_are_readable(fields: list[object], text: str) -> None:
    """What a person types into a console finds the item."""
    assert joined(fields) == text


def test_each_attribute_is_made_of_its_fields() -> None:
    """Of one field or of several, and the fields stay where they are."""
    made = keyed({"pk": "customer", "sk": ["order", "kind"]}, customer="c 7", order=5, kind="paid")
    assert made == {"pk": "c%207", "sk": "=5#paid"}


def test_an_item_may_bring_its_key() -> None:
    """Then it is stored unchanged: text, number or bytes."""
    assert keyed(("pk", "sk"), pk="a#b", sk=Decimal("1.5"), more=1) == {"pk": "a#b", "sk": Decimal("1.5")}
    assert keyed("id", id=b"\x01") == {"id": b"\x01"}


@pytest.mark.parametrize("missing", [{}, {"order": None}, {"order": ""}])
def test_a_missing_field_is_no_key(missing: dict[str, object]) -> None:
    """Nothing, None and the empty text are no part of a key, and the message names the field."""
    with pytest.raises(KeyMissing, match="'order'"):
        keyed({"pk": ["customer", "order"]}, customer="c", **missing)
    with pytest.raises(KeyMissing, match="'order'"):
        keyed("order", **missing)


@given(st.integers(-(10**38), 10**38), st.integers(0, 40))
def test_a_number_has_one_key_in_all_its_forms(number: int, zeros: int) -> None:
    """As an int, as DynamoDB's Decimal, and with an exponent."""
    shifted = number * 10**zeros
    forms = [shifted, Decimal(shifted), Decimal(f"{number}E{zeros}"), Decimal(f"{shifted}.00")]
    assert {joined([form]) for form in forms} == {f"={shifted}"}


@pytest.mark.parametrize(
    "part",
    [
        *(True, 1.5, ["a"], {"a": 1}, b"a", float("nan"), float("inf"), 10**300),
        *map(Decimal, ("1.5", "1E-7", "NaN", "sNaN", "Infinity", "-Infinity", "1E+1000000", "-1E+255")),
    ],
)
def test_a_field_that_is_no_whole_number_is_refused(part: object) -> None:
    """A key is made of text and whole numbers; the message names field and type."""
    with pytest.raises(Misconfigured, match=f"'order' is a {type(part).__name__}, .*whole number"):
        keyed({"pk": "order"}, order=part)


def test_an_item_that_brings_what_is_made_is_refused() -> None:
    """Otherwise one of the two values would be lost silently."""
    with pytest.raises(Misconfigured, match="'pk' is made of customer"):
        keyed({"pk": "customer"}, pk="c", customer="c")
