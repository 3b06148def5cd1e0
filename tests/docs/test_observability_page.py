from __future__ import annotations

import logging
import re

from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
_EVENT = re.compile(r"^\* `(once\.\w+)` \((\w+)(?:, `(\w+)`)?\): ", re.MULTILINE)
_FIELD = re.compile(r"^\* `(\w+)` \((?:text|number|time)\)", re.MULTILINE)


def test_the_list_of_log_events_is_the_codes() -> None:
    """Every event once, in the code's order, with its level and its metric."""
    documented = [(name, level, metric or None) for name, level, metric in _EVENT.findall(PAGE)]
    said = [(event.value, logging.getLevelName(event.level), event.metric) for event in Event]
    assert documented == said


def test_the_list_of_fields_is_the_codes() -> None:
    """Every field that a log line may carry, by the name that it has there."""
    everything = dict.fromkeys(Details._fields, "x") | {"event": Event.RETURNED}
    assert _FIELD.findall(PAGE) == list(Details(**everything).fields())  # type: ignore[arg-type]
