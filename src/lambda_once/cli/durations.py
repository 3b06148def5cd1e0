"""A length of time as people type it: ``90s``, ``15m``, ``2h``, ``14d``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

import click

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])", re.ASCII)


class Duration(click.ParamType[timedelta]):
    """Turns text into a `timedelta`."""

    name = "duration"

    def convert(
        self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = _SPAN.fullmatch(value.strip())
        if found is None:
            self.fail(f"{value!r} is no length of time: give 90s, 15m, 2h, 14d or 1w", param, ctx)
        return timedelta(**{_UNITS[found[2]]: float(found[1])})


DURATION: Final = Duration()
