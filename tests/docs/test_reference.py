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
from lambda_once.sources.source import Source
from tests import surface
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


@pytest.mark.parametrize("decorator", surface.DECORATORS)
def test_the_reference_has_the_own_options_of_each_decorator(decorator: str) -> None:
    """Those that not every decorator takes are in its row, or in the one above: "the same"."""
    own, row = set[str](), None
    for line in REFERENCE.splitlines():
        if (row := re.match(r"\| `once\.(\w+)` \|.*\| ([^|]*) \|$", line)) is not None:
            own = set(_NAME.findall(row[2])) | (own if row[2].startswith("the same") else set())
            if row[1] == decorator:
                break
    assert row is not None, f"docs/reference.md has no row of once.{decorator}"
    once = lambda_once.Once(table="t")
    options = {name: signature(getattr(once, name)).parameters for name in surface.DECORATORS}
    shared = {option for option in options[decorator] if all(option in each for each in options.values())}
    assert own == options[decorator].keys() - shared - options_of(Where.ONCE)


@pytest.mark.parametrize("source", [source for source in Source if source.fields], ids=lambda each: each.name)
def test_the_pages_have_every_source_of_records(source: Source) -> None:
    """In README's table and on a page of sources, with an event builder for tests."""
    decorator = f"`@{source.decorator}`"
    assert decorator in (ROOT / "README.md").read_text(encoding="utf-8")
    pages = (ROOT / "docs" / name for name in ("sqs.md", "sns.md", "sources.md"))
    assert any(f"@{source.decorator}" in page.read_text(encoding="utf-8") for page in pages if page.exists())
    builder = f"{str(source.decorator).removeprefix('once.')}_event"
    assert {builder, "rabbitmq_event" if source is Source.MQ else builder} & {*testing.__all__}


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
