"""(c) Cold start: a fresh interpreter imports a handler, makes its client and answers for the first time."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import deliveries
from benchmarks.figures import Share, Timing
from benchmarks.sampling import Sample, interleaved
from benchmarks.standin import HOST, accept
from benchmarks.world import reaching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PART = "cold"
FACES: dict[str, Callable[[], dict[str, Any]]] = {
    "queue": lambda: deliveries.batch(1),
    "api": deliveries.request,
}
_IMPORT = re.compile(r"^import time: +(\d+) \| +\d+ \| +(lambda_once\S*)$", re.MULTILINE)


class Arrivals:
    """A table that takes every write, and keeps when the first request came."""

    def __init__(self) -> None:
        self.first: float | None = None

    def to(self, _operation: str, _body: bytes) -> tuple[int, bytes]:
        self.first = self.first or time.perf_counter()
        return 200, b"{}"


def timings(rounds: int) -> Iterator[Timing]:
    """Time a handler of each face: until its first request reaches the table, and until it has answered."""
    with _table() as table:
        for face, new_event in FACES.items():
            event = new_event()
            found: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
            works = [
                partial(_started, f"benchmarks.cold.{side}_{face}", event, table, found[side])
                for side in found
            ]
            for work in works:
                work()  # byte code, and the machine's file cache
            for times in found.values():
                times.clear()
            interleaved(rounds, works)
            for position, until in enumerate(("the first request", "the first answer")):
                ours, theirs = (Sample(tuple(times[position] for times in found[side])) for side in found)
                yield Timing(PART, f"{face}, until {until}", ours, theirs)


def shares(rounds: int) -> Iterator[Share]:
    """Tell what of it our own modules take by themselves (python -X importtime)."""
    with _table():
        for face, new_event in FACES.items():
            event = new_event()
            imports = [_imports(f"benchmarks.cold.ours_{face}", event) for _ in range(rounds)]
            own = Sample(tuple(sum(each.values()) / 1000 for each in imports))
            yield Share(face, len(imports[0]), own)


@contextmanager
def _table() -> Iterator[Arrivals]:
    arrivals = Arrivals()
    with socket.create_server((HOST, 0)) as listening:
        threading.Thread(target=accept, args=(listening, arrivals, 0.0), daemon=True).start()
        with reaching(f"http://{HOST}:{listening.getsockname()[1]}"):
            yield arrivals


def _started(module: str, event: dict[str, Any], table: Arrivals, found: list[tuple[float, float]]) -> float:
    """Return how long *module* took to answer, in ms; put that and its first request's time into *found*."""
    table.first = None
    output = _interpreter([], module, event).stdout.splitlines()[-1]
    started, answered = json.loads(output)
    if table.first is None:
        raise AssertionError
    found.append(((table.first - started) * 1000, (answered - started) * 1000))
    return found[-1][1]


def _imports(module: str, event: dict[str, Any]) -> dict[str, int]:
    """Return the microseconds that each module of ours takes by itself."""
    report = _interpreter(["-X", "importtime"], module, event).stderr
    return {name: int(own) for own, name in _IMPORT.findall(report)}


def _interpreter(options: list[str], module: str, event: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    # Whoever forbids byte code would time our compilation against the other side's compiled package.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(  # noqa: S603  (this interpreter, our module)
        [sys.executable, *options, "-m", "benchmarks.cold.interpreter", module],
        cwd=Path(__file__).parents[1],
        env=environment,
        input=json.dumps(event),
        capture_output=True,
        text=True,
        check=True,
    )
