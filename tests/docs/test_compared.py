"""docs/compared.md: the version that it compares with."""

from __future__ import annotations

from importlib.metadata import version

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "compared.md").read_text(encoding="utf-8")


def test_it_compares_the_version_that_the_tests_run() -> None:
    """Another version of Powertools must be read again, row by row."""
    assert f"Powertools for AWS Lambda (Python) {version('aws-lambda-powertools')}." in " ".join(PAGE.split())


def test_it_compares_this_version() -> None:
    """The one that is installed."""
    assert f"`lambda-once` {version('lambda-once')} " in PAGE
