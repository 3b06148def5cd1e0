"""What an invocation takes: processor time over TLS, and the time of a batch from a distant table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.cases import DUPLICATES, NEW
from benchmarks.sampling import Timing, cpu, interleaved, wall
from benchmarks.sides import SAME, TIMED, connected
from benchmarks.standin import LATENCY
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.cases import Case
    from benchmarks.sides import Handler, Side

    Measure = Callable[[Handler, dict[str, object]], float]

CPU: Final = "Processor time of an invocation, over TLS"
TIME: Final = f"Time of a batch of ten, the table at {LATENCY} ms"


def processor_times(cases: Mapping[str, Case], endpoint: str, rounds: int, times: int) -> Iterator[Timing]:
    """Take each of *cases* in *rounds* of so many *times*."""
    sides = (*TIMED, SAME)
    return _timings(
        CPU,
        sides,
        cases,
        endpoint,
        rounds,
        lambda handler, event: cpu(times, handler, event, lambda_context()),
    )


def batch_times(cases: Mapping[str, Case], endpoint: str, rounds: int) -> Iterator[Timing]:
    """Time the batches among *cases*, with each library's own clients."""
    batches = {name: cases[name] for name in (NEW, DUPLICATES)}
    return _timings(
        TIME, TIMED, batches, endpoint, rounds, lambda handler, event: wall(handler, event, lambda_context())
    )


def _timings(
    part: str,
    sides: Sequence[Side],
    cases: Mapping[str, Case],
    endpoint: str,
    rounds: int,
    measure: Measure,
) -> Iterator[Timing]:
    with connected(sides, endpoint) as clients:
        for name, case in cases.items():
            works = {side.name: _work(side, clients[side.name], case, measure) for side in sides}
            yield Timing(part, name, interleaved(rounds, works))


def _work(side: Side, client: object, case: Case, measure: Measure) -> Callable[[], float]:
    handler = getattr(side, case.face)(client)
    measure(handler, case.event)  # connections, and whatever is made at first use
    return lambda: measure(handler, case.event)
