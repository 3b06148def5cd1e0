"""The saved queries: their fields and events are those of the log lines."""

from __future__ import annotations

import re

import pytest

from tests.surface import COMMITTED

from .conftest import Template
from .named import QUERY, dashboard, of_type, substituted

FIELDS: dict[str, set[str]] = {}
"""What the lines of each event carry beside their message, as tests/golden/surface.txt has it."""
for line in COMMITTED.read_text(encoding="utf-8").splitlines():
    if found := re.fullmatch(r"log event (\S+) has (\w+) \(\w+\)", line):
        FIELDS.setdefault(found[1], set()).add(found[2])

GIVEN = {"message", "service", "@timestamp", "@logStream"}
"""
The message is the event, the service is the Logger's; CloudWatch Logs adds the others (user guide, supported
logs and fields).
"""

WORDS = {
    *("fields", "filter", "stats", "sort", "limit", "display", "by", "as", "and", "or", "not", "in", "like"),
    *("asc", "desc", "earliest", "latest", "count", "max", "avg", "pct"),
}
"""Commands and functions of CloudWatch Logs Insights."""

_APART = re.compile(r"""#[^\n]*|/(?:\\.|[^/\n])*/|"[^"]*"|'[^']*'|\bSOURCE\b""")
_NAME = re.compile(r"@?[A-Za-z_]\w*")
_ALIAS = re.compile(r"\bas (\w+)")
_EVENT = re.compile(r"""["'](once\.\w+)["']""")


def strange_fields(query: str) -> set[str]:
    """Return the names in *query* that no line of its events has and that it did not define itself."""
    bare = _APART.sub(" ", query)
    there = {field for event in _EVENT.findall(query) or FIELDS for field in FIELDS.get(event, ())}
    return set(_NAME.findall(bare)) - WORDS - set(_ALIAS.findall(bare)) - GIVEN - there


def strange_events(query: str) -> set[str]:
    """Return the events in *query* that there are not."""
    return set(_EVENT.findall(query)) - FIELDS.keys()


def queries(template: Template) -> dict[str, str]:
    """Return every query by its name: those that *template* saves, and the dashboard's."""
    found = {}
    for properties in of_type(template, QUERY).values():
        name, text = (_text(properties[part]) for part in ("Name", "QueryString"))
        found[name.partition("/")[2]] = text
    for widget in dashboard(template):
        if widget["type"] == "log":
            found[widget["properties"]["title"]] = widget["properties"]["query"]
    return found


def _text(value: str | dict[str, str]) -> str:
    return value if isinstance(value, str) else substituted(value["Fn::Sub"])


def test_there_is_a_query_for_each_question(translated: Template) -> None:
    """What an operator asks, in the operator's words."""
    assert queries(translated).keys() >= {
        "Did an order go through?",
        "What is held, and why?",
        "Who had this request id?",
        "What had the same content?",
        "Which keys were reused for other work?",
        "Which names are new?",
        "What took longest?",
        "What failed?",
        "What could not be written?",
        "What did the watchdog do?",
    }


def test_queries_ask_for_fields_that_lines_have(translated: Template) -> None:
    """Each field is one of the lines that it filters, of CloudWatch, or made by the query."""
    assert {
        name: strange for name, text in queries(translated).items() if (strange := strange_fields(text))
    } == {}


def test_queries_ask_for_events_that_there_are(translated: Template) -> None:
    """Each event that is named is one that the code logs."""
    assert {
        name: strange for name, text in queries(translated).items() if (strange := strange_events(text))
    } == {}


@pytest.mark.parametrize(
    ("query", "fields", "events"),
    [
        ('filter message = "once.finished" | fields @timestamp, token', {"token"}, {"once.finished"}),
        ("fields @timestamp, lockedBy, seconds | sort seconds desc", {"lockedBy"}, set()),
        ("# name is no field here\nfilter token like /name/ | fields name", {"name"}, set()),
        ('filter message = "once.completed" | fields token, seconds', {"seconds"}, set()),
        ("stats max(duration) as longest by once_name | sort longest desc", {"duration"}, set()),
    ],
)
def test_strange_names_are_seen(query: str, fields: set[str], events: set[str]) -> None:
    """A field or an event that there is not is found: the tests above can fail."""
    assert strange_fields(query) == fields
    assert strange_events(query) == events


def test_queries_ask_the_stacks_own_log(translated: Template) -> None:
    """Every function writes to the group that every query reads."""
    for properties in of_type(translated, QUERY).values():
        assert properties["LogGroupNames"] == [{"Ref": "Logs"}]
    for name, function in of_type(translated, "AWS::Lambda::Function").items():
        assert function["LoggingConfig"] == {"LogGroup": {"Ref": "Logs"}}, name


def test_names_of_queries_are_sound(translated: Template) -> None:
    """They are distinguished, and CloudWatch Logs takes them (PutQueryDefinition: no colon, no asterisk)."""
    names = [_text(properties["Name"]) for properties in of_type(translated, QUERY).values()]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"([^:*/]+/?)*[^:*/]+", name)] == []
