"""What an item of a ledger says as it stands: attributes of the caller, and ids that it remembers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambda_once.patterns.items import Item, Values, plain_item
from lambda_once.patterns.ledger.layout import (
    LAYOUT,
    MOST_BUCKETS,
    NAMES,
    TIME,
    VERSION,
    WIDTH,
    Layout,
    bucket_name,
    is_its_own,
)

if TYPE_CHECKING:
    from collections.abc import Container
    from datetime import datetime


def own_values(item: Item, key: Container[str]) -> Values:
    """Return the caller's attributes of *item*: without the key and what the ledger keeps for itself."""
    return plain_item({name: each for name, each in item.items() if name not in key and not is_its_own(name)})


def version_of(item: Item) -> dict[str, int | None]:
    """Return what to expect of an item that nobody wrote to since: how often a ledger did."""
    return {VERSION: int(item[VERSION]["N"]) if VERSION in item else None}


def ids_at(seen: Item, ours: Layout, now: datetime) -> set[bytes]:
    """Return the ids that an item which stands as *seen* refuses to a writer of the layout *ours*."""
    layout = in_use(seen, ours)
    return set().union(*remembered(seen, layout, newest(seen, layout, now)).values())


def in_use(seen: Item, ours: Layout) -> Layout:
    """
    Return the layout in which *seen* is to be written to: its own, or *ours* where that remembers longer.

    So writers of two windows that take turns do not arrange the ids anew each time, which would make all of
    them younger.
    """
    stands = layout_of(seen, ours)
    return ours if stands is None or stands.span < ours.span else stands


def layout_of(seen: Item, ours: Layout) -> Layout | None:
    """
    Return the layout that *seen* has; None: no ledger wrote it.

    Where only the width is known, it is *ours* if that has it, and else may have had the most buckets.
    """
    width = width_of(seen)
    if width == 0:
        return None
    said, buckets = divmod(int(seen.get(LAYOUT, {"N": "0"})["N"]), 100)
    if said == width:
        return Layout(width, buckets)
    return ours if width == ours.width and LAYOUT not in seen else Layout(width, MOST_BUCKETS)


def newest(seen: Item, layout: Layout, now: datetime) -> int:
    """Return the number of the bucket that a write of *layout* adds to: the item's time does not go back."""
    number = layout.number(now)
    return max(number, time_of(seen)) if width_of(seen) == layout.width else number


def remembered(seen: Item, layout: Layout, number: int) -> dict[int, set[bytes]]:
    """
    Return the ids of *seen* that live while *number* is the newest, by their bucket of *layout*.

    Those of a bucket of another width count as added at its end: rather too long kept than too short.
    """
    kept: dict[int, set[bytes]] = {}
    width, time = width_of(seen), time_of(seen)
    for position in range(NAMES):
        held = seen.get(bucket_name(position))
        if held is None:
            continue
        stored = time - (time - position) % NAMES
        ours = stored if width == layout.width else ((stored + 1) * width - 1) // layout.width
        if ours in layout.live(number) or ours > number:
            kept.setdefault(min(ours, number), set()).update(bytes(each) for each in held["BS"])
    return kept


def time_of(seen: Item) -> int:
    """Return the number of the newest bucket."""
    return int(seen.get(TIME, {"N": "0"})["N"])


def width_of(seen: Item) -> int:
    """Return the width of the buckets in milliseconds; 0 where no ledger wrote the item."""
    return int(seen.get(WIDTH, {"N": "0"})["N"])
