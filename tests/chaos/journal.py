"""What happened, a line each in a file that only grows: it outlives the process that wrote it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lambda_once.core.clock import SystemClock, stamp

Entry = dict[str, Any]


class Journal:
    """Appends entries to *path*. An entry is one write(2), so a killed process leaves no half of one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._clock = SystemClock()

    def write(self, kind: str, **fields: Any) -> None:
        entry = {"kind": kind, "pid": os.getpid(), "at": stamp(self._clock.now())} | fields
        os.write(self._file, json.dumps(entry).encode() + b"\n")


def entries(path: Path) -> Iterator[Entry]:
    """Yield what was written, in its order."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
