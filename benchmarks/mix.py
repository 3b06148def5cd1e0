"""
`python -m benchmarks.mix`: write units of 2,000 works with the usual failures, by the engine's own count.

By the stream, listed at once, and Powertools' in the same run. --docs writes the table of docs/costs.md.
What a watchdog lists of lapsed work is counted with that.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import boto3
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function

from benchmarks import report
from benchmarks.costs import PAGE
from benchmarks.meter import Meter
from benchmarks.sides import THEIRS
from benchmarks.world import engine, function_environment, reaching
from lambda_once import HOLD, Once
from lambda_once.operations.watchdog import watchdog
from lambda_once.testing import create_table, lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

WORKS: Final = 2_000
LAPSED: Final = "lapsed, listed, and taken over"
SHARES: Final[Mapping[str, float]] = {
    "done": 0.979,
    "sent twice": 0.01,
    "retried": 0.003,
    "extended": 0.003,
    "held": 0.001,
    LAPSED: 0.002,
    "`transact`": 0.002,
}
"""What becomes of a work, and how often."""
MARK: Final = "mix"
STREAM: Final = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
GRACE: Final = timedelta(seconds=2.5)
"""How long after a lease it is over by every clock."""
LEASE: Final = timedelta(seconds=3)


class Units(NamedTuple):
    """Write units a work, of each kind and of all."""

    by_kind: Mapping[str, float]
    all: float


class Played(NamedTuple):
    """A side: what lets a work of a kind happen, under a key, and what follows once leases are over."""

    happen: Callable[[str, str], None]
    after: Callable[[Sequence[str]], None] | None = None
    """Given the keys of what lapsed."""


class Declined(Exception):
    """The work raises; it runs again."""


class Unclear(Exception):
    """The work raises; a person decides."""


def kinds() -> list[str]:
    """Return what becomes of each work."""
    found = [kind for kind, share in SHARES.items() for _ in range(round(share * WORKS))]
    Random(23).shuffle(found)  # noqa: S311  (no secret)
    return found


@contextmanager
def _failing() -> Iterator[None]:
    with suppress(Declined, Unclear):
        yield


def ours(client: Any, listing: Literal["stream", "at_once"]) -> Played:  # noqa: C901  (one branch a kind)
    """Return what lambda-once does, listing as *listing* says."""
    name = f"tokens-{listing}"
    create_table(client, name)
    client.update_table(TableName=name, StreamSpecification=STREAM)
    _create_orders(client)
    once = Once(table=name, client=client, service="orders", listing=listing)
    watch = watchdog(name, client, sweep=False, listing=listing)
    raises: dict[str, Exception] = {}

    @once.function(name="hold", key="order", on_error={Unclear: HOLD})
    def hold(order: str) -> str:
        raise Unclear

    @once.function(name="work", key="order")
    def work(order: str, kind: str) -> str:
        if order in raises:
            raise raises.pop(order)
        if kind == "extended":
            once.current().extend(600)
        if kind == "`transact`":
            once.current().transact([_put(order)])
        return order

    def happen(order: str, kind: str) -> None:
        if kind == LAPSED:
            once.begin(order, name="crash", lease=LEASE).__enter__()
            return
        if kind == "retried":
            raises[order] = Declined()
        for _ in range(2 if kind in ("sent twice", "retried") else 1):
            with _failing(), once.invocation(lambda_context()):
                hold(order) if kind == "held" else work(order, kind)

    def after(lapsed: Sequence[str]) -> None:
        watch({}, lambda_context())
        for order in lapsed:
            with once.begin(order, name="crash", lease=LEASE) as attempt:
                attempt.complete(order)

    return Played(happen, after)


def theirs(client: Any) -> Played:
    """Return what Powertools does, which has no hold, no extension and no transaction: there work is done."""
    THEIRS.create_table(client)
    config = IdempotencyConfig()
    raises: set[str] = set()

    @idempotent_function(  # type: ignore[untyped-decorator]
        data_keyword_argument="order", persistence_store=THEIRS.layer(client), config=config
    )
    def work(order: str) -> str:
        if order in raises:
            raises.remove(order)
            raise Declined
        return order

    def happen(order: str, kind: str) -> None:
        if kind == "retried":
            raises.add(order)
        config.register_lambda_context(lambda_context())
        for _ in range(2 if kind in ("sent twice", "retried") else 1):
            with _failing():
                work(order=order)

    return Played(happen)


def _put(order: str) -> dict[str, Any]:
    return {"Put": {"TableName": "orders", "Item": {"id": {"S": order}}}}


def _create_orders(client: Any) -> None:
    if "orders" not in client.list_tables()["TableNames"]:
        client.create_table(
            TableName="orders",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        )


def measured(client: Any, side: Played) -> Units:
    """Let 2,000 works happen, and return their units."""
    meter = Meter(client)
    units: Counter[str] = Counter()
    all_kinds, run = kinds(), os.urandom(4).hex()
    orders = [(f"{run}-{number}", kind) for number, kind in enumerate(all_kinds)]
    for order, kind in orders:
        side.happen(order, kind)
        units[kind] += round(meter.spent().write_units)
    if side.after is not None:
        time.sleep((LEASE + GRACE).total_seconds())
        side.after([order for order, kind in orders if kind == LAPSED])
        units[LAPSED] += round(meter.spent().write_units)
    counts = Counter(all_kinds)
    return Units({kind: units[kind] / counts[kind] for kind in SHARES}, sum(units.values()) / WORKS)


def table(stream: Units, at_once: Units, powertools: Units) -> str:
    """Return the table of docs/costs.md."""
    counts = Counter(kinds())
    rows = [
        f"| {kind}, {counts[kind]:,} | {stream.by_kind[kind]:.2f} | {at_once.by_kind[kind]:.2f} "
        f"| {powertools.by_kind[kind]:.2f} |"
        for kind in SHARES
    ]
    head = [
        f"| write units of a work, of {WORKS:,} | by the stream | at once | Powertools |",
        "|---|---|---|---|",
    ]
    last = f"| **all** | **{stream.all:.3f}** | **{at_once.all:.3f}** | **{powertools.all:.3f}** |"
    return "\n".join([*head, *rows, last])


def main() -> None:
    """Measure all three on one engine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mix", description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the table")
    arguments = parser.parse_args()
    makers = (partial(ours, listing="stream"), partial(ours, listing="at_once"), theirs)
    found = []
    with engine() as endpoint, function_environment(), reaching(endpoint):
        for make in makers:
            client = boto3.client("dynamodb")
            found.append(measured(client, make(client)))
    text = table(*found)
    print(text)
    if arguments.docs:
        report.write(PAGE, MARK, text)


if __name__ == "__main__":
    main()
