"""
A Lambda environment as a process: runs the sample's functions on events, until it is killed.

Started with one JSON object: ``environment``, ``functions`` (names, as in template.yaml) and ``journal``, the
file in which the effects outside are noted.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from lambda_once.testing import lambda_context
from tests.chaos.journal import Journal
from tests.chaos.worker import run

REMAINING_MS = 4_000
"""The time limit of an invocation."""


def main() -> None:
    """Answer orders, each of a function and an event, until there are no more."""
    options = json.loads(sys.argv[1])
    os.environ |= options["environment"]
    functions = {name: _function(name) for name in options["functions"]}
    _note_effects(Journal(Path(options["journal"])))

    def work(order: dict[str, Any]) -> dict[str, Any]:
        context = lambda_context(remaining_ms=REMAINING_MS, function_name=order["function"])
        event = json.loads(Path(order["event"]).read_text())
        try:
            response = functions[order["function"]](event, context)
        except Exception:  # noqa: BLE001  (a failed function, as Lambda sees it)
            traceback.print_exc()
            return {"response": None}
        return {"response": json.dumps(response)}

    run(work)


def _function(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(f"examples.{module}"), function)


def _note_effects(journal: Journal) -> None:
    """Note each effect outside in *journal*, which outlives the process."""
    effects: Any = importlib.import_module("examples.orders.effects").EFFECTS
    effects.add = lambda kind, subject: journal.write("effect", effect=kind, subject=subject)


if __name__ == "__main__":
    main()
