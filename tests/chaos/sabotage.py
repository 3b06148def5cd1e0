"""Guards that can be taken off in a worker, for the negative twins: the load must notice each."""

from __future__ import annotations

from collections.abc import Callable

from lambda_once.core.lifecycle import Record, State
from lambda_once.stores import requests


def _without_the_lease() -> None:
    """An attempt in progress counts as lapsed, in the decision and in the write condition."""
    requests.LAPSED = requests.LAPSED.replace("expectedCompletion < :now", "expectedCompletion <> :now")
    Record.lapsed = lambda self, _now: self.state is State.IN_PROGRESS  # type: ignore[method-assign,assignment]


def _without_the_holder() -> None:
    """An attempt's writes ask neither whose the token is nor whether it is in progress."""
    anybody = "(attempt = :a OR attempt <> :a)"
    anything = "(begins_with(#status, :in_progress) OR attribute_not_exists(#status))"
    requests.OURS = f"{anybody} AND {anything}"


GUARDS: dict[str, Callable[[], None]] = {
    "lease": _without_the_lease,
    "holder": _without_the_holder,
}
