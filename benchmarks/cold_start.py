"""
Cold start: a fresh interpreter imports an API's handler (INIT) and answers for the first time (invocation).

The environment is Lambda's, so that the client is made at INIT.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks import events
from benchmarks.sampling import Sample, Timing, in_turns
from benchmarks.sides import BOTH, OURS, THEIRS
from benchmarks.world import reaching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PART: Final = "Cold start of an API's function, over TLS"
_LAMBDA: Final = {"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001", "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand"}


class Start(NamedTuple):
    """What the start of one environment took, in milliseconds and megabytes."""

    init: float
    init_cpu: float
    first: float
    first_cpu: float
    memory: float


SUM_CPU, MEMORY = "INIT + first invocation, CPU", "peak memory, MB"
FIGURES: Final[Mapping[str, Callable[[Start], float]]] = {
    "INIT, time": lambda start: start.init,
    "INIT, CPU": lambda start: start.init_cpu,
    "first invocation, time": lambda start: start.first,
    "first invocation, CPU": lambda start: start.first_cpu,
    "INIT + first invocation, time": lambda start: start.init + start.first,
    SUM_CPU: lambda start: start.init_cpu + start.first_cpu,
    MEMORY: lambda start: start.memory,
}


def cold_starts(endpoint: str, rounds: int) -> Iterator[Timing]:
    """Start a handler with each client *rounds* times, with the table at *endpoint*."""
    event = events.request()
    modules: dict[str, tuple[str, dict[str, str]]] = {
        side.name: ("benchmarks.cold.ours", {} if side is OURS else {"LAMBDA_ONCE_CLIENT": side.name})
        for side in BOTH
    }
    modules[THEIRS.name] = "benchmarks.cold.theirs", {}
    with reaching(endpoint):
        starts = in_turns(
            rounds, {side: partial(_started, *module, event) for side, module in modules.items()}
        )
    for figure, of in FIGURES.items():
        yield Timing(PART, figure, {side: Sample(tuple(map(of, each))) for side, each in starts.items()})


def _started(module: str, given: Mapping[str, str], event: dict[str, Any]) -> Start:
    """Import *module* and invoke it once, in a fresh interpreter with the variables *given*."""
    done = subprocess.run(  # noqa: S603  (this interpreter, our module)
        [sys.executable, "-m", "benchmarks.cold.interpreter", module],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **_LAMBDA, **given},
        input=json.dumps(event),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    *figures, has_botocore = json.loads(done.stdout.splitlines()[-1])
    if has_botocore != ("LAMBDA_ONCE_CLIENT" not in given):
        raise RuntimeError(f"{module} did not use the client that was asked for: {done.stdout}")
    return Start(*figures)
