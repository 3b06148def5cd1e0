"""Guards that can be taken off in a worker, for the negative twins: the load must notice each."""

from __future__ import annotations

import os
from collections.abc import Callable

from lambda_once.core.lifecycle import Record, State
from lambda_once.engine import turns
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


def _without_order() -> None:
    """A record of a batch runs although one before it in its message group failed."""
    vars(turns)["skip_behind_failure"] = lambda _job: False


def _without_protection() -> None:
    """Everything runs and nothing is stored."""
    os.environ["LAMBDA_ONCE_DISABLED"] = "true"


GUARDS: dict[str, Callable[[], None]] = {
    "lease": _without_the_lease,
    "holder": _without_the_holder,
    "order": _without_order,
    "protection": _without_protection,
}
