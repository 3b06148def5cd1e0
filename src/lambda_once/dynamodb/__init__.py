"""
One way to talk to DynamoDB, for everything in the package.

What is named here is public, and all that `lambda_once.patterns` is built on:

* `Sender` sends a request until it's answered or the invocation ends, and raises `ConditionFailed` if its
  condition didn't hold; `without_item` is the error to raise if that came without the item.
* `batch_get`, `batch_write` and `pages` send what takes several requests; `Tries` counts those of your own.
* `typed`, `typed_item` and `plain_item` turn Python values into DynamoDB's attributes, and back.
* `code_of`, `message_of`, `reasons_of` and `is_transient` read an error of boto3's, any service's.

A name is imported when it's asked for: some need botocore, for which a cold start would pay.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lambda_once.dynamodb.client import forget_in_child, low_level
    from lambda_once.dynamodb.errors import CANCELED, Caught, code_of, is_transient, message_of, reasons_of
    from lambda_once.dynamodb.items import Item, Values, plain_item, typed, typed_item
    from lambda_once.dynamodb.retry import (
        MOST_WRITES,
        TRIES,
        Tries,
        Unprocessed,
        batch_get,
        batch_write,
        pages,
    )
    from lambda_once.dynamodb.sender import ConditionFailed, Sender, retry_deadline, without_item

__all__ = [
    "CANCELED",
    "MOST_WRITES",
    "TRIES",
    "Caught",
    "ConditionFailed",
    "Item",
    "Sender",
    "Tries",
    "Unprocessed",
    "Values",
    "batch_get",
    "batch_write",
    "code_of",
    "forget_in_child",
    "is_transient",
    "low_level",
    "message_of",
    "pages",
    "plain_item",
    "reasons_of",
    "retry_deadline",
    "typed",
    "typed_item",
    "without_item",
]

_HOMES: Final = ("items", "retry", "client", "sender", "errors")
"""Where a name is looked for: what imports botocore comes last."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"{__name__}.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
