"""The rules of an event source mapping: which messages of a batch are deleted."""

from __future__ import annotations

import json

import pytest

from tests.kit.event_source import done

IDS = ("a", "b", "c")
ALL = {*IDS}
NONE: set[str] = set()


def failures(*ids: object) -> str:
    """Return a response in which *ids* failed."""
    return json.dumps({"batchItemFailures": [{"itemIdentifier": id_} for id_ in ids]})


@pytest.mark.parametrize(
    ("response", "deleted"),
    [
        pytest.param(failures(), ALL, id="no failure"),
        pytest.param('{"batchItemFailures": null}', ALL, id="a null list"),
        pytest.param("{}", ALL, id="an empty response"),
        pytest.param("null", ALL, id="a null response"),
        pytest.param("", ALL, id="nothing"),
        pytest.param(failures("b"), {"a", "c"}, id="one failure"),
        pytest.param(failures(*IDS), set(), id="all failed"),
        pytest.param(failures("b", ""), set(), id="an empty id"),
        pytest.param(failures(None), set(), id="a null id"),
        pytest.param(failures("d"), set(), id="an id of another batch"),
        pytest.param('{"batchItemFailures": [{"id": "b"}]}', set(), id="a bad key"),
        pytest.param('{"batchItemFailures": "b"}', set(), id="no list"),
        pytest.param("not JSON", set(), id="no JSON"),
        pytest.param(None, set(), id="failed, killed or timed out"),
    ],
)
def test_a_partial_response_decides_message_by_message(response: str | None, deleted: set[str]) -> None:
    """Success deletes all, a list of failures the rest, and what cannot be understood nothing."""
    assert done(IDS, response, reports=True) == deleted


@pytest.mark.parametrize(("response", "deleted"), [(failures("b"), ALL), ("not JSON", ALL), (None, NONE)])
def test_without_reports_a_response_is_success(response: str | None, deleted: set[str]) -> None:
    """A mapping without ReportBatchItemFailures looks at nothing but whether the function failed."""
    assert done(IDS, response, reports=False) == deleted
