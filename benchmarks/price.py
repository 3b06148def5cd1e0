"""
`python -m benchmarks.price`: dollars a million invocations, from what dynoxide charged for.

Without options the recorded units are priced at the list prices of `benchmarks.prices`, and printed. Each
price can be given (--write 0.7423). --measure takes the units anew; --docs writes the tables into
docs/.
"""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import bill
from benchmarks.prices import (
    ALARMS,
    CHECKED,
    KEPT_DAYS,
    LIST,
    REGION,
    SOURCES,
    USUAL_METRICS,
    WATCHDOG_METRICS,
    WATCHDOG_MINUTES,
    WATCHDOG_QUERIES,
    Prices,
    every_metric,
    metrics,
    output,
    requests,
    storage,
    unindexed,
    watchdog,
)
from benchmarks.report import lined
from benchmarks.sides import LIBRARY, THEIRS
from benchmarks.steps import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.bill import Bill, Charged, Recorded

DOCS = Path(__file__).parents[1] / "docs"
PAGE = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- cost: begin -->", "<!-- cost: end -->"


def dollars(amount: float) -> str:
    """Return *amount* as it is written in a table: to a tenth of a cent, to a cent, to a dollar."""
    if amount == 0:
        return "0"
    if amount < 1:
        return f"${amount:.3f}"
    return f"${amount:,.2f}" if amount < 1_000 else f"${amount:,.0f}"  # noqa: PLR2004  (no cents of thousands)


def markdown(recorded: Recorded, prices: Prices = LIST) -> str:
    """Return the tables of benchmarks/README.md, between their marks."""
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
        "### Fixed costs of a month",
        "\n".join(lined(("dollars a month", LIBRARY), _monthly(prices))),
        END,
    ]
    return "\n\n".join(blocks)


def replaced(page: str, recorded: Recorded, prices: Prices = LIST) -> str:
    """Return *page* with the tables of *recorded* between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + markdown(recorded, prices) + after


BARE: Final = "without the index"
_REQUESTS: Final = (
    "dollars per million",
    LIBRARY,
    BARE,
    THEIRS.name,
    f"write, read units: {LIBRARY}",
    BARE,
    THEIRS.name,
)
_BESIDE: Final = (
    "dollars per million",
    f"kept {KEPT_DAYS} days: {LIBRARY}",
    THEIRS.name,
    f"log lines and metric documents: {LIBRARY}",
)
_STEPS: Final = ("computed, rows below 1 KB", "write units", "dollars per million", BARE, "dollars")
_REFUSED = "refused, after the work"


def _of_requests(each: Bill, prices: Prices) -> tuple[str, ...]:
    ours, theirs = each.ours, each.theirs
    bare = unindexed(ours)
    own = (each.case, dollars(requests(ours, prices)), dollars(requests(bare, prices)))
    units = (_units(ours), _units(bare))
    if theirs is None:
        return *own, _REFUSED, *units, ""
    return *own, dollars(requests(theirs, prices)), *units, _units(theirs)


def _of_the_rest(each: Bill, prices: Prices) -> tuple[str, ...]:
    theirs = "" if each.theirs is None else dollars(storage(each.theirs, prices))
    return each.case, dollars(storage(each.ours, prices)), theirs, dollars(output(each.ours, prices))


def _of_steps(prices: Prices) -> Iterator[tuple[str, ...]]:
    for (step, units), (_, bare) in zip(steps(), steps(indexed=False), strict=True):
        yield step, f"{units}", dollars(units * prices.write), f"{bare}", dollars(bare * prices.write)


def _monthly(prices: Prices) -> Iterator[tuple[str, str]]:
    usual, every = len(USUAL_METRICS), len(every_metric())
    named = ", ".join(f"`{name}`" for name in USUAL_METRICS)
    yield f"metrics of a function without errors: {named}", dollars(metrics(usual, prices))
    yield (
        f"all metrics of a function, patterns included: {every}",
        dollars(metrics(every, prices)),
    )
    own = len(WATCHDOG_METRICS)
    yield f"metrics of the watchdog: {own}", dollars(metrics(own, prices))
    for of, alarms in ALARMS.items():
        if alarms.listed:
            yield f"metrics that alarms list, {of}: {alarms.listed}", dollars(alarms.listed * prices.alarm)
        if alarms.queries:
            finds = f"for a function that writes all {alarms.queries} metrics"
            yield f"alarms by query, {of}: {finds}", dollars(alarms.queries * prices.alarm)
    runs = f"every {WATCHDOG_MINUTES} minutes, {WATCHDOG_QUERIES} each, nothing overdue"
    yield f"queries of the watchdog: {runs}", dollars(watchdog(prices))


def _units(charged: Charged) -> str:
    return f"{charged.write_units:g}, {charged.read_units:g}"


def _told(prices: Prices) -> Iterator[tuple[str, str]]:
    yield "prices", f"{REGION}, list, without free tiers, looked up on {CHECKED}"
    yield "a million write, read units", f"${prices.write:g}, ${prices.read:g}"
    yield "a GB and month: stored, recovery", f"${prices.storage:g}, ${prices.backup:g}"
    yield "a GB of logs ingested", f"${prices.logs:g}"
    yield "a metric and month; an alarm's", f"${prices.metric:g}, ${prices.alarm:g}"
    yield from SOURCES.items()


def main(given: Sequence[str] | None = None) -> None:
    """Print the tables, or bring benchmarks/README.md up to date."""
    arguments = _parser().parse_args(given)
    prices = Prices(**{name: getattr(arguments, name) for name in Prices._fields})
    if arguments.docs and prices != LIST:
        _parser().error("the page has the list prices: leave --docs out to see others")
    recorded = _measured() if arguments.measure else bill.load()
    if not arguments.docs:
        print(markdown(recorded, prices))
        return
    bill.save(recorded)
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), recorded), encoding="utf-8")
    for path in [bill.FILE, PAGE]:
        print(f"written: {path.relative_to(DOCS.parent)}")


def _measured() -> Recorded:
    from tests.kit.dynoxide import running

    given = os.environ.get("DYNAMODB_ENDPOINT")
    with nullcontext(given) if given else running() as endpoint:
        return bill.measured(endpoint)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.price", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="take the units anew, on dynoxide")
    parser.add_argument("--docs", action="store_true", help=f"write the tables into {PAGE.parent.name}/")
    for name, price in LIST._asdict().items():
        parser.add_argument(f"--{name}", type=float, default=price, metavar="DOLLARS", help=f"{price:g}")
    return parser


if __name__ == "__main__":
    main()
