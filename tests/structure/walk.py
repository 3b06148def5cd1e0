"""
Trace one duplicate through the package: `python -m tests.structure.walk`.

It prints how many files the duplicate enters, how many functions it calls, how often the next call is in
another file, and the list of these hops.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from moto import mock_aws

import lambda_once
from lambda_once import Once
from lambda_once.testing import api_event, create_table, lambda_context, sqs_event
from tests.kit import tables

PACKAGE = str(Path(lambda_once.__file__).parent) + os.sep
TESTING = PACKAGE + "testing" + os.sep
"""The context of the test is not part of the walk."""


class Step(NamedTuple):
    """A function of the package is called, or returns."""

    file: str
    function: str
    depth: int
    entered: bool


class Walk(NamedTuple):
    """The calls and returns within one call of a handler, in order."""

    steps: list[Step]

    @property
    def calls(self) -> list[Step]:
        return [step for step in self.steps if step.entered]

    @property
    def files(self) -> list[str]:
        """The files that were entered, in the order of the first entry."""
        return list(dict.fromkeys(step.file for step in self.steps))

    @property
    def functions(self) -> int:
        return len({(step.file, step.function) for step in self.steps})

    @property
    def switches(self) -> int:
        """How often a call is in another file than the call before it."""
        return sum(before.file != after.file for before, after in pairwise(self.calls))

    def hops(self) -> Iterator[str]:
        """Return a line for each stretch in one file, with the functions that are called in it."""
        stretch: list[str] = []
        for before, after in pairwise([*self.steps, Step("", "", 0, entered=False)]):
            if before.entered:
                stretch.append(before.function)
            if before.file != after.file:
                yield f"{'  ' * before.depth}{before.file}: {' '.join(stretch) or '(back)'}"
                stretch = []


@contextmanager
def _traced(steps: list[Step]) -> Iterator[None]:
    depth = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth
        code: CodeType = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        if code.co_filename.startswith(TESTING):
            return
        entered = event == "call"
        depth += entered
        steps.append(Step(code.co_filename.removeprefix(PACKAGE), code.co_qualname, depth, entered))
        depth -= not entered

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def walked(handler: Callable[[Any, Any], Any], first: Any, second: Any) -> Walk:
    """Return the walk of *handler* for *second*, a duplicate of *first*."""
    steps: list[Step] = []
    with redirect_stdout(io.StringIO()):  # log lines and metrics
        handler(first, lambda_context())
        with _traced(steps):
            handler(second, lambda_context())
    return Walk(steps)


@contextmanager
def _once() -> Iterator[Once]:
    """Return an instance on an empty table, with limits that need no thread, which is not walked."""
    with mock_aws():
        client = tables.client(patience=1)
        create_table(client, "tokens")
        yield Once(table="tokens", client=client, service="walk")


def of_sqs() -> Walk:
    """Return the walk of a redelivered record of a queue."""
    with _once() as once:
        first, second = (sqs_event({"order": 1}, message_ids=["m1"], receive_count=n) for n in (1, 2))
        return walked(once.sqs(_place), first, second)


def of_api() -> Walk:
    """Return the walk of a repeated request with a key."""
    with _once() as once:
        event = api_event(body={"order": 1}, headers={"Idempotency-Key": "k" * 32})
        return walked(once.api_gateway(_respond), event, event)


def _place(_record: object) -> str:
    return "placed"


def _respond(_event: object) -> dict[str, object]:
    return {"statusCode": 201, "body": "{}"}


def main() -> None:
    """Print the figures, the files and the hops of both walks."""
    for name, walk in (("SQS record", of_sqs()), ("API request", of_api())):
        figures = f"{walk.functions} functions, {len(walk.calls)} calls, {walk.switches} switches"
        lines = [f"{name}, duplicate: {len(walk.files)} files, {figures}", *walk.files, "", *walk.hops()]
        sys.stdout.write("\n".join(lines) + "\n\n")


if __name__ == "__main__":
    main()
