"""(b) Processor time of an invocation: without a network, over HTTP and over TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import deliveries
from benchmarks.answers import Answers
from benchmarks.figures import Timing
from benchmarks.recording import RECORDS
from benchmarks.sampling import cpu, interleaved
from benchmarks.sides import OURS, SAME, THEIRS, TIMED, connected
from benchmarks.transport import answered
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.recording import Events, Recording
    from benchmarks.sides import Side
    from benchmarks.standin import Endpoints

TLS, HTTP, STUB = "over TLS", "over HTTP", "without a network"
API_NEW, API_DUPLICATE = "API event, new", "API event, duplicate"
NEW, DUPLICATES = f"{RECORDS} records, new", f"{RECORDS} records, sent twice"
ONLY_ERRORS = "logging errors only"


def timings(
    events: Events, recording: Recording, endpoints: Endpoints, rounds: int, times: int
) -> Iterator[Timing]:
    """Time each case *rounds* times, *times* invocations a round, by each way to the table."""
    cases = {
        API_NEW: ("api", events.request),
        API_DUPLICATE: ("api", events.seen_request),
        NEW: ("queue", events.batch),
        DUPLICATES: ("queue", events.seen_batch),
    }
    apart = {
        f"{RECORDS} records, redelivered": ("queue", deliveries.redelivered(events.seen_batch)),
        f"{NEW}, {ONLY_ERRORS}": ("quiet_queue", events.batch),
        f"{DUPLICATES}, {ONLY_ERRORS}": ("quiet_queue", events.seen_batch),
    }
    endpoint = {TLS: endpoints.encrypted, HTTP: endpoints.nearest, STUB: endpoints.nearest}
    for part in (TLS, HTTP, STUB):
        sides = (OURS, THEIRS, SAME) if part == STUB else (*TIMED, SAME)
        with connected(sides, endpoint[part]) as clients:
            if part == STUB:
                for client in clients.values():
                    answered(client, Answers(recording.rows))
            for case, (face, event) in (cases | apart if part == TLS else cases).items():
                works = {side.name: _work(side, face, clients[side.name], event, times) for side in sides}
                yield Timing(part, case, interleaved(rounds, works))


def _work(side: Side, face: str, client: Any, event: dict[str, Any], times: int) -> Callable[[], float]:
    handler, context = getattr(side, face)(client), lambda_context()
    cpu(times, handler, event, context)  # connections, and whatever is made at first use
    return lambda: cpu(times, handler, event, context)
