"""Reading what a ratchet keeps, in as many requests as it takes: tombstones are never seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_once.dynamodb.paging import batch_get
from lambda_once.dynamodb.retry import TRIES
from lambda_once.patterns.items import plain_item, typed_item
from lambda_once.patterns.ratchet import requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lambda_once.patterns.items import Item, Values
    from lambda_once.patterns.ratchet.requests import Shape
    from lambda_once.patterns.transport import PatternTransport


class Page(NamedTuple):
    """Some of the items of a partition, in the order of their sort key."""

    items: list[Values]
    cursor: Values | None
    """The key after which the next page begins; None: there is none."""


def found_at(
    transport: PatternTransport, shape: Shape, keys: Iterable[Values], *, consistent: bool
) -> dict[tuple[object, ...], Values | None]:
    """
    Return the items at *keys* by their keys' values; None for a tombstone, no entry for none.

    100 keys a request, and what was not read of them again. Raises `StoreUnavailable` when six requests in a
    row read nothing.
    """
    wanted = {tuple(key.values()): typed_item(key) for key in keys}.values()
    send, deadline = transport.send, transport.deadline
    items = batch_get(send, shape.table, wanted, deadline, TRIES, ConsistentRead=consistent)
    return {tuple(shape.key_of(plain_item(item)).values()): requests.live(item) for item in items}


def page_of(
    transport: PatternTransport, shape: Shape, request: Mapping[str, Any], start: Values | None, limit: int
) -> Page:
    """
    Return *limit* items of the query *request* from behind the key *start*, fewer only at its end.

    DynamoDB counts rows before it leaves out tombstones, so it is asked until the page is full.
    """
    items: list[Item] = []
    begin = None if start is None else typed_item(start)
    while len(items) < limit:
        behind = {} if begin is None else {"ExclusiveStartKey": begin}
        answer = transport.send("query", {**request, **behind, "Limit": limit})
        items += answer["Items"]
        begin = answer.get("LastEvaluatedKey")
        if begin is None:
            break
    shown = [each for each in map(requests.live, items[:limit]) if each is not None]
    if len(items) > limit:  # the row that was read last lies beyond this page
        return Page(shown, shape.key_of(shown[-1]))
    return Page(shown, None if begin is None else plain_item(begin))
