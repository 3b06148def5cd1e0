"""
`python -m benchmarks.costs`: dollars a million invocations, from what dynoxide charges for.

Prints the table of docs/costs.md from the recorded units, at the prices that are given (--write 0.7423), else
at list prices. --docs takes the units anew, and writes the page.
"""

from __future__ import annotations

import argparse
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Final

import boto3

from benchmarks import events, report
from benchmarks.cases import API_DUPLICATE, API_NEW, DUPLICATES, NEW, RECORDS, Case
from benchmarks.meter import Meter
from benchmarks.sides import LIBRARY, SIDES, THEIRS
from benchmarks.units import ALARMS, LIST, Charged, Prices, dollars
from benchmarks.world import engine, function_environment, reaching
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.sides import Side

    Bills = Mapping[str, Mapping[str, Charged]]
    """What one invocation was charged for: by case, and by library."""

PAGE: Final = report.ROOT / "docs" / "costs.md"
FILE: Final = Path(__file__).with_name("recorded.json")
RESULT: Final = 100_000
"""Bytes of a result. It is base64 of noise, of which compression takes a quarter."""
REQUESTS_MARK, ALARMS_MARK = "requests", "alarms"


def measured(endpoint: str) -> Bills:
    """Work every case on the engine at *endpoint*, whose tables are made, and read off what it charges."""
    deliveries, output = _deliveries(), io.StringIO()
    with function_environment(), reaching(endpoint), redirect_stdout(output):
        ours, theirs = (dict(_charged(side, deliveries, output)) for side in SIDES)
    return {case: {LIBRARY: ours[case], THEIRS.name: theirs[case]} for case, _ in deliveries}


def _deliveries() -> list[tuple[str, Case]]:
    """Return what is delivered to both sides, in its order: each event twice."""
    request = Case("api", events.request())
    batch = Case("queue", events.batch(RECORDS))
    order = Case("function", events.order(result=RESULT))
    large = f"result of {RESULT // 1000} KB"
    return [
        *((API_NEW, request), (API_DUPLICATE, request)),
        *((NEW, batch), (DUPLICATES, batch)),
        *((f"{large}, new", order), (f"{large}, duplicate", order)),
    ]


def _charged(
    side: Side, deliveries: Sequence[tuple[str, Case]], output: io.StringIO
) -> Iterator[tuple[str, Charged]]:
    client = boto3.client("dynamodb")  # it waits a minute: a request that is sent again is no cost
    side.create_table(client)
    meter, context = Meter(client), lambda_context()
    handlers = {face: getattr(side, face)(client) for face in ("api", "queue", "function")}
    handlers["api"](events.request(), context)  # what an environment logs once is no cost of a request
    meter.spent()
    for name, case in deliveries:
        output.seek(0)
        output.truncate()  # a Logger keeps the output that it first met
        handlers[case.face](case.event, context)
        spent, printed = meter.spent(), len(output.getvalue().encode())
        yield name, Charged(spent.write_units, spent.index_units, spent.read_units, printed)


def load(path: Path = FILE) -> Bills:
    """Return what `save` wrote."""
    recorded = json.loads(path.read_text(encoding="utf-8"))
    return {
        case: {name: Charged(**charged) for name, charged in libraries.items()}
        for case, libraries in recorded.items()
    }


def save(bills: Bills, path: Path = FILE) -> None:
    told = {
        case: {name: charged._asdict() for name, charged in libraries.items()}
        for case, libraries in bills.items()
    }
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def requests_table(bills: Bills, prices: Prices = LIST) -> str:
    """Return what requests cost, of both libraries."""
    head = ("dollars per million", LIBRARY, "listed at once", THEIRS.name, "write units")
    return report.lined(head, (_requests(case, each, prices) for case, each in bills.items()))


def _requests(case: str, libraries: Mapping[str, Charged], prices: Prices) -> list[str]:
    ours, theirs = libraries[LIBRARY], libraries[THEIRS.name]
    columns = (ours.by_stream(), ours, theirs)
    units = ", ".join(f"{each.write_units:g}" for each in columns)
    return [case, *(dollars(each.requests(prices)) for each in columns), units]


def alarms_table() -> str:
    """Return what alarms cost, by template."""
    head = ("dollars a month", "fixed", "for a function that writes all their metrics")
    return report.lined(
        head,
        (
            (of, *(dollars(count * LIST.alarm) if count else "–" for count in alarms))
            for of, alarms in ALARMS.items()
        ),
    )


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or bring docs/costs.md up to date."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.costs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--docs", action="store_true", help="measure, and write the page, at list prices")
    for name in ("write", "read"):
        price = getattr(LIST, name)
        parser.add_argument(f"--{name}", type=float, default=price, metavar="DOLLARS", help=f"else {price:g}")
    arguments = parser.parse_args(given)
    prices = LIST._replace(write=arguments.write, read=arguments.read)
    if not arguments.docs:
        print(requests_table(load(), prices))
        return
    if prices != LIST:
        parser.error("the page has the list prices: leave --docs out to see others")
    with engine() as endpoint:
        bills = measured(endpoint)
    save(bills)
    report.write(PAGE, REQUESTS_MARK, requests_table(bills))
    report.write(PAGE, ALARMS_MARK, alarms_table())


if __name__ == "__main__":
    main()
