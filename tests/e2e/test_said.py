"""How the e2e tests read what functions wrote; these need no Docker."""

from __future__ import annotations

from .sam import Said

METRICS = '{{"_aws": {{"CloudWatchMetrics": [{{"Metrics": [{{"Name": "{0}"}}]}}]}}, "{0}": [{1}]}}'


def test_log_entries_are_found_amid_other_lines() -> None:
    """Lines of the SAM CLI, of other events, and halves of lines are passed over."""
    said = Said(
        "START RequestId: 1\n"
        '{"message": "once.acquired", "token": "a"}\n'
        '{"message": "once.returned", "token": "a"}\n'
        '{"message": "once.acquired", "tok\n'
        '{"message": "once.acquired", "token": "b"}\n'
    )
    assert [entry["token"] for entry in said.entries("once.acquired")] == ["a", "b"]
    assert said.entries("once.replayed") == []


def test_metrics_of_all_documents_are_added_up() -> None:
    """A metric counts as often as its values say, over all EMF documents."""
    documents = [METRICS.format("started", "1.0"), METRICS.format("started", "1.0, 2.0"), "{}"]
    assert Said("\n".join(documents)).counted() == {"started": 4}
