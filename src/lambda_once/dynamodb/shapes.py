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

from lambda_once.integrations.private import Mistake, mistakes

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
        found = ParamValidator().validate({"TransactItems": items}, shape)
    except RecursionError:
        return "TransactItems is nested too deeply"
    if not found.has_errors():
        return None
    known = mistakes(found)
    if known is None:
        return "TransactItems: they do not have the shape that AWS' API reference has for them"
    return "; ".join(map(_described, known[:_MOST]))


@cache
def _model() -> ServiceModel:
    return ServiceModel(create_loader().load_service_model("dynamodb", "service-2"), "dynamodb")


def _described(mistake: Mistake) -> str:
    path = mistake.place.removeprefix(".")
    match mistake.reason, mistake.details:
        case "invalid type", {"valid_types": valid, "param": given}:
            kinds = " or ".join(each.removeprefix("<class '").removesuffix("'>") for each in valid)
            return f"{path}: give a {kinds}, not a {type(given).__name__}"
        case "unknown field", {"unknown_param": name, "valid_names": names}:
            return f"{path}: {name!r} is unknown; use {', '.join(names)}"
        case "missing required field", {"required_name": name}:
            return f"{path}: {name} is missing"
        case reason, _:
            return f"{path}: {reason}"
