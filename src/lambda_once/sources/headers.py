"""Header names: HTTP knows no case, and neither does what a user selects by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lambda_once.sources.envelopes import at


class Headers(dict[str, Any]):
    """
    A mapping of headers that a name in any case finds.

    The names stand in it in lower case. JMESPath asks `get` of whatever it walks through,
    so its fields are found; its functions over whole objects (`keys`, `merge`) go by the exact
    type `dict` and refuse it.
    """

    def __init__(self, headers: Mapping[str, object]) -> None:
        super().__init__((str(name).lower(), value) for name, value in headers.items())

    def get(self, name: object, default: object = None) -> Any:
        """Return the header *name*, in any case, or *default*."""
        return super().get(str(name).lower(), default)

    def __getitem__(self, name: str) -> Any:
        """Return the header *name*, in any case. Raises `KeyError`."""
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a header *name*, in any case."""
        return super().__contains__(str(name).lower())


def header_values(event: object) -> Mapping[str, tuple[str, ...]]:
    """
    Return every value of every header of *event*, an HTTP request.

    `multiValueHeaders` (v1, load balancers) has them all and goes first; `headers`
    has the last one only, or in v2 all joined by commas, which cannot be told from
    one value with commas. VPC Lattice's `headers` (v2) has lists. Names that differ in case are one header.
    """
    multi, single = at(event, "multiValueHeaders"), at(event, "headers")
    values: dict[str, list[str]] = {}
    for name, several in multi.items() if isinstance(multi, Mapping) else ():
        values.setdefault(str(name).lower(), []).extend(
            map(str, several if isinstance(several, list) else ())
        )
    known = frozenset(values)
    for name, value in single.items() if isinstance(single, Mapping) else ():
        if str(name).lower() not in known and value is not None:
            several = value if isinstance(value, list) else [value]
            values.setdefault(str(name).lower(), []).extend(map(str, several))
    return Headers({name: tuple(several) for name, several in values.items()})
