"""`python -m benchmarks.hostile`: hostile bodies beside ordinary numbers, each in a process of its own."""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 6_000_000
"""Bytes of the largest body that Lambda delivers."""
DEPTH = 100_000


def _list_of(text: str) -> Callable[[], str]:
    return lambda: f"[{','.join([text] * (SIZE // (len(text) + 1)))}]"


BODIES: dict[str, Callable[[], str]] = {
    "ordinary: 1.23": _list_of("1.23"),
    "ordinary: 12345": _list_of("12345"),
    "ordinary: 19.99": _list_of("19.99"),
    "ordinary: 0.1234567890123456": _list_of("0.1234567890123456"),
    "1e308": _list_of("1e308"),
    "1e308, and one 1e20": lambda: "[1e20," + _list_of("1e308")()[1:],
    "1e24": _list_of("1e24"),
    "12e9": _list_of("12e9"),
    "1 and 30 zeros": _list_of("1" + "0" * 30),
    "0.123456789012345678": _list_of("0.123456789012345678"),
    "0.12345678901234567": _list_of("0.12345678901234567"),
    "2.2250738585072011e-308": _list_of("2.2250738585072011e-308"),
    "5e-324": _list_of("5e-324"),
    "50e-325": _list_of("50e-325"),
    "9e-309": _list_of("9e-309"),
    "1e-301": _list_of("1e-301"),
    "1.00000000000000001": _list_of("1.00000000000000001"),
    "1234567890123456789e290": _list_of("1234567890123456789e290"),
    "one number of 6 MB": lambda: "0." + "1" * SIZE,
    "[]": _list_of("[]"),
    "{}": _list_of("{}"),
    'nested objects: {"a":{"b":{}}}': _list_of('{"a":{"b":{}}}'),
    "lists, 100,000 deep": lambda: "[" * DEPTH + "]" * DEPTH,
    "objects, 100,000 deep": lambda: '{"a":' * DEPTH + "1" + "}" * DEPTH,
}


def main() -> None:
    """Measure every body, and print one table."""
    if len(sys.argv) > 1:
        print(json.dumps(_measured(sys.argv[1])))
        return
    table = Table("body of 6 MB", "status", "processor time, s", "peak memory, MB more")
    for name in BODIES:
        command = [sys.executable, "-m", "benchmarks.hostile", name]
        ran = subprocess.run(command, check=True, capture_output=True, text=True, env=_quiet())  # noqa: S603
        status, seconds, memory = json.loads(ran.stdout.splitlines()[-1])
        table.add_row(name, str(status), f"{seconds:.2f}", f"{memory:.0f}")
    Console().print(table)


def _quiet() -> dict[str, str]:
    return os.environ | {"POWERTOOLS_METRICS_DISABLED": "true", "POWERTOOLS_LOG_LEVEL": "CRITICAL"}


def _measured(name: str) -> tuple[int, float, float]:
    """Return the status, the seconds and the megabytes of one request; the second of its process."""
    from lambda_once import MemoryStore, Once
    from lambda_once.testing import api_event, lambda_context

    logging.disable()

    @Once(store=MemoryStore(), service="shop").api_gateway
    def handler(_event: object) -> dict[str, int]:
        return {"statusCode": 200}

    event = api_event(body={"warm": True})
    handler(event, lambda_context())
    event = event | {"body": BODIES[name]()}
    before, started = _peak(), time.process_time()
    answer = handler(event, lambda_context(remaining_ms=900_000))
    return answer["statusCode"], time.process_time() - started, _peak() - before


def _peak() -> float:
    """Return the most memory that this process has had, in megabytes."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    main()
