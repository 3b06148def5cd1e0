"""What can be planned at all: the bounds of each quantity, and what is said of the rest."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.layout import FEWEST_BUCKETS, MOST_BUCKETS
from lambda_once.patterns.ledger.wishes import MOST_SHARDS
from lambda_once.patterns.sizing.limits import MOST_ITEM_BYTES, ItemSize

LEAST_RATE: Final = 1e-10
"""Writes a second: one in three hundred years."""
MOST_RATE: Final = 1_000_000
SHORTEST: Final = timedelta(milliseconds=1)
LONGEST: Final = timedelta(days=36_525)
"""A hundred years."""

_NO_LIFETIME: Final = "lifetime is {}: give a time of 1 ms to 100 years; a number is in seconds"


def span_of(lifetime: timedelta | float | None) -> timedelta | None:
    """Return *lifetime* as a `timedelta`. Raises `Misconfigured` for what is no length of time."""
    if lifetime is None or isinstance(lifetime, timedelta):
        return lifetime
    if not _is_number(lifetime) or not 0 < lifetime <= LONGEST.total_seconds():
        raise Misconfigured(_NO_LIFETIME.format(repr(lifetime)))
    return timedelta(seconds=lifetime)


def check(
    rate: float | None,
    lifetime: timedelta | None,
    shards: int | None,
    id_bytes: int | None,
    other_bytes: int | None,
    buckets: int,
) -> None:
    """Raise `Misconfigured` for what is no rate, no lifetime, no number of shards, no size."""
    if rate is not None and not (_is_number(rate) and LEAST_RATE <= rate <= MOST_RATE):
        raise Misconfigured(f"rate is {rate!r}: give writes a second, {LEAST_RATE:g} to {MOST_RATE:,}")
    if lifetime is not None and not SHORTEST <= lifetime <= LONGEST:
        raise Misconfigured(_NO_LIFETIME.format(lifetime))
    for name, number, least, most in (
        ("shards", shards, 1, MOST_SHARDS),
        ("id_bytes", id_bytes, 1, MOST_ITEM_BYTES),
        ("other_bytes", other_bytes, 0, MOST_ITEM_BYTES),
        ("buckets", buckets, FEWEST_BUCKETS, MOST_BUCKETS),
    ):
        if number is not None and not (_is_whole(number) and least <= number <= most):
            raise Misconfigured(f"{name} is {number!r}: give a whole number, {least} to {most:,}")
    if id_bytes is not None and other_bytes is not None:
        _check_one_fits(ItemSize(id_bytes, other_bytes, buckets))


def _check_one_fits(size: ItemSize) -> None:
    if size.bytes_of(1) > MOST_ITEM_BYTES:
        raise Misconfigured(
            f"an id of {size.id_bytes:,} bytes and {size.fixed:,} bytes beside it are more than an item may "
            f"have ({MOST_ITEM_BYTES:,}): make one smaller"
        )


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _is_whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)
