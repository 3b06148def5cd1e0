from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import click
import pytest
import yaml
from botocore import xform_name

from examples import failed_event, restored_table
from lambda_once_tools.cli.app import COMMANDS, app
from tests.docs.pages import ROOT, anchor, prose
from tests.docs.shell import indented_blocks, shell_blocks
from tests.kit.recorded import SHOP

PATH = ROOT / "docs" / "operations.md"
PAGE = PATH.read_text(encoding="utf-8")
EXAMPLES = (failed_event.__doc__, restored_table.__doc__)
SHELL = [
    line.strip().removesuffix(" &&")
    for text in (*shell_blocks(PAGE), *(block for each in EXAMPLES for block in indented_blocks(each or "")))
    for line in text.splitlines()
    if line.strip()
]
"""Those of the steps of a list, too, which are indented, and of the examples that the page leads to."""
OURS = [line for line in SHELL if line.startswith("lambda-once ")]
AWS = [line for line in SHELL if line.startswith("aws ")]
GLOBAL = {"query", "output", "region", "profile"}
"""Options of the AWS CLI itself."""
BESIDE = {
    "did order 12345 go through",
    "where to look",
    "a person asks for erasure",
    "the watchdog",
}
"""Sections that are about no symptom."""
_INLINE = re.compile(rf"`(?:lambda-once )?((?:{'|'.join(COMMANDS)})(?: [^`]*)?)`")
_SECTION = re.compile(r"^## (?P<title>[^\n]+)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LED = re.compile(r"\[(?P<alarms>[A-Z]\w+(?:, [A-Z]\w+)*)\]\(#(?P<anchor>[\w-]+)\)")
"""A link from alarms to their section; of a text without the marks of bold words."""


def led() -> dict[str, str]:
    """Return the section, by its anchor, to which the page leads from each alarm."""
    top = _sections()["Where to look"].replace("**", "")
    return {name: found["anchor"] for found in _LED.finditer(top) for name in found["alarms"].split(", ")}


def _sections() -> dict[str, str]:
    return {found["title"]: found["text"] for found in _SECTION.finditer(PAGE)}


def _command(name: str) -> click.Command:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    return command


def _parsed(line: str) -> click.Context:
    """Parse *line* as the command line would, and run nothing. Raises click.UsageError."""
    name, *arguments = shlex.split(line.partition(" > ")[0], comments=True)[1:]
    return _command(name).make_context(name, arguments)


def _options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


@pytest.fixture
def with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every file that the page's command lines name."""
    for name in re.findall(r"\b(\w+\.json)\b", "\n".join(OURS)):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("with_files")
@pytest.mark.parametrize("line", sorted(set(OURS)))
def test_a_command_line_is_what_the_command_takes(line: str) -> None:
    """It parses: the command, each option and the number of arguments are as its --help says."""
    _parsed(line)


def test_a_wrong_command_line_is_noticed() -> None:
    """An option that there is not, one that is missing, and an argument too many."""
    for wrong in (
        "lambda-once list --overdu",
        "lambda-once resolve orders/charge/12345 --done",
        "lambda-once list x",
    ):
        with pytest.raises(click.UsageError):
            _parsed(wrong)


def test_commands_that_are_named_in_passing_have_their_options() -> None:
    """`resolve --done` and its like, in tables and sentences."""
    named = _INLINE.findall(prose(PATH))
    assert named
    for name, *rest in map(str.split, named):
        mentioned = {word for word in rest if word.startswith("--")}
        assert mentioned <= _options(_command(name)), name


@pytest.mark.parametrize("line", sorted(set(AWS)))
def test_a_line_of_the_aws_cli_is_an_operation_with_these_parameters(line: str) -> None:
    """The operation is in botocore's model of the service, with each option, and none that it needs lacks."""
    _, service, operation, *rest = shlex.split(line)
    model = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    shape = model.operation_model(names[operation]).input_shape
    assert shape is not None
    members = {xform_name(name, "-"): member for name, member in shape.members.items()}
    given = {word[2:] for word in rest if word.startswith("--")} - GLOBAL
    flags = {f"no-{name}" for name, member in members.items() if member.type_name == "boolean"}
    assert given <= members.keys() | flags
    assert {xform_name(name, "-") for name in shape.required_members} <= given


def test_variables_exist() -> None:
    """Every LAMBDA_ONCE_… is read somewhere."""
    files = [path for folder in ("src", "tools/src") for path in (ROOT / folder).rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    assert [name for name in set(re.findall(r"LAMBDA_ONCE_\w+", PAGE)) if name not in source] == []


def test_the_alarms_of_the_page_are_those_of_the_template() -> None:
    """Every alarm of the sample stack, and of what it nests, is on the page, and no other."""
    nested = sorted((ROOT / "examples" / "infrastructure").glob("*.yaml"))
    templates = [yaml.compose(path.read_text(encoding="utf-8")) for path in (*SHOP.glob("*.yaml"), *nested)]
    alarms = {name for template in templates for name in _alarms(template)}
    assert sorted(led()) == sorted(alarms)


def _alarms(template: yaml.Node) -> Iterator[str]:
    for name, resource in _items(_at(template, "Resources")):
        if _at(resource, "Type").value == "AWS::CloudWatch::Alarm":
            yield name


def _items(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    assert isinstance(node, yaml.MappingNode)
    for key, value in node.value:
        yield key.value, value


def _at(node: yaml.Node, name: str) -> yaml.Node:
    return dict(_items(node))[name]


@pytest.mark.parametrize("title", [title for title in _sections() if title.lower() not in BESIDE])
def test_a_symptom_has_its_three_parts(title: str) -> None:
    """What it means, in a sentence; a command to run; what to decide, as a list."""
    text = _sections()[title].strip()
    assert re.match(r"[A-Z`][^\n]+[.\w]\n", text) or text.startswith("1. ")
    assert "```sh" in text
    assert re.search(r"^(?:\*|1\.) ", text, re.MULTILINE)


def test_every_symptom_is_found_at_the_top() -> None:
    """By its alarm, or in the line of those without."""
    top = _sections()["Where to look"]
    symptoms = {anchor(title) for title in _sections() if title.lower() not in BESIDE}
    assert set(re.findall(r"\]\(#([\w-]+)\)", top)) == symptoms


def test_the_bold_alarms_come_with_the_tokens() -> None:
    """Those of tokens.yaml, but for the one that a parameter switches on."""
    template = yaml.compose(
        (ROOT / "examples" / "infrastructure" / "tokens.yaml").read_text(encoding="utf-8")
    )
    assert {*re.findall(r"\*\*(\w+)\*\*", _sections()["Where to look"])} == {*_alarms(template)} - {
        "TasksInProgress"
    }


def test_the_variables_of_the_commands_are_outputs_of_the_stack() -> None:
    """By their names; what a command sets before is none."""
    template = yaml.compose((SHOP / "template.yaml").read_text(encoding="utf-8"))
    outputs = {name for name, _ in _items(_at(template, "Outputs"))}
    text = "\n".join(SHELL)
    used = set(re.findall(r"\$(\w+)", text)) - set(re.findall(r"^([A-Z]+)=", text, re.MULTILINE))
    assert {"WatchdogFunctionName", "PaymentsMapping", "PaymentsDeadLettersArn"} <= used
    assert used <= outputs
