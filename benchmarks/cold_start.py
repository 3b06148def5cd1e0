"""
(c) Cold start: a fresh interpreter imports a handler (INIT) and answers for the first time (invocation).

The environment is Lambda's, so that the client is made at INIT. Lambda gives a function of 256 MB 14.5 % of
a core in an invocation, and more at INIT: that is emulated by stopping the process for 17.1 of every 20 ms of
its first invocation.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks import deliveries
from benchmarks.figures import Timing
from benchmarks.sampling import Sample, in_turns
from benchmarks.sides import BOTH, OURS, THEIRS
from benchmarks.world import reaching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.standin import Endpoints

PART, THROTTLED = "cold", "throttled"
FACES: dict[str, Callable[[], dict[str, Any]]] = {
    "API": deliveries.request,
    "queue": lambda: deliveries.batch(1),
}
_RUNS, _STOPS = 0.0029, 0.0171
"""Seconds in every 20 ms: 256 of the 1,769 MB that have one core (Lambda developer guide, memory)."""
_LAMBDA: Final = {"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001", "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand"}


class Start(NamedTuple):
    """What the start of one environment took, in milliseconds and megabytes."""

    init: float
    init_cpu: float
    first: float
    first_cpu: float
    memory: float


FIRST_CPU, SUM_CPU, MEMORY = "first invocation, CPU", "INIT + first invocation, CPU", "peak memory, MB"
FIRST_WALL = "first invocation, time"
FIGURES: Final[Mapping[str, Callable[[Start], float]]] = {
    "INIT, time": lambda start: start.init,
    "INIT, CPU": lambda start: start.init_cpu,
    FIRST_WALL: lambda start: start.first,
    FIRST_CPU: lambda start: start.first_cpu,
    "INIT + first invocation, time": lambda start: start.init + start.first,
    SUM_CPU: lambda start: start.init_cpu + start.first_cpu,
    MEMORY: lambda start: start.memory,
}


def timings(endpoints: Endpoints, rounds: int) -> Iterator[Timing]:
    """Start a handler of each face, with each client, *rounds* times."""
    with reaching(endpoints.encrypted):
        for face in FACES:
            starts = _starts(face, rounds, nullcontext)
            for figure, of in FIGURES.items():
                yield Timing(PART, f"{face}: {figure}", _samples(starts, of))


def throttled(endpoints: Endpoints, rounds: int) -> Iterator[Timing]:
    """Time the first invocation of an API's handler with 14.5 % of a core."""
    with reaching(endpoints.encrypted):
        starts = _starts("API", rounds, share_of_a_core)
    yield Timing(THROTTLED, f"API: {FIRST_WALL}", _samples(starts, FIGURES[FIRST_WALL]))


def _starts(face: str, rounds: int, share: Callable[..., Any]) -> dict[str, list[Start]]:
    event, suffix = FACES[face](), face.lower()
    modules: dict[str, tuple[str, dict[str, str]]] = {
        side.name: (
            f"benchmarks.cold.ours_{suffix}",
            {} if side is OURS else {"LAMBDA_ONCE_CLIENT": side.name},
        )
        for side in BOTH
    }
    modules[THEIRS.name] = f"benchmarks.cold.theirs_{suffix}", {}
    works = {
        side: partial(_started, module, given, event, share) for side, (module, given) in modules.items()
    }
    return in_turns(rounds, works)


def _samples(starts: Mapping[str, list[Start]], of: Callable[[Start], float]) -> dict[str, Sample]:
    return {side: Sample(tuple(map(of, each))) for side, each in starts.items()}


def _started(
    module: str, given: Mapping[str, str], event: dict[str, Any], share: Callable[..., Any]
) -> Start:
    """
    Import *module* and invoke it once, in a fresh interpreter with the variables *given*.

    The invocation is in a block of *share*.
    """
    with subprocess.Popen(  # noqa: S603  (this interpreter, our module)
        [sys.executable, "-m", "benchmarks.cold.interpreter", module],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **_LAMBDA, **given},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError
        process.stdin.write(json.dumps(event) + "\n")
        process.stdin.flush()
        before = list(iter(process.stdout.readline, "imported\n"))
        with share(process):
            process.stdin.write("\n")
            process.stdin.close()
            lines = [*before, *process.stdout]
    if process.returncode != 0:
        raise RuntimeError(f"{module} failed")
    *figures, has_botocore = json.loads(lines[-1])
    if has_botocore != ("LAMBDA_ONCE_CLIENT" not in given):
        raise RuntimeError(f"{module} did not use the client that was asked for: {lines}")
    return Start(*figures)


@contextmanager
def share_of_a_core(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Stop *process* for most of the time until the block ends."""
    ended = threading.Event()

    def stop_and_go() -> None:
        while not ended.wait(_RUNS):
            process.send_signal(signal.SIGSTOP)
            ended.wait(_STOPS)
            process.send_signal(signal.SIGCONT)

    thread = threading.Thread(target=stop_and_go, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
