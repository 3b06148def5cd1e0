"""
`python -m benchmarks.price`: dollars a million invocations, from what DynamoDB Local charged for.

Without options the recorded units are priced at the list prices below, and printed. Each price can be given
(--write 0.7423). --measure takes the units anew; --docs writes them, table and charts into docs/.
"""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks import bill
from benchmarks.report import lined
from benchmarks.sides import OURS, THEIRS
from benchmarks.steps import steps
from lambda_once.core.record import State
from lambda_once.observability.details import MANNERS
from lambda_once.stores.index import partitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.bill import Bill, Charged, Recorded

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "operations.md"
BEGIN, END = "<!-- cost: begin -->", "<!-- cost: end -->"

CHECKED: Final = "2026-11-20"
REGION: Final = "us-east-1"
SOURCES: Final = {
    "DynamoDB, on demand, Standard table class": "https://aws.amazon.com/dynamodb/pricing/on-demand/",
    "CloudWatch": "https://aws.amazon.com/cloudwatch/pricing/",
}
GIGABYTE = 1e9
MONTH_DAYS = 30.4
KEPT_DAYS = 14
USUAL_METRICS: Final = ("started", "completed", "replayed")
WATCHDOG_METRICS: Final = ("missingTasks", "oldestOverdueSeconds", "heldTokens")
WATCHDOG_MINUTES = 5
WATCHDOG_QUERIES: Final = 2 * len(partitions(State.IN_PROGRESS))
"""Of a run that finds nothing: each partition of what is in progress, and of what is held."""
EMPTY_QUERY_UNITS = 0.5
"""
Read units of a query, eventually consistent, that finds nothing.

DynamoDB developer guide, "Capacity unit consumption for read operations"; DynamoDB Local says 0.
"""


class Prices(NamedTuple):
    """
    List prices in dollars, `REGION`, looked up on the day `CHECKED`; free tiers are left out.

    Prices change: who budgets with them reads `SOURCES` first, and gives what stands there.
    """

    write: float = 0.625
    """A million write request units; since 2024-11-01."""
    read: float = 0.125
    """A million read request units; since 2024-11-01."""
    storage: float = 0.25
    """A GB and month."""
    backup: float = 0.20
    """A GB and month, point-in-time recovery."""
    logs: float = 0.50
    """A GB taken in, the first tier of the Standard class."""
    metric: float = 0.30
    """A custom metric and month, the first 10,000."""


LIST = Prices()


def requests(charged: Charged, prices: Prices = LIST) -> float:
    """Return the dollars of the requests of a million invocations."""
    return charged.write_units * prices.write + charged.read_units * prices.read


def index(charged: Charged, prices: Prices = LIST) -> float:
    """Return what of `requests` goes to the index of unfinished tokens."""
    return charged.index_units * prices.write


def storage(charged: Charged, prices: Prices = LIST, days: float = KEPT_DAYS) -> float:
    """Return the dollars of keeping what a million invocations left for *days*, with recovery."""
    gigabytes = charged.stored_bytes * 1_000_000 / GIGABYTE
    return gigabytes * (prices.storage + prices.backup) * days / MONTH_DAYS


def output(charged: Charged, prices: Prices = LIST) -> float:
    """Return the dollars of taking in the log lines and metric documents of a million invocations."""
    return charged.output_bytes * 1_000_000 / GIGABYTE * prices.logs


def metrics(names: int, prices: Prices = LIST) -> float:
    """Return the dollars a month of *names* metrics of one function, however often it is invoked."""
    return names * prices.metric


def watchdog(prices: Prices = LIST) -> float:
    """Return the dollars a month of the watchdog's queries, where nothing is stuck."""
    runs = MONTH_DAYS * 24 * 60 / WATCHDOG_MINUTES
    return runs * WATCHDOG_QUERIES * EMPTY_QUERY_UNITS * prices.read / 1_000_000


def every_metric() -> set[str]:
    """Return the metrics that a function may write."""
    return {manner.metric for manner in MANNERS.values() if manner.metric is not None}


def dollars(amount: float) -> str:
    """Return *amount* as it is written in a table: to a tenth of a cent, to a cent, to a dollar."""
    if amount == 0:
        return "0"
    if amount < 1:
        return f"${amount:.3f}"
    return f"${amount:,.2f}" if amount < 1_000 else f"${amount:,.0f}"  # noqa: PLR2004  (no cents of thousands)


def markdown(recorded: Recorded, prices: Prices = LIST) -> str:
    """Return the tables of docs/operations.md, between their marks."""
    told = [*recorded.conditions.items(), *_told(prices)]
    blocks = [
        BEGIN,
        "\n".join(lined(("condition", ""), told)),
        "### Requests",
        "\n".join(lined(_REQUESTS, [_of_requests(each, prices) for each in recorded.bills])),
        "### Storage and logs",
        "\n".join(lined(_BESIDE, [_of_the_rest(each, prices) for each in recorded.bills])),
        "### Step by step",
        "\n".join(lined(_STEPS, _of_steps(prices))),
        "### A month, however much is invoked",
        "\n".join(lined(("dollars a month", OURS.name), _monthly(prices))),
        END,
    ]
    return "\n\n".join(blocks)


def replaced(page: str, recorded: Recorded, prices: Prices = LIST) -> str:
    """Return *page* with the tables of *recorded* between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + markdown(recorded, prices) + after


_REQUESTS: Final = (
    "dollars a million invocations",
    OURS.name,
    "of it the index",
    THEIRS.name,
    f"write, read units: {OURS.name}",
    THEIRS.name,
)
_BESIDE: Final = (
    "dollars a million invocations",
    f"kept {KEPT_DAYS} days: {OURS.name}",
    THEIRS.name,
    f"log lines and metric documents: {OURS.name}",
)
_STEPS: Final = ("by arithmetic, rows below 1 KB", "write units", "dollars a million")
_REFUSED = "the table refuses the item, after the work has run"


def _of_requests(each: Bill, prices: Prices) -> tuple[str, ...]:
    ours, theirs = each.ours, each.theirs
    own = (each.case, dollars(requests(ours, prices)), dollars(index(ours, prices)))
    if theirs is None:
        return *own, _REFUSED, _units(ours), ""
    return *own, dollars(requests(theirs, prices)), _units(ours), _units(theirs)


def _of_the_rest(each: Bill, prices: Prices) -> tuple[str, ...]:
    theirs = "" if each.theirs is None else dollars(storage(each.theirs, prices))
    return each.case, dollars(storage(each.ours, prices)), theirs, dollars(output(each.ours, prices))


def _of_steps(prices: Prices) -> Iterator[tuple[str, str, str]]:
    for step, units in steps():
        yield step, f"{units}", dollars(units * prices.write)


def _monthly(prices: Prices) -> Iterator[tuple[str, str]]:
    usual, every = len(USUAL_METRICS), len(every_metric())
    named = ", ".join(f"`{name}`" for name in USUAL_METRICS)
    yield f"metrics of a function that meets no trouble: {named}", dollars(metrics(usual, prices))
    yield f"metrics of a function that met every trouble: {every}", dollars(metrics(every, prices))
    own = len(WATCHDOG_METRICS)
    yield f"metrics of the watchdog: {own}", dollars(metrics(own, prices))
    runs = f"every {WATCHDOG_MINUTES} minutes, {WATCHDOG_QUERIES} each, nothing stuck"
    yield f"queries of the watchdog: {runs}", dollars(watchdog(prices))


def _units(charged: Charged) -> str:
    return f"{charged.write_units:g}, {charged.read_units:g}"


def _told(prices: Prices) -> Iterator[tuple[str, str]]:
    yield "prices", f"{REGION}, list, without free tiers, looked up on {CHECKED}"
    yield "a million write, read units", f"${prices.write:g}, ${prices.read:g}"
    yield "a GB and month: stored, recovery", f"${prices.storage:g}, ${prices.backup:g}"
    yield "a GB of logs taken in", f"${prices.logs:g}"
    yield "a metric and month", f"${prices.metric:g}"
    yield from SOURCES.items()


def main(given: Sequence[str] | None = None) -> None:
    """Print the tables, or bring docs/operations.md up to date."""
    arguments = _parser().parse_args(given)
    prices = Prices(**{name: getattr(arguments, name) for name in Prices._fields})
    if arguments.docs and prices != LIST:
        _parser().error("the page has the list prices: leave --docs out to see others")
    recorded = _measured() if arguments.measure else bill.load()
    if not arguments.docs:
        print(markdown(recorded, prices))
        return
    from benchmarks import cost_chart

    bill.save(recorded)
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), recorded), encoding="utf-8")
    for path in [bill.FILE, PAGE, *cost_chart.draw(recorded, DOCS / "img")]:
        print(f"written: {path.relative_to(DOCS.parent)}")


def _measured() -> Recorded:
    from tests.kit.dynamodb_local import running

    given = os.environ.get("DYNAMODB_ENDPOINT")
    with nullcontext(given) if given else running() as endpoint:
        return bill.measured(endpoint)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.price", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="take the units anew, on DynamoDB Local")
    parser.add_argument("--docs", action="store_true", help=f"write tables and charts into {DOCS.name}/")
    for name, price in LIST._asdict().items():
        parser.add_argument(f"--{name}", type=float, default=price, metavar="DOLLARS", help=f"{price:g}")
    return parser


if __name__ == "__main__":
    main()
