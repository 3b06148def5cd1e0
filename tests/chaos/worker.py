"""
A Lambda environment as a process: it works the invocations that its orders name, until it is killed.

Started with one JSON object, the fields of a `handlers.Place` and optionally ``without``, a guard of
`sabotage`. Orders come as lines on the standard input, answers go as lines to the standard output.
The process that was started only waits: a fork of it works, and after a SIGKILL the next one takes
its place within milliseconds, with nothing of the state of the one before.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos import sabotage
from tests.chaos.deliveries import Lane
from tests.chaos.handlers import Handlers, Place, silence
from tests.chaos.journal import Journal


def main() -> None:
    """Keep one worker running until the orders end. Ends with its status where it failed by itself."""
    options = json.loads(sys.argv[1])
    guard = options.pop("without", None)
    if guard is not None:
        sabotage.GUARDS[guard]()
    silence()
    place = Place(**options)
    handlers = Handlers(place, Journal(Path(place.journal)))

    def work(order: dict[str, Any]) -> dict[str, Any]:
        failed = handlers.work(Lane(order["lane"]), order["messages"])
        return {"failed": sorted(failed), "held": sorted(handlers.held)}

    run(work)


def run(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer each order by *work*, in a fork that has a successor as often as it is killed."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what metrics print is no answer
    while True:
        child = os.fork()
        if child == 0:
            _serve(work, answers)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(os.waitstatus_to_exitcode(status))


def _serve(work: Callable[[dict[str, Any]], dict[str, Any]], answers: int) -> None:
    """Answer orders, the pid first."""
    _tell(answers, {"ready": os.getpid()})
    with os.fdopen(0, encoding="utf-8", closefd=False) as orders:
        for line in orders:
            order = json.loads(line)
            _tell(answers, {"order": order["order"], **work(order)})


def _tell(answers: int, answer: dict[str, Any]) -> None:
    os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
