"""The recorded events: those of the sample, and those of the shop beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "orders"
"""The shop: a template, its handlers and their events."""
FILES = {
    path.stem: path
    for path in sorted(path for folder in (ROOT, SHOP) for path in (folder / "events").glob("*.json"))
}
"""Each file of an event by its name without .json."""


def load(name: str) -> Any:
    """Return the event *name*."""
    return json.loads(FILES[name].read_text(encoding="utf-8"))
