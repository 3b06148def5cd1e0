"""JSON with every digit of a Decimal."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.patterns.exact_json import exact_json

NULS = st.text(st.sampled_from('\0"\\u0'), max_size=12)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.one_of(NULS, DECIMALS, st.integers(), st.booleans(), st.none()),
    lambda inner: st.lists(inner) | st.dictionaries(NULS, inner),
    max_leaves=30,
)


def number(value: object) -> str:
    """Return the text of a Decimal."""
    if not isinstance(value, Decimal):
        raise TypeError(type(value).__name__)
    return f"{value:E}"


@given(VALUES)
def test_every_value_comes_back(value: Any) -> None:
    """Whatever its strings contain, marks included; a Decimal with its digits and zeros."""
    found = json.loads(exact_json(value, number), parse_float=Decimal)
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    "value", [{"a": 1, 2: [None, True], None: "ü\ud800"}, [], "", {"\0": ['"\0"', "\0\0"]}], ids=repr
)
def test_without_decimals_it_is_the_json_of_the_standard_library(value: object) -> None:
    """Names that are numbers included."""
    assert exact_json(value, number) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("value", [{1, 2}, {"a": [object()]}, {(1, 2): 3}, float("nan"), [float("inf")]])
def test_what_is_not_json_is_refused(value: object) -> None:
    """By the encoder, or by the function for other values."""
    with pytest.raises((TypeError, ValueError)):
        exact_json(value, number)


@pytest.mark.parametrize(
    "value",
    [
        {1: "a", "1": "b"},
        {"deep": [({"null": 1, None: 2},)]},
        {True: 1, "true": 2},
        {"1.5": 1, 1.5: 2},
        {"x": 1, False: {"y": 1}, "false": 3},
    ],
    ids=repr,
)
def test_two_names_that_are_one_in_json_are_refused(value: object) -> None:
    """One of the two values would be lost; the standard library writes both."""
    with pytest.raises(ValueError, match=r"2 names of one object are '(1|null|true|1\.5|false)' in JSON"):
        exact_json(value, number)


@pytest.mark.parametrize(
    "value", [{2024: 1, 2025: 2, "total": 3}, {None: 1, "None": 2, "0": 3, False: 4}, {1: {"1": 1}}], ids=repr
)
def test_names_that_differ_in_json_are_written(value: Any) -> None:
    """Also those that are no text."""
    assert len(json.loads(exact_json(value, number))) == len(value)
