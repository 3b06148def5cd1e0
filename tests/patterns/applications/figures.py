"""
Print what the applications of the pages cost: requests, write units and read units, before and now.

``python -m tests.patterns.applications.figures``; "before" is the shortest way without what the step shows.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from importlib import import_module

from tests.kit import tables
from tests.kit.dynoxide import running
from tests.patterns.conftest import Ground

APPLICATIONS = ("wallet", "sensor_store", "order_feed", "contract_store")


def main() -> None:
    """Measure all applications on dynoxide."""
    with running() as endpoint, ExitStack() as stack:
        ground = Ground(tables.boto3s(endpoint, patience=60), stack)
        lines = [f"{'':<60}{'before':>24}{'now':>24}"]
        for name in APPLICATIONS:
            lines.append(name.replace("_", " "))
            for step, *units in import_module(f"tests.patterns.applications.test_{name}").figures(ground):
                shown = "".join(f"{f'{n} req {w:g} WU {r:g} RU':>24}" for n, w, r in units)
                lines.append(f"  {step:<58}{shown}")
        sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
