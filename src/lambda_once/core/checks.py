"""Checks of arguments: "no" is a true value, and 5 becomes part of a key, unless something asks."""

from __future__ import annotations

from lambda_once.errors import Misconfigured


def checked_flag(name: str, value: object) -> bool:
    """Return *value*, the argument *name*. Raises `Misconfigured` unless it is a bool."""
    if not isinstance(value, bool):
        raise Misconfigured(f"{name}={value!r}: give True or False")
    return value


def checked_text(name: str, value: object) -> str | None:
    """Return *value*, the argument *name*. Raises `Misconfigured` unless it is a str or None."""
    if not (value is None or isinstance(value, str)):
        raise Misconfigured(f"{name}={value!r}: give a str")
    return value
