"""(b) Processor time of an invocation: botocore's own work included, the network left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks import deliveries
from benchmarks.answers import Answers
from benchmarks.figures import Timing
from benchmarks.recording import KILOBYTES, RECORDS
from benchmarks.sampling import cpu, interleaved
from benchmarks.sides import SIDES, THEIRS
from benchmarks.transport import answered
from lambda_once.core.canonical import digest
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.recording import Events, Recording
    from benchmarks.sides import Side

PART = "cpu"


def timings(events: Events, recording: Recording, rounds: int, times: int) -> Iterator[Timing]:
    """Time each case *rounds* times, *times* invocations a round."""
    cases = {
        "API event, new": ("api", events.request),
        "API event, duplicate": ("api", events.seen_request),
        f"{RECORDS} records, new": ("queue", events.batch),
        f"{RECORDS} records, sent twice": ("queue", events.seen_batch),
        f"{RECORDS} records, redelivered": ("queue", deliveries.redelivered(events.seen_batch)),
        f"{RECORDS} records, new, logging errors only": ("quiet_queue", events.batch),
        f"{RECORDS} records, sent twice, logging errors only": ("quiet_queue", events.seen_batch),
        f"{RECORDS} records of {KILOBYTES} KB together, new": ("queue", events.large),
        f"{RECORDS} records of {KILOBYTES} KB together, sent twice": ("queue", events.seen_large),
    }
    for case, (face, event) in cases.items():
        works = [_work(side, face, event, Answers(recording.rows), times) for side in SIDES]
        ours, theirs = interleaved(rounds, works)
        yield Timing(PART, case, ours, theirs)
    payload = [json.loads(record["body"]) for record in events.large["Records"]]
    hashes: list[Callable[[object], object]] = [digest, THEIRS.digest]
    works = [lambda h=each: cpu(times, h, payload) for each in hashes]  # type: ignore[misc]
    ours, theirs = interleaved(rounds, works)
    yield Timing(PART, f"hash of {KILOBYTES} KB", ours, theirs)


def _work(
    side: Side, face: str, event: dict[str, object], answers: Answers, times: int
) -> Callable[[], float]:
    handler = getattr(side, face)(answered(side.client(), answers))
    context = lambda_context()
    cpu(times, handler, event, context)  # whatever is made at first use
    return lambda: cpu(times, handler, event, context)
