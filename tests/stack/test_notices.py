"""Whom the alarms tell, and what they say."""

from __future__ import annotations

import re

import click

from lambda_once_tools.cli.app import app
from tests.docs.pages import ROOT, anchors
from tests.docs.test_operations_page import led

from .cloudwatch import alarms_of
from .conftest import Template
from .named import ALARM, QUERY, of_type, resolved

RUNBOOK = ROOT / "docs" / "operations.md"
_COMMAND = re.compile(r"lambda-once (\w+)((?: --[\w-]+)*)")


def commands(template: Template) -> set[tuple[str, tuple[str, ...]]]:
    """Return every command line that an alarm or a saved query tells its reader to use."""
    texts = [alarm.description for alarm in alarms_of(template).values()]
    texts += [str(query["QueryString"]) for query in of_type(template, QUERY).values()]
    return {(name, tuple(options.split())) for text in texts for name, options in _COMMAND.findall(text)}


def options(command: str) -> set[str]:
    """Return the options that *command* takes. Raises AssertionError where there is no such command."""
    found = app.get_command(click.Context(app), command)
    assert found is not None, f"lambda-once has no command {command}"
    return {option for parameter in found.params for option in parameter.opts}


def test_another_address_of_the_runbook_is_in_every_notice(template: Template) -> None:
    """The parameter replaces the path."""
    own = "https://wiki.example.com/once"
    parameters = template["Parameters"] | {"Runbook": template["Parameters"]["Runbook"] | {"Default": own}}
    alarms = alarms_of(template | {"Parameters": parameters})
    assert [name for name, alarm in alarms.items() if f"Runbook: {own}#" not in alarm.description] == []


def test_every_alarm_tells_somebody_and_says_what_it_means(translated: Template) -> None:
    """When it begins and when it is over, by the topic given or by the stack's own."""
    topic = {"Fn::If": ["OwnNotices", {"Ref": "Notices"}, {"Ref": "NoticesTopicArn"}]}
    for name, alarm in of_type(translated, ALARM).items():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [topic], name
        assert re.search(r"\. Runbook: \S+$", resolved(alarm, translated)["AlarmDescription"]), name


def test_the_stacks_own_topic_is_made_only_without_another(translated: Template) -> None:
    """A topic that exists already is used as it is; a mail address counts for the stack's own alone."""
    resources = translated["Resources"]
    assert resources["Notices"]["Condition"] == "OwnNotices"
    assert resources["NoticesByEmail"]["Condition"] == "EmailedNotices"
    conditions = translated["Conditions"]
    own = {"Fn::Equals": [{"Ref": "NoticesTopicArn"}, ""]}
    assert conditions["OwnNotices"] == own
    assert own in conditions["EmailedNotices"]["Fn::And"]


def test_alarms_name_commands_that_there_are(translated: Template) -> None:
    """The operator on call can paste what the notice says."""
    named = commands(translated)
    assert ("list", ("--overdue",)) in named
    assert ("list", ("--held",)) in named
    for command, given in named:
        assert set(given) <= options(command), command


def test_every_notice_leads_to_its_section(translated: Template) -> None:
    """The address in the notice is the section to which the page's list leads from that alarm."""
    alarms = alarms_of(translated)
    notices = {name: alarm.description.rpartition("Runbook: ")[2] for name, alarm in alarms.items()}
    assert {name: f"docs/operations.md#{anchor}" for name, anchor in led().items()} == notices
    assert set(led().values()) <= anchors(RUNBOOK)
