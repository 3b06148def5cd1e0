"""The dashboard: sound JSON, read from top to bottom."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import boto3
import pytest

from .conftest import Template
from .named import ALARM, DASHBOARD, body, dashboard, of_type

QUESTIONS = ["## Is it healthy?", "## What is stuck?", "## What does it cost?"]


def overlaps(widgets: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Return which of *widgets* lie on one another, by their positions in the list."""
    return [(i, j) for (i, one), (j, other) in combinations(enumerate(widgets), 2) if _meet(one, other)]


def _meet(one: dict[str, Any], other: dict[str, Any]) -> bool:
    beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
    above = one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
    return not (beside or above)


def test_cloudwatchs_api_takes_the_dashboard(translated: Template, aws: boto3.Session) -> None:
    """The body is JSON once every reference is replaced."""
    given = json.dumps({"widgets": dashboard(translated)})
    cloudwatch: Any = aws.client("cloudwatch")
    cloudwatch.put_dashboard(DashboardName="once", DashboardBody=given)
    assert json.loads(cloudwatch.get_dashboard(DashboardName="once")["DashboardBody"]) == json.loads(given)


def test_a_body_that_is_no_json_is_seen(translated: Template) -> None:
    """A comma too many is found: the check above can fail."""
    with pytest.raises(json.JSONDecodeError):
        json.loads(body(translated).replace("]}", "],}", 1))


def test_the_dashboard_refers_only_to_what_is_there(translated: Template) -> None:
    """Every reference in the body is a resource of the stack or a pseudo parameter."""
    (properties,) = of_type(translated, DASHBOARD).values()
    text, own = properties["DashboardBody"]["Fn::Sub"]
    names = {part.partition("}")[0].partition(".")[0] for part in text.split("${")[1:]}
    assert names - translated["Resources"].keys() - own.keys() == {"AWS::Region", "MetricsNamespace"}


def test_the_questions_stand_from_top_to_bottom(translated: Template) -> None:
    """Is it healthy, what is stuck, what does it cost; each has its widgets below it."""
    widgets = dashboard(translated)
    assert [widget["y"] for widget in widgets] == sorted(widget["y"] for widget in widgets)
    heads = [widget for widget in widgets if widget["type"] == "text"]
    assert [head["properties"]["markdown"] for head in heads] == QUESTIONS
    kinds = "".join(widget["type"][0] for widget in widgets)
    assert [part[:1] for part in kinds.split("t")] == ["", "a", "m", "m"]


def test_no_widget_hides_another(translated: Template) -> None:
    """They lie side by side within 24 columns."""
    widgets = dashboard(translated)
    assert overlaps(widgets) == []
    assert overlaps([*widgets, widgets[0]]) == [(0, len(widgets))]
    assert max(widget["x"] + widget["width"] for widget in widgets) == 24


def test_all_alarms_are_shown(translated: Template) -> None:
    """One look says which of all alarms ring."""
    (shown,) = [widget for widget in dashboard(translated) if widget["type"] == "alarm"]
    names = [arn.rpartition(":")[2] for arn in shown["properties"]["alarms"]]
    assert sorted(names) == sorted(of_type(translated, ALARM))


def test_ids_are_used_once_a_widget(translated: Template) -> None:
    """CloudWatch refuses a widget with one id twice, and ids that begin with a capital."""
    for widget in dashboard(translated):
        lines = widget["properties"].get("metrics", [])
        ids = [line[0]["id"] for line in lines if isinstance(line[0], dict)]
        assert len(set(ids)) == len(ids)
        assert all(each[0].islower() for each in ids)
