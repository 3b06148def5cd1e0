from __future__ import annotations

import re
from inspect import Parameter, signature
from textwrap import dedent

import pytest

import lambda_once
from lambda_once import errors, testing
from lambda_once.errors import OnceError, RetryLater
from lambda_once.settings import Where, options_of
from lambda_once.sources.problems import problem_for
from tests.docs.pages import ROOT

REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
_NAME = re.compile(r"`(?:once\.|\.|await \.)?(\w+)")
_OPTION = re.compile(r"^\* `([a-z_]+)`: ", re.MULTILINE)
_PROBLEM = re.compile(r"^\| (\d+) \| `(urn:[\w:-]+)` \| `(\w+)` \| (yes|–) \|", re.MULTILINE)


def test_the_reference_has_every_public_name() -> None:
    """Of the package and of its testing module."""
    public = {*lambda_once.__all__, *testing.__all__}
    assert public - set(_NAME.findall(REFERENCE)) == set()


def test_the_reference_has_every_option() -> None:
    """Each row of `Settings` is in one of the lists; beside them are only arguments of one decorator."""
    assert set(_OPTION.findall(REFERENCE)) == options_of(Where.EVERY) | {"schema", "async_resolver"}


@pytest.mark.parametrize(
    ("decorator", "where"),
    [
        *(("sqs", Where.QUEUE), ("sns", Where.MESSAGES), ("kinesis", Where.STREAM), ("mq", Where.MESSAGES)),
        *(("event", Where.CALL), ("api_gateway", Where.API), ("function", Where.CALL)),
    ],
)
def test_the_reference_has_the_own_options_of_each_decorator(decorator: str, where: Where) -> None:
    """Those that not every decorator takes are in its row."""
    row = re.search(rf"^\| `once\.{decorator}` \|.*\| ([^|]*) \|$", REFERENCE, re.MULTILINE)
    assert row is not None
    every = {"name", "key", "scope", "fingerprint", "ignore"} | options_of(Where.ONCE)
    assert set(_NAME.findall(row[1])) == options_of(where) - every


def test_the_reference_shows_every_argument_of_once() -> None:
    """In the call at its head, which is run."""
    call = re.search(r"^once = Once\(\n(.*?)^\)$", REFERENCE, re.MULTILINE | re.DOTALL)
    assert call is not None
    parameters = signature(lambda_once.Once).parameters.values()
    own = {each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY}
    assert set(re.findall(r"^    (\w+)=", call[1], re.MULTILINE)) == own | options_of(Where.ONCE)


def test_the_table_of_problems_is_the_codes() -> None:
    """Status, type and Retry-After of every row are what a client gets."""
    rows = _PROBLEM.findall(API)
    documented = {kind: (int(status), urn, wait == "yes") for status, urn, kind, wait in rows}
    said = {}
    for kind in documented:
        error: type[OnceError] = getattr(lambda_once, kind, RetryLater)
        problem = problem_for(error("text"))
        said[kind] = (problem.status, problem.type, problem.retry_after is not None)
    assert documented == said
    assert len(documented) == 10


def test_the_tree_of_errors_is_that_of_the_module() -> None:
    """Each error on a line of its own, below the one that it extends."""
    page = (ROOT / "docs" / "error-policies.md").read_text(encoding="utf-8")
    assert _tree(page) == _tree(errors.__doc__ or "")
    for name, base in _tree(page).items():
        assert getattr(errors, name).__base__ is (Exception if base is None else getattr(errors, base))


def _tree(text: str) -> dict[str, str | None]:
    """Return the errors of the tree drawn in *text*, each with the one above it."""
    found: dict[str, str | None] = {}
    above: dict[int, str] = {}
    drawn = re.search(r"^ *OnceError\n(?: *[│├└].*\n)+", text, re.MULTILINE)
    assert drawn is not None
    for line in dedent(drawn[0]).splitlines():
        match = re.match(r"(?P<lines>[│├└─ ]*)(?P<name>[A-Z]\w+)[^│├└]*$", line)
        assert match is not None
        depth = len(match["lines"]) // 4
        found[match["name"]] = above.get(depth - 1)
        above[depth] = match["name"]
    return found
