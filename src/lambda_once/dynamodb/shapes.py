"""
What a user gives is checked against AWS' public shape of the request; requests that we write are not checked.

Our clients send without botocore's validation, and without it a `ConditionExpression` of None is left out, so
the item is written unconditionally; ``{"SS": "abc"}`` is a set of letters, ``{"BOOL": "false"}`` is true.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from botocore.loaders import create_loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_ITEMS: Final = 99
"""Items of one transaction beside the token's own (API reference, TransactWriteItems: 100)."""
_MOST = 3
"""Mistakes that a message names."""


def mistake_in(items: Sequence[Mapping[str, Any]]) -> str | None:
    """
    Return what is wrong with *items* of a TransactWriteItems, without any value; None: nothing.

    No items are right: the token is completed alone.
    """
    if isinstance(items, list | tuple) and not items:  # the shape has at least one, and here is no token's
        return None
    shape = _model().operation_model("TransactWriteItems").input_shape
    if isinstance(items, list | tuple) and len(items) > MOST_ITEMS:
        return f"TransactItems: {len(items)} items; at most {MOST_ITEMS} fit beside the token's own"
    try:
        # Not its report, which quotes values; tests/dynamodb/test_shapes.py fails if this changes.
        found = ParamValidator().validate({"TransactItems": items}, shape)._errors  # noqa: SLF001
    except RecursionError:
        return "TransactItems is nested too deeply"
    return "; ".join(_described(*each) for each in found[:_MOST]) or None


@cache
def _model() -> ServiceModel:
    return ServiceModel(create_loader().load_service_model("dynamodb", "service-2"), "dynamodb")


def _described(reason: str, name: str, known: Mapping[str, Any]) -> str:
    path = name.removeprefix(".")
    match reason:
        case "invalid type":
            kinds = " or ".join(
                each.removeprefix("<class '").removesuffix("'>") for each in known["valid_types"]
            )
            return f"{path}: give a {kinds}, not a {type(known['param']).__name__}"
        case "unknown field":
            return f"{path}: {known['unknown_param']!r} is unknown; use {', '.join(known['valid_names'])}"
        case "missing required field":
            return f"{path}: {known['required_name']} is missing"
        case _:
            return f"{path}: {reason}"
