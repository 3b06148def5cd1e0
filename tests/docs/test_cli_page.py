"""The command line, its help, its page, its pictures, and what other pages say of it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from lambda_once_tools.cli.app import COMMANDS, app
from tests.cli.pictures import FOLDER, PICTURES, Picture, drawn
from tests.docs.pages import PAGES, ROOT, blocks, named
from tests.kit.terminal import text_of

PAGE = ROOT / "docs" / "cli.md"
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")
_COMMAND_LINE = re.compile(r"^(?:\$ )?lambda-once (?P<rest>[^#\n]+)", re.MULTILINE)
_IN_PROSE = re.compile(r"`lambda-once ([a-z]+)")
COMMON = {"--table", "--endpoint-url", "--profile", "--region", "--output", "--help"}


def _command(name: str) -> click.Command:
    with click.Context(app) as context:
        found = app.get_command(context, name)
    assert found is not None, name
    return found


def _options(name: str) -> set[str]:
    """Return the options that the help of a command shows."""
    with click.Context(_command(name), info_name=name, help_option_names=["--help"]) as context:
        parameters = _command(name).get_params(context)
    return {
        option
        for parameter in parameters
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }


def _sections() -> dict[str, str]:
    """Return the sections of the page by the command whose help they tell."""
    found = {}
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[2:]:
        shown = _COMMAND_LINE.search(section)
        assert shown is not None, section
        found[shown["rest"].split()[0]] = section
    return found


def test_every_command_has_its_section() -> None:
    """And a line in the table of tasks."""
    assert set(_sections()) == set(COMMANDS)
    tasks = PAGE.read_text(encoding="utf-8").split("\n## ")[0]
    assert set(re.findall(r"\[`([a-z]+)`\]", tasks)) == set(COMMANDS)


def test_common_options_are_documented_once() -> None:
    """The options that name a table."""
    common = PAGE.read_text(encoding="utf-8").split("\n## ")[1].split("\nData goes to")[0]
    assert set(_OPTION.findall(common)) == COMMON


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_section_are_the_commands(name: str) -> None:
    """The page names some, with an example; --help has all."""
    section = _sections()[name]
    assert set(_OPTION.findall(section)) <= _options(name) | COMMON
    assert f"lambda-once {name} " in section


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_and_argument_has_help(name: str) -> None:
    """And the help ends with the exit codes."""
    command = _command(name)
    assert command.help is not None
    assert "Exit code: 0 " in command.help
    silent = [each.name for each in command.params if isinstance(each, click.Option) and not each.help]
    assert silent == []


def _lines(text: str) -> list[str]:
    return [found["rest"] for found in _COMMAND_LINE.finditer(text.replace("\\\n", " "))]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_command_lines_of_a_page_are_understood(page: Path) -> None:
    """In its shell blocks each is one that the command would take; in its prose each names a command."""
    for block in blocks(page):
        if block.language in {"sh", "bash"}:
            for line in _lines(block.text):
                name, *args = shlex.split(line.partition(" | ")[0].partition(" > ")[0].strip())
                _command(name).make_parser(click.Context(_command(name))).parse_args(args)
    prose = page.read_text(encoding="utf-8")
    assert set(_IN_PROSE.findall(prose)) <= set(COMMANDS)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_pictures_are_up_to_date(picture: Picture) -> None:
    """Drawn again, each says what the one in docs/img says; `make docs` draws them."""
    there = (FOLDER / f"{picture.name}.svg").read_text(encoding="utf-8")
    assert text_of(there) == text_of(drawn(picture))
    assert "@font-face" not in there
    assert f"img/{picture.name}.svg" in PAGE.read_text(encoding="utf-8")


def test_a_picture_has_lines_that_are_wider_than_it_to_their_end() -> None:
    """A query that is to be copied is printed unbroken, and goes on in the next line as in a terminal."""
    shown = text_of((FOLDER / "cli-show.svg").read_text(encoding="utf-8"))
    assert shown.replace(" ", "").count("|sort@timestamp|limit1000") == 2


def test_an_old_picture_is_seen() -> None:
    """One that says something else differs."""
    there = (FOLDER / "cli-list.svg").read_text(encoding="utf-8")
    assert text_of(there.replace("overdue", "late")) != text_of(there)
