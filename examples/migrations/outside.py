"""What the five services call."""

from __future__ import annotations

calls: list[str] = []


def call(what: str) -> int:
    """Note *what*, as another system would do it, and return how often it did."""
    calls.append(what)
    return calls.count(what)
